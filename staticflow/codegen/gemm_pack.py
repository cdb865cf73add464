"""Matrix products that copy B first.

By rows, if it lies by columns, which tiles cannot read. By columns, if they are so few that dot
products are faster. And in panels, in the order in which tiles read it, one block of the inner
dimension after the other, if a matrix is too large for the cache: then what the blocks before have
summed up waits in the workspace, and only the tiles of the last block run the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm_dot import emit_dots
from staticflow.codegen.gemm_plan import Panel, Span
from staticflow.codegen.gemm_tile import (
    Epilogue,
    Matrix,
    Piece,
    Product,
    Workspace,
    each,
    emit_tile,
    emit_tiles,
    finish,
)
from staticflow.codegen.kernel import LANE
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min

__all__ = [
    "BLOCK",
    "by_columns_scratch",
    "by_rows_scratch",
    "emit_by_columns",
    "emit_by_rows",
    "emit_panelled",
    "panelled_scratch",
]

BLOCK = 512  # rows of B in a block: a panel of them stays in the second-level cache
_PAGES = 128  # columns of A in a block, if each lies in another page
_STRIP = 4  # columns copied side by side; more would compete for the same places of the cache


# -- a copy by rows or by columns --------------------------------------------------------------


def by_rows_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_by_rows` needs."""
    return p.depth * _row_length(p)


def _row_length(p: Product) -> Size:
    """A row of the copy, and a gap so that rows do not lie a power of two apart."""
    return ceil_div(p.n, p.lanes) * p.lanes + p.lanes


def emit_by_rows(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product, as tiles over a copy of B by rows."""
    to = Matrix(scratch.buffer, scratch.base, _row_length(p), 1)
    _copy_columns(k, p.b, to, p.depth, 0, p.n)
    emit_tiles(k, replace(p, b=to), epilogue, p.blocks)


def by_columns_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_by_columns` needs."""
    return p.depth * p.n


def emit_by_columns(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product, as dot products with a copy of B by columns; ``p.a.col`` is 1."""
    to = Matrix(scratch.buffer, scratch.base, 1, p.depth)
    _copy_columns(k, p.b.transposed, to.transposed, p.n, 0, p.depth)
    emit_dots(k, replace(p, b=to), epilogue)


def _copy_columns(k: Builder, source: Matrix, to: Matrix, rows: Size, lo: Size, hi: Size) -> None:
    """Copy columns ``lo..hi`` of some rows; elements of a row lie apart in the source."""
    cut = lo + (hi - lo) // _STRIP * _STRIP
    for span, lanes in ((Span(lo, cut, _STRIP), _STRIP), (Span(cut, hi, 1), 1)):
        for j in each(k, "j", span, "parallel"):
            at = j + LANE if lanes > 1 else j
            for i in each(k, "i", Span(0, rows, 1)):
                k.store(to.buffer, to.at(i, at), k.load(source.buffer, source.at(i, at), lanes))


# -- a copy in panels --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """The workspace: ``depth`` rows of B, each of ``width`` elements, in panels; then, if it takes
    several such ``blocks`` to cover the inner dimension, partial sums in rows of ``width``."""

    scratch: Workspace
    depth: int
    blocks: Size
    width: int

    @property
    def sums(self) -> Matrix:
        """The partial sums, shaped like C."""
        base = self.scratch.base + self.depth * self.width
        return Matrix(self.scratch.buffer, base, self.width, 1)

    def panel(self, panel: Panel, col: Size) -> Matrix:
        """The copy of B, as far as it is in the panel that starts at column ``col``."""
        base = self.scratch.base + col * self.depth - col
        return Matrix(self.scratch.buffer, base, panel.width, 1)


def _layout(p: Product, scratch: Workspace) -> _Layout:
    assert isinstance(p.n, int), "panels are for a known number of columns"
    width = -(-p.n // p.lanes) * p.lanes
    most = BLOCK if p.a.col == 1 else _PAGES
    if not isinstance(p.depth, int):
        return _Layout(scratch, most, dim_max(1, ceil_div(p.depth, most)), width)
    blocks = -(-p.depth // most)
    return _Layout(scratch, -(-p.depth // blocks), blocks, width)


def panelled_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_panelled` needs."""
    layout = _layout(p, Workspace(""))
    return layout.depth * layout.width + (p.m * layout.width if layout.blocks != 1 else 0)


def emit_panelled(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product, as tiles over a copy of B in panels; ``p.n`` is known."""
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
            if p.b.col == 1:
                for col in each(k, "j", columns, "parallel"):
                    _copy_panel(k, here, layout.panel(panel, col), panel, col)
            else:
                for col in each(k, "j", columns, "parallel"):
                    end = dim_min(col + panel.width, p.n)
                    _copy_columns(k, here.b, layout.panel(panel, col), here.depth, col, end)
        for span, rows in p.blocks:
            for row in each(k, "i", span, "parallel"):
                for columns, panel in p.main_panels:
                    for col in each(k, "j", columns):
                        packed = replace(here, b=layout.panel(panel, col))
                        padded = p.b.col == 1
                        pieces = emit_tile(k, packed, rows, panel, row, col, padded=padded)
                        _finish(k, layout, block, pieces, epilogue)


def _copy_panel(k: Builder, p: Product, to: Matrix, panel: Panel, col: Size) -> None:
    """Copy the columns of a panel, with zeros past the last column of B."""
    for kk in each(k, "k", Span(0, p.depth, 1)):
        for j, lanes, bound in panel.columns(col, p.n):
            k.store(to.buffer, to.at(kk, j), k.load(p.b.buffer, p.b.at(kk, j), lanes, bound))


def _finish(
    k: Builder, layout: _Layout, block: Size, pieces: list[Piece], epilogue: Epilogue
) -> None:
    """Add what the blocks before have summed up; then end, or leave the sums for the next block."""
    if layout.blocks == 1:
        finish(k, epilogue, pieces)
        return
    number, last = k.index_value(block), k.index_value(layout.blocks - 1)
    totals = [k.var(piece.acc) for piece in pieces]
    places = [layout.sums.at(piece.row, piece.col) for piece in pieces]
    with k.when(k.compare("gt", number, 0)):
        for total, place in zip(totals, places, strict=True):
            k.accumulate(total, "add", k.load(layout.scratch.buffer, place, total.lanes))
    with k.when(k.compare("lt", number, last)):
        for total, place in zip(totals, places, strict=True):
            k.store(layout.scratch.buffer, place, total)
    with k.when(k.compare("eq", number, last)):
        finish(k, epilogue, [replace(p, acc=t) for p, t in zip(pieces, totals, strict=True)])
