"""The kernel of a correlation, which is the gradient by a weight, as a product over pixels.

Its rows are the channels of the input with all offsets of a window, its columns the channels of the
output, and its inner dimension are the positions of all images, block by block. Of a block the
output's part is copied with channels side by side, in panels as the tiles of `gemm.tile` take them;
the input is read where it lies, one element at a time, so that windows cost nothing. Sums wait in
memory from block to block; with the last one they are turned as the kernel lies, strip by strip.

Threads share the rows of the product where there are many, and each copies the output. Where there
are few, they share the positions: each part of these, which are as many as the sizes say, has sums
of its own, which are added up in the order of the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.plan import Span, even_panel, even_rows
from staticflow.codegen.gemm.tile import Matrix, each
from staticflow.codegen.kernel import LANE, Buffer, Operand
from staticflow.codegen.lower.tasks import GROUPS, bind_index, each_in_groups
from staticflow.codegen.lower.windows import (
    COL,
    ROW,
    Array,
    Finish,
    ImageBlock,
    Positions,
    Work,
    cut_spans,
    work_of,
)
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, dim_max, dim_min, prod
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import Index, delinear

__all__ = ["emit_kernel_products", "is_product"]

_LEAST_COLUMNS = 8  # channels of the output: with fewer, lanes and the copies are for little
_LEAST_ROWS = 16  # rows of the product that make up for a copy of the output
_POSITIONS = 512  # in a block at most; what one accumulator adds up
_BLOCK = 1 << 16  # elements of the copy of a block: of float32 an eighth of a usual cache
_ROWS_PER_COPY = 96  # rows that make up for another copy by another thread
_POSITIONS_PER_PART = 1024  # that make up for sums of their own
_LEAST_POSITIONS = 64  # in a block, however wide the output
_SCRATCH = "scratch"
_UNROLLED = 2  # positions that are written out


def is_product(node: Node) -> bool:
    """Whether the kernel is large enough, and known to be, to be computed as a product."""
    channels, depth, *kernel = node.tensor_type.shape
    rows, columns = depth * prod(kernel), channels // node.attrs["groups"]
    if node.tensor_type.dtype not in (float32, float64):
        return False
    if not (isinstance(rows, int) and isinstance(columns, int)):
        return False
    return rows >= _LEAST_ROWS and columns >= _LEAST_COLUMNS


def emit_kernel_products(
    k: Scalars, node: Node, names: Mapping[Node, str], target: Target, finish: Finish
) -> Size:
    """Every element of ``node``, handed to ``finish``; gives the elements of workspace."""
    p = _KernelProduct(work_of(k, node, target), node, names)
    k.buffers[_SCRATCH] = Buffer(_SCRATCH, p.work.dtype, "inout")
    most = p.rows // _ROWS_PER_COPY
    if most > 1:
        return _share_rows(p, most, finish)
    return _share_positions(p, max(1, GROUPS // p.groups), finish)


def _share_rows(p: _KernelProduct, most: int, finish: Finish) -> Size:
    """All elements, as tasks that have some rows of the product each: as many as there are threads,
    ``most`` at most. Gives the elements of workspace."""
    k, workers = p.work.k, p.work.target.workers
    parts = k.bind(k.apply("min", k.workers(), most), "parts", most + 1)
    _, tasks = each_in_groups(k, p.groups * parts, workers)
    for at, worker in tasks:
        g = bind_index(k, at // parts, p.groups)
        part = bind_index(k, at - g * parts, most)
        own = Span(part * p.tiles // parts * p.tile, (part + 1) * p.tiles // parts * p.tile, p.tile)
        task = _Task(p, g, own, g * p.sums, p.groups * p.sums + worker * p.copy)
        task.add_up(0, p.positions.rows, finish)
    return p.groups * p.sums + min(workers, p.groups * most) * p.copy


def _share_positions(p: _KernelProduct, most: int, finish: Finish) -> Size:
    """All elements, as tasks that have some rows of images each, ``most`` at most for each group.
    Gives the elements of workspace."""
    k, workers, rows = p.work.k, p.work.target.workers, p.positions.rows
    few = rows * p.positions.last // _POSITIONS_PER_PART
    parts = bind_index(k, dim_max(1, dim_min(most, few)), most + 1) if most > 1 else 1
    whole = Span(0, p.tiles * p.tile, p.tile)
    copies = p.groups * most * p.sums
    _, tasks = each_in_groups(k, p.groups * parts, workers)
    for at, worker in tasks:
        g = bind_index(k, at // parts, p.groups)
        part = bind_index(k, at - g * parts, most)
        task = _Task(p, g, whole, at * p.sums, copies + worker * p.copy)
        first = bind_index(k, part * rows // parts, rows + 1)
        last = bind_index(k, (part + 1) * rows // parts, rows + 1)
        task.add_up(first, last, finish if most == 1 else None)
    if most > 1:
        for g in each(k, "g", Span(0, p.groups, 1)):
            task = _Task(p, g, whole, g * parts * p.sums, copies)
            for part in each(k, "part", Span(1, parts, 1)):
                task.add_part(part)
            task.finish_rows(whole, finish)
    return copies + min(workers, p.groups * most) * p.copy


class _KernelProduct:
    """What the product is, and how it is cut: into tiles of one form, so that there is one code.
    Rows and columns past the last are computed of what is there, and dropped."""

    def __init__(self, work: Work, node: Node, names: Mapping[Node, str]) -> None:
        self.work = work
        self.x, self.y = (Array(a, names) for a in node.args)
        channels, *self.window = node.tensor_type.shape
        self.groups: int = node.attrs["groups"]
        self.columns: int = channels // self.groups
        rows = prod(self.window)
        assert isinstance(rows, int), "`is_product` is true"
        self.rows: int = rows
        self.panel = even_panel(self.columns, work.lanes, work.target)
        self.width: int = -(-self.columns // self.panel.width) * self.panel.width
        self.tile = even_rows(self.rows, len(self.panel.lanes), work.target)
        self.tiles = -(-self.rows // self.tile)
        self.strip = self.tile * work.lanes // gcd(self.tile, work.lanes)  # whole tiles and vectors
        self.block = max(_LEAST_POSITIONS, min(_POSITIONS, _BLOCK // self.width))
        batch, _, *outer, last = self.y.shape
        self.positions = Positions(batch, tuple(outer), last)

    @property
    def sums(self) -> int:
        """Elements of the sums of a group."""
        return self.tiles * self.tile * self.width

    @property
    def copy(self) -> int:
        """Elements of the copy of a block of the output."""
        size: int = self.block * self.width
        return size


@dataclass(frozen=True, slots=True)
class _Task:
    """The tiles of ``span`` in group ``g``; sums lie at ``base``, the copy of a block at
    ``copy``."""

    p: _KernelProduct
    g: Size
    span: Span
    base: Size
    copy: Size

    @property
    def k(self) -> Builder:
        """The builder."""
        return self.p.work.k

    @property
    def sums(self) -> Matrix:
        """What has been summed up, by rows of the product."""
        return Matrix(_SCRATCH, self.base, self.p.width, 1)

    def add_up(self, first: Size, last: Size, finish: Finish | None) -> None:
        """Sum up the products at the rows ``first`` to ``last`` of images. What is complete goes to
        ``finish``, strip by strip, while it is in a cache."""
        k, p = self.k, self.p
        for block in p.positions.blocks(k, p.block, first, last):
            for col in each(k, "j", Span(0, p.width, p.panel.width)):
                self._copy_panel(block, col)
            begun = self._is_begun(block, first)
            for strip in each(k, "strip", replace(self.span, step=p.strip)):
                own = Span(strip, dim_min(strip + p.strip, self.span.hi), p.tile)
                for tile in each(k, "i", own):
                    rows = [self._window_at(tile + r) for r in range(p.tile)]
                    for col in each(k, "j", Span(0, p.width, p.panel.width)):
                        self._emit_tile(block, tile, rows, col, begun)
                if finish is not None:
                    with k.when(self._is_complete(block, last)):
                        self.finish_rows(own, finish)

    def _is_begun(self, block: ImageBlock, first: Size) -> Operand:
        """Whether a block before this one was summed up."""
        k = self.k
        return k.compare("gt", k.index_value(block.row - first + block.left), 0)

    def _is_complete(self, block: ImageBlock, last: Size) -> Operand:
        """Whether this block is the last one."""
        k = self.k
        rest = last - block.row - block.rows + self.p.positions.last - block.left - block.length
        return k.compare("le", k.index_value(rest), 0)

    def add_part(self, part: Size) -> None:
        """Add the sums of another part of the positions, which lie that many further."""
        k, p = self.k, self.p
        other = replace(self.sums, base=self.base + part * p.sums)
        lanes = p.panel.lanes[0]
        for row in each(k, "i", replace(self.span, step=1)):
            for at in each(k, "j", Span(0, p.width, lanes)):
                to = self.sums.at(row, at + LANE)
                more = k.load(_SCRATCH, other.at(row, at + LANE), lanes)
                k.store(_SCRATCH, to, k.add(k.load(_SCRATCH, to, lanes), more))

    def _window_at(self, row: Size) -> Index:
        """The channel of the input, and the offset in a window, that a row of the product is of."""
        p = self.p
        if p.tiles * p.tile != p.rows:
            row = dim_min(row, p.rows - 1)
        at = zip(delinear(row, tuple(p.window)), p.window, strict=True)
        c, *offset = (bind_index(self.k, i, d) for i, d in at)
        return (self.g * p.window[0] + c, *offset)

    def _panel(self, col: Size) -> Matrix:
        """The copy of a block, as far as it is in the panel that begins at column ``col``."""
        return Matrix(_SCRATCH, self.copy + col * self.p.block - col, self.p.panel.width, 1)

    def _copy_panel(self, block: ImageBlock, col: Size) -> None:
        """Copy the output of a block, as far as it is in a panel."""
        k, p = self.k, self.p
        to, end = self._panel(col), col + p.panel.width
        if p.columns != p.width:
            end = dim_min(end, p.columns)
        for r in each(k, "r", Span(0, block.rows, 1)):
            n, lead = p.positions.at(k, block.row + r)
            at = (*lead, block.left + Dim.of(ROW))
            source = p.y.matrix((n, self.g * p.columns + Dim.of(COL), *at))
            own = replace(to, base=to.at(r * block.length, 0))
            copy_columns(k, source, own, block.length, col, end, p.panel.lanes[0])

    def _emit_tile(
        self, block: ImageBlock, first: Size, rows: list[Index], col: Size, begun: Operand
    ) -> None:
        """Add what a block gives for a tile to the sums, if these have ``begun``."""
        k, p = self.k, self.p
        totals = [[p.work.zero(lanes) for lanes in p.panel.lanes] for _ in rows]
        copy = self._panel(col)
        columns = [(c, lanes) for c, lanes, _ in p.panel.columns(col, p.width)]
        for r in each(k, "r", Span(0, block.rows, 1)):
            n, lead = p.positions.at(k, block.row + r)
            for span, unroll in cut_spans(block.length, _UNROLLED):
                for at in each(k, "x", span):
                    for x in range(unroll):
                        row = r * block.length + at + x
                        right = [k.load(_SCRATCH, copy.at(row, c), lanes) for c, lanes in columns]
                        for window, sums in zip(rows, totals, strict=True):
                            position = (*lead, block.left + at + x)
                            own = (n, window[0], *p.work.at_offset(position, window[1:]))
                            left = p.x.load(k, own)
                            for total, vector in zip(sums, right, strict=True):
                                p.work.add_product(total, left, vector)
        places = [
            (self.sums.at(first + r, c), total)
            for r, sums in enumerate(totals)
            for (c, _), total in zip(columns, sums, strict=True)
        ]
        with k.when(begun):
            for at, total in places:
                k.accumulate(total, "add", k.load(_SCRATCH, at, total.lanes))
        for at, total in places:
            k.store(_SCRATCH, at, total)

    def finish_rows(self, span: Span, finish: Finish) -> None:
        """Hand the sums of some rows on, in vectors along the rows of the product."""
        k, p, lanes = self.k, self.p, self.p.work.lanes
        lo, hi = span.lo, span.hi
        if p.tiles * p.tile != p.rows:
            hi = bind_index(k, dim_min(hi, p.rows), p.rows + 1)
        cut = lo + (hi - lo) // lanes * lanes
        for o in each(k, "o", Span(0, p.columns, 1)):
            for wide, span in ((lanes, Span(lo, cut, lanes)), (1, Span(cut, hi, 1))):
                for row in each(k, "i", span):
                    at = row + LANE if wide > 1 else row
                    total = k.load(_SCRATCH, self.sums.at(at, o), wide)
                    index = delinear(at, tuple(p.window))
                    finish(total, (self.g * p.columns + o, *index), wide, None)
