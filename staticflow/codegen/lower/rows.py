"""Reductions along rows, and totals over the rows, in one kernel.

Where elements are added up over all rows, these are cut into blocks, which threads may share. A
block adds its rows up into *partial* totals of its own, while the elements are in the cache, and
partial totals are added in the order of the blocks. How many rows a block has follows from their
length alone, so that no result depends on the number of threads. What has one value for each row
is stored, and added up behind the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticflow.codegen.kernel import Buffer, Kernel, Operand, Reg
from staticflow.codegen.lower.loop_dims import choose_loops, runs_inward
from staticflow.codegen.lower.loops import LoopWriter, part_of, rounds
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.values import Values
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_min, prod
from staticflow.graph.dtypes import float64
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.declaring.lowering import Index, Reduce, delinear, linear
from staticflow.passes.row_totals import adds_all, follow_totals, is_total, rows_of

__all__ = ["lower_rows"]

_BLOCK = 1 << 15
"""Elements of a block of rows, at least: it is worth a thread."""

_MOST_ROWS = 128
"""Rows of a block at most: so many floats are summed up one after another before they go into the
total, in float64."""

_LEAST_ROWS = 32
"""Rows of a block at least, however long they are: its partial totals are a row each."""

_ROWS = 32
"""Rows of a block, where their length is unknown."""


def lower_rows(
    k: Scalars,
    body: Graph,
    names: Mapping[Node, str],
    outs: list[str],
    types: Sequence[TensorType],
    target: Target,
) -> tuple[Kernel, list[Sym], list[Scratch]]:
    """The kernel of a ``rows`` cluster whose outputs are of these ``types``, the loops in it that
    run over contiguous elements, and the working memory that it wants."""
    writer = _RowsWriter(k, body, names, outs, types, target)
    writer.write()
    return k.kernel("rows"), [*writer.check_vars, *writer.inner_vars], writer.scratch


def _rows_of_block(length: Size) -> int:
    """How many rows of a length a block has."""
    if not isinstance(length, int):
        return _ROWS
    return min(max(_BLOCK // max(length, 1), _LEAST_ROWS), _MOST_ROWS)


class _RowsWriter(LoopWriter):
    """Writes the loops over blocks of rows, those of each row, and what follows from the totals."""

    def __init__(
        self,
        k: Scalars,
        body: Graph,
        names: Mapping[Node, str],
        outs: list[str],
        types: Sequence[TensorType],
        target: Target,
    ) -> None:
        domain, dims = rows_of(body)
        late = follow_totals(body, domain, dims)
        results = [*zip(outs, body.outputs, strict=True)]
        reductions = [n for n in body.nodes if isinstance(n.op.lowering, Reduce)]
        totals = [n for n in reductions if is_total(n, domain, dims)]
        nest = choose_loops(body, types, domain, dims, late)
        columns = [r for r in totals if r.args[0].tensor_type.shape == domain and not adds_all(r)]
        self.wholes = [r for r in totals if r.args[0].tensor_type.shape == domain and adds_all(r)]
        self.inward = bool(columns) or runs_inward(body, types, nest)
        super().__init__(
            k, body, names, [(name, o) for name, o in results if o not in late], nest,
            [n for n in reductions if n not in totals or n in self.wholes],
            dict(zip(outs, types, strict=True)), part_of(self.inward, target), target,
        )  # fmt: skip
        self.late = [(name, o) for name, o in results if o in late]
        self.width = prod(self.nest.inner.loops)
        self.rows = prod(self.nest.outer.loops)
        self.size = _rows_of_block(self.width)
        self.blocks = ceil_div(self.rows, self.size)
        self.columns: dict[str, Node] = {}
        self.numbers: dict[str, Node] = {}
        for r in totals:
            if r in columns:
                self.columns[self._working(r, self.blocks * self.width)] = r
            else:
                self.numbers[self._working(r, self.rows)] = r
        self.elements += [(name, r.args[0]) for name, r in self.columns.items()]
        self.block: Size = 0
        self.row: Size = 0

    def _working(self, total: Node, size: Size) -> str:
        """A buffer of so many elements, which are added up to a total."""
        name = f"scratch{len(self.scratch)}"
        self.scratch.append(Scratch(name, self.total_dtype(total), size))
        self.k.buffers[name] = Buffer(name, self.total_dtype(total), "inout")
        return name

    def write(self) -> None:
        """The whole kernel."""
        k = self.k
        self.saved = self._find_saved_row()
        self.check_rows()
        if self.columns:
            with k.loop("block", self.blocks, kind="parallel") as self.block:
                self._clear_columns()
                start = self.block * self.size
                length = k.index_value(dim_min(self.size, self.rows - start))
                with k.loop("row", k.bind(length, "length", upper=self.size + 1)) as row:
                    self.row = k.bind(k.index_value(start + row), "at", upper=self.rows)
                    self.write_row(self._outer_index(self.row))
        else:
            with self._loops("o", self.nest.outer.loops, "parallel", self.outer_vars) as outer:
                self.row = linear(outer, self.nest.outer.loops)
                self.write_row(outer)
            if not self.inward:
                self.inner_vars = self.outer_vars
        known = self._add_up_numbers()
        if any(_has_columns(o) for _, o in self.late):
            with k.loop("column", self.width, kind="parallel") as column:
                self._add_up_columns(column, known)
            self.inner_vars += symbols_of(column)

    def _outer_index(self, row: Dim) -> list[Size]:
        """The variables of the outer loops at a row."""
        sizes = self.nest.outer.loops
        if len(sizes) == 1:
            return [row]
        values = map(self.k.index_value, delinear(row, sizes))
        return [self.k.bind(v, "at", upper=n) for v, n in zip(values, sizes, strict=True)]

    def _clear_columns(self) -> None:
        """The partial totals of a block before its first row."""
        k = self.k
        with k.loop("column", self.width) as column:
            at = self.block * self.width + column
            for name, r in self.columns.items():
                k.store(name, at, self.start_of(r, k.buffers[name].dtype))
        self.inner_vars += symbols_of(column)

    def store(self, name: str, node: Node, index: Index, value: Operand) -> None:
        """Write an element, or add it to a partial total."""
        total = self.columns.get(name)
        if total is None:
            return super().store(name, node, index, value)
        k, inner = self.k, self.nest.inner
        at = self.block * self.width + linear([index[d] for d in inner.dims], inner.sizes)
        more = k.cast(value, self.total_dtype(total))
        k.store(name, at, k.apply(total.op.lowering.combine, k.load(name, at), more))

    def add_row(self, values: Values, full: Index) -> None:
        """Store what a row has one value of, for the totals that are numbers: it, or the sum of all
        its elements."""
        for name, r in self.numbers.items():
            if r in self.wholes:
                _, value = values.known[r]
            else:
                value = values.at(r.args[0], self.nest.operand_place(r, full))
            self.k.store(name, self.row, self.k.cast(value, self.k.buffers[name].dtype))

    def value_of_sum(self, reduction: Node, total: Operand) -> Operand:
        """The part of a row in a total, as it is, or what a sum over the row is."""
        return total if reduction in self.wholes else super().value_of_sum(reduction, total)

    # -- behind the last row --------------------------------------------------------------------

    def _add_up_numbers(self) -> dict[Node, tuple[Index, Operand]]:
        """The totals that are numbers, and what follows from them alone."""
        k, due = self.k, [*self.numbers.values()]
        at = self.nest.index(*([0] * len(a.loops) for a in (self.nest.outer, self.nest.inner)))

        def add_up(start: Size, loops: Shape) -> tuple[list[Reg], Index]:
            sums = [self.accumulator(r) for r in due]
            with self._loops("row", loops, "serial", self.inner_vars) as (row,):
                for (name, r), total in zip(self.numbers.items(), sums, strict=True):
                    k.accumulate(total, r.op.lowering.combine, k.load(name, start + row))
            return sums, at

        known: dict[Node, tuple[Index, Operand]] = {}
        if due:
            sums, _ = self._in_blocks(add_up, due, (self.rows,))
            known = self._totals(due, sums, at)
        self._finish([(name, o) for name, o in self.late if not _has_columns(o)], at, known)
        return known

    def _add_up_columns(self, column: Dim, known: Mapping[Node, tuple[Index, Operand]]) -> None:
        """The totals of a column, and what follows from them. Partial totals are added in the order
        of the blocks, those of floats in float64."""
        k, inner, due = self.k, self.nest.inner, [*self.columns.values()]
        within = [column] if len(inner.loops) == 1 else delinear(column, inner.sizes)
        at = self.nest.index([0] * len(self.nest.outer.loops), within)
        sums = [self.accumulator(r, float64 if rounds(r) else None) for r in due]
        if due:
            with k.loop("block", self.blocks) as block:
                for (name, r), total in zip(self.columns.items(), sums, strict=True):
                    more = k.cast(k.load(name, block * self.width + column), total.dtype)
                    k.accumulate(total, r.op.lowering.combine, more)
        known = {**known, **self._totals(due, sums, at)}
        self._finish([(name, o) for name, o in self.late if _has_columns(o)], at, known)

    def _totals(
        self, due: Sequence[Node], sums: Sequence[Reg], at: Index
    ) -> dict[Node, tuple[Index, Operand]]:
        """Totals in registers, and where they stand."""
        k = self.k
        return {
            r: (self.nest.place(r, at), k.cast(k.freeze(total), r.tensor_type.dtype))
            for r, total in zip(due, sums, strict=True)
        }

    def _finish(
        self,
        results: Sequence[tuple[str, Node]],
        at: Index,
        known: Mapping[Node, tuple[Index, Operand]],
    ) -> None:
        """Store what follows from totals that are known."""
        values = Values(self.k, self.names, known, checked=self.members)
        stored = [(name, o, self.nest.place(o, at)) for name, o in results]
        for result in [(*s, values.at(*s[1:])) for s in stored]:
            super().store(*result)


def _has_columns(node: Node) -> bool:
    """Whether a total, or what follows from one, has an element for each column."""
    return any(d != 1 for d in node.tensor_type.shape)
