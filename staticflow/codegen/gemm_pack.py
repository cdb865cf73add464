"""Matrix products that first copy B into panels, as tiles read it: row after row of one panel.

For a B by columns, which tiles cannot read, and for one too large for the cache. The copy holds a
block of the inner dimension; where one block is not all of it, what the blocks before have summed up
waits in the workspace, and only the last block's tiles run the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm_plan import Panel, Span
from staticflow.codegen.gemm_tile import (
    Epilogue,
    Matrix,
    Piece,
    Product,
    each,
    emit_tile,
    finish,
)
from staticflow.graph.dims import Size, ceil_div, dim_min

__all__ = ["emit_packed", "packed_scratch"]

_BLOCK = 512  # rows of B in a block: a panel of them stays in the second-level cache
_ROWS = 160  # rows of A that are passed through all panels together: they stay there too


@dataclass(frozen=True, slots=True)
class _Layout:
    """The workspace: ``depth`` rows of B, each of ``width`` elements, in panels; then, if it takes
    ``blocks`` such blocks to cover the inner dimension, partial sums in rows of ``width``."""

    depth: Size
    blocks: Size
    width: Size

    @property
    def sums(self) -> Size:
        """Where the partial sums start."""
        return self.depth * self.width

    def panel(self, scratch: str, panel: Panel, col: Size) -> Matrix:
        """The copy of B as far as it is in the panel that starts at column ``col``."""
        return Matrix(scratch, col * self.depth - col, panel.width, 1)

    def sum_at(self, piece: Piece) -> Size:
        """Where the partial sums of a piece are."""
        return self.sums + piece.row * self.width + piece.col


def _layout(p: Product) -> _Layout:
    blocks = max(1, ceil_div(p.depth, _BLOCK)) if isinstance(p.depth, int) else 1
    return _Layout(ceil_div(p.depth, blocks), blocks, ceil_div(p.n, p.lanes) * p.lanes)


def packed_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_packed` needs."""
    layout = _layout(p)
    return layout.sums + (p.m * layout.width if layout.blocks != 1 else 0)


def emit_packed(k: Builder, p: Product, scratch: str, epilogue: Epilogue) -> None:
    """The whole product."""
    layout = _layout(p)

    def block(number: Size) -> None:
        start = number * layout.depth
        here = replace(
            p,
            a=replace(p.a, base=p.a.at(0, start)),
            b=replace(p.b, base=p.b.at(start, 0)),
            depth=dim_min(layout.depth, p.depth - start),
        )
        _pack(k, here, layout, scratch)
        if layout.blocks == 1:
            _multiply(k, here, layout, scratch, partial(finish, k, epilogue))
        else:
            _multiply(k, here, layout, scratch, partial(_carry, k, layout, scratch, number, epilogue))

    each(k, "block", Span(0, layout.blocks, 1), block)


def _pack(k: Builder, p: Product, layout: _Layout, scratch: str) -> None:
    """Copy ``p.depth`` rows of B. Columns past the last are zero."""

    def panel_from(col: Size, panel: Panel) -> None:
        to = layout.panel(scratch, panel, col)
        with k.loop("k", p.depth) as kk:
            for at, lanes, bound in panel.columns(col, p.n):
                k.store(scratch, to.at(kk, at), k.load(p.b.buffer, p.b.at(kk, at), lanes, bound))

    for span, panel in p.main_panels:
        each(k, "j", span, partial(panel_from, panel=panel), kind="parallel")


def _multiply(
    k: Builder, p: Product, layout: _Layout, scratch: str, end: Callable[[list[Piece]], None]
) -> None:
    """All tiles of C over the packed rows, `_ROWS` rows of A at a time."""

    def tiles(top: Size, span: Span, rows: int, step: int) -> None:
        inside = Span(top, dim_min(top + step, span.hi), rows)
        for columns, panel in p.main_panels:

            def down(col: Size, panel: Panel = panel) -> None:
                here = replace(p, b=layout.panel(scratch, panel, col))
                each(
                    k, "i", inside,
                    lambda row: end(emit_tile(k, here, rows, panel, row, col, padded=True)),
                )  # fmt: skip

            each(k, "j", columns, down)

    for span, rows in p.blocks:
        step = max(1, _ROWS // rows) * rows
        outer = Span(span.lo, span.hi, step)
        each(k, "top", outer, partial(tiles, span=span, rows=rows, step=step), kind="parallel")


def _carry(
    k: Builder,
    layout: _Layout,
    scratch: str,
    number: Size,
    epilogue: Epilogue,
    pieces: list[Piece],
) -> None:
    """Add what the blocks before have summed up; then finish, or leave the sums for the next."""
    pieces = [replace(piece, acc=k.var(piece.acc)) for piece in pieces]
    block = k.index_value(number)
    with k.when(k.compare("gt", block, 0)):
        for piece in pieces:
            k.accumulate(piece.acc, "add", k.load(scratch, layout.sum_at(piece), piece.lanes))
    last = layout.blocks - 1
    with k.when(k.compare("lt", block, last)):
        for piece in pieces:
            k.store(scratch, layout.sum_at(piece), piece.acc)
    with k.when(k.compare("ge", block, last)):
        finish(k, epilogue, pieces)
