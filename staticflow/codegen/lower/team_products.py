"""Products for a GPU, in tiles whose operands pass by in shared memory (`TeamTiles`).

Sums over windows are products too: their operands are never made, but read where they lie (an
*implicit* product).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from staticflow.codegen.kernel import TEAMS, Buffer, Operand
from staticflow.codegen.lower.core_tiles import CoreTiles
from staticflow.codegen.lower.tasks import bind_index
from staticflow.codegen.lower.team_tiles import SIDE, STEP, TILE, Passing, TeamTiles
from staticflow.codegen.lower.windows import COL, PART, ROW, Array, Finish
from staticflow.codegen.maths.scalars import Scalars
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import DType, bfloat16, bool_, float16, float32
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Correlate, CorrelateKernel, Index, delinear, linear
from staticflow.passes.access import broadcast_index

__all__ = ["emit_team_product"]

_OWN = TILE // SIDE
"""Rows of a thread, and columns."""

_DEEP = 1024
"""Products that make an element without parts."""

_LEAST_DEPTH = 1024
"""Of the inner dimension, what is worth a block of threads of its own."""

_BLOCKS = 512
"""Blocks of threads that keep a large GPU busy with tiles."""

Read: TypeAlias = Callable[[Index, Size, Size], Operand]
"""``read(batch, row, column)`` loads an element of a matrix, or works it out."""


@dataclass(frozen=True, slots=True)
class _Product:
    """``out[b, m, n] = sum_k left(b, m, k) * right(b, k, n)``; ``place`` says where that element
    of the result is. The ``steps`` between neighbours in memory are those of a row and of a column
    of ``left``, then of ``right``: 1 where they are neighbours."""

    batch: Shape
    rows: Size
    columns: Size
    depth: Size
    left: Read
    right: Read
    left_by_rows: bool
    right_by_rows: bool
    place: Callable[[Index, Size, Size], Index]


def emit_team_product(
    k: Scalars, node: Node, names: Mapping[Node, str], finish: Finish
) -> tuple[DType, Size]:
    """Every element of a product or of a sum over windows, handed to ``finish``; gives the dtype of
    the elements that are wanted in a buffer ``scratch``, and how many."""
    of = _PRODUCTS.get(type(node.op.lowering), _matrices)
    tiles = _Tiles(k, of(k, node, names), node.tensor_type.dtype, finish)
    return tiles.wide, tiles.emit()


class _Tiles:
    """Writes the loop over tiles."""

    tiles: CoreTiles | TeamTiles

    def __init__(self, k: Scalars, product: _Product, dtype: DType, finish: Finish) -> None:
        self.k, self.p, self.finish, self.dtype = k, product, finish, dtype
        self.wide = float32 if dtype in (float16, bfloat16) else dtype
        self.down, self.across = ceil_div(product.rows, TILE), ceil_div(product.columns, TILE)
        self.count = prod(product.batch) * self.down * self.across

    def emit(self) -> Size:
        """The whole kernel; gives the elements of ``scratch`` that it wants."""
        parts = self._parts()
        if is_provably_ge(1, parts):
            self._emit_tiles(1, 1, self._store)
            return 0
        is_cut: Size = 1 if is_provably_ge(parts, 2) else dim_min(parts - 1, 1)
        if is_cut != 1:
            self._emit_tiles(1, 1 - is_cut, self._store)
        many = parts if is_cut == 1 else parts - (1 - is_cut)
        self.k.buffers["scratch"] = Buffer("scratch", self.wide, "inout")
        self._emit_tiles(parts, is_cut, self._keep)
        self._add_kept(parts, is_cut)
        return many * self._elements

    def _parts(self) -> Size:
        """In how many parts the inner dimension is cut, where tiles are few and it is long."""
        count = dim_min(self.p.depth // _LEAST_DEPTH, _BLOCKS // dim_max(self.count, 1))
        return dim_max(count, 1)

    @property
    def _elements(self) -> Size:
        return prod((*self.p.batch, self.p.rows, self.p.columns))

    def _emit_tiles(
        self, parts: Size, times: Size, store: Callable[[Operand, Index], None]
    ) -> None:
        """A launch, or with 0 ``times`` none, with a block of threads for each tile and each of
        some ``parts`` of the inner dimension."""
        k, p = self.k, self.p
        length = ceil_div(ceil_div(p.depth, parts), STEP) * STEP
        shape = (parts, *p.batch, self.down, self.across)
        with k.loop("tile", prod(shape) * times, kind="blocks") as tile:
            part, *at, i, j = delinear(tile, shape)
            self.batch = tuple(bind_index(k, x, n) for x, n in zip(at, p.batch, strict=True))
            self.part = 0 if parts == 1 else bind_index(k, part, parts)
            self.row = bind_index(k, i * TILE, p.rows)
            self.column = bind_index(k, j * TILE, p.columns)
            narrow = self.dtype in (float16, bfloat16)
            self.tiles = CoreTiles(k, self.dtype) if narrow else TeamTiles(k, self.wide)
            self.sums = k.local(self.wide, _OWN * _OWN, "private")
            totals = k.local(self.wide, _OWN * _OWN, "private") if self._in_parts else None
            self.tiles.clear(totals or self.sums, _OWN * _OWN)
            first, end = self.part * length, p.depth
            if parts != 1:
                end = bind_index(k, dim_min(first + length, p.depth), p.depth + 1)
            if totals is None:
                self._add_up(first, end, end)
            else:
                with k.loop("part", end, lo=first, step=PART) as start:
                    self.tiles.clear(self.sums, _OWN * _OWN)
                    self._add_up(start, dim_min(start + PART, end), end)
                    self._add_to(totals)
            self._finish(totals or self.sums, store)

    @property
    def _in_parts(self) -> bool:
        return self.wide.is_floating and not is_provably_ge(_DEEP, self.p.depth)

    def _add_to(self, totals: str) -> None:
        k = self.k
        with k.loop("t", TEAMS["blocks"], kind="threads"):
            for own in range(_OWN * _OWN):
                k.store(totals, own, k.add(k.load(totals, own), k.load(self.sums, own)))

    def _add_up(self, first: Size, end: Size, depth: Size) -> None:
        """The products of some of the inner dimension, added to the sums; it has ``depth``."""
        p, at = self.p, self.batch
        left = Passing(lambda row, kk: p.left(at, row, kk), p.left_by_rows, self.row, p.rows)
        right = Passing(
            lambda column, kk: p.right(at, kk, column), not p.right_by_rows, self.column, p.columns
        )
        self.tiles.add_up(self.sums, left, right, (first, end), depth)

    def _finish(self, sums: str, store: Callable[[Operand, Index], None]) -> None:
        k, p = self.k, self.p
        with k.loop("t", TEAMS["blocks"], kind="threads") as t:
            for own in range(_OWN * _OWN):
                y, x = self.tiles.place(t, own)
                row, column = self.row + y, self.column + x
                total = k.load(sums, own)
                inside = k.apply(
                    "and",
                    k.compare("lt", k.index_value(row), k.index_value(p.rows)),
                    k.compare("lt", k.index_value(column), k.index_value(p.columns)),
                )
                with k.when(inside):
                    at = bind_index(k, row, p.rows), bind_index(k, column, p.columns)
                    store(total, (*self.batch, *at))

    def _store(self, total: Operand, at: Index) -> None:
        """Finish an element of a row and a column, the last two of an index."""
        *batch, row, column = at
        place = self.p.place(tuple(batch), row, column)
        self.finish(self.k.cast(total, self.dtype), place, 1, None)

    # -- parts of the inner dimension --------------------------------------------------------------

    def _keep(self, total: Operand, at: Index) -> None:
        """Keep what a part comes to."""
        shape = (*self.p.batch, self.p.rows, self.p.columns)
        self.k.store("scratch", self.part * self._elements + linear(at, shape), total)

    def _add_kept(self, parts: Size, times: Size) -> None:
        """A launch, or none, with a thread for each element, that adds up its parts in order."""
        k, shape = self.k, (*self.p.batch, self.p.rows, self.p.columns)
        with k.loop("element", self._elements * times, kind="grid") as element:
            total = k.var(k.const(self.wide.numpy.type(0).item(), self.wide))
            with k.loop("part", parts) as part:
                more = k.load("scratch", part * self._elements + element)
                k.set(total, k.apply("or" if self.wide is bool_ else "add", total, more))
            pairs = zip(delinear(element, shape), shape, strict=True)
            self._store(total, tuple(bind_index(k, i, n) for i, n in pairs))


# -- what is multiplied --------------------------------------------------------------------------


def _matrices(k: Scalars, node: Node, names: Mapping[Node, str]) -> _Product:
    x, y = (Array(a, names) for a in node.args)
    *batch, rows, columns = node.tensor_type.shape
    depth = x.shape[-1]

    def reader(a: Array) -> Read:
        def read(at: Index, row: Size, column: Size) -> Operand:
            matrix = broadcast_index((row, column), a.shape[-2:])
            return a.load(k, (*broadcast_index(at, a.shape[:-2]), *matrix))

        return read

    def place(at: Index, row: Size, column: Size) -> Index:
        return (
            *broadcast_index(at, tuple(batch)),
            *broadcast_index((row, column), (rows, columns)),
        )

    return _Product(
        tuple(batch), rows, columns, depth, reader(x), reader(y),
        _lies_by_rows(x), _lies_by_rows(y), place,
    )  # fmt: skip


def _lies_by_rows(a: Array) -> bool:
    """Whether the elements of a row of a matrix are neighbours in memory."""
    lead: Index = (0,) * len(a.shape[:-2])
    index = (*lead, Dim.of(ROW), Dim.of(COL))
    return a.matrix(index).row != 1


def _correlation(k: Scalars, node: Node, names: Mapping[Node, str]) -> _Product:
    """``out[n, g, o, p] = sum over (c, w) of weight[g, o, c, w] * x[n, g, c, p * stride + w *
    dilation]``: the columns are the positions of all images."""
    x, weight = (Array(a, names) for a in node.args)
    groups: int = node.attrs["groups"]
    batch, channels, *positions = node.tensor_type.shape
    _, depth, *window = weight.shape
    per_group = channels // groups

    def kernel(at: Index, o: Size, kk: Size) -> Operand:
        c, *offset = _digits(k, kk, (depth, *window))
        return weight.load(k, (at[0] * per_group + o, c, *offset))

    def image(at: Index, kk: Size, column: Size) -> Operand:
        c, *offset = _digits(k, kk, (depth, *window))
        n, *position = _digits(k, column, (batch, *positions))
        return x.load(k, (n, at[0] * depth + c, *_at_offset(node, tuple(position), tuple(offset))))

    def place(at: Index, o: Size, column: Size) -> Index:
        n, *position = _digits(k, column, (batch, *positions))
        return (n, at[0] * per_group + o, *position)

    return _Product(
        (groups,), per_group, batch * prod(positions), depth * prod(window), kernel, image,
        True, True, place,
    )  # fmt: skip


def _kernel_correlation(k: Scalars, node: Node, names: Mapping[Node, str]) -> _Product:
    """``out[g, o, c, w] = sum over (n, p) of y[n, g, o, p] * x[n, g, c, p * stride + w *
    dilation]``: the columns are the channels of x and the offsets."""
    x, y = (Array(a, names) for a in node.args)
    groups: int = node.attrs["groups"]
    channels, depth, *window = node.tensor_type.shape
    per_group = channels // groups
    batch, _, *positions = y.shape

    def gradient(at: Index, o: Size, kk: Size) -> Operand:
        n, *position = _digits(k, kk, (batch, *positions))
        return y.load(k, (n, at[0] * per_group + o, *position))

    def image(at: Index, kk: Size, column: Size) -> Operand:
        n, *position = _digits(k, kk, (batch, *positions))
        c, *offset = _digits(k, column, (depth, *window))
        return x.load(k, (n, at[0] * depth + c, *_at_offset(node, tuple(position), tuple(offset))))

    def place(at: Index, o: Size, column: Size) -> Index:
        c, *offset = _digits(k, column, (depth, *window))
        return (at[0] * per_group + o, c, *offset)

    return _Product(
        (groups,), per_group, depth * prod(window), batch * prod(positions), gradient, image,
        True, False, place,
    )  # fmt: skip


def _digits(k: Scalars, number: Size, sizes: Shape) -> Index:
    """The index at a position in row-major order."""
    parts = zip(delinear(number, sizes), sizes, strict=True)
    return tuple(0 if n == 1 else bind_index(k, i, n) for i, n in parts)


def _at_offset(node: Node, position: Index, offset: Index) -> Index:
    """Where a window at a position has an element."""
    steps = zip(position, offset, node.attrs["stride"], node.attrs["dilation"], strict=True)
    return tuple(p * s + o * d for p, o, s, d in steps)


_PRODUCTS: dict[type, Callable[[Scalars, Node, Mapping[Node, str]], _Product]] = {
    Correlate: _correlation,
    CorrelateKernel: _kernel_correlation,
}
