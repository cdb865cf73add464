"""Reductions of few long rows or columns on a GPU: each is cut into parts, for a team or a thread
of their own, and what these come to is combined by a second launch.

How it is cut depends on the sizes alone, and parts are combined in order, so that results are the
same each time. Of unknown sizes a program has both ways, of which one has no iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from staticflow.codegen.kernel import Buffer, Reg
from staticflow.codegen.lower.loops import LoopWriter, Run, rounds
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.tasks import bind_index
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import float64
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Index, delinear

__all__ = ["SplitWriter"]

_THREADS = 1 << 17
"""Threads that keep a large GPU busy, as it runs half as many again at a time. Not measured."""

_LEAST_OF_THREAD = 64
"""Elements of a column that are worth a thread of their own."""

_BLOCKS = 1024
"""Blocks of threads that keep a large GPU busy."""

_LEAST_OF_BLOCK = 1 << 12
"""Elements of a row that are worth a block of threads of their own."""

_MOST = 1024
"""Parts of a row or column: one thread may have to add them up."""


class SplitWriter(LoopWriter):
    """Writes reductions whose rows are read along memory, if ``inward``, or side by side."""

    def __init__(self, inward: bool, *given: Any) -> None:
        super().__init__(*given)
        self._inward = inward
        self._made: list[Scratch] = []  # while parts are combined
        self._count: Size = 1

    def write(self) -> None:
        """The reductions, in parts where rows or columns are few and long."""
        count = self._parts()
        if is_provably_ge(1, count):
            super().write()
            return
        is_cut: Size = 1 if is_provably_ge(count, 2) else dim_min(count - 1, 1)
        if is_cut != 1:
            self._write_rows(1 - is_cut)
        self._count = count
        self._made = self._add_parts_of_rows(count, is_cut)
        self._write_rows(is_cut)

    def _write_rows(self, times: Size) -> None:
        """All iterations of the outer loops, as many ``times``: once or not at all."""
        with self._loops("o", self._outer(times), "parallel", self.outer_vars) as outer:
            self.write_row(outer)

    def _outer(self, times: Size) -> Shape:
        first, *rest = self.nest.outer.loops
        return (first * times, *rest)

    def _parts(self) -> Size:
        """In how many parts a row or column is cut: 1 where there are enough of them."""
        outer, loops = prod(self.nest.outer.loops), self.nest.inner.loops
        whole = self._passes() == 1 and not self.elements and not self.checked
        if not self.nest.outer.loops or outer == 1 or not loops or not whole:
            return 1
        most, least = _THREADS, _LEAST_OF_THREAD
        if self._inward:
            most, least = _BLOCKS, _LEAST_OF_BLOCK
        count = dim_min(prod(loops) // least, most // dim_max(outer, 1))
        return dim_max(dim_min(dim_min(count, _MOST), loops[0]), 1)

    def _place(self, part: Size, outer: Sequence[Size]) -> Size:
        at: Size = part
        for index, size in zip(outer, self.nest.outer.loops, strict=True):
            at = at * size + index
        return at

    def _add_parts_of_rows(self, count: Size, is_cut: Size) -> list[Scratch]:
        """What the parts of each row or column come to: for each reduction a buffer of them."""
        k, loops = self.k, self.nest.inner.loops
        many = count if is_cut == 1 else count - (1 - is_cut)
        made = [self._scratch(r, many * prod(self.nest.outer.loops)) for r in self.reductions]
        size = ceil_div(loops[0], count)
        if not isinstance(size, int):
            size = k.bind(k.index_value(size), "size")
        shape = (many, *self.nest.outer.loops)
        with self._loops("o", (prod(shape),), "parallel", self.outer_vars) as (at,):
            pairs = zip(delinear(at, shape), shape, strict=True)
            part, *outer = (bind_index(k, i, n) for i, n in pairs)
            start = part * size
            length = dim_max(dim_min(size, loops[0] - start), 0)
            some = k.bind(k.index_value(length), "length", upper=size + 1)
            run = partial(self._run, 0, outer, {}, self.reductions, [])
            sums, _ = self._in_parts(run, self.reductions, start, (some, *loops[1:]))
            for scratch, total in zip(made, sums, strict=True):
                k.store(scratch.name, at, k.cast(k.freeze(total), scratch.dtype))
        return made

    def _scratch(self, reduction: Node, size: Size) -> Scratch:
        names = (f"scratch{i}" for i in range(len(self.k.buffers)))
        name = next(n for n in names if n not in self.k.buffers)
        scratch = Scratch(name, self.total_dtype(reduction), size)
        self.k.buffers[name] = Buffer(name, scratch.dtype, "inout")
        self.scratch.append(scratch)
        return scratch

    def reduce(
        self, run: Run, due: list[Node], loops: Shape, outer: Sequence[Size]
    ) -> tuple[list[Reg], Index]:
        """The sums ``due`` of one row or column: of its parts, where these are made."""
        if not self._made:
            return super().reduce(run, due, loops, outer)
        k = self.k
        sums = [self.accumulator(r, float64 if rounds(r) else None) for r in due]
        with k.loop("part", self._count) as part:
            for r, scratch, total in zip(due, self._made, sums, strict=True):
                more = k.load(scratch.name, self._place(part, outer))
                k.accumulate(total, r.op.lowering.combine, k.cast(more, total.dtype))
        return sums, self.nest.index(outer, [0] * len(loops))
