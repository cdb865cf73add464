"""Tiles of products for a GPU: 64 by 64 elements, or fewer, each by a block of threads.

Operands pass by in shared memory, 16 of the inner dimension at a time, or are there as a whole. A
thread has 16 elements of a tile of 64 by 64, 4 rows by 4 columns that lie 16 apart, so that
neighbours read and store neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticflow.codegen.kernel import TEAMS, Operand
from staticflow.codegen.maths.scalars import Scalars
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, floor_div
from staticflow.graph.dtypes import DType, bool_

__all__ = [
    "SIDE",
    "STEP",
    "TILE",
    "Kept",
    "Passing",
    "TeamTiles",
    "divmod_of",
    "own_place",
    "read_passing",
]

TILE = 64
"""Rows of a tile, and columns, at most."""

SIDE = 16
"""Threads along a side of a tile."""

STEP = 16
"""Of the inner dimension, what is in shared memory at a time."""

_PITCH = TILE + 1
"""Elements from one step of the inner dimension to the next, in shared memory: of 64, all would be
in the same bank."""


@dataclass(frozen=True, slots=True)
class Passing:
    """An operand that passes by. ``read(place, inner)`` loads its element in a row of a left
    operand, or a column of a right one, or works it out. The tile has the places from ``start`` on
    that are below ``most``. Neighbours in memory are neighbours ``along`` the inner dimension, or
    else neighbouring places."""

    read: Callable[[Size, Size], Operand]
    along: bool
    start: Size
    most: Size


@dataclass(frozen=True, slots=True)
class Kept:
    """An operand in shared memory: its element at a place of the tile and a place of the inner
    dimension is at ``place * step + inner * deep``."""

    buffer: str
    step: int
    deep: int


class TeamTiles:
    """Writes products of tiles. A thread has the sums of its elements in a private array."""

    def __init__(self, k: Scalars, dtype: DType) -> None:
        self.k, self.dtype = k, dtype
        self.zero = k.const(dtype.numpy.type(0).item(), dtype)
        self.left = k.local(dtype, STEP * _PITCH, "shared")
        self.right = k.local(dtype, STEP * _PITCH, "shared")

    def clear(self, sums: str, count: int) -> None:
        """Make ``count`` sums of each thread 0."""
        with self.k.loop("t", TEAMS["blocks"], kind="threads"):
            for own in range(count):
                self.k.store(sums, own, self.zero)

    def place(self, t: Dim, own: int) -> tuple[Size, Size]:
        """The row and column, in the tile, of an element of a thread of a tile of 64 by 64."""
        y, x = own_place(t)
        return y + own // (TILE // SIDE) * SIDE, x + own % (TILE // SIDE) * SIDE

    def add_up(
        self, sums: str, left: Passing | Kept, right: Passing | Kept, span: tuple[Size, Size],
        depth: Size, rows: int = TILE, columns: int = TILE,
    ) -> None:  # fmt: skip
        """Add the products of the places ``span`` of the inner dimension, which has ``depth``, to
        the sums of a tile."""
        k = self.k
        first, end = span
        sides = (self.left, left, rows), (self.right, right, columns)
        with k.loop("k", end, lo=first, step=STEP) as inner:
            self._fill(sides, inner, depth)
            with k.loop("t", TEAMS["blocks"], kind="threads") as t:
                y, x = own_place(t)
                own_rows, own_columns = rows // SIDE, columns // SIDE
                totals = [k.var(k.load(sums, own)) for own in range(own_rows * own_columns)]
                with k.loop("step", STEP) as step:
                    at = inner, step
                    a = [self._load(self.left, left, y + i * SIDE, at) for i in range(own_rows)]
                    b = [self._load(self.right, right, x + j * SIDE, at)
                         for j in range(own_columns)]  # fmt: skip
                    for own, total in enumerate(totals):
                        i, j = divmod(own, own_columns)
                        k.set(total, self._multiply_add(a[i], b[j], total))
                for own, total in enumerate(totals):
                    k.store(sums, own, total)

    def _load(self, room: str, of: Passing | Kept, place: Size, at: tuple[Dim, Dim]) -> Operand:
        inner, step = at
        if isinstance(of, Kept):
            return self.k.load(of.buffer, place * of.step + (inner + step) * of.deep)
        return self.k.load(room, step * _PITCH + place)

    def _multiply_add(self, a: Operand, b: Operand, total: Operand) -> Operand:
        if self.dtype.is_floating:
            return self.k.fma(a, b, total)
        times, plus = ("and", "or") if self.dtype is bool_ else ("mul", "add")
        return self.k.apply(plus, total, self.k.apply(times, a, b))

    def _fill(
        self, sides: Sequence[tuple[str, Passing | Kept, int]], inner: Dim, depth: Size
    ) -> None:
        """What passes by in shared memory, zeros where there are no elements."""
        k, threads = self.k, TEAMS["blocks"]
        with k.loop("t", threads, kind="threads") as t:
            for q in range(STEP * TILE // threads):
                number = t + q * threads
                for room, of, size in sides:
                    if isinstance(of, Kept) or q * threads >= STEP * size:
                        continue
                    # neighbouring threads read neighbouring elements
                    step, side = (
                        divmod_of(number, STEP)[::-1] if of.along else divmod_of(number, size)
                    )
                    value = read_passing(k, self.dtype, of, (inner + step, depth), of.start + side)
                    k.store(room, step * _PITCH + side, value)


def read_passing(
    k: Scalars, dtype: DType, of: Passing, deep: tuple[Size, Size], place: Size
) -> Operand:
    """An element of an operand at a position of the inner dimension, which has so many, in a dtype;
    0 outside of it."""
    inner, depth = deep
    value = k.var(k.const(dtype.numpy.type(0).item(), dtype))
    inside = k.apply(
        "and",
        k.compare("lt", k.index_value(place), k.index_value(of.most)),
        k.compare("lt", k.index_value(inner), k.index_value(depth)),
    )
    with k.when(inside):
        k.set(value, k.cast(of.read(place, inner), dtype))
    return value


def divmod_of(number: Size, by: int) -> tuple[Size, Size]:
    """A quotient and the rest."""
    return floor_div(number, by), number % by


def own_place(t: Dim) -> tuple[Size, Size]:
    """The first row and column of a thread."""
    return divmod_of(t, SIDE)
