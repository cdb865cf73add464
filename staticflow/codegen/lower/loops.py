"""Elementwise work and reductions: loops over a domain.

The dims that nothing reduces make the outer loops, the reduced ones the inner. Within one iteration
of the outer loops the reductions run in *phases*: a phase is one pass of the inner loops, which
accumulates every reduction whose operand is known by then and stores the elements that are. What a
later phase needs again is computed again, since that is cheaper than memory. If there are no outer
loops, a phase is cut into blocks (`blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from staticflow.codegen.kernel import TEAMS, Operand, Reg
from staticflow.codegen.lower.blocks import cut_blocks
from staticflow.codegen.lower.loop_dims import LoopDims
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.saved_row import SavedRow, find_saved_row
from staticflow.codegen.lower.values import Values
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.primitives import identity
from staticflow.codegen.target import Target
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym, dim_min, floor_div, prod
from staticflow.graph.dtypes import DType, float32, float64
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.declaring.lowering import Index, Reduce
from staticflow.passes.cluster import checked_members
from staticflow.passes.row_totals import row_shapes

__all__ = ["LoopWriter", "Run", "part_of", "rounds"]

Run = Callable[[Size, Shape], tuple[list[Reg], Index]]
"""Makes sums over iterations of the inner loops: from a first one on, so many along each dim; gives
them, and the index in the domain."""


_PART = 128
"""Floats that one register sums up one after another, before it goes into the total, in float64: of
a million equal ones in float32 the naive sum is wrong by a hundredth (Higham, "The accuracy of
floating point summation", 1993)."""

LANES_PART = 32 * _PART
"""Elements of a contiguous row that make one part, where some 32 lanes of vectors take turns: each
sums up about `_PART` of them."""

_ROWS_PART = 8
"""Iterations of the first of several loops, within which there are more additions."""


def part_of(inward: bool, target: Target) -> int:
    """Elements that are summed up before they go into the total, along a row or down a column."""
    if inward and target.teams:
        return TEAMS["blocks"] * _PART
    return LANES_PART if inward else _PART


def rounds(reduction: Node) -> bool:
    """Whether a reduction is a sum of floats."""
    dtype = reduction.tensor_type.dtype
    return dtype.is_floating and reduction.op.lowering.combine == "add"


# -- the code ------------------------------------------------------------------------------------


class LoopWriter:
    """Writes the loops of one cluster and remembers their innermost variables."""

    def __init__(
        self,
        k: Scalars,
        body: Graph,
        names: Mapping[Node, str],
        results: Sequence[tuple[str, Node]],
        nest: LoopDims,
        reductions: list[Node],
        types: Mapping[str, TensorType],
        part: int,
        target: Target,
    ) -> None:
        """``results`` are the buffers of what the loops store, ``types`` those of the arrays."""
        self.k, self.body, self.names, self.part = k, body, names, part
        self.target = target
        self.nest, self.reductions, self.types = nest, reductions, types
        self.dims = nest.inner.dims
        self.phase = self._phases()
        self.elements = [(name, o) for name, o in results if self._is_element(o)]
        self.row_values = [(name, o) for name, o in results if not self._is_element(o)]
        self.members = checked_members(body)
        self.checked = [
            n for n in self.members
            if self.dims and not self.phase[n]
            and n.tensor_type.shape in row_shapes(nest.domain, self.dims) and n not in nest.late
        ]  # fmt: skip
        self.inner_vars: list[Sym] = []
        self.outer_vars: list[Sym] = []
        self.check_vars: list[Sym] = []
        self.scratch: list[Scratch] = []
        self.saved: SavedRow | None = None

    def _phases(self) -> dict[Node, int]:
        """How many passes of the inner loops a node needs before it is known."""
        phase: dict[Node, int] = {}
        for node in self.body.nodes:
            after = max((phase[a] for a in node.args), default=0)
            phase[node] = after + isinstance(node.op.lowering, Reduce)
        return phase

    def _find_saved_row(self) -> SavedRow | None:
        """The value that waits in the memory of an output, which is then read, too."""
        over = set(self.names.values())
        free = {name: o for name, o in self.elements if name not in over and name in self.types}
        passes = [
            [r.args[0] for r in self.reductions if self.phase[r] == phase + 1]
            + [o for _, o in self.elements if self.phase[o] == phase]
            for phase in range(self._passes())
        ]
        saved = find_saved_row(self.body.nodes, passes, free, self.nest.domain)
        if saved is not None:
            buffer = self.k.buffers[saved.buffer]
            self.k.buffers[saved.buffer] = replace(buffer, access="inout")
        return saved

    def write(self) -> None:
        """The whole nest."""
        self.saved = self._find_saved_row()
        self.check_rows()
        with self._loops("o", self.nest.outer.loops, "parallel", self.outer_vars) as outer:
            self.write_row(outer)

    def write_row(self, outer: Sequence[Size]) -> None:
        """One iteration of the outer loops."""
        full = self.nest.index(outer, [0] * len(self.nest.inner.loops))
        rows = self._checked_values(full)
        for phase in range(self._passes()):
            self._pass(phase, outer, rows)
        self.store_row_values(rows, full)

    def store_row_values(self, rows: dict[Node, tuple[Index, Operand]], full: Index) -> None:
        """Store what a row has one value of, whose first element is at ``full``, by what is known
        of it: ``rows``, each value with where it stands."""
        values = Values(self.k, self.names, rows, checked=self.members)
        results = [
            (name, node, index, values.at(node, index))
            for name, node in self.row_values
            for index in [self.nest.place(node, full)]
        ]
        self.add_row(values, full)
        for result in results:  # after every load: an output may lie over a param
            self.store(*result)

    def check_rows(self) -> None:
        """Look at the values to check that rows have, in a loop of its own: a way out of the loop
        that works the rows out would cost registers there."""
        if not self.checked:
            return
        with self._loops("o", self.nest.outer.loops, "parallel", self.check_vars) as outer:
            full = self.nest.index(outer, [0] * len(self.nest.inner.loops))
            values = Values(self.k, self.names, checked=self.members)
            for n in self.checked:
                values.check(n, self.nest.place(n, full))

    def _checked_values(self, full: Index) -> dict[Node, tuple[Index, Operand]]:
        """What was checked of the row whose first element is at ``full``, and where it stands."""
        values = Values(self.k, self.names, checks=False)
        places = {n: self.nest.place(n, full) for n in self.checked}
        return {n: (index, values.at(n, index)) for n, index in places.items()}

    def add_row(self, values: Values, full: Index) -> None:
        """What else is done with the values of a row, whose first element is at ``full``."""

    def _is_element(self, node: Node) -> bool:
        """Whether a node has a value for each element, not for each row."""
        return (
            bool(self.dims)
            and node.tensor_type.shape == self.nest.domain
            and not isinstance(node.op.lowering, Reduce)
        )

    def _passes(self) -> int:
        last = [self.phase[r] for r in self.reductions]
        last += [self.phase[o] + 1 for _, o in self.elements]
        return max(last, default=0)

    def _pass(
        self, phase: int, outer: Sequence[Size], rows: dict[Node, tuple[Index, Operand]]
    ) -> None:
        """One run of the inner loops."""
        k = self.k
        due = [r for r in self.reductions if self.phase[r] == phase + 1]
        stored = [(name, o) for name, o in self.elements if self.phase[o] == phase]
        run = partial(self._run, phase, outer, rows, due, stored)
        loops = self.nest.inner.loops
        sums, full = self.reduce(run, due, loops, outer)
        for r, total in zip(due, sums, strict=True):
            index = self.nest.place(r, full)
            rows[r] = (index, self.value_of_sum(r, k.freeze(total)))

    def reduce(
        self,
        run: Run,
        due: list[Node],
        loops: Shape,
        outer: Sequence[Size],
    ) -> tuple[list[Reg], Index]:
        """The sums ``due`` as ``run(start, loops)`` makes them, for one iteration of the outer
        loops, and the index."""
        if prod(self.nest.outer.loops) == 1 and loops:
            return self._in_blocks(run, due, loops)
        return self._in_parts(run, due, 0, loops)

    def value_of_sum(self, reduction: Node, total: Operand) -> Operand:
        """What a sum over a row is to what reads it."""
        return self.k.cast(total, reduction.tensor_type.dtype)

    def _in_blocks(self, run: Run, due: list[Node], loops: Shape) -> tuple[list[Reg], Index]:
        """The sums ``due`` as ``run(start, loops)`` makes them, where there are no loops around: in
        blocks that threads share, if there is work for some."""
        k = self.k
        blocks = cut_blocks(k, loops, self.target)
        if blocks is None:
            return self._in_parts(run, due, 0, loops)
        blocked = [blocks.partial(k, self.total_dtype(r)) for r in due]
        with blocks.each(k) as (number, start, length):
            sums, full = self._in_parts(run, due, start, (length, *loops[1:]))
            for scratch, total in zip(blocked, sums, strict=True):
                k.store(scratch.name, number, k.cast(k.freeze(total), scratch.dtype))
        sums = [self.accumulator(r) for r in due]
        if due:
            with k.loop("block", dim_min(blocks.count, blocks.most)) as number:
                for r, scratch, total in zip(due, blocked, sums, strict=True):
                    k.accumulate(total, r.op.lowering.combine, k.load(scratch.name, number))
        self.scratch += blocked
        return sums, full

    def _in_parts(
        self,
        run: Run,
        due: list[Node],
        start: Size,
        loops: Shape,
    ) -> tuple[list[Reg], Index]:
        """The sums ``due`` as ``run(start, loops)`` makes them, the first of ``loops`` going on
        from ``start``; where there may be many addends they are added up from parts in float64."""
        if not loops or not any(map(rounds, due)):
            return run(start, loops)
        size = self.part if len(loops) == 1 else _ROWS_PART
        k, count = self.k, floor_div(loops[0], size)
        rest = loops[0] - count * size
        if count == 0:
            return run(start, loops)
        if rest == 0:
            totals, full = self._add_parts(run, due, start, count, size, loops)
            pairs = zip(due, totals, strict=True)
            return [k.var(k.cast(k.freeze(t), self.total_dtype(r))) for r, t in pairs], full
        known = isinstance(count, int)
        if not known and self._goes_alone(loops):
            return self._add_parts_and_rest(run, due, start, count, size, loops)
        sums, full = run(start, (rest, *loops[1:]))
        with nullcontext() if known else k.when(k.compare("gt", k.index_value(count), 0)):
            totals, _ = self._add_parts(run, due, start + rest, count, size, loops)
            for r, total, last in zip(due, totals, sums, strict=True):
                k.accumulate(total, r.op.lowering.combine, k.cast(last, total.dtype))
                k.set(last, k.cast(k.freeze(total), last.dtype))
        return sums, full

    def _goes_alone(self, loops: Shape) -> bool:
        """Whether the sum over ``loops`` is neither that of a row of several that may go side by
        side, loop by loop (`schedule.phases`), nor of columns side by side, which take up to five
        times as long where the number of their rows is chosen in a loop, nor that of a team."""
        is_row = len(loops) == 1 and prod(self.nest.outer.loops) != 1
        return not (is_row or self.part == _PART or self.target.teams)

    def _add_parts_and_rest(
        self,
        run: Run,
        due: list[Node],
        start: Size,
        count: Size,
        size: int,
        loops: Shape,
    ) -> tuple[list[Reg], Index]:
        """The sums of ``count`` parts of ``size`` and of what is left, which lies before them, in
        one loop: the code of a part is there once."""
        k, rest = self.k, loops[0] - count * size
        totals = [self.accumulator(r, float64 if rounds(r) else None) for r in due]
        with k.loop("part", count + 1) as number:
            is_whole = k.compare("lt", k.index_value(number), k.index_value(count))

            def choose(whole: Size, last: Size, name: str, upper: Size) -> Size:
                a, b = k.index_value(whole), k.index_value(last)
                return k.bind(k.apply("select", is_whole, a, b), name, upper=upper)

            first = choose(rest + number * size, 0, "first", loops[0] + 1)
            length = choose(size, rest, "length", size + 1)
            found, full = run(start + first, (length, *loops[1:]))
            for r, total, more in zip(due, totals, found, strict=True):
                k.accumulate(total, r.op.lowering.combine, k.cast(k.freeze(more), total.dtype))
        pairs = zip(due, totals, strict=True)
        return [k.var(k.cast(k.freeze(t), self.total_dtype(r))) for r, t in pairs], full

    def _add_parts(
        self,
        run: Run,
        due: list[Node],
        start: Size,
        count: Size,
        size: int,
        loops: Shape,
    ) -> tuple[list[Reg], Index]:
        """``count`` parts of ``size``, added up in float64 where sums are rounded."""
        k = self.k
        totals = [self.accumulator(r, float64 if rounds(r) else None) for r in due]
        with k.loop("part", count) as number:
            found, full = run(start + number * size, (size, *loops[1:]))
            for r, total, more in zip(due, totals, found, strict=True):
                k.accumulate(total, r.op.lowering.combine, k.cast(k.freeze(more), total.dtype))
        return totals, full

    def _run(
        self,
        phase: int,
        outer: Sequence[Size],
        rows: dict[Node, tuple[Index, Operand]],
        due: list[Node],
        stored: list[tuple[str, Node]],
        start: Size,
        loops: Shape,
    ) -> tuple[list[Reg], Index]:
        """``loops``, the first from ``start`` on: the sums of them, and the index."""
        k = self.k
        sums = [self.accumulator(r) for r in due]
        with self._loops("r", loops, "serial", self.inner_vars) as inner:
            at = [start + inner[0], *inner[1:]] if inner else []
            full = self.nest.index(outer, at)
            saved = self.saved
            waits = {saved.node: saved.buffer} if saved is not None and phase > saved.first else {}
            values = Values(k, {**self.names, **waits}, rows, checked=self.members)
            for r, total in zip(due, sums, strict=True):
                element = k.cast(values.at(r.args[0], full), total.dtype)
                k.accumulate(total, r.op.lowering.combine, element)
            results = [(name, o, values.at(o, full)) for name, o in stored]
            if saved is not None and phase == saved.first:
                results.append((saved.buffer, saved.node, values.at(saved.node, full)))
            for name, o, value in results:
                self.store(name, o, full, value)
        return sums, full

    def total_dtype(self, node: Node) -> DType:
        """The dtype that a reduction is summed in: for floats of 16 bits, 32 bits."""
        dtype = node.tensor_type.dtype
        return float32 if dtype.is_floating and dtype.bits == 16 else dtype

    def accumulator(self, node: Node, dtype: DType | None = None) -> Reg:
        """A register for the total of a reduction."""
        return self.k.var(self.start_of(node, dtype or self.total_dtype(node)))

    def start_of(self, node: Node, dtype: DType) -> Operand:
        """The neutral element of a reduction."""
        combine: str = node.op.lowering.combine
        start = 0.0 if combine == "add" and dtype.is_floating else identity(combine, dtype)
        return self.k.const(start, dtype)

    def store(self, name: str, node: Node, index: Index, value: Operand) -> None:
        """Write the element of ``node`` at ``index``."""
        t = self.types[name]
        self.k.store(name, t.offset(index), self.k.cast(value, t.dtype))

    @contextmanager
    def _loops(
        self, name: str, sizes: Shape, kind: str, innermost: list[Sym]
    ) -> Iterator[list[Size]]:
        with ExitStack() as stack:
            at: list[Size] = []
            for size in sizes:
                at.append(stack.enter_context(self.k.loop(name, size, kind=kind)))
            if at:
                (sym,) = symbols_of(at[-1])
                innermost.append(sym)
            yield at
