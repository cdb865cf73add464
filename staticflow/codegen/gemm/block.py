"""Products of large matrices, cut into tasks that stay in the second-level cache.

A task is some rows of A by a chunk of the columns of B. It takes the inner dimension block by
block: the part of B is copied, in panels, in the order in which tiles read it, so that neither
pages nor places of a cache run out; then the rows of A pass by, each tile of them meeting all
panels. This is after K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix
Multiplication" (2008), but that A is read where it is if it lies by rows; if it lies by columns, a
stripe of rows at a time is copied. What the blocks before have summed up waits beside the copies;
only the last block runs the epilogue.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.calls import bind_size, call_part, each_piece, is_shared
from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.plan import (
    Panel,
    Span,
    chunk_panels,
    main_rows,
    main_width,
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
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge

__all__ = ["blocked_scratch", "emit_blocked", "emit_task"]

_ROWS = 1080  # in a task, at most
_STRIPE = 512  # rows of A that are copied at a time, at most


@dataclass(frozen=True, slots=True)
class _Way:
    """The panels in a chunk, at most; bytes of a column of B in a block; and tasks for each thread,
    if there are several. A chunk of a block is a part of a usual second-level cache."""

    panels: int
    column: int
    tasks: int


_BY_ROWS = _Way(panels=2, column=4096, tasks=8)
# A copy of A and the sums of several blocks have to be in the cache, too, and more panels make up
# for that copy.
_BY_COLUMNS = _Way(panels=22, column=704, tasks=2)

_CHUNKS = 4  # rather than fewer wide ones
_ROWS_PER_COPY = 192  # rows of A that make up for another copy of B
_PANELS_PER_COPY = 2  # panels of B that make up for another copy of A
_ENOUGH = 16  # tasks for all threads
_GROUPS = 256  # of tasks, at most, which threads share: a thread does one without a look at others


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a product is cut into ``down * across`` tasks of ``rows`` rows and ``chunk`` columns, or
    fewer, and these into ``blocks`` of ``depth`` elements of the inner dimension. At most there are
    ``most_rows``, ``width`` columns and ``most_depth``. Threads share the tasks in ``groups``; a
    ``tile`` is so many rows of A, and so is a ``stripe``, if A is copied."""

    rows: Size
    most_rows: Size
    down: Size
    chunk: Size
    width: Size
    across: Size
    depth: Size
    most_depth: Size
    blocks: Size
    groups: Size
    tile: int
    stripe: int | None

    @property
    def copies(self) -> Size:
        """Elements of the copies of a chunk of B and of a stripe of A."""
        return self.most_depth * (self.width + (self.stripe or 0))

    @property
    def workspace(self) -> Size:
        """Elements of the workspace of a worker: the copies and the sums."""
        return self.copies + self.most_rows * self.width


def _way(p: Product) -> _Way:
    return _BY_COLUMNS if p.a.row == 1 and p.a.col != 1 else _BY_ROWS


