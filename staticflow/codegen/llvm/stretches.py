"""Stretches of a program in which the same launches come again and again, on other arrays each
time, as in the update of a thousand tensors: such a stretch is a loop over a table of where these
lie.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Stretch", "find_stretches"]

_LEAST = 8
"""Times that launches come again at least, where a loop takes their place."""

_LONGEST = 8
"""Launches that come again together, at most."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps from ``first`` on: ``period`` of them, so many ``times``."""

    first: int
    period: int = 1
    times: int = 1

    @property
    def end(self) -> int:
        """The step behind the last."""
        return self.first + self.period * self.times


def find_stretches(
    keys: Sequence[Hashable | None], first: int = 0, end: int | None = None
) -> Iterator[Stretch]:
    """The steps ``first..end`` as stretches, most of which are one step. Steps of one key do the
    same with other arrays; what has no key comes once.

    >>> [(s.period, s.times) for s in find_stretches([None, *"ab" * 9, "c"])]
    [(1, 1), (2, 9), (1, 1)]
    """
    end = len(keys) if end is None else end
    while first < end:
        stretch = _stretch_at(keys, first, end)
        yield stretch
        first = stretch.end


def _stretch_at(keys: Sequence[Hashable | None], first: int, end: int) -> Stretch:
    """The stretch of the shortest period that begins at a step."""
    for period in range(1, _LONGEST + 1):
        at = first
        while at + period < end and keys[at] is not None and keys[at] == keys[at + period]:
            at += 1
        times = 1 + (at - first) // period
        if times >= _LEAST:
            return Stretch(first, period, times)
    return Stretch(first)
