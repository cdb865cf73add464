"""Attention, whose weights are worked out block by block and never in memory as a whole.

A task is a block of queries. Keys pass by in blocks; the scores of both blocks, transposed, are a
product in a workspace that stays in a cache. The lanes of all vectors are queries: so each has the
largest score and the sum of the exponentials in a lane of its own, keys and values are read where
they are, whatever their layout, and no lanes are ever added up. When a score is larger than all
before it, what was summed up is scaled down (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et
al. 2022, arXiv:2205.14135).

The derivative takes a batch as a task, since each key takes part in the sums of each query. It
works the weights out again, from the logarithms of the sums that the first kernel leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.plan import (
    Panel,
    Span,
    column_panels,
    divisor,
    main_rows,
    main_width,
    row_blocks,
)
from staticflow.codegen.gemm.tile import Matrix, Product, each, emit_tile
from staticflow.codegen.kernel import LANE, Buffer, Kernel, Operand
from staticflow.codegen.lower.contract import matrix_of
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.seen_keys import seen_keys
from staticflow.codegen.lower.tasks import bind_index, each_in_groups
from staticflow.codegen.lower.values import Values
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import Index, delinear, linear
from staticflow.passes.access import broadcast_index

__all__ = ["lower_attention"]

_QUERIES = 96
"""Queries in a block, about: so many use each key and value that is loaded."""

_KEYS = 64
"""Keys in a block, about: the scores of both blocks fit into a usual first-level cache."""


@dataclass(frozen=True, slots=True)
class _Queries:
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
class _Keys:
    """The block of ``count`` keys from ``first`` on."""

    first: Size
    count: Size


def lower_attention(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> tuple[Kernel, list[Scratch]]:
    """The kernel of an op that lowers by `Attend`, and the scratch memory that it wants."""
    node = body.outputs[0].args[0]
    kind = _Backward if node.op.lowering.backward else _Forward
    work = kind(k, node, names, outs, target)
    k.buffers["scratch"] = Buffer("scratch", work.dtype, "inout")
    size = work.emit()
    return k.kernel(node.op.name), [Scratch("scratch", work.dtype, size)]


class _Attention:
    """What both kernels share."""

    def __init__(
        self, k: Scalars, node: Node, names: Mapping[Node, str], outs: list[str], target: Target
    ) -> None:
        self.k, self.names, self.outs, self.target = k, names, outs, target
        kind, args = node.op.lowering, node.args
        self.matrices = args[: kind.matrices]
        behind = kind.matrices + kind.rows
        self.rows = args[kind.matrices : behind]
        self.of = dict(zip(node.attrs["roles"], args[behind:], strict=True))
        self.fill: float = node.attrs["fill"]
        q, _, v = (a.tensor_type for a in self.matrices[:3])
        self.dtype = q.dtype
        self.lead, self.queries, self.inner = q.shape[:-2], q.shape[-2], q.shape[-1]
        self.keys, self.width = v.shape[-2], v.shape[-1]
        self.lanes = target.vector_bits // q.dtype.bits
        unit = main_width(target) * self.lanes
        self.block = _block_of(self.queries, unit * max(1, _QUERIES // unit), self.lanes)
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

    def row(self, which: int, queries: _Queries, col: Size) -> Operand:
        """The numbers of the queries from column ``col`` on, zeros past the last."""
        bound = queries.bound(col)
        values = Values(self.k, self.names, {}, self.lanes, bound)
        return values.at(self.rows[which], (*queries.batch, queries.first + col + LANE))

    # -- blocks ------------------------------------------------------------------------------

    def batches(self, at: Size) -> Index:
        """The index of batch ``at``."""
        pairs = zip(delinear(at, self.lead), self.lead, strict=True)
        return tuple(bind_index(self.k, i, d) for i, d in pairs)

    def queries_at(self, batch: Index, number: Size) -> _Queries:
        """The block of queries of that number."""
        k, block, lanes = self.k, self.block, self.lanes
        first = bind_index(k, number * block, self.queries)
        if isinstance(self.queries, int):
            panels = column_panels(block, lanes, self.target, main_rows(self.target))
            whole = self.queries % block == 0
            count = block if whole else self.bound_size(self.queries - first, block)
            return _Queries(batch, first, count, block, panels, whole)
        count = self.bound_size(self.queries - first, block)
        padded = bind_index(k, ceil_div(count, lanes) * lanes, block + 1)
        unit = main_width(self.target)
        full = padded // (unit * lanes) * (unit * lanes)
        panels = [
            (Span(0, full, unit * lanes), Panel((lanes,) * unit)),
            (Span(full, padded, lanes), Panel((lanes,))),
        ]
        return _Queries(batch, first, count, padded, panels, False)

    def bound_size(self, size: Size, most: int) -> Size:
        """``size``, at most ``most``, under a name."""
        return bind_index(self.k, dim_min(most, size), most + 1)

    def keys_of(self, queries: _Queries) -> Iterator[_Keys]:
        """The blocks of keys that some query of a block may see, in a loop over them."""
        k = self.k
        low, high = seen_keys(self.of, self.fill, queries.first, queries.first + queries.count)
        end = self.keys
        if high is not None:
            end = bind_index(k, dim_min(self.keys, dim_max(high, 0)), self.keys + 1)
        start: Size = 0
        if low is not None:
            least = dim_min(dim_max(low, 0), self.keys)
            start = bind_index(k, least // self.step * self.step, self.keys + 1)
        for first in each(k, "keys", Span(start, end, self.step)):
            whole = isinstance(self.keys, int) and self.keys % self.step == 0
            rest = self.keys - first
            yield _Keys(first, self.step if whole else self.bound_size(rest, self.step))

    # -- products ----------------------------------------------------------------------------

    def tiles(
        self, a: Matrix, b: Matrix, m: Size, depth: Size, panels: Sequence[tuple[Span, Panel]],
        n: Size, store: Callable[[Operand, Size, Size, Size | None], None],
    ) -> None:  # fmt: skip
        """The product of ``a`` (m, depth) and ``b`` (depth, n), whose rows may be read past ``n``.
        ``store(sum, row, col, bound)`` takes the columns of a row from ``col`` on, of which those
        past ``bound`` are off."""
        p = Product(a, b, m, n, depth, self.dtype, self.target)
        vectors = max((len(panel.lanes) for _, panel in panels), default=1)
        for span, rows in row_blocks(m, self.target, vectors):
            for row in each(self.k, "i", span):
                for columns, panel in panels:
                    for col in each(self.k, "j", columns):
                        for piece in emit_tile(self.k, p, rows, panel, row, col, packed=True):
                            store(piece.acc, piece.row, piece.col, piece.bound)

    def into(self, to: Matrix) -> Callable[[Operand, Size, Size, Size | None], None]:
        """What stores a product."""
        return lambda x, row, col, bound: self.k.store(to.buffer, to.at(row, col), x, bound)

    def onto(self, to: Matrix) -> Callable[[Operand, Size, Size, Size | None], None]:
        """What adds a product to what is there."""

        def store(x: Operand, row: Size, col: Size, bound: Size | None) -> None:
            before = self.k.load(to.buffer, to.at(row, col), x.lanes, bound)
            self.k.store(to.buffer, to.at(row, col), self.k.add(before, x), bound)

        return store

    def below(self, a: Matrix, first: Size) -> Matrix:
        """The rows of a matrix from ``first`` on."""
        return replace(a, base=self.k.bind(self.k.index_value(a.at(first, 0)), "begin"))

    # -- copies and passes -------------------------------------------------------------------

    def transpose(self, queries: _Queries, a: Matrix, to: Matrix, depth: Size) -> None:
        """The rows of the queries as columns, with zeros for those that are none."""
        source = replace(a, base=a.at(queries.first, 0)).transpose
        copy_columns(self.k, source, to, depth, 0, queries.count, self.lanes)
        if queries.whole:
            return
        zero = self.k.const(0.0, self.dtype)
        for col in each(self.k, "pad", Span(queries.count, queries.padded, 1)):
            for row in each(self.k, "e", Span(0, depth, 1)):
                self.k.store(to.buffer, to.at(row, col), zero)

    def vectors(self, queries: _Queries) -> Iterator[list[Size]]:
        """The first columns of vectors that are side by side, in loops over all of them."""
        for columns, panel in queries.panels:
            for col in each(self.k, "c", columns):
                yield [col + i * self.lanes for i in range(len(panel.lanes))]

    def all_rows(self, a: Matrix, rows: Size, queries: _Queries, value: float) -> None:
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

    def role(self, name: str, queries: _Queries, key: Size, col: Size) -> Operand:
        """What stands for a key and the queries from column ``col`` on under that name."""
        node = self.of[name]
        at = (*queries.batch, queries.first + col + LANE, key)
        values = Values(self.k, self.names, {}, self.lanes, queries.bound(col))
        value = values.at(node, broadcast_index(at, node.tensor_type.shape))
        return self.k.splat(value, self.lanes)

    def bias_and_fill(self, score: Operand, queries: _Queries, key: Size, col: Size) -> Operand:
        """A score with the bias and the fill."""
        if "bias" in self.of:
            score = self.k.add(score, self.role("bias", queries, key, col))
        if "keep" in self.of:
            kept = self.role("keep", queries, key, col)
            score = self.k.select(kept, score, self.k.const(self.fill, self.dtype, self.lanes))
        return score


def _block_of(queries: Size, most: int, lanes: int) -> int:
    """Queries in a block: as many in each as can be, and whole vectors."""
    if not isinstance(queries, int):
        return most
    each = -(-queries // max(1, -(-queries // most)))
    return max(1, -(-each // lanes)) * lanes


class _Forward(_Attention):
    """``softmax(q k^T) v`` and the logarithms of the sums."""

    def emit(self) -> Size:
        """Write the kernel; gives the elements of scratch memory."""
        k, block = self.k, self.block
        sizes = [(self.inner, block), (self.step, block), (self.width, block), *[(1, block)] * 3]
        _, room = self.rooms(0, sizes)
        blocks = ceil_div(self.queries, block)
        workers, tasks = each_in_groups(k, prod(self.lead) * blocks, self.target.workers)
        for at, worker in tasks:
            spaces, _ = self.rooms(worker * room, sizes)
            batch = bind_index(k, at // blocks, prod(self.lead)) if blocks != 1 else at
            queries = self.queries_at(self.batches(batch), at - batch * blocks)
            self._task(queries, *spaces)
        return workers * room

    def _task(
        self, queries: _Queries, qt: Matrix, st: Matrix, ot: Matrix, peak: Matrix, total: Matrix,
        shrink: Matrix,
    ) -> None:  # fmt: skip
        batch = queries.batch
        q, key, value = (self.matrix(i, batch) for i in range(3))
        self.transpose(queries, q, qt, self.inner)
        for row, start in ((peak, -math.inf), (total, 0.0)):
            self.all_rows(row, 1, queries, start)
        self.all_rows(ot, self.width, queries, 0.0)
        for keys in self.keys_of(queries):
            a, b = self.below(key, keys.first), self.below(value, keys.first)
            self.tiles(a, qt, keys.count, self.inner, queries.panels, queries.padded, self.into(st))
            self._weigh(queries, keys, st, peak, total, shrink)
            self.tiles(
                b.transpose, st, self.width, keys.count, queries.panels, queries.padded,
                self._shrunk(ot, shrink),
            )  # fmt: skip
        self._finish(queries, ot, peak, total)

    def _shrunk(
        self, ot: Matrix, shrink: Matrix
    ) -> Callable[[Operand, Size, Size, Size | None], None]:
        """What adds a product to what is there, after that was scaled down."""
        k = self.k

        def store(x: Operand, row: Size, col: Size, bound: Size | None) -> None:
            before = k.load(ot.buffer, ot.at(row, col), x.lanes)
            scale = k.load(shrink.buffer, shrink.at(0, col), x.lanes)
            k.store(ot.buffer, ot.at(row, col), k.fma(before, scale, x))

        return store

    def _weigh(
        self, queries: _Queries, keys: _Keys, st: Matrix, peak: Matrix, total: Matrix,
        shrink: Matrix,
    ) -> None:  # fmt: skip
        """Make exponentials of the scores, and bring the largest ones and the sums up to date."""
        k = self.k
        for cols in self.vectors(queries):
            before = [self.load(peak, 0, col) for col in cols]
            largest = [k.var(x) for x in before]
            with k.loop("key", keys.count) as j:
                for col, reg in zip(cols, largest, strict=True):
                    score = self.load(st, j, col)
                    if self.of.keys() - {"factor"}:
                        score = self.bias_and_fill(score, queries, keys.first + j, col)
                        self.save(st, j, col, score)
                    k.set(reg, k.select(k.compare("gt", score, reg), score, reg))
            bases, sums = [], []
            for col, old, reg in zip(cols, before, largest, strict=True):
                # where all are -inf, they must not meet themselves
                base = k.select(k.compare("eq", k.freeze(reg), -math.inf), 0.0, reg)
                scale = k.exp(k.sub(old, base))
                self.save(peak, 0, col, reg)
                self.save(shrink, 0, col, scale)
                bases.append(base)
                sums.append(k.var(k.mul(self.load(total, 0, col), scale)))
            with k.loop("key", keys.count) as j:
                for col, base, total_reg in zip(cols, bases, sums, strict=True):
                    weight = k.exp(k.sub(self.load(st, j, col), base))
                    k.set(total_reg, k.add(total_reg, weight))
                    if "factor" in self.of:
                        factor = self.role("factor", queries, keys.first + j, col)
                        weight = k.mul(weight, factor)
                    self.save(st, j, col, weight)
            for col, total_reg in zip(cols, sums, strict=True):
                self.save(total, 0, col, total_reg)

    def _finish(self, queries: _Queries, ot: Matrix, peak: Matrix, total: Matrix) -> None:
        """Divide by the sums, and store the results."""
        k = self.k
        out, lse, low = self.outs
        at = linear((*queries.batch, queries.first), (*self.lead, self.queries))
        for cols in self.vectors(queries):
            sums = [self.load(total, 0, col) for col in cols]
            has_empty = "empty" in self.of
            empty = [self.role("empty", queries, 0, col) for col in cols if has_empty]
            for i, (col, whole) in enumerate(zip(cols, sums, strict=True)):
                most, rest = self.load(peak, 0, col), k.log(whole)
                both = k.add(most, rest)
                lost = k.add(k.sub(most, both), rest)
                if has_empty:
                    both, lost = k.select(empty[i], math.inf, both), k.select(empty[i], 0.0, lost)
                k.store(lse, at + col + LANE, both, queries.bound(col))
                k.store(low, at + col + LANE, lost, queries.bound(col))
            divisors = [self._some(whole) for whole in sums]
            for row in each(k, "e", Span(0, self.width, 1)):
                for i, (col, whole) in enumerate(zip(cols, divisors, strict=True)):
                    value = k.div(self.load(ot, row, col), whole)
                    self.save(ot, row, col, k.select(empty[i], 0.0, value) if has_empty else value)
        to = Matrix(out, at * self.width, self.width, 1)
        copy_columns(k, ot.transpose, to, queries.count, 0, self.width, self.lanes)

    def _some(self, whole: Operand) -> Operand:
        """What sums are divided by; 1 where there are no keys at all, and zeros come out."""
        if is_provably_ge(self.keys, 1):
            return whole
        k, one = self.k, self.k.const(1.0, self.dtype, self.lanes)
        return k.select(k.compare("ge", k.index_value(self.keys, self.lanes), 1), whole, one)


class _Backward(_Attention):
    """The cotangents of queries, keys and values."""

    def emit(self) -> Size:
        """Write the kernel; gives the elements of scratch memory."""
        k, block = self.k, self.block
        e, w = self.pad_row(self.inner), self.pad_row(self.width)
        sizes = [
            (self.inner, block), (self.width, block), (block, e), (block, w),
            (self.step, block), (self.step, block), (self.inner, block),
        ]  # fmt: skip
        _, room = self.rooms(0, sizes)
        workers, tasks = each_in_groups(k, prod(self.lead), self.target.workers)
        for at, worker in tasks:
            spaces, _ = self.rooms(worker * room, sizes)
            batch = self.batches(at)
            keys, values = self._zeros(1, at), self._zeros(2, at)
            for number in each(k, "block", Span(0, ceil_div(self.queries, block), 1)):
                self._block(self.queries_at(batch, number), at, keys, values, spaces)
        return workers * room

    def _zeros(self, which: int, at: Size) -> Matrix:
        """The result ``which`` for batch ``at``, all zeros."""
        k, buffer = self.k, self.outs[which]
        columns = self.inner if which == 1 else self.width
        base = at * self.keys * columns
        start = k.bind(k.index_value(base), "begin") if not isinstance(base, int) else base
        size = self.keys * columns
        cut = size // self.lanes * self.lanes
        for span, lanes in ((Span(0, cut, self.lanes), self.lanes), (Span(cut, size, 1), 1)):
            for i in each(k, "z", span):
                zero = k.const(0.0, self.dtype, lanes)
                k.store(buffer, start + i + (LANE if lanes > 1 else 0), zero)
        return Matrix(buffer, start, columns, 1)

    def _block(
        self, queries: _Queries, at: Size, dk: Matrix, dv: Matrix, spaces: Sequence[Matrix]
    ) -> None:
        k = self.k
        qt, gt, qr, gr, pt, dt, dqt = spaces
        q, key, value, ct = (self.matrix(i, queries.batch) for i in range(4))
        self.transpose(queries, q, qt, self.inner)
        self.transpose(queries, ct, gt, self.width)
        self._copy_rows(queries, q, qr, self.inner)
        self._copy_rows(queries, ct, gr, self.width)
        self.all_rows(dqt, self.inner, queries, 0.0)
        rows = main_rows(self.target)
        of_inner = column_panels(self.inner, self.lanes, self.target, rows)
        of_width = column_panels(self.width, self.lanes, self.target, rows)
        for keys in self.keys_of(queries):
            a, b = self.below(key, keys.first), self.below(value, keys.first)
            here, n = (queries.panels, queries.padded), keys.count
            self.tiles(a, qt, n, self.inner, *here, self.into(pt))
            self.tiles(b, gt, n, self.width, *here, self.into(dt))
            self._weigh(queries, keys, pt, dt)
            to_v, to_k = self.below(dv, keys.first), self.below(dk, keys.first)
            self.tiles(pt, gr, n, queries.count, of_width, self.width, self.onto(to_v))
            self.tiles(dt, qr, n, queries.count, of_inner, self.inner, self.onto(to_k))
            self.tiles(a.transpose, dt, self.inner, n, *here, self.onto(dqt))
        base = (at * self.queries + queries.first) * self.inner
        to = Matrix(self.outs[0], base, self.inner, 1)
        copy_columns(k, dqt.transpose, to, queries.count, 0, self.inner, self.lanes)

    def _copy_rows(self, queries: _Queries, a: Matrix, to: Matrix, columns: Size) -> None:
        """The rows of the queries behind each other."""
        k = self.k
        a = self.below(a, queries.first)
        wide = self.lanes if a.col == 1 else 1
        cut = columns // wide * wide
        for row in each(k, "r", Span(0, queries.count, 1)):
            for span, lanes in ((Span(0, cut, wide), wide), (Span(cut, columns, 1), 1)):
                for col in each(k, "c", span):
                    at = col + LANE if lanes > 1 else col
                    k.store(to.buffer, to.at(row, at), k.load(a.buffer, a.at(row, at), lanes))

    def _weigh(self, queries: _Queries, keys: _Keys, pt: Matrix, dt: Matrix) -> None:
        """Make weights of scores, and of the cotangents of weights those of scores."""
        k = self.k
        for cols in self.vectors(queries):
            bases = [[self.row(i, queries, col) for i in range(3)] for col in cols]
            with k.loop("key", keys.count) as j:
                for col, (lse, low, delta) in zip(cols, bases, strict=True):
                    at = (queries, keys.first + j, col)
                    score = self.bias_and_fill(self.load(pt, j, col), *at)
                    weight = k.exp(k.sub(k.sub(score, lse), low))
                    ct = self.load(dt, j, col)
                    used = weight
                    if "factor" in self.of:
                        factor = self.role("factor", *at)
                        ct, used = k.mul(ct, factor), k.mul(weight, factor)
                    ct = k.mul(weight, k.sub(ct, delta))
                    if "keep" in self.of:
                        zero = k.const(0.0, self.dtype, self.lanes)
                        ct = k.select(self.role("keep", *at), ct, zero)
                    self.save(pt, j, col, used)
                    self.save(dt, j, col, ct)
