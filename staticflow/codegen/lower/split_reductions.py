"""Reductions of few long rows or columns on a GPU: each is cut into parts, for a team or a thread
of their own, and what these come to is combined by a second launch. So is each pass of those that
go over their rows several times, such as softmax and variances: what a pass finds of a row waits in
memory for the next one.

How it is cut depends on the sizes alone, and parts are combined in order, so that results are the
same each time. Of unknown sizes a program has both ways, of which one has no iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from staticflow.codegen.kernel import Buffer, Operand, Reg
from staticflow.codegen.lower.loops import LoopWriter, rounds
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.tasks import bind_index
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import float64
from staticflow.graph.node import Node
from staticflow.ops.along.recurrence import count_parts
from staticflow.ops.declaring.lowering import Index, delinear, linear

__all__ = ["SplitWriter"]

_SIDE_BY_SIDE = 512
"""Columns of which a thread each adds up the parts, which are few then."""


class SplitWriter(LoopWriter):
    """Writes reductions whose rows are read along memory, if ``inward``, or side by side."""

    def __init__(self, inward: bool, *given: Any) -> None:
        super().__init__(*given)
        self._inward = inward
        self._totals: dict[Node, str] = {}  # the buffer of what a pass found, by reduction

    def write(self) -> None:
        """The reductions, in parts where rows or columns are few and long."""
        count = self._parts()
        if is_provably_ge(1, count):
            super().write()
            return
        self.saved = self._find_saved_row()
        self.check_rows()
        is_cut: Size = 1 if is_provably_ge(count, 2) else dim_min(count - 1, 1)
        if is_cut != 1:
            self._write_whole_rows(1 - is_cut)
        many = count if is_cut == 1 else count - (1 - is_cut)
        passes = self._passes()
        for phase in range(passes):
            made = self._write_parts(phase, count, many)
            if made or phase == passes - 1:
                self._combine_parts(made, count, is_cut, phase == passes - 1)

    def _write_whole_rows(self, times: Size) -> None:
        """All rows as they are, as many ``times``: once or not at all."""
        first, *rest = self.nest.outer.loops
        sizes = (first * times, *rest)
        with self._loops("o", sizes, "parallel", self.outer_vars) as outer:
            self.write_row(outer)

    def _parts(self) -> Size:
        """In how many parts a row or column is cut: 1 where there are enough of them."""
        outer, loops = self.nest.outer.loops, self.nest.inner.loops
        if not outer or not loops:
            return 1
        several = self._passes() > 1
        count = count_parts(prod(outer), prod(loops), inward=self._inward, several=several)
        return dim_max(dim_min(count, loops[0]), 1)

    def _place(self, part: Size, outer: Sequence[Size]) -> Size:
        at: Size = part
        for index, size in zip(outer, self.nest.outer.loops, strict=True):
            at = at * size + index
        return at

    def _write_parts(self, phase: int, count: Size, many: Size) -> dict[Node, str]:
        """A pass over all parts, ``many`` of each row or column, of which there are ``count``: what
        it stores, and for each reduction a buffer of what the parts come to."""
        k, loops = self.k, self.nest.inner.loops
        due = [r for r in self.reductions if self.phase[r] == phase + 1]
        stored = [(name, o) for name, o in self.elements if self.phase[o] == phase]
        made = {r: self._scratch(r, many * prod(self.nest.outer.loops)) for r in due}
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
            run = partial(self._run, phase, outer, self._rows_at(outer), due, stored)
            sums, _ = self._in_parts(run, due, start, (some, *loops[1:]))
            for r, total in zip(due, sums, strict=True):
                k.store(made[r], at, k.cast(k.freeze(total), k.buffers[made[r]].dtype))
        return made

    def _rows_at(self, outer: Sequence[Size]) -> dict[Node, tuple[Index, Operand]]:
        """The values that are known of the row or column at ``outer``, by node, each with its
        index: those that were checked, and the totals of reductions of the passes before."""
        full = self.nest.index(outer, [0] * len(self.nest.inner.loops))
        rows = self._checked_values(full)
        for r, buffer in self._totals.items():
            total = self.k.load(buffer, linear(outer, self.nest.outer.loops))
            rows[r] = (self.nest.place(r, full), self.value_of_sum(r, total))
        return rows

    def _combine_parts(
        self, made: dict[Node, str], count: Size, is_cut: Size, is_last: bool
    ) -> None:
        """What the parts of each row or column come to together: in a buffer, or, behind the last
        pass, in what is stored for a row."""
        k, sizes = self.k, self.nest.outer.loops
        if is_last and not self.row_values:
            return
        number = prod(sizes) * is_cut
        wholes = {} if is_last else {r: self._scratch(r, number) for r in made}
        with self._combining(number) as (at, kind):
            pairs = zip(delinear(at, sizes), sizes, strict=True)
            outer = [bind_index(k, i, n) for i, n in pairs]
            sums = {r: self.accumulator(r, float64 if rounds(r) else None) for r in made}
            if made:
                with k.loop("part", count, kind=kind) as part:
                    for r, total in sums.items():
                        more = k.load(made[r], self._place(part, outer))
                        k.accumulate(total, r.op.lowering.combine, k.cast(more, total.dtype))
            if is_last:
                self._store_row(outer, sums)
            for r, name in wholes.items():
                k.store(name, at, k.cast(k.freeze(sums[r]), self.total_dtype(r)))
        self._totals |= wholes

    @contextmanager
    def _combining(self, number: Size) -> Iterator[tuple[Size, str]]:
        """A loop over rows or columns, and the kind of the loops inside it: a thread for each of
        many columns side by side, else a warp."""
        if not self._inward and is_provably_ge(prod(self.nest.outer.loops), _SIDE_BY_SIDE):
            with self._loops("o", (number,), "parallel", self.outer_vars) as (at,):
                yield at, "serial"
        else:
            with self.k.loop("o", number, kind="warps") as at:
                yield at, "threads"

    def _store_row(self, outer: Sequence[Size], sums: dict[Node, Reg]) -> None:
        """Store the results that have one value for the row or column at ``outer``. ``sums`` are
        the totals of the last pass, by reduction; those of the passes before are loaded."""
        k = self.k
        full = self.nest.index(outer, [0] * len(self.nest.inner.loops))
        rows = self._rows_at(outer)
        for r, total in sums.items():
            found = k.cast(k.freeze(total), self.total_dtype(r))
            rows[r] = (self.nest.place(r, full), self.value_of_sum(r, found))
        self.store_row_values(rows, full)

    def _scratch(self, reduction: Node, size: Size) -> str:
        names = (f"scratch{i}" for i in range(len(self.k.buffers)))
        name = next(n for n in names if n not in self.k.buffers)
        scratch = Scratch(name, self.total_dtype(reduction), size)
        self.k.buffers[name] = Buffer(name, scratch.dtype, "inout")
        self.scratch.append(scratch)
        return name
