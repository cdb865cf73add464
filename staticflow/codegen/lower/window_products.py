"""The result of a correlation as a product with copies of windows.

Its rows are channels of the output, its columns the positions of all images, whose rows lie one
after the other, and its inner dimension are the channels of the input with all offsets of a window.
A task takes some rows of images, block by block of the inner dimension: what their windows hold is
copied into panels, as the tiles of `gemm.tile` take them, and the weight is read where it lies. So
vectors are full also where images are small, and where windows are apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import Panel, Span, even_rows, even_width
from staticflow.codegen.gemm.tile import Matrix, each
from staticflow.codegen.kernel import LANE, Buffer
from staticflow.codegen.lower.tasks import bind_index, each_in_groups, enough_tasks
from staticflow.codegen.lower.windows import (
    Array,
    Finish,
    Positions,
    Work,
    unroll_spans,
    work_of,
)
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, prod
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import Index

__all__ = ["emit_window_products", "is_window_product"]

_LEAST_ROWS = 16  # channels of the output that make up for copies of windows
_COLUMNS = (
    256  # in a task at most: four of the widest panels; of rows that do not fill them twice as many
)
_EMPTY = 1 / 8  # of the columns of panels
_DEPTH = 144  # of a block: a panel of so many steps stays in a usual first-level cache
_OFFSETS = 288  # of a window at most
_PIECE = 4  # elements that are copied at a time where only the run knows how long rows are
_UNROLLED = 8  # offsets of the last dim of a window that are written out
_FULL = 0.75  # of the lanes of vectors side by side
_COPY = 4  # multiplications of vectors that take as long as a copy of one
_SCRATCH = "scratch"


def is_window_product(node: Node, target: Target) -> bool:
    """Whether copies of windows pay: where vectors of positions side by side, which need no copy,
    cannot be loaded or would not be full, as far as is known, and where enough channels use a
    copy. Of rows whose length only the run knows they cost a few hundredths to a quarter where
    vectors would be full, and are 2 to 5 times as fast where they would not be."""
    channels, last = node.tensor_type.shape[1], node.tensor_type.shape[-1]
    _, depth, *window = node.args[1].tensor_type.shape
    if node.tensor_type.dtype not in (float32, float64):
        return False
    if not (isinstance(channels, int) and isinstance(depth, int)):
        return False
    offsets = prod(window)
    if not isinstance(offsets, int) or not 0 < offsets <= _OFFSETS or 0 in (last, depth):
        return False
    if node.attrs["stride"][-1] == 1:
        lanes = target.vector_bits // node.tensor_type.dtype.bits
        if isinstance(last, int) and last >= _FULL * (-(-last // lanes) * lanes):
            return False
        if not isinstance(last, int) and offsets == 1:  # the positions of an image, all in a row
            return False
    return bool(channels // node.attrs["groups"] >= _LEAST_ROWS)


def emit_window_products(
    k: Scalars, node: Node, names: Mapping[Node, str], target: Target, finish: Finish
) -> Size:
    """Every element of ``node``, handed to ``finish``; gives the elements of workspace."""
    p = _WindowProduct(work_of(k, node, target), node, names)
    k.buffers[_SCRATCH] = Buffer(_SCRATCH, p.work.dtype, "inout")
    total = p.positions.rows
    even = ceil_div(total, enough_tasks(k))
    per = bind_index(k, dim_max(1, dim_min(p.most_rows, even)), p.most_rows + 1)
    parts = ceil_div(p.positions.last, _COLUMNS)  # of a row
    count = bind_index(k, ceil_div(total, per), total + 1)
    _, tasks = each_in_groups(k, p.groups * parts * count, target.workers)
    for at, worker in tasks:
        rest = bind_index(k, at // count, p.groups * parts)
        row = bind_index(k, (at - rest * count) * per, total)
        g, part = bind_index(k, rest // parts, p.groups), rest - rest // parts * parts
        left = bind_index(k, part * p.length, p.positions.last)
        rows = bind_index(k, dim_min(per, total - row), p.most_rows + 1)
        length = bind_index(k, dim_min(p.length, p.positions.last - left), p.length + 1)
        if parts == 1:
            left, length = 0, p.positions.last
        run = bind_index(k, p.run(length), p.columns + 1)
        _Task(p, g, row, rows, left, length, run, worker * p.workspace, finish).emit()
    return dim_max(1, dim_min(target.workers, p.groups * parts * total)) * p.workspace


class _WindowProduct:
    """What the product is, and how it is cut."""

    def __init__(self, work: Work, node: Node, names: Mapping[Node, str]) -> None:
        self.work = work
        self.x, self.w = (Array(a, names) for a in node.args)
        batch, channels, *outer, last = node.tensor_type.shape
        _, depth, *window = self.w.shape
        offsets = prod(window)
        assert isinstance(depth, int) and isinstance(offsets, int)
        self.positions = Positions(batch, tuple(outer), last)
        self.groups: int = node.attrs["groups"]
        self.channels: int = channels // self.groups
        self.panel = Panel((work.lanes,) * even_width(work.target))
        self.tile = even_rows(self.channels, len(self.panel.lanes), work.target)
        self.high: int = -(-self.channels // self.tile) * self.tile
        self.window = tuple(window)
        self.depth = depth
        self.deep = -(-depth // -(-depth // max(1, _DEPTH // offsets)))
        self.blocks = -(-depth // self.deep)
        self.steps = self.deep * offsets
        self.length: Size
        self.most_rows: Size
        columns = self._cut_known(last) if isinstance(last, int) else self._cut_unknown(last)
        self.columns: int = -(-columns // self.panel.width) * self.panel.width

    def _cut_known(self, last: int) -> int:
        """Cut rows of ``last`` positions; gives the columns of a task at most."""
        pieces = (1 << i for i in range(self.work.lanes.bit_length()))
        self.piece = min(pieces, key=lambda piece: self._cost(last, piece))
        self.length = min(last, _COLUMNS)
        run = -(-last // self.piece) * self.piece
        self.most_rows = self._rows(run)
        return self.most_rows * min(run, _COLUMNS)

    def _cut_unknown(self, last: Size) -> int:
        """Cut rows of ``last`` positions, which only the run knows; gives the columns of a task at
        most."""
        k = self.work.k
        self.piece = min(_PIECE, self.work.lanes)
        self.length = bind_index(k, dim_max(1, dim_min(last, _COLUMNS)), _COLUMNS + 1)
        most = _COLUMNS // self.piece
        self.most_rows = bind_index(k, _COLUMNS // self.run(self.length), most + 1)
        return _COLUMNS

    def run(self, length: Size) -> Size:
        """The columns of a row of which a task has so many positions: whole pieces."""
        return ceil_div(length, self.piece) * self.piece

    def _cost(self, last: int, piece: int) -> int:
        """Multiplications of vectors that a row of positions takes, if its windows are copied in
        pieces of so many elements."""
        pieces = -(-last // piece)
        return pieces * piece * self.channels + pieces * _COPY * self.work.lanes

    def _rows(self, run: int) -> int:
        """The rows of images in a task, at most, of which each takes so many columns: of those that
        leave few columns of the last panel empty the most."""

        def empty(rows: int) -> float:
            return -rows * run % self.panel.width / (rows * run)

        def best(columns: int) -> int:
            return min(range(max(1, columns // run), 0, -1), key=empty)

        usual = best(_COLUMNS)
        return usual if empty(usual) < _EMPTY else best(2 * _COLUMNS)

    @property
    def workspace(self) -> int:
        """Elements of the copies and the sums of a task."""
        size: int = (self.steps + self.high) * self.columns
        return size


@dataclass(frozen=True, slots=True)
class _Task:
    """Some rows of images from ``row`` on, and of them ``length`` positions from ``left`` on; each
    row takes ``run`` columns."""

    p: _WindowProduct
    g: Size
    row: Size
    rows: Size
    left: Size
    length: Size
    run: Size
    base: Size
    finish: Finish

    @property
    def k(self) -> Builder:
        """The builder."""
        return self.p.work.k

    @property
    def sums(self) -> Matrix:
        """What has been summed up, by channels."""
        base = self.base + self.p.steps * self.p.columns
        return Matrix(_SCRATCH, base, self.p.columns, 1)

    def emit(self) -> None:
        """All of them."""
        k, p = self.k, self.p
        width = p.panel.width
        columns = bind_index(k, self.rows * self.run, p.columns + 1)
        for block in each(k, "block", Span(0, p.blocks, 1)):
            first = block * p.deep
            deep: Size = p.deep
            if p.blocks * p.deep != p.depth:
                deep = bind_index(k, dim_min(p.deep, p.depth - first), p.deep + 1)
            self._copy(first, deep)
            for panel in each(k, "j", Span(0, columns, width)):
                for o in each(k, "o", Span(0, p.high, p.tile)):
                    self._emit_tile(block, first, deep, panel, o)
        self._finish_rows()

    def _pieces(self) -> Iterator[tuple[Size, Size | None]]:
        """Where the pieces of a row begin, and the bound that turns lanes off."""
        piece = self.p.piece
        length = self.length
        if isinstance(length, int) and length % piece == 0:
            whole: Size = length
        else:
            whole = length // piece * piece
        for at in each(self.k, "x", Span(0, whole, piece)):
            yield at, None
        for at in each(self.k, "x", Span(whole, length, piece)):
            yield at, length - at

    def _copy(self, first: Size, deep: Size) -> None:
        """Copy the windows of a block of channels."""
        k, p = self.k, self.p
        width, piece = p.panel.width, p.piece
        lane = LANE if piece > 1 else 0
        for r in each(k, "r", Span(0, self.rows, 1)):
            n, lead = p.positions.at(k, self.row + r)
            for at, bound in self._pieces():
                column = r * self.run + at
                panel = bind_index(k, column // width, p.columns // width)
                to = panel * (width * p.steps - width) + column + self.base
                for c, offset in self._steps(deep):
                    place = p.work.at_offset((*lead, self.left + at + lane), offset)
                    channel = self.g * p.depth + first + c
                    value = p.x.load(k, (n, channel, *place), piece, bound)
                    k.store(_SCRATCH, to + self._step(c, offset) * width + lane, value)

    def _steps(self, deep: Size) -> Iterator[tuple[Size, Index]]:
        """Loops over the channels of a block and the offsets of a window; a few offsets are written
        out."""
        k, p = self.k, self.p
        for c in each(k, "c", Span(0, deep, 1)):
            with p.work.loops("k", p.window[:-1]) as head:
                for span, unroll in unroll_spans(p.window[-1], _UNROLLED):
                    for start in each(k, "k", span):
                        for i in range(unroll):
                            yield c, (*head, start + i)

    def _step(self, c: Size, offset: Index) -> Size:
        """The step at which a channel of a block meets an offset."""
        step = c
        for i, size in zip(offset, self.p.window, strict=True):
            step = step * size + i
        return step

    def _emit_tile(self, block: Size, first: Size, deep: Size, panel: Size, o: Size) -> None:
        """Add what a block gives for a tile to the sums."""
        k, p = self.k, self.p
        lanes = p.panel.lanes
        sums = [[p.work.zero(n) for n in lanes] for _ in range(p.tile)]
        copy = self.base + panel * p.steps
        columns = [(at, n) for at, n, _ in p.panel.columns(0, p.panel.width)]
        channels = [
            o + r if p.high == p.channels else dim_min(o + r, p.channels - 1) for r in range(p.tile)
        ]
        if p.high != p.channels:
            channels = [bind_index(k, c, p.channels) for c in channels]
        for c, offset in self._steps(deep):
            at = copy + self._step(c, offset) * p.panel.width
            vectors = [k.load(_SCRATCH, at + j, n) for j, n in columns]
            for row, channel in zip(sums, channels, strict=True):
                weight = p.w.load(k, (self.g * p.channels + channel, first + c, *offset))
                for total, vector in zip(row, vectors, strict=True):
                    p.work.add_product(total, weight, vector)
        totals = [
            (self.sums.at(o + r, panel + j), total)
            for r, row in enumerate(sums)
            for (j, _), total in zip(columns, row, strict=True)
        ]
        if p.blocks != 1:
            with k.when(k.compare("gt", k.index_value(block), 0)):
                for at, total in totals:
                    k.accumulate(total, "add", k.load(_SCRATCH, at, total.lanes))
        for at, total in totals:
            k.store(_SCRATCH, at, total)

    def _finish_rows(self) -> None:
        """Hand all sums on."""
        k, p = self.k, self.p
        lane = LANE if p.piece > 1 else 0
        for o in each(k, "o", Span(0, p.channels, 1)):
            for r in each(k, "r", Span(0, self.rows, 1)):
                n, lead = p.positions.at(k, self.row + r)
                for at, bound in self._pieces():
                    value = k.load(_SCRATCH, self.sums.at(o, r * self.run + at + lane), p.piece)
                    index = (n, self.g * p.channels + o, *lead, self.left + at + lane)
                    self.finish(value, index, p.piece, bound)
