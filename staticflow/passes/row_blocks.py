"""What is computed for each row alone is computed for some rows at a time.

A loss of ``h @ w`` over many words, and its gradient, need all scores of a row, but never those of
two rows at once. A scan over blocks of rows adds up the gradients of the weights, and neither the
scores nor their gradient are ever in memory as a whole. Blocks are as large as a processor's cache:
in smaller ones a product would read the weights too often for its work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node, make_node
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.basics.arithmetic import add, where
from staticflow.ops.basics.axes import permute, permute_op
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.slicing import slice_op
from staticflow.ops.basics.view import reshape, reshape_op
from staticflow.ops.loops.loop import scan_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts
from staticflow.passes.row_regions import Region, find_region
from staticflow.passes.row_values import FIXED, TOTAL, Rows

__all__ = ["has_blocks", "row_blocks"]

_BLOCK = 1 << 23
"""Elements of a block, unless a row has more."""

_WIDE = 1 << 12
"""Columns from which on many rows are likely to be more than a block."""


_LEAST_BLOCKS = 4
"""Blocks of a known number of rows below which little memory is saved."""


def row_blocks(graph: Graph, counts: Counts) -> Graph:
    """Losses of wide products and their gradients for a block of rows at a time, where nobody else
    wants the products."""
    for seed in [n for n in graph.nodes if n.op is matmul_op]:
        if not _is_worth_it(seed.tensor_type.shape):
            continue
        region = find_region(graph, seed)
        if region is None:
            continue
        with using(seed.locs):
            found = _Blocks(region).scan()
        if found is not None:
            counts.note("rows in blocks", seed)
            outputs = substitute_nodes(graph.outputs, found)
            return row_blocks(
                close(graph.params, outputs, graph.equalities, graph.declared), counts
            )
    return graph


def _is_worth_it(shape: Shape) -> bool:
    """Whether a matrix of scores has, or is likely to have, several blocks."""
    if len(shape) != 2 or not isinstance(shape[1], int) or shape[1] < _WIDE:
        return False
    if isinstance(shape[0], int):
        return has_blocks(shape[0], shape[1])
    return not is_provably_ge(_rows_of_block(shape[1]), shape[0])


def has_blocks(rows: int, columns: int) -> bool:
    """Whether a matrix of scores is large enough to be computed for some rows at a time."""
    return columns >= _WIDE and rows >= _LEAST_BLOCKS * _rows_of_block(columns)


def _rows_of_block(width: int) -> int:
    return max(_BLOCK // width, 1)


@dataclass(frozen=True, slots=True)
class _Cut:
    """``count`` blocks of ``size`` rows, the last of which may end in rows that are none."""

    count: Size
    size: Size
    rows: Size

    @property
    def padding(self) -> Size:
        """How many rows are none."""
        return self.count * self.size - self.rows


def _cut(rows: Size, most: int) -> _Cut:
    """Blocks of at most ``most`` rows, all alike: of a known number without padding if they need
    not be much smaller for that."""
    count = dim_max(ceil_div(rows, most), 1)
    if isinstance(rows, int) and isinstance(count, int):
        even = next((n for n in range(count, 2 * count) if rows % n == 0), None)
        count = even or count
    return _Cut(count, dim_min(ceil_div(rows, count), most), rows)


class _Blocks:
    """The scan over the blocks of a region."""

    def __init__(self, region: Region) -> None:
        self.region, self.cut = region, _cut(region.count, _rows_of_block(region.width))
        self.padded = self.cut.padding != 0
        self.inner: dict[Node, Node] = {}
        """What stands for a node in the body."""

    def scan(self) -> Mapping[Node, Node] | None:
        """What stands for each value of the region that is read outside of it. None if something
        large would have to be copied to be cut into blocks."""
        region, cut = self.region, self.cut
        if self.padded and any(region.is_large(n, r) for n, r in region.given.items()):
            return None
        starts = [_zeros(n) for n in region.totals]
        sums = [new_param(n.tensor_type, "total", locs=n.locs) for n in region.totals]
        rows: list[tuple[Node, Node]] = []  # params of the body, and their operands
        for node, at in region.given.items():
            t = node.tensor_type
            apart = tuple(n for d, n in enumerate(t.shape) if d not in at)
            p = new_param(TensorType(t.dtype, (cut.size, *apart)), "rows", locs=node.locs)
            rows.append((p, self._blocks_of(Symbol(node), at).node))
            self.inner[node] = self._block_of_rows(Symbol(p), node, at).node
        real = self._real_rows(rows) if self.padded and region.totals else None
        fixed = [(n, new_param(n.tensor_type, "fixed", locs=n.locs)) for n in region.fixed]
        self.inner |= fixed
        self._write_body(real)
        totals = [add(Symbol(s), Symbol(self.inner[n])).node
                  for s, n in zip(sums, region.totals, strict=True)]  # fmt: skip
        ys = [self._rows_within(n, region.rows[n]).node for n in region.kept]
        body = close([*sums, *(p for p, _ in rows), *(p for _, p in fixed)], [*totals, *ys])
        found = scan_op(
            *starts, *(Symbol(a) for _, a in rows), *(Symbol(n) for n, _ in fixed),
            body=body, carries=len(sums), xs=len(rows), length=cut.count, reverse=False,
        )  # fmt: skip
        outside = {n: s.node for n, s in zip(region.totals, found, strict=False)}
        for node, stack in zip(region.kept, found[len(sums) :], strict=True):
            outside[node] = self._join_blocks(stack, node).node
        return outside

    # -- outside of the scan ----------------------------------------------------------------------

    def _blocks_of(self, x: Any, at: Rows) -> Any:
        """The rows of ``x``, in blocks."""
        order = (*at, *(d for d in range(x.ndim) if d not in at))
        apart = tuple(x.__sf_shape__[d] for d in order[len(at) :])
        rows = reshape(permute(x, *order), (self.cut.rows, *apart))
        if self.padded:
            zeros = full.beside(rows, shape=(self.cut.padding, *apart), value=0, dtype=rows.dtype)
            rows = cat([rows, zeros], 0)
        return reshape(rows, (self.cut.count, self.cut.size, *apart))

    def _join_blocks(self, stack: Any, node: Node) -> Any:
        """The value ``node`` of its blocks of rows."""
        at, shape = self.region.rows[node], node.tensor_type.shape
        order = (*at, *(d for d in range(len(shape)) if d not in at))
        apart = tuple(shape[d] for d in order[len(at) :])
        rows = reshape(stack, (self.cut.count * self.cut.size, *apart))
        if self.padded:
            size = (self.cut.rows, *apart)
            rows = slice_op(rows, start=(0,) * len(size), size=size, step=(1,) * len(size))
        x = reshape(rows, tuple(shape[d] for d in order))
        return permute(x, *(order.index(d) for d in range(len(order))))

    def _real_rows(self, rows: list[tuple[Node, Node]]) -> Any:
        """Whether each row of a block is one, as a further operand among ``rows``."""
        cut = self.cut
        each = iota.beside(
            Symbol(self.region.seed), shape=(cut.count, cut.size), dim=1, dtype=int64
        )
        first = iota.beside(
            Symbol(self.region.seed), shape=(cut.count, cut.size), dim=0, dtype=int64
        )
        real = first * cut.size + each < cut.rows
        p = new_param(TensorType(real.dtype, (cut.size,)), "real")
        rows.append((p, real.node))
        return Symbol(p)

    # -- the body ---------------------------------------------------------------------------------

    def _shape(self, shape: Shape, at: Rows) -> Shape:
        """The shape of a block of a value with its rows in ``at``, where only the last is not 1."""
        sizes = {r: 1 for r in at[:-1]} | {at[-1]: self.cut.size}
        return tuple(sizes.get(d, n) for d, n in enumerate(shape))

    def _block_of_rows(self, rows: Any, node: Node, at: Rows) -> Any:
        """Rows as a block of the value ``node``."""
        shape = self._shape(node.tensor_type.shape, at)
        order = (*at, *(d for d in range(len(shape)) if d not in at))
        x = reshape(rows, tuple(shape[d] for d in order))
        return permute(x, *(order.index(d) for d in range(len(order))))

    def _rows_within(self, node: Node, at: Rows) -> Any:
        """A block of the value ``node`` as rows."""
        x = Symbol(self.inner[node])
        order = (*at, *(d for d in range(x.ndim) if d not in at))
        apart = tuple(x.__sf_shape__[d] for d in order[len(at) :])
        return reshape(permute(x, *order), (self.cut.size, *apart))

    def _write_body(self, real: Any) -> None:
        """The nodes of the region for one block. Of what is added up over all rows, those that are
        none are ``real`` ones no more: they are 0."""
        region = self.region
        counted = set() if real is None else {self._source_of_total(n) for n in region.totals}
        for node, at in region.rows.items():
            args = tuple(self.inner[a] for a in node.args)
            attrs = dict(node.attrs)
            if at not in (FIXED, TOTAL) and "shape" in attrs:
                attrs["shape"] = self._shape(attrs["shape"], at)
            made = make_node(node.op, args, attrs, node.locs)
            if node in counted:
                shape = tuple(
                    self.cut.size if d == at[-1] else 1 for d in range(made.tensor_type.ndim)
                )
                made = where(reshape(real, shape), Symbol(made), 0).node
            self.inner[node] = made

    def _source_of_total(self, total: Node) -> Node:
        """The value, made in a block, whose rows are added up in ``total``."""
        return next(s for s in map(_source, total.args) if s in self.region.rows)


def _source(node: Node) -> Node:
    """What a value has the elements of."""
    while node.op in (reshape_op, permute_op):
        node = node.args[0]
    return node


def _zeros(node: Node) -> Any:
    t = node.tensor_type
    return full.beside(Symbol(node), shape=t.shape, value=0.0, dtype=t.dtype)
