"""Results that a block of threads adds to again and again: in registers where they are few, else in
the memory of the result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from staticflow.codegen.kernel import TEAMS, Operand
from staticflow.codegen.lower.team_tiles import SIDE, TILE, own_place
from staticflow.codegen.maths.scalars import Scalars
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size
from staticflow.graph.dtypes import DType
from staticflow.ops.declaring.lowering import Index

__all__ = ["Rows", "TeamResult", "inside", "own_elements"]

_REGISTERS = 128
"""Columns of a result up to which it is in registers: half as many elements for each thread of a
block, of rows that are 64."""


@dataclass(frozen=True, slots=True)
class Rows:
    """``count`` rows of a matrix of a ``batch``, from row ``first`` on. The rows of all batches
    before it are ``before``."""

    batch: Index
    before: Size
    first: Size
    count: Size


class TeamResult:
    """``height`` rows of a result, at most, in chunks of `TILE` columns."""

    def __init__(
        self, k: Scalars, buffer: str, dtype: DType, rows: Rows, width: Size, height: int
    ) -> None:
        self.k, self.buffer, self.rows, self.width, self.height = k, buffer, rows, width, height
        self.count = height // SIDE * TILE // SIDE
        self.kept: str | None = None
        zero = k.const(0.0, dtype)
        if isinstance(width, int) and width <= _REGISTERS:
            self.kept = k.local(dtype, max(1, self.count * -(-width // TILE)), "private")
        for chunk in self.chunks():
            self._set(chunk, lambda before, own, row: zero)

    def chunks(self) -> Iterator[Size]:
        """The first columns of the chunks: numbers, or the variable of a loop over them."""
        if self.kept is not None:
            assert isinstance(self.width, int)
            yield from range(0, self.width, TILE)
            return
        with self.k.loop("chunk", self.width, step=TILE) as chunk:
            yield chunk

    def add(self, chunk: Size, sums: str, scale: Callable[[Size], Operand] | None = None) -> None:
        """Add the sums of a tile to a chunk, whose rows were multiplied by ``scale`` before."""
        k = self.k

        def add_to(before: Callable[[], Operand], own: int, row: Size) -> Operand:
            value = k.load(sums, own)
            return k.fma(before(), scale(row), value) if scale else k.add(before(), value)

        self._set(chunk, add_to)

    def finish(self, value_of: Callable[[Operand, Size], Operand]) -> None:
        """Store what ``value_of`` gives of each element and its row."""
        for chunk in self.chunks():
            self._set(chunk, lambda before, own, row: value_of(before(), row), to_memory=True)

    def _set(
        self, chunk: Size, value_of: Callable[[Callable[[], Operand], int, Size], Operand],
        to_memory: bool = False,
    ) -> None:  # fmt: skip
        """Set the elements of a chunk to what ``value_of`` gives of what is there and the row."""
        k = self.k
        with k.loop("t", TEAMS["blocks"], kind="threads") as t:
            for own, row, column in own_elements(t, self.height, TILE):
                here = inside(k, (row, self.rows.count), (chunk + column, self.width))
                place = (self.rows.before + self.rows.first + row) * self.width + chunk + column
                source, at = self.buffer, place
                if self.kept is not None:
                    assert isinstance(chunk, int)
                    source, at = self.kept, chunk // TILE * self.count + own
                before = functools.partial(k.load, source, at)
                if self.kept is not None and not to_memory:
                    k.store(source, at, value_of(before, own, row))
                    continue
                with k.when(here):
                    k.store(self.buffer, place, value_of(before, own, row))


def own_elements(t: Dim, rows: int, columns: int) -> Iterator[tuple[int, Size, Size]]:
    """The elements of a tile that are a thread's: their numbers, rows and columns."""
    y, x = own_place(t)
    across = columns // SIDE
    for own in range(rows // SIDE * across):
        i, j = divmod(own, across)
        yield own, y + i * SIDE, x + j * SIDE


def inside(k: Scalars, *places: tuple[Size, Size]) -> Operand:
    """Whether each index is below its size."""
    first, *rest = (k.compare("lt", k.index_value(i), k.index_value(n)) for i, n in places)
    for other in rest:
        first = k.apply("and", first, other)
    return first
