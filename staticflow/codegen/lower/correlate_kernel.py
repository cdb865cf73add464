"""The kernel of a correlation, which is the gradient by a weight, as dot products.

Vectors run along the last dim of both operands, which lie where they are. A tile is some channels
by some offsets; lanes are added up at the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.codegen.gemm.plan import Span, main_rows
from staticflow.codegen.gemm.tile import each
from staticflow.codegen.kernel import LANE
from staticflow.codegen.lower.kernel_products import emit_kernel_products, is_product
from staticflow.codegen.lower.windows import (
    PART,
    Array,
    Finish,
    Parts,
    Work,
    cut_spans,
    unroll_spans,
    work_of,
)
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import Index

__all__ = ["emit_correlate_kernel"]

_OFFSETS = 5  # offsets in a tile of the kernel


def emit_correlate_kernel(
    k: Scalars, node: Node, names: Mapping[Node, str], target: Target, finish: Finish
) -> Size:
    """Every element of ``node``, handed to ``finish``; gives the elements of workspace."""
    if is_product(node):
        return emit_kernel_products(k, node, names, target, finish)
    _emit_dots(k, node, names, target, finish)
    return 0


def _emit_dots(
    k: Scalars, node: Node, names: Mapping[Node, str], target: Target, finish: Finish
) -> None:
    """Every element of ``node``, one by one."""
    work = work_of(k, node, target)
    x, y = (Array(a, names) for a in node.args)
    groups: int = node.attrs["groups"]
    channels, depth, *kernel = node.tensor_type.shape
    per_group = channels // groups
    offsets = unroll_spans(kernel[-1], _OFFSETS)
    wide = max(unroll for _, unroll in offsets)
    deep = cut_spans(depth, max(1, _OFFSETS // wide))
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
        return cut_spans(channels, most)
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


def _emit_kernel_tile(work: Work, x: Array, y: Array, tile: _KernelTile, finish: Finish) -> None:
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
    block = PART * lanes
    full = last // block * block
    parts = Parts(work, sums)
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
