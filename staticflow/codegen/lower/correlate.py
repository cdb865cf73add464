"""The result of a correlation, as tiles of accumulators over the operands where they lie.

The matrix of all windows is never made. Vectors run along the last dim, in which neighbouring
windows are neighbours in memory. A tile is some channels by some rows by a `Panel` of positions,
and each step multiplies elements of the kernel by vectors of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from staticflow.codegen.gemm.plan import Column, Panel, Span, column_panels, main_rows, row_blocks
from staticflow.codegen.gemm.tile import each
from staticflow.codegen.lower.tasks import bind_index, enough_tasks
from staticflow.codegen.lower.window_products import emit_window_products, is_window_product
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
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, prod
from staticflow.graph.node import Node
from staticflow.graph.proofs import is_provably_ge
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Index, linear

__all__ = ["emit_correlate"]

_UNROLLED = 8  # offsets of a dim of a window that are written out
_MOST_ROWS = 4  # rows of positions in a tile
_BLOCK = 1 << 16  # elements of the input that are gone through again and again
_DEEP = 1024  # products that make a result without parts, as a product of matrices does


def emit_correlate(
    k: Scalars, node: Node, names: Mapping[Node, str], target: Target, finish: Finish
) -> Size:
    """Every element of ``node``, handed to ``finish``; gives the elements of workspace."""
    if is_window_product(node, target):
        return emit_window_products(k, node, names, target, finish)
    work = work_of(k, node, target)
    x, w = (Array(a, names) for a in node.args)
    groups: int = node.attrs["groups"]
    batch, channels, *positions = node.tensor_type.shape
    per_group = channels // groups
    *outer, last = positions
    rows: Size = outer.pop() if outer else 1
    usual = min(per_group, main_rows(target)) if isinstance(per_group, int) else main_rows(target)
    panels = column_panels(last, work.lanes, target, usual, pairs=False)
    widest = max((len(p.lanes) for _, p in panels), default=1)
    fit = (work.registers - 1) // ((usual + 1) * widest)  # the rule of `gemm.plan`
    per = _rows_per_block(work, x, w, batch * groups * prod(outer), rows) if per_group != 1 else 1
    with (
        work.loops("n", (batch,), "parallel") as (n,),
        work.loops("g", (groups,), "parallel") as (g,),
        work.loops("z", tuple(outer), "parallel") as lead,
    ):
        for row_span, height in cut_spans(rows, max(1, min(fit, _MOST_ROWS))):
            for block in _blocks(k, row_span, per):
                for at in _columns(k, panels, last):
                    for o, count in _channels(k, per_group, target, widest * height):
                        for y in each(k, "y", block):
                            base = g * w.shape[1]
                            tile = _Tile(n, g * per_group + o, count, base, lead, y, height)
                            _emit_tile(work, x, w, node.tensor_type.shape, tile, at, finish)
    return 0


def _rows_per_block(work: Work, x: Array, w: Array, others: Size, rows: Size) -> Size:
    """How many of the ``rows`` of positions, of which there are so many ``others``, are a block:
    their part of the input stays in a cache while channel after channel of the output is made of
    it, which reads the weight once a block; and threads have enough blocks."""
    k = work.k
    step = work.stride[-2] if len(work.stride) > 1 else 1
    most = dim_max(1, dim_min(rows, _BLOCK // dim_max(1, w.shape[1] * x.shape[-1] * step)))
    if most == 1:
        return 1
    even = ceil_div(others * rows, enough_tasks(k))
    return bind_index(k, dim_max(1, dim_min(most, even)), rows + 1)


def _blocks(k: Scalars, span: Span, per: Size) -> Iterator[Span]:
    """Loops over blocks of about ``per`` of the rows of ``span``."""
    if per == 1:
        for lo in each(k, "y", span, "parallel"):
            yield Span(lo, lo + span.step, span.step)
        return
    step = dim_max(1, per // span.step) * span.step
    for block in each(k, "block", Span(0, ceil_div(span.hi - span.lo, step), 1), "parallel"):
        lo = span.lo + block * step
        yield Span(lo, dim_min(lo + step, span.hi), span.step)


def _columns(
    k: Scalars, panels: Sequence[tuple[Span, Panel]], last: Size
) -> Iterator[list[Column]]:
    """Loops over the ``last`` positions of a row, some vectors at a time."""
    for span, panel in panels:
        for col in each(k, "x", span):
            yield panel.columns(col, last)


def _channels(
    k: Scalars, channels: Size, target: Target, vectors: int
) -> Iterator[tuple[Size, int]]:
    """Loops over channels of the output, as many at a time as fit into registers where each takes
    so many ``vectors``; give the first and how many there are."""
    for span, count in row_blocks(channels, target, vectors):
        for o in each(k, "o", span):
            yield o, count


def _rows_written_out(kernel: Sequence[Size]) -> int:
    """How many rows of a kernel are written out, one below the other: what one of them loads for a
    row of positions the next loads for the one above, and that is the same value. 0 of a kernel of
    one row, of many, or of an unknown number."""
    rows = kernel[-2] if len(kernel) > 1 else 1
    return rows if isinstance(rows, int) and 1 < rows <= _UNROLLED else 0


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
    work: Work,
    x: Array,
    w: Array,
    shape: Shape,
    tile: _Tile,
    columns: list[Column],
    finish: Finish,
) -> None:
    """The sums of a tile of a result of that ``shape``, and what is done with them: row by row in a
    loop, where that is long."""
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
    parts = None if is_provably_ge(_DEEP, depth * window) else Parts(work, sums)
    small = is_provably_ge(PART, window)
    rows = _rows_written_out(kernel) if tile.count == 1 and parts is None else 0
    with work.loops("c", (depth,)) as (c,):
        if rows:
            with work.loops("k", (*kernel[:-2], kernel[-1])) as at:
                for down in range(rows):
                    step(c, (*at[:-1], down, at[-1]))
        else:
            with work.loops("k", tuple(kernel[:-1])) as head:
                for span, unroll in unroll_spans(kernel[-1], _UNROLLED):
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
    pieces = [
        (total, (tile.n, tile.o + r, *at), lanes, bound)
        for r, row in enumerate(sums)
        for (at, lanes, bound), total in zip(positions, row, strict=True)
    ]
    if finish.waits is None or tile.count == 1:
        for piece in pieces:
            finish(*piece)
        return
    for total, index, _, bound in pieces:
        k.store(finish.waits, linear(index, shape), total, bound)
    with k.loop("r", tile.count) as r:
        places = [((tile.n, tile.o + r, *at), lanes, bound) for at, lanes, bound in positions]
        totals = [
            k.load(finish.waits, linear(index, shape), lanes, bound)
            for index, lanes, bound in places
        ]
        for value, place in zip(totals, places, strict=True):
            finish(value, *place)
