"""Stretches of a program in which the same launches come again and again, on other arrays each
time, as in the update of a thousand tensors: such a stretch is a loop over a table of where these
lie.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from staticflow.codegen.llvm.text import I64, phi
from staticflow.codegen.program.routine import Arena, Launch, Place, Step, Table
from staticflow.data_classes import dataclass

if TYPE_CHECKING:
    from staticflow.codegen.llvm.routine import RunWriter

__all__ = ["Stretch", "find_stretches", "launch_key", "write_stretch"]

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


def launch_key(run: RunWriter, step: Step) -> Hashable | None:
    """The kernel, the kinds of places and the sizes of a launch, which those of a stretch have
    alike; None of a step that no stretch may have."""
    watched = run.probes is not None or run.poison is not None
    if watched or not isinstance(step, Launch) or step.site:
        return None
    if not all(isinstance(_number(run, p), int) for p in step.places):
        return None
    return step.kernel, tuple(map(type, step.places)), step.sizes


def write_stretch(run: RunWriter, steps: Sequence[Step], stretch: Stretch, long: str) -> None:
    """A stretch of launches as a loop, in which a run that is ``long`` looks whether the user
    wants to stop."""
    text, launches = run.text, [s for s in steps if isinstance(s, Launch)]
    run.site += len(launches)
    run.written += stretch.period
    numbers = [_number(run, p) for s in launches for p in s.places]
    width = len(numbers) // stretch.times
    rows = ", ".join(f"i64 {n}" for n in numbers)
    name = f"@places.{len(run.tables)}"
    kind = f"[{len(numbers)} x i64]"
    run.tables.append(f"{name} = private constant {kind} [{rows}]\n")
    before, head, done = text.block, text.new_block("stretch"), text.new_block("stretched")
    text.jump(head)
    text.start(head)
    count = text.fresh("count")
    with run.indices.scope(before):
        if long:
            run.look_if(long)
        at = text.op(f"getelementptr [{width} x i64], ptr {name}, i64 {count}")
        column = 0
        for step in launches[: stretch.period]:
            arrays = []
            for place in step.places:
                cell = text.op(f"getelementptr i64, ptr {at}, i64 {column}")
                arrays.append(run.places.address_at(place, text.op(f"load i64, ptr {cell}")))
                column += 1
            run.call(step, arrays)
    stepped = text.op(f"add i64 {count}, 1")
    latch = text.block
    text.branch(text.op(f"icmp ult i64 {stepped}, {stretch.times}"), head, done)
    head.phis.append(phi(count, I64, [("0", before), (stepped, latch)]))
    text.start(done)


def _number(run: RunWriter, place: Place) -> int | None:
    """The slot of an array of the table, or how many bytes a buffer is behind the beginning of
    the arena; None of other places."""
    if isinstance(place, Table):
        return place.slot
    if not isinstance(place, Arena) or place.buffer in run.places.cells:
        return None
    at = run.layout.offsets[place.buffer]
    return at if isinstance(at, int) else None
