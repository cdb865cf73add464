"""Matrix products that copy B first.

A B by columns, which tiles cannot read, is copied by rows. A B too large for the cache is copied in
panels, as tiles read it, one block of the inner dimension after the other. What the blocks before
have summed up waits in the workspace, and only the tiles of the last block run the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm_plan import Panel, Span
from staticflow.codegen.gemm_tile import (
    Epilogue,
    Matrix,
    Piece,
    Product,
    each,
    emit_tile,
    emit_tiles,
    finish,
)
from staticflow.codegen.kernel import LANE
from staticflow.graph.dims import Size, ceil_div, dim_min

__all__ = ["emit_panelled", "emit_transposed", "panelled_scratch", "transposed_scratch"]

_BLOCK = 512  # rows of B in a block: a panel of them stays in the second-level cache
_ROWS = 160  # rows of A that pass all panels together: they stay there too
_STRIP = 4  # columns copied side by side; more would compete for the same places of the cache


# -- a copy by rows ----------------------------------------------------------------------------


def transposed_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_transposed` needs."""
    return p.depth * _row_length(p)


def _row_length(p: Product) -> Size:
    """A row of the copy, and a gap so that rows do not lie a power of two apart."""
    return ceil_div(p.n, p.lanes) * p.lanes + p.lanes


def emit_transposed(
    k: Builder, p: Product, scratch: str, epilogue: Epilogue, blocks: list[tuple[Span, int]]
) -> None:
    """The rows of ``blocks``, over a copy of B by rows."""
    to = Matrix(scratch, 0, _row_length(p), 1)
    _copy_columns(k, p, to, 0, p.n)
    emit_tiles(k, replace(p, b=to), epilogue, blocks)


def _copy_columns(k: Builder, p: Product, to: Matrix, lo: Size, hi: Size) -> None:
    """Copy columns ``lo..hi`` of B, which lie apart in its rows."""
    cut = lo + (hi - lo) // _STRIP * _STRIP
    for span, lanes in ((Span(lo, cut, _STRIP), _STRIP), (Span(cut, hi, 1), 1)):
        for j in each(k, "j", span, "parallel"):
            at = j + LANE if lanes > 1 else j
            for kk in each(k, "k", Span(0, p.depth, 1)):
                k.store(to.buffer, to.at(kk, at), k.load(p.b.buffer, p.b.at(kk, at), lanes))


# -- a copy in panels --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """The workspace: ``depth`` rows of B, each of ``width`` elements, in panels; then, if it takes
    several such ``blocks`` to cover the inner dimension, partial sums in rows of ``width``."""

    buffer: str
    depth: int
    blocks: int
    width: int

    @property
    def sums(self) -> Matrix:
        """The partial sums, shaped like C."""
        return Matrix(self.buffer, self.depth * self.width, self.width, 1)

    def panel(self, panel: Panel, col: Size) -> Matrix:
        """The copy of B, as far as it is in the panel that starts at column ``col``."""
        return Matrix(self.buffer, col * self.depth - col, panel.width, 1)


def _layout(p: Product, scratch: str) -> _Layout:
    assert isinstance(p.n, int) and isinstance(p.depth, int), "panels are for a B of known size"
    blocks = -(-p.depth // _BLOCK)
    return _Layout(scratch, -(-p.depth // blocks), blocks, -(-p.n // p.lanes) * p.lanes)


def panelled_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_panelled` needs."""
    layout = _layout(p, "")
    return layout.depth * layout.width + (p.m * layout.width if layout.blocks > 1 else 0)


def emit_panelled(
    k: Builder, p: Product, scratch: str, epilogue: Epilogue, blocks: list[tuple[Span, int]]
) -> None:
    """The rows of ``blocks``, over a copy of B in panels; ``p.n`` and ``p.depth`` are known."""
    layout = _layout(p, scratch)
    for block in each(k, "block", Span(0, layout.blocks, 1)):
        start = block * layout.depth
        here = replace(
            p,
            a=replace(p.a, base=p.a.at(0, start)),
            b=replace(p.b, base=p.b.at(start, 0)),
            depth=dim_min(layout.depth, p.depth - start),
        )
        for columns, panel in p.main_panels:
            for col in each(k, "j", columns, "parallel"):
                _pack(k, here, layout.panel(panel, col), panel, col)
        for span, rows in blocks:
            _multiply(k, here, layout, block, span, rows, epilogue)


def _pack(k: Builder, p: Product, to: Matrix, panel: Panel, col: Size) -> None:
    """Copy the columns of a panel."""
    if p.b.col != 1:
        _copy_columns(k, p, to, col, dim_min(col + panel.width, p.n))
        return
    for kk in each(k, "k", Span(0, p.depth, 1)):
        for j, lanes, bound in panel.columns(col, p.n):
            k.store(to.buffer, to.at(kk, j), k.load(p.b.buffer, p.b.at(kk, j), lanes, bound))


def _multiply(
    k: Builder,
    p: Product,
    layout: _Layout,
    block: Size,
    span: Span,
    rows: int,
    epilogue: Epilogue,
) -> None:
    """The tiles of one span of rows over the packed block, `_ROWS` rows at a time."""
    step = _ROWS // rows * rows
    for top in each(k, "top", Span(span.lo, span.hi, step), "parallel"):
        inside = Span(top, dim_min(top + step, span.hi), rows)
        for columns, panel in p.main_panels:
            for col in each(k, "j", columns):
                here = replace(p, b=layout.panel(panel, col))
                for row in each(k, "i", inside):
                    pieces = emit_tile(k, here, rows, panel, row, col, padded=p.b.col == 1)
                    if layout.blocks == 1:
                        finish(k, epilogue, pieces)
                    else:
                        _carry(k, layout, block, pieces, epilogue)


def _carry(
    k: Builder, layout: _Layout, block: Size, pieces: list[Piece], epilogue: Epilogue
) -> None:
    """Add what the blocks before have summed up; then finish, or leave the sums for the next."""
    number, last = k.index_value(block), layout.blocks - 1
    totals = [k.var(piece.acc) for piece in pieces]
    places = [layout.sums.at(piece.row, piece.col) for piece in pieces]
    with k.when(k.compare("gt", number, 0)):
        for total, place in zip(totals, places, strict=True):
            k.accumulate(total, "add", k.load(layout.buffer, place, total.lanes))
    with k.when(k.compare("lt", number, last)):
        for total, place in zip(totals, places, strict=True):
            k.store(layout.buffer, place, total)
    with k.when(k.compare("eq", number, last)):
        finish(k, epilogue, [replace(p, acc=t) for p, t in zip(pieces, totals, strict=True)])