def _cut(
    p: Product, enough: Size, name: Callable[[str, Size, Size], Size] = lambda _, size, most: size
) -> _Cut:
    """The cut into ``enough`` tasks, if that can pay; what others are made of is given a ``name``:
    written out, each would be computed again and again."""
    tile, way = main_rows(p.target), _way(p)
    by_columns = way is _BY_COLUMNS
    panel = main_width(p.target) * p.lanes
    chunk: Size = way.panels * panel
    if not by_columns:
        chunk = dim_max(1, dim_min(way.panels, p.n // (_CHUNKS * panel))) * panel
    if isinstance(p.n, int) and is_provably_ge(3 * chunk, 2 * p.n):  # no small second one
        chunk = -(-p.n // p.lanes) * p.lanes
    chunk = name("chunk", chunk, way.panels * panel)
    width = chunk if isinstance(chunk, int) else way.panels * panel
    depth = way.column // p.dtype.itemsize
    blocks = dim_max(1, ceil_div(p.depth, depth))
    if isinstance(p.depth, int):
        depth = -(-p.depth // -(-p.depth // depth))
    most = _ROWS // tile * tile
    # Equal parts, and so many that threads have tasks to share: of the rows, then of the columns.
    across = dim_max(ceil_div(p.n, chunk), 1)
    across = name("across", across, across)
    parts = dim_min(ceil_div(enough, across), p.m // _ROWS_PER_COPY)
    down = dim_max(dim_max(ceil_div(p.m, most), parts), 1)
    down = name("down", down, down)
    if by_columns and not is_provably_ge(1, p.n // (_PANELS_PER_COPY * panel)):
        across = dim_max(across, dim_min(enough // (2 * down), p.n // (_PANELS_PER_COPY * panel)))
        chunk = dim_min(width, ceil_div(p.n, across * panel) * panel)
    most_rows = dim_min(most, ceil_div(p.m, tile) * tile)
    stripe = _STRIPE // tile * tile
    if isinstance(most_rows, int):
        stripe = min(stripe, most_rows)
    return _Cut(
        rows=ceil_div(p.m, down * tile) * tile,
        most_rows=most_rows,
        down=down,
        chunk=chunk,
        width=width,
        across=across,
        depth=depth,
        most_depth=dim_min(depth, p.depth),
        blocks=blocks,
        groups=dim_max(1, dim_min(_GROUPS, down * across)),
        tile=tile,
        stripe=stripe if by_columns else None,
    )


def blocked_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_blocked` needs, each worker its own."""
    cut = _cut(p, _ENOUGH)
    return dim_min(cut.groups, p.target.workers) * cut.workspace


def emit_blocked(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product; ``p.m`` is at least `LEAST_ROWS`."""
    workers = k.workers()
    alone = k.compare("le", workers, 1)
    many = k.apply("min", k.mul(workers, _way(p).tasks), _ENOUGH)
    enough = k.bind(k.select(alone, 1, many), "enough", _ENOUGH + 1)
    cut = _cut(p, enough, functools.partial(bind_size, k))
    most_depth = bind_size(k, "depth", cut.most_depth, cut.depth)
    chunk, rows = bind_size(k, "chunk", cut.chunk, cut.width), bind_size(k, "rows", cut.rows, p.m)
    down = bind_size(k, "down", ceil_div(p.m, rows), cut.down)
    across = bind_size(k, "across", dim_max(ceil_div(p.n, chunk), 1), cut.across)
    cut = replace(cut, most_depth=most_depth, chunk=chunk, rows=rows, down=down, across=across)
    tasks = down * across
    groups = bind_size(k, "groups", cut.groups, _GROUPS)
    for group in each(k, "group", Span(0, groups, 1), "parallel"):
        worker = k.worker(dim_min(groups, p.target.workers)) if groups != 1 else 0
        workspace = replace(scratch, base=scratch.base + worker * cut.workspace)
        span = Span(group * tasks // groups, (group + 1) * tasks // groups, 1)
        for task in each(k, "task", span):
            row = bind_size(k, "row", task // across, down)
            left = bind_size(k, "left", (task - row * across) * chunk, p.n) if across != 1 else 0
            top = bind_size(k, "top", row * rows, p.m)
            if is_shared(p):
                _call_task(k, p, cut, workspace, top, left, epilogue)
            else:
                base = workspace.base + cut.copies
                sums = Matrix(workspace.buffer, base, cut.width, 1)
                _Task(k, p, cut, workspace, sums, top, left).emit(epilogue)


def _call_task(
    k: Builder,
    p: Product,
    cut: _Cut,
    workspace: Workspace,
    top: Size,
    left: Size,
    epilogue: Epilogue,
) -> None:
    """A task as a part that programs share, which leaves its sums, and then the epilogue."""
    rows = bind_size(k, "rows", dim_min(cut.rows, p.m - top), dim_min(cut.rows, p.m))
    columns = bind_size(k, "width", dim_min(cut.chunk, p.n - left), dim_min(cut.width, p.n))
    sums = Matrix(workspace.buffer, workspace.base + cut.copies, cut.width, 1)
    here = replace(p, b=replace(p.b, base=p.b.at(0, left)), n=columns)
    own = (top, rows, cut.most_depth)
    call_part(k, "task", here, sums, own, workspace.buffer, workspace.base)
    each_piece(k, p, sums, rows, columns, top, left, epilogue)


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
    tile, by_columns = main_rows(p.target), _way(p) is _BY_COLUMNS
    cut = _Cut(
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
        stripe=_STRIPE // tile * tile if by_columns else None,
    )
    _Task(k, p, cut, workspace, sums, top, 0).emit(None)
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


class _Task:
    """The rows of C from ``top`` on, and its columns from ``left`` on, as they are made in
    ``sums``."""

    def __init__(
        self,
        k: Builder,
        p: Product,
        cut: _Cut,
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
