"""The order in which the threads of a team combine what they have, the same in every back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from staticflow.codegen.kernel import WARP
from staticflow.graph.dims import Size, floor_div

__all__ = ["combine_threads", "core_place", "scan_threads"]

T = TypeVar("T")


def combine_threads(values: Sequence[T], combine: Callable[[T, T], T]) -> T:
    """What the threads of a team have, a value each, as one: first the values of each warp, then
    those of the warps, always the second half of what there is with the first.

    >>> combine_threads([str(t) for t in range(4)], lambda a, b: f"({a}{b})")
    '((02)(13))'
    """
    warps = [_halve(values[t : t + WARP], combine) for t in range(0, len(values), WARP)]
    return _halve(warps, combine)


def core_place(thread: Size, own: int) -> tuple[Size, Size]:
    """The row and the column of sum ``own`` of a thread in a product of tiles by tensor cores. Four
    warps lie below each other, and two side by side. One has 16 rows and 32 columns, which are four
    parts of 8; in each a thread has two neighbours, and two 8 rows below.

    >>> [core_place(5, own) for own in (0, 1, 2, 4)]
    [(1, 2), (1, 3), (9, 2), (1, 10)]
    """
    warp, lane = floor_div(thread, WARP), thread % WARP
    part, number = divmod(own, 4)
    row = floor_div(warp, 2) * 16 + floor_div(lane, 4) + number // 2 * 8
    return row, warp % 2 * 32 + lane % 4 * 2 + part * 8 + number % 2


def scan_threads(values: Sequence[T], combine: Callable[[T, T], T]) -> list[T]:
    """What each thread of a team finds of the values of all, up to its own: within a warp each
    takes in what stands 1, 2, 4, 8 and 16 before it; then come the warps before, added up in order.

    >>> scan_threads(["0", "1", "2"], lambda a, b: f"({a}{b})")
    ['0', '(01)', '(0(12))']
    """
    found: list[T] = []
    for start in range(0, len(values), WARP):
        lanes, step = [*values[start : start + WARP]], 1
        while step < len(lanes):
            lanes = [v if t < step else combine(lanes[t - step], v) for t, v in enumerate(lanes)]
            step *= 2
        found += [combine(found[-1], v) for v in lanes] if found else lanes
    return found


def _halve(values: Sequence[T], combine: Callable[[T, T], T]) -> T:
    while len(values) > 1:
        half = len(values) // 2
        values = [combine(a, b) for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]
