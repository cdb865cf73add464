"""A task of a product of large matrices: some rows of A by a chunk of the columns of B.

It takes the inner dimension block by block: the part of B is copied, in panels, in the order in
which tiles read it, so that neither pages nor places of a cache run out; then the rows of A pass
by, each tile of them meeting all panels. A is read where it is if it lies by rows; if it lies by
columns, a stripe of rows at a time is copied. What the blocks before have summed up waits beside
the copies; only the last block runs the epilogue.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.calls import bind_size
from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.cut import Cut, is_by_columns, stripe_of
from staticflow.codegen.gemm.plan import (
    Panel,
    Span,
    chunk_panels,
    main_rows,
    open_panels,
)
from staticflow.codegen.gemm.tile import (
    Epilogue,
    Matrix,
    Piece,
    Product,
    Workspace,
    each,
    emit_tile,
)
from staticflow.codegen.kernel import Operand
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min

__all__ = ["Task", "emit_task"]


def emit_task(
    k: Builder,
    p: Product,
    sums: Matrix,
    workspace: Workspace,
    top: Size,
    rows: Size,
    most_depth: Size,
) -> None:
    """The product of ``rows`` rows of A from ``top`` on and all columns of B, left in ``sums``,
    whose rows are as long as those of the copy of B may be."""
    tile, by_columns = main_rows(p.target), is_by_columns(p)
    cut = Cut(
        rows=rows,
        most_rows=rows,
        down=1,
        chunk=p.n,
        width=sums.row,
        across=1,
        depth=most_depth,
        most_depth=most_depth,
        blocks=dim_max(1, ceil_div(p.depth, dim_max(most_depth, 1))),
        groups=1,
        tile=tile,
        stripe=stripe_of(p, ceil_div(rows, tile) * tile),
    )
    Task(k, p, cut, workspace, sums, top, 0).emit(None)
    if by_columns:
        return
    # The last tile may have begun with earlier rows: its own are moved to where they belong.
    last = (rows - 1) // tile * tile
    earlier = bind_size(k, "earlier", dim_max(top + last + tile - p.m, 0), tile)
    with k.when(k.compare("gt", k.index_value(earlier), 0)):
        for r in each(k, "r", Span(last, rows, 1)):
            for columns, panel in open_panels(0, p.n, p.lanes, 1, p.target.masks):
                for col in each(k, "j", columns):
                    for j, lanes, bound in panel.columns(col, p.n):
                        moved = k.load(sums.buffer, sums.at(r + earlier, j), lanes, bound)
                        k.store(sums.buffer, sums.at(r, j), moved, bound)


class Task:
    """The rows of C from ``top`` on, and its columns from ``left`` on, as they are made in
    ``sums``."""

    def __init__(
        self,
        k: Builder,
        p: Product,
        cut: Cut,
        workspace: Workspace,
        sums: Matrix,
        top: Size,
        left: Size,
    ) -> None:
        self.k, self.p, self.cut, self.workspace = k, p, cut, workspace
        self.sums, self.top, self.left = sums, top, left
        self.rows = bind_size(k, "rows", dim_min(cut.rows, p.m - top), dim_min(cut.rows, p.m))
        most = dim_min(cut.width, p.n)
        width = bind_size(k, "width", dim_min(cut.chunk, p.n - left), most)
        self.panels = chunk_panels(p.n, left, width, p.lanes, p.target)

    def emit(self, epilogue: Epilogue | None) -> None:
        """Block by block; after the last, the epilogue, if there is one."""
        k, p, cut = self.k, self.p, self.cut
        for block in each(k, "block", Span(0, cut.blocks, 1)):
            start = block * cut.depth
            here = replace(
                p,
                a=replace(p.a, base=p.a.at(0, start)),
                b=replace(p.b, base=p.b.at(start, 0)),
                depth=bind_size(
                    k, "depth", dim_min(cut.depth, p.depth - start), dim_min(cut.depth, p.depth)
                ),
            )
            for columns, panel in self.panels:
                for col in each(k, "j", columns, "parallel"):
                    self._copy_panel(here, panel, col)
            if cut.stripe is None:
                self._emit_rows(here, self.top, self.rows, block, epilogue)
                continue
            bottom = self.top + self.rows
            for stripe in each(k, "stripe", Span(self.top, bottom, cut.stripe)):
                rows = bind_size(k, "rows", dim_min(cut.stripe, bottom - stripe), cut.stripe)
                self._copy_stripe(here, stripe, rows)
                self._emit_rows(here, stripe, rows, block, epilogue)

    # -- copies ------------------------------------------------------------------------------

    def _panel(self, panel: Panel, col: Size) -> Matrix:
        """The copy of B, as far as it is in the panel that starts at column ``col``."""
        base = self.workspace.base + (col - self.left) * self.cut.most_depth - col
        return Matrix(self.workspace.buffer, base, panel.width, 1)

    def _copy_panel(self, p: Product, panel: Panel, col: Size) -> None:
        """Copy the columns of a panel, with zeros past the last column of B if it lies by rows."""
        k, to = self.k, self._panel(panel, col)
        if p.b.col != 1:
            copy_columns(k, p.b, to, p.depth, col, dim_min(col + panel.width, p.n), p.lanes)
            return
        for kk in each(k, "k", Span(0, p.depth, 1)):
            for j, lanes, bound in panel.columns(col, p.n):
                k.store(to.buffer, to.at(kk, j), k.load(p.b.buffer, p.b.at(kk, j), lanes, bound))

    def _copy_at(self, stripe: Size, first: Size) -> Matrix:
        """The copy of the tile of A that begins with row ``first``, by columns."""
        base = self.workspace.base + self.cut.most_depth * (self.cut.width + first - stripe) - first
        return Matrix(self.workspace.buffer, base, 1, self.cut.tile)

    def _copy_stripe(self, p: Product, stripe: Size, rows: Size) -> None:
        """Copy some rows of A, all tiles side by side, with zeros past the last row."""
        k, tile = self.k, Panel((self.cut.tile,), partial=True)
        for kk in each(k, "k", Span(0, p.depth, 1)):
            for first in each(k, "i", Span(stripe, stripe + rows, tile.width)):
                to = self._copy_at(stripe, first)
                for row, lanes, bound in tile.columns(first, p.m):
                    column = k.load(p.a.buffer, p.a.at(row, kk), lanes, bound)
                    k.store(to.buffer, to.at(row, kk), column)

    # -- tiles -------------------------------------------------------------------------------

    def _emit_rows(
        self, p: Product, stripe: Size, rows: Size, block: Size, epilogue: Epilogue | None
    ) -> None:
        """The tiles of some rows from ``stripe`` on."""
        for first in each(self.k, "i", Span(stripe, stripe + rows, self.cut.tile), "parallel"):
            self._emit_tiles(p, stripe, first, block, epilogue)

    def _emit_tiles(
        self, p: Product, stripe: Size, first: Size, block: Size, epilogue: Epilogue | None
    ) -> None:
        """The tiles of the rows from ``first`` on, of which only those below ``p.m`` are there.

        In a copy of A the others are zeros. In A itself, tiles begin with an earlier row then, and
        rows before ``first``, which are done, are left out in the end.
        """
        k, cut = self.k, self.cut
        row, done, a = first, Span(0, cut.tile, 1), p.a
        whole = isinstance(p.m, int) and p.m % cut.tile == 0
        if cut.stripe is not None:
            a = self._copy_at(stripe, first)
            if not whole:
                done = replace(
                    done, hi=bind_size(k, "hi", dim_min(cut.tile, p.m - first), cut.tile)
                )
        elif not whole:
            row = bind_size(k, "row", dim_min(first, p.m - cut.tile), p.m)
            done = replace(done, lo=first - row)
        begin = k.bind(k.index_value(a.at(row, 0)), "begin")
        a = replace(a, base=begin - row * a.row)
        sums = self.sums
        sums = replace(sums, base=sums.at(first - self.top - row, -self.left))
        for columns, panel in self.panels:
            for col in each(k, "j", columns):
                tile = replace(p, a=a, b=self._panel(panel, col))
                pieces = emit_tile(k, tile, cut.tile, panel, row, col, packed=True)
                self._add_up(sums, pieces, block)
                if epilogue is not None:
                    self._finish(sums, row, done, panel, col, block, epilogue)

    def _add_up(self, sums: Matrix, pieces: list[Piece], block: Size) -> None:
        """Add the pieces of a tile to what the blocks before have summed up."""
        k = self.k
        indices = [sums.at(piece.row, piece.col) for piece in pieces]
        totals: list[Operand] = [piece.acc for piece in pieces]
        if self.cut.blocks != 1:
            own = [k.var(total) for total in totals]
            with k.when(k.compare("gt", k.index_value(block), 0)):
                for reg, at in zip(own, indices, strict=True):
                    k.accumulate(reg, "add", k.load(sums.buffer, at, reg.lanes))
            totals = [*own]
        for total, at in zip(totals, indices, strict=True):
            k.store(sums.buffer, at, total)

    def _finish(
        self,
        sums: Matrix,
        row: Size,
        done: Span,
        panel: Panel,
        col: Size,
        block: Size,
        epilogue: Epilogue,
    ) -> None:
        """After the last block, the epilogue for the rows of a tile that are done."""
        k = self.k
        last = k.compare("eq", k.index_value(block), k.index_value(self.cut.blocks - 1))
        with nullcontext() if self.cut.blocks == 1 else k.when(last):
            for r in each(k, "r", done):
                for j, lanes, bound in panel.columns(col, self.p.n):
                    total = k.load(sums.buffer, sums.at(row + r, j), lanes)
                    epilogue(k, total, row + r, j, lanes, bound)
