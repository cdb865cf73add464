"""Sums over windows, as tiles of accumulators over the operands where they lie.

The matrix of all windows is never made. Vectors run along the last dim, in which neighbouring
windows are neighbours in memory. For the result of a correlation a tile is some channels by some
rows by a `Panel` of positions, and each step multiplies elements of the kernel by vectors of the
input. For the kernel a tile is some channels by some offsets, and each step multiplies vectors of
both operands; lanes are added up at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import (
    Column,
    Span,
    column_panels,
    divisor,
    main_rows,
    register_count,
    row_blocks,
)
from staticflow.codegen.gemm.tile import each, multiply_add
from staticflow.codegen.kernel import LANE, LANE_SYM, Operand, Reg
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, ceil_div, prod
from staticflow.graph.dtypes import DType, int64
from staticflow.graph.node import Node
from staticflow.graph.proofs import is_provably_ge
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Index
from staticflow.passes.access import source_of

__all__ = ["emit_correlate", "emit_correlate_kernel"]

Finish = Callable[[Operand, Index, int, Size | None], None]
"""``finish(value, index, lanes, bound)`` takes a complete vector of the result; those lanes at or
past ``bound`` are off."""

_UNROLLED = 8  # offsets of the last dim of a window that are written out
_MOST_ROWS = 4  # rows of positions in a tile
_OFFSETS = 5  # offsets in a tile of the kernel
_PART = 128  # products that a lane adds up, before the sum goes into the total
_DEEP = 1024  # products that make a result without parts, as a product of matrices does


@dataclass(frozen=True, slots=True)
class _Array:
    """An operand: the buffer behind it and where its elements are."""

    node: Node
    names: Mapping[Node, str]

    @property
    def shape(self) -> Shape:
        return self.node.tensor_type.shape

    def load(self, k: Builder, index: Index, lanes: int = 1, bound: Size | None = None) -> Operand:
        """The element at ``index``, or those of several lanes."""
        source, source_index = source_of(self.node, index)
        at = source.tensor_type.offset(source_index)
        if LANE_SYM not in symbols_of(at):
            return k.splat(k.load(self.names[source], at), lanes)
        return k.load(self.names[source], at, lanes, bound)


@dataclass(frozen=True, slots=True)
class _Work:
    """What both loop nests know: the builder, the machine, and how windows lie."""

    k: Builder
    target: Target
    dtype: DType
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def lanes(self) -> int:
        """Elements of the widest vector."""
        return self.target.vector_bits // self.dtype.bits

    @property
    def registers(self) -> int:
        """Vector registers that a tile may use."""
        return register_count(self.target)

    def zero(self, lanes: int) -> Reg:
        """An accumulator."""
        return self.k.var(self.k.const(0.0, self.dtype, lanes))

    def add_product(self, total: Reg, x: Operand, y: Operand) -> None:
        """``total += x * y``."""
        self.k.set(total, multiply_add(self.k, self.target, x, y, total))

    def at_offset(self, position: Sequence[Size], offset: Sequence[Size]) -> Index:
        """Where a window at ``position`` has its element ``offset``."""
        steps = zip(position, offset, self.stride, self.dilation, strict=True)
        return tuple(p * s + o * d for p, o, s, d in steps)

    @contextmanager
    def loops(self, name: str, sizes: Shape, kind: str = "serial") -> Iterator[Index]:
        """Loops over every index of ``sizes``."""
        with ExitStack() as stack:
            yield tuple(
                0 if d == 1 else stack.enter_context(self.k.loop(name, d, kind=kind)) for d in sizes
            )


def _work(k: Scalars, node: Node, target: Target) -> _Work:
    attrs = node.attrs
    return _Work(k, target, node.tensor_type.dtype, attrs["stride"], attrs["dilation"])


def _cut(size: Size, most: int) -> list[tuple[Span, int]]:
    """``most`` at a time, or fewer if that divides a known size, and the rest one by one."""
    if isinstance(size, int):
        most = divisor(size, max(1, min(most, size)), max(1, most // 2))
    full = size // most * most
    return [(Span(0, full, most), most), (Span(full, size, 1), 1)]


def _unroll_spans(size: Size, most: int) -> list[tuple[Span, int]]:
    """A small known size as one step, a larger or unknown one in steps and a rest."""
    if isinstance(size, int) and 0 < size <= most:
        return [(Span(0, size, size), size)]
    return _cut(size, most)


# -- the result of a correlation ----------------------------------------------------------------


def emit_correlate(
    k: Scalars, node: Node, names: Mapping[Node, str], target: Target, finish: Finish
) -> None:
    """Every element of ``node``, handed to ``finish``."""
    work = _work(k, node, target)
    x, w = (_Array(a, names) for a in node.args)
    groups: int = node.attrs["groups"]
    batch, channels, *positions = node.tensor_type.shape
    per_group = channels // groups
    *outer, last = positions
    rows: Size = outer.pop() if outer else 1
    usual = min(per_group, main_rows(target)) if isinstance(per_group, int) else main_rows(target)
    panels = column_panels(last, work.lanes, target, usual)
    widest = max((len(p.lanes) for _, p in panels), default=1)
    fit = (work.registers - 1) // ((usual + 1) * widest)  # the rule of `gemm.plan`
    with (
        work.loops("n", (batch,), "parallel") as (n,),
        work.loops("g", (groups,), "parallel") as (g,),
        work.loops("z", tuple(outer), "parallel") as lead,
    ):
        for row_span, height in _cut(rows, max(1, min(fit, _MOST_ROWS))):
            for y in each(k, "y", row_span, "parallel"):
                for columns, panel in panels:
                    for col in each(k, "x", columns):
                        for span, count in row_blocks(per_group, target, widest * height):
                            for o in each(k, "o", span):
                                base = g * w.shape[1]
                                tile = _Tile(n, g * per_group + o, count, base, lead, y, height)
                                _emit_tile(work, x, w, tile, panel.columns(col, last), finish)


@dataclass(frozen=True, slots=True)
class _Tile:
    """``count`` channels from ``o`` on, made of the input's channels from ``base`` on; ``height``
    rows from ``y`` on."""

    n: Size
    o: Size
    count: int
    base: Size
    lead: Index
    y: Size
    height: int


def _emit_tile(
    work: _Work, x: _Array, w: _Array, tile: _Tile, columns: list[Column], finish: Finish
) -> None:
    k = work.k
    positions = [
        ((*tile.lead, tile.y + r, at)[-len(work.stride) :], lanes, bound)
        for r in range(tile.height)
        for at, lanes, bound in columns
    ]
    sums = [[work.zero(lanes) for _, lanes, _ in positions] for _ in range(tile.count)]
    _, depth, *kernel = w.shape

    def step(c: Size, offset: Index) -> None:
        vectors = [
            x.load(k, (tile.n, tile.base + c, *work.at_offset(at, offset)), lanes, bound)
            for at, lanes, bound in positions
        ]
        for r in range(tile.count):
            weight = w.load(k, (tile.o + r, c, *offset))
            for total, vector in zip(sums[r], vectors, strict=True):
                work.add_product(total, weight, vector)

    window = prod(kernel)
    parts = None if is_provably_ge(_DEEP, depth * window) else _Parts(work, sums)
    small = is_provably_ge(_PART, window)
    with work.loops("c", (depth,)) as (c,):
        with work.loops("k", tuple(kernel[:-1])) as head:
            for span, unroll in _unroll_spans(kernel[-1], _UNROLLED):
                for first in each(k, "k", span):
                    for i in range(unroll):
                        step(c, (*head, first + i))
                    if parts is not None and not small:
                        parts.add(unroll)
        if parts is not None and small:
            parts.add(window)
    if parts is not None:
        parts.end()
        sums = parts.totals
    for r, row in enumerate(sums):
        for (at, lanes, bound), total in zip(positions, row, strict=True):
            finish(total, (tile.n, tile.o + r, *at), lanes, bound)


# -- the kernel ---------------------------------------------------------------------------------


def emit_correlate_kernel(
    k: Scalars, node: Node, names: Mapping[Node, str], target: Target, finish: Finish
) -> None:
    """Every element of ``node``, handed to ``finish`` one by one."""
    work = _work(k, node, target)
    x, y = (_Array(a, names) for a in node.args)
    groups: int = node.attrs["groups"]
    channels, depth, *kernel = node.tensor_type.shape
    per_group = channels // groups
    offsets = _unroll_spans(kernel[-1], _OFFSETS)
    wide = max(unroll for _, unroll in offsets)
    deep = _cut(depth, max(1, _OFFSETS // wide))
    most = max(count for _, count in deep) * wide
    high = max(1, min((work.registers - most) // (most + 1), main_rows(target)))
    with work.loops("g", (groups,), "parallel") as (g,):
        for o_span, count in _rows_of_tiles(per_group, high, most):
            for o in each(k, "o", o_span, "parallel"):
                for c_span, layers in deep:
                    for c in each(k, "c", c_span, "parallel"):
                        with work.loops("k", tuple(kernel[:-1]), "parallel") as head:
                            for span, unroll in offsets:
                                for first in each(k, "k", span):
                                    window = [
                                        (c + i, (*head, first + j))
                                        for i in range(layers)
                                        for j in range(unroll)
                                    ]
                                    tile = _KernelTile(g * per_group + o, count, g * depth, window)
                                    _emit_kernel_tile(work, x, y, tile, finish)


def _rows_of_tiles(channels: Size, most: int, wide: int) -> list[tuple[Span, int]]:
    """The cut of ``channels`` that takes the least time, if a tile of r rows takes as many steps as
    it has products, or two for each vector that it loads; what is left over goes one by one."""

    def steps(rows: int) -> int:
        return max(rows * wide, 2 * (rows + wide))

    if not isinstance(channels, int):
        return _cut(channels, most)
    best = min(
        range(min(most, max(channels, 1)), 0, -1),
        key=lambda r: channels // r * steps(r) + channels % r * steps(1),
    )
    full = channels // best * best
    return [(Span(0, full, best), best), (Span(full, channels, 1), 1)]


@dataclass(frozen=True, slots=True)
class _KernelTile:
    """``count`` channels from ``o`` on, by ``window``: channels of the input behind ``base``, each
    with an offset."""

    o: Size
    count: int
    base: Size
    window: list[tuple[Size, Index]]


def _emit_kernel_tile(work: _Work, x: _Array, y: _Array, tile: _KernelTile, finish: Finish) -> None:
    k, lanes = work.k, work.lanes
    batch, _, *positions = y.shape
    *outer, last = positions
    sums = [[work.zero(lanes) for _ in tile.window] for _ in range(tile.count)]

    def step(n: Size, at: Index, bound: Size | None) -> None:
        right = [
            x.load(k, (n, tile.base + c, *work.at_offset(at, offset)), lanes, bound)
            for c, offset in tile.window
        ]
        for r in range(tile.count):
            left = y.load(k, (n, tile.o + r, *at), lanes, bound)
            for total, vector in zip(sums[r], right, strict=True):
                work.add_product(total, left, vector)

    whole = last // lanes * lanes
    block = _PART * lanes
    full = last // block * block
    parts = _Parts(work, sums)
    with work.loops("n", (batch,)) as (n,), work.loops("y", tuple(outer)) as lead:
        for start in each(k, "part", Span(0, full, block)):
            for at in each(k, "x", Span(start, start + block, lanes)):
                step(n, (*lead, at + LANE), None)
            parts.end()
        for at in each(k, "x", Span(full, whole, lanes)):
            step(n, (*lead, at + LANE), None)
        for at in each(k, "x", Span(whole, last, lanes)):
            step(n, (*lead, at + LANE), last - at)
        parts.add(ceil_div(last - full, lanes))
    parts.end()
    for r in range(tile.count):
        for (c, offset), total in zip(tile.window, parts.totals[r], strict=True):
            finish(k.fold("add", total), (tile.o + r, c, *offset), 1, None)


class _Parts:
    """Totals of sums that are added up in parts of about `_PART` products a lane, since one sum of
    many floats loses digits with each of them."""

    def __init__(self, work: _Work, sums: list[list[Reg]]) -> None:
        k = self.k = work.k
        self.sums = sums
        self.totals = [[work.zero(part.lanes) for part in row] for row in sums]
        self.added = k.var(k.const(0, int64))

    def add(self, steps: Size) -> None:
        """Counts ``steps`` more products a lane; if they make a part, it ends."""
        k = self.k
        k.set(self.added, k.add(self.added, k.index_value(steps)))
        with k.when(k.compare("ge", self.added, _PART)):
            self.end()
            k.set(self.added, k.const(0, int64))

    def end(self) -> None:
        """Ends a part: adds the sums to the totals and sets them to 0."""
        k = self.k
        for row, totals in zip(self.sums, self.totals, strict=True):
            for part, total in zip(row, totals, strict=True):
                k.set(total, k.add(total, part))
                k.set(part, k.const(0.0, part.dtype, part.lanes))
