"""Blocks of queries and of keys, of which attention and its derivative are made: where they lie,
the products of them, and what stands for a query and a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from staticflow.codegen.gemm.calls import call_part, is_shared, storing
from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.plan import (
    Panel,
    Span,
    column_panels,
    divisor,
    main_rows,
    main_width,
    row_blocks,
    vector_by_vector,
)
from staticflow.codegen.gemm.tile import Matrix, Piece, Product, each, emit_tile
from staticflow.codegen.kernel import LANE, Operand
from staticflow.codegen.lower.attention_parts import AttentionParts
from staticflow.codegen.lower.contract import matrix_of
from staticflow.codegen.lower.tasks import bind_index
from staticflow.codegen.lower.values import Values
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import coefficient, symbols_of
from staticflow.graph.dims import Size, ceil_div, dim_min
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import Index
from staticflow.passes.access import broadcast_index, canonical_index, source_of
from staticflow.passes.arrays import AXES

__all__ = ["AttentionBlocks", "Keys", "Queries", "Result"]

_QUERIES = 96
"""Queries in a block, about: so many use each key and value that is loaded."""

_FLOATS = ("times", "bias", "factor")
"""Roles that are floats, a number for each query and key."""

_KEYS = 64
"""Keys in a block, about: the scores of both blocks fit into a usual first-level cache."""


@dataclass(frozen=True, slots=True)
class Result:
    """Where a product goes, in the way of a ``kind`` of `storing`."""

    kind: str
    matrix: Matrix
    scale: Matrix | None = None


@dataclass(frozen=True, slots=True)
class Queries:
    """The block of ``count`` queries from ``first`` on, in ``panels`` of ``padded`` columns."""

    batch: Index
    first: Size
    count: Size
    padded: Size
    panels: list[tuple[Span, Panel]]
    whole: bool

    def bound(self, col: Size) -> Size | None:
        """How many lanes of the vector that begins with column ``col`` are queries; None: all."""
        return None if self.whole else self.count - col


@dataclass(frozen=True, slots=True)
class Keys:
    """The block of ``count`` keys from ``first`` on."""

    first: Size
    count: Size


class AttentionBlocks(AttentionParts):
    """What both kernels share."""

    def __init__(
        self, k: Scalars, node: Node, names: Mapping[Node, str], outs: list[str], target: Target
    ) -> None:
        super().__init__(k, node, names, outs)
        self.target = target
        self.lanes = target.vector_bits // self.dtype.bits
        unit = main_width(target) * self.lanes
        self.block = _block_of(self.queries, unit * max(1, _QUERIES // unit), self.lanes)
        self.brought: dict[str, Matrix] = {}
        self.lying = [role for role in _FLOATS if role in self.of and self._lies_in_rows(role)]
        self.step = _KEYS
        if isinstance(self.keys, int):  # as equal parts as can be
            some = max(self.keys, 1)
            self.step = divisor(some, min(some, _KEYS * 3 // 2), min(some, _KEYS // 2))

    # -- memory ------------------------------------------------------------------------------

    def rooms(self, base: Size, sizes: Sequence[tuple[Size, Size]]) -> tuple[list[Matrix], Size]:
        """Matrices of these rows and columns behind each other from ``base`` on, and the end."""
        found = []
        for rows, columns in sizes:
            found.append(Matrix("scratch", base, columns, 1))
            base = base + rows * columns
        return found, base

    def pad_row(self, n: Size) -> Size:
        """The length of a row of ``n`` elements that vectors may read past."""
        return ceil_div(n, self.lanes) * self.lanes

    def matrix(self, which: int, batch: Index) -> Matrix:
        """An operand as it lies in memory."""
        found = matrix_of(self.matrices[which], batch, self.names)
        if isinstance(found.base, int):
            return found
        return replace(found, base=self.k.bind(self.k.index_value(found.base), "base"))

    def row(self, which: int, queries: Queries, col: Size) -> Operand:
        """The numbers of the queries from column ``col`` on, zeros past the last."""
        bound = queries.bound(col)
        values = Values(self.k, self.names, {}, self.lanes, bound)
        return values.at(self.rows[which], (*queries.batch, queries.first + col + LANE))

    # -- blocks ------------------------------------------------------------------------------

    def queries_at(self, batch: Index, number: Size) -> Queries:
        """The block of queries of that number."""
        k, block, lanes = self.k, self.block, self.lanes
        first = bind_index(k, number * block, self.queries)
        if isinstance(self.queries, int):
            panels = column_panels(block, lanes, self.target, main_rows(self.target))
            whole = self.queries % block == 0
            count = block if whole else self.bound_size(self.queries - first, block)
            return Queries(batch, first, count, block, panels, whole)
        count = self.bound_size(self.queries - first, block)
        padded = bind_index(k, ceil_div(count, lanes) * lanes, block + 1)
        unit = main_width(self.target)
        full = padded // (unit * lanes) * (unit * lanes)
        panels = [
            (Span(0, full, unit * lanes), Panel((lanes,) * unit)),
            (Span(full, padded, lanes), Panel((lanes,))),
        ]
        return Queries(batch, first, count, padded, panels, False)

    def bound_size(self, size: Size, most: int) -> Size:
        """``size``, at most ``most``, under a name."""
        return bind_index(self.k, dim_min(most, size), most + 1)

    def keys_of(self, queries: Queries) -> Iterator[Keys]:
        """The blocks of keys that some query of a block may see, in a loop over them."""
        k = self.k
        start, end = self.span_of_keys(queries.first, queries.count, self.step)
        for first in each(k, "keys", Span(start, end, self.step)):
            whole = isinstance(self.keys, int) and self.keys % self.step == 0
            rest = self.keys - first
            yield Keys(first, self.step if whole else self.bound_size(rest, self.step))

    # -- products ----------------------------------------------------------------------------

    def tiles(
        self, a: Matrix, b: Matrix, m: Size, depth: Size, panels: Sequence[tuple[Span, Panel]],
        n: Size, to: Result,
    ) -> None:  # fmt: skip
        """The product of ``a`` (m, depth) and ``b`` (depth, n), whose rows may be read past
        ``n``."""
        p = Product(a, b, m, n, depth, self.dtype, self.target)
        is_known = isinstance(self.queries, int) and isinstance(self.keys, int)
        if is_shared(p) and not is_known:
            scale = to.scale or Matrix("", 0, 0, 1)
            call_part(self.k, to.kind, p, to.matrix, (), scale.buffer, scale.base)
            return
        vectors = max((len(panel.lanes) for _, panel in panels), default=1)
        for span, rows in row_blocks(m, self.target, vectors):
            is_spare = not isinstance(m, int) and rows < main_rows(self.target)
            own = vector_by_vector(panels) if is_spare else panels
            for row in each(self.k, "i", span):
                for columns, panel in own:
                    for col in each(self.k, "j", columns):
                        for piece in emit_tile(self.k, p, rows, panel, row, col, packed=True):
                            self._store(to, piece)

    def into(self, to: Matrix) -> Result:
        """Where a product is stored."""
        return Result("strip", to)

    def onto(self, to: Matrix, scale: Matrix | None = None) -> Result:
        """What a product is added to, after its columns are scaled, if they are."""
        return Result("onto" if scale is None else "scaled", to, scale)

    def _store(self, to: Result, piece: Piece) -> None:
        finish_piece = storing(to.kind, to.matrix, to.scale)
        finish_piece(self.k, piece.acc, piece.row, piece.col, piece.lanes, piece.bound)

    def below(self, a: Matrix, first: Size) -> Matrix:
        """The rows of a matrix from ``first`` on."""
        return replace(a, base=self.k.bind(self.k.index_value(a.at(first, 0)), "begin"))

    # -- copies and passes -------------------------------------------------------------------

    def transpose(self, queries: Queries, a: Matrix, to: Matrix, depth: Size) -> None:
        """The rows of the queries as columns, with zeros for those that are none."""
        source = replace(a, base=a.at(queries.first, 0)).transpose
        copy_columns(self.k, source, to, depth, 0, queries.count, self.lanes)
        if queries.whole:
            return
        zero = self.k.const(0.0, self.dtype)
        for col in each(self.k, "pad", Span(queries.count, queries.padded, 1)):
            for row in each(self.k, "e", Span(0, depth, 1)):
                self.k.store(to.buffer, to.at(row, col), zero)

    def scale_rows(self, a: Matrix, rows: Size, queries: Queries) -> None:
        """Multiply rows of the workspace by the scale."""
        if self.scale == 1:
            return
        number = self.k.const(self.scale, self.dtype, self.lanes)
        for row in each(self.k, "e", Span(0, rows, 1)):
            for cols in self.vectors(queries):
                for col in cols:
                    self.save(a, row, col, self.k.mul(self.load(a, row, col), number))

    def vectors(self, queries: Queries) -> Iterator[list[Size]]:
        """The first columns of vectors that are side by side, in loops over all of them."""
        for columns, panel in queries.panels:
            for col in each(self.k, "c", columns):
                yield [col + i * self.lanes for i in range(len(panel.lanes))]

    def all_rows(self, a: Matrix, rows: Size, queries: Queries, value: float) -> None:
        """Fill rows of the workspace."""
        number = self.k.const(value, self.dtype, self.lanes)
        for row in each(self.k, "e", Span(0, rows, 1)):
            for cols in self.vectors(queries):
                for col in cols:
                    self.k.store(a.buffer, a.at(row, col + LANE), number)

    def load(self, a: Matrix, row: Size, col: Size) -> Operand:
        """A vector of the workspace."""
        return self.k.load(a.buffer, a.at(row, col + LANE), self.lanes)

    def save(self, a: Matrix, row: Size, col: Size, value: Operand) -> None:
        """Store a vector to the workspace."""
        self.k.store(a.buffer, a.at(row, col + LANE), value)

    def rooms_of_roles(self) -> list[tuple[Size, Size]]:
        """The rows and columns of the workspaces of roles that lie in rows."""
        return [(self.step, self.block)] * len(self.lying)

    def bring(self, queries: Queries, keys: Keys, rooms: Sequence[Matrix]) -> None:
        """Transpose what lies in rows into workspaces, for one block of queries and of keys: lanes
        are queries, whose elements are far apart there, and loads one by one take twice as long."""
        k = self.k
        self.brought = dict(zip(self.lying, rooms, strict=True))
        for name, room in self.brought.items():
            a = matrix_of(self.of[name], queries.batch, self.names)
            base = k.bind(k.index_value(a.at(queries.first, keys.first)), "begin")
            source = replace(a, base=base).transpose
            copy_columns(k, source, room, keys.count, 0, queries.count, self.lanes)

    def _lies_in_rows(self, name: str) -> bool:
        """Whether the elements of a role are in memory, those of a query behind each other."""
        node = self.of[name]
        shape = node.tensor_type.shape
        if len(shape) < 2 or 1 in shape[-2:]:
            return False
        source, index = source_of(node, canonical_index(shape, AXES[: len(shape)]))
        if source not in self.names:
            return False
        at, axes = source.tensor_type.offset(index), frozenset(AXES[: len(shape)])
        strides = [coefficient(at, axis) for axis in AXES[: len(shape)]]
        if any(stride is None or symbols_of(stride) & axes for stride in strides):
            return False
        return strides[-1] == 1

    def role(self, name: str, queries: Queries, keys: Keys, key: Size, col: Size) -> Operand:
        """What stands under that name for a key of a block and the queries from column ``col``
        on."""
        if name in self.brought:
            return self.load(self.brought[name], key, col)
        node = self.of[name]
        at = (*queries.batch, queries.first + col + LANE, keys.first + key)
        values = Values(self.k, self.names, {}, self.lanes, queries.bound(col))
        value = values.at(node, broadcast_index(at, node.tensor_type.shape))
        return self.k.splat(value, self.lanes)

    def roles_at(
        self, queries: Queries, keys: Keys, key: Size, col: Size
    ) -> Callable[[str], Operand]:
        """What gives that under its name."""
        return lambda name: self.role(name, queries, keys, key, col)


def _block_of(queries: Size, most: int, lanes: int) -> int:
    """Queries in a block: as many in each as can be, and whole vectors."""
    if not isinstance(queries, int):
        return most
    each = -(-queries // max(1, -(-queries // most)))
    return max(1, -(-each // lanes)) * lanes
