"""Short rows side by side: what goes down the columns of many rows of a few elements.

Such a row fills a part of one vector, and each addition waits for the one before it. Some rows, one
behind the other in memory, are taken as one row whose elements fill several vectors. Those are
added up down its columns; then the columns that were one before are added together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from staticflow.codegen.kernel import Reg
from staticflow.codegen.lower.blocks import Blocks, cut_blocks
from staticflow.codegen.lower.loop_dims import LoopDims, is_affine, positions_read
from staticflow.codegen.lower.loops import LoopWriter, Run, rounds
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.saved_row import statements_of
from staticflow.codegen.lower.values import Values
from staticflow.data_classes import dataclass
from staticflow.graph.dims import (
    Dim,
    Size,
    Sym,
    ceil_div,
    dim_min,
    fresh_sym,
)
from staticflow.graph.dtypes import float64
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Index

__all__ = ["ColumnsWriter"]

_MOST = 16
"""Elements of a row that is taken together with others: more fill vectors of their own."""

_REGISTERS = 8
"""Vectors side by side, at most where one group of rows does not need more: enough to hide the
latency of an addition. The sums of 33,333 rows of 3 take 6 microseconds, and 19 row by row."""


_MOST_STATEMENTS = 64
"""Statements of an iteration: more of them would be long to compile, and hide latencies anyway."""


@dataclass(frozen=True, slots=True)
class _RowsBeside:
    """``rows`` rows of ``columns`` elements as one row of ``vectors`` vectors of ``lanes``; there
    are ``count`` such, and ``rest`` rows behind them."""

    columns: int
    rows: int
    lanes: int
    vectors: int
    count: int
    rest: int

    @property
    def width(self) -> int:
        """Elements of such a row."""
        return self.columns * self.rows

    def index(self, nest: LoopDims, at: Size, element: Size) -> Index:
        """The index in the domain of an element of row ``at``."""
        return nest.index([element % self.columns], [at * self.rows + element // self.columns])


def _rows_beside(
    nest: LoopDims, reductions: Sequence[Node], statements: int, lanes: int
) -> _RowsBeside | None:
    """How the rows of a domain are taken side by side by ``reductions`` down their columns, which
    take so many ``statements`` for each element; None if the rows are long, if these are many, if
    elements of neighbouring rows do not adjoin in memory, or if the number of rows is unknown: that
    would be four times the code, and few rows gain nothing."""
    if len(nest.outer.loops) != 1 or len(nest.inner.loops) != 1:
        return None
    (columns,), (length,) = nest.outer.loops, nest.inner.loops
    if not isinstance(length, int) or not isinstance(columns, int) or not 1 < columns <= _MOST:
        return None
    shared = math.gcd(columns, lanes)
    least = columns // shared  # vectors that begin and end with a row
    if statements * least > _MOST_STATEMENTS:
        return None
    times = max(1, _REGISTERS // statements // least)
    rows = lanes // shared * times
    if 2 * rows >= length:
        return None
    count = length // rows
    beside = _RowsBeside(columns, rows, lanes, least * times, count, length - count * rows)
    at, element = fresh_sym("at", count), Sym("lane", 0, beside.width)
    full = beside.index(nest, at, Dim.of(element))
    operands = [(r.args[0], full) for r in reductions]
    adjoin = all(is_affine(i, frozenset((element,))) for i in positions_read(nest, operands, full))
    return beside if adjoin else None


class ColumnsWriter(LoopWriter):
    """Writes loops that reduce columns: of short rows by taking some beside each other. Elements of
    the narrowest dtype fill a vector of so many ``lanes``."""

    def __init__(self, lanes: int, *given: Any) -> None:
        super().__init__(*given)
        self._beside: _RowsBeside | None = None
        if self._passes() == 1 and not self.elements:
            each = [n for n in self.body.nodes if n.tensor_type.shape == self.nest.domain]
            work = sum(map(statements_of, each)) + len(self.reductions)
            self._beside = _rows_beside(self.nest, self.reductions, work, lanes)
        self._columns: list[tuple[Scratch, Size]] = []

    def write(self) -> None:
        """The whole nest, behind what rows that are taken together come to."""
        if self._beside is not None:
            self._columns = self._add_columns(self._beside)
        super().write()

    def _add_columns(self, beside: _RowsBeside) -> list[tuple[Scratch, Size]]:
        """What the reductions come to down the columns of rows side by side, in blocks that threads
        share: for each a number for each element of such a row and each block, and how many."""
        k, due, lanes, width = self.k, self.reductions, beside.lanes, beside.width
        blocks = cut_blocks(k, (beside.count, width), self.target)
        blocks = blocks or Blocks(beside.count, beside.count, 1, 1)
        scratches = [blocks.partial(k, self.total_dtype(r), width) for r in due]
        vectors = range(0, width, lanes)
        each = [r for _ in vectors for r in due]

        def run(lane: Size, start: Size, count: Size) -> list[Reg]:
            sums = [self.accumulator(r) for r in each]
            with k.loop("r", count) as at:
                totals = iter(sums)
                for first in vectors:
                    full = beside.index(self.nest, start + at, lane + first)
                    values = Values(k, self.names, checked=self.members)
                    for r in due:
                        total = next(totals)
                        element = k.cast(values.at(r.args[0], full), total.dtype)
                        k.accumulate(total, r.op.lowering.combine, element)
            return sums

        def run_in_parts(lane: Size, start: Size, count: Size) -> list[Reg]:
            sums = [self.accumulator(r, float64 if rounds(r) else None) for r in each]
            with k.loop("part", ceil_div(count, self.part)) as number:
                rest = k.index_value(dim_min(self.part, count - number * self.part))
                some = k.bind(rest, "some", upper=self.part + 1)
                for r, total, more in zip(
                    each, sums, run(lane, start + number * self.part, some), strict=True
                ):
                    k.accumulate(total, r.op.lowering.combine, k.cast(k.freeze(more), total.dtype))
            return sums

        add_up = run_in_parts if any(map(rounds, due)) else run
        with (
            blocks.each(k) as (number, start, length),
            self._loops("lane", (lanes,), "parallel", self.outer_vars) as (lane,),
        ):
            totals = map(k.freeze, add_up(lane, start, length))
            for first in vectors:
                for scratch in scratches:
                    at = number * width + first + lane
                    k.store(scratch.name, at, k.cast(next(totals), scratch.dtype))
        self.scratch += scratches
        return [(scratch, blocks.count * beside.rows) for scratch in scratches]

    def reduce(
        self,
        run: Run,
        due: list[Node],
        loops: Shape,
        outer: Sequence[Size],
    ) -> tuple[list[Reg], Index]:
        """The sums ``due`` of one column: what was added up beside others, and the rows that are
        left."""
        beside, k = self._beside, self.k
        if beside is None:
            return super().reduce(run, due, loops, outer)
        if beside.rest == 0:
            sums, full = [self.accumulator(r) for r in due], self.nest.index(outer, [0])
        else:
            sums, full = run(beside.count * beside.rows, (beside.rest,))
        for r, (scratch, count), last in zip(due, self._columns, sums, strict=True):
            combine = r.op.lowering.combine
            total = self.accumulator(r, float64 if rounds(r) else None)
            with k.loop("beside", count) as row:
                more = k.load(scratch.name, row * beside.columns + outer[0])
                k.accumulate(total, combine, k.cast(more, total.dtype))
            k.accumulate(total, combine, k.cast(k.freeze(last), total.dtype))
            k.set(last, k.cast(k.freeze(total), last.dtype))
        return sums, full
