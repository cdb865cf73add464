"""The derivative of attention, from the logarithms of the sums that the first kernel leaves.

A task is a batch, since each key takes part in the sums of each query. The weights are worked out
again, block by block.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.plan import Span, column_panels, main_rows
from staticflow.codegen.gemm.tile import Matrix, each
from staticflow.codegen.kernel import LANE, Operand
from staticflow.codegen.lower.attention_blocks import AttentionBlocks, Keys, Queries
from staticflow.codegen.lower.tasks import each_in_groups
from staticflow.graph.dims import Size, ceil_div, prod

__all__ = ["Backward"]


class Backward(AttentionBlocks):
    """The cotangents of queries, keys and values."""

    def emit(self) -> Size:
        """Write the kernel; gives the elements of scratch memory."""
        k, block = self.k, self.block
        e, w = self.pad_row(self.inner), self.pad_row(self.width)
        sizes = [
            (self.inner, block), (self.width, block), (block, e), (block, w),
            (self.step, block), (self.step, block), (self.inner, block),
        ]  # fmt: skip
        if self.with_scores:
            sizes.append((self.step, block))
        sizes += self.rooms_of_roles()
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
        self, queries: Queries, at: Size, dk: Matrix, dv: Matrix, spaces: Sequence[Matrix]
    ) -> None:
        k = self.k
        qt, gt, qr, gr, pt, dt, dqt, *rest = spaces
        of_scores, rooms = rest[: self.with_scores], rest[self.with_scores :]
        q, key, value, ct = (self.matrix(i, queries.batch) for i in range(4))
        self.transpose(queries, q, qt, self.inner)
        self.scale_rows(qt, self.inner, queries)
        self.transpose(queries, ct, gt, self.width)
        self._copy_rows(queries, q, qr, self.inner, self.scale)
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
            self.bring(queries, keys, rooms)
            self._weigh(queries, keys, pt, dt, *of_scores)
            for scores in of_scores:
                self._save_scores(queries, keys, at, scores)
            to_v, to_k = self.below(dv, keys.first), self.below(dk, keys.first)
            self.tiles(pt, gr, n, queries.count, of_width, self.width, self.onto(to_v))
            self.tiles(dt, qr, n, queries.count, of_inner, self.inner, self.onto(to_k))
            self.tiles(a.transpose, dt, self.inner, n, *here, self.onto(dqt))
        self.scale_rows(dqt, self.inner, queries)
        base = (at * self.queries + queries.first) * self.inner
        to = Matrix(self.outs[0], base, self.inner, 1)
        copy_columns(k, dqt.transpose, to, queries.count, 0, self.inner, self.lanes)

    def _copy_rows(
        self, queries: Queries, a: Matrix, to: Matrix, columns: Size, scale: float = 1.0
    ) -> None:
        """The rows of the queries behind each other, times a number."""
        k = self.k
        a = self.below(a, queries.first)
        wide = self.lanes if a.col == 1 else 1
        cut = columns // wide * wide
        for row in each(k, "r", Span(0, queries.count, 1)):
            for span, lanes in ((Span(0, cut, wide), wide), (Span(cut, columns, 1), 1)):
                for col in each(k, "c", span):
                    at = col + LANE if lanes > 1 else col
                    x: Operand = k.load(a.buffer, a.at(row, at), lanes)
                    if scale != 1:
                        x = k.mul(x, k.const(scale, self.dtype, lanes))
                    k.store(to.buffer, to.at(row, at), x)

    def _save_scores(self, queries: Queries, keys: Keys, at: Size, scores: Matrix) -> None:
        """Store the cotangents of scores."""
        base = self.k.bind(
            self.k.index_value((at * self.queries + queries.first) * self.keys + keys.first),
            "begin",
        )
        to = Matrix(self.outs[3], base, self.keys, 1)
        copy_columns(self.k, scores.transpose, to, queries.count, 0, keys.count, self.lanes)

    def _weigh(
        self, queries: Queries, keys: Keys, pt: Matrix, dt: Matrix, scores: Matrix | None = None
    ) -> None:
        """Make weights of products, and of the cotangents of weights those of products, and those
        of ``scores`` where there is room for them."""
        k = self.k
        for cols in self.vectors(queries):
            bases = [[self.row(i, queries, col) for i in range(3)] for col in cols]
            with k.loop("key", keys.count) as j:
                for col, (lse, low, delta) in zip(cols, bases, strict=True):
                    role = self.roles_at(queries, keys, j, col)
                    bounded = self.bound_score(self.load(pt, j, col))
                    score = self.change_score(bounded, role)
                    weight = k.exp(k.sub(k.sub(score, lse), low))
                    ct = self.load(dt, j, col)
                    used = weight
                    if "factor" in self.of:
                        factor = role("factor")
                        ct, used = k.mul(ct, factor), k.mul(weight, factor)
                    ct = self.keep_seen(k.mul(weight, k.sub(ct, delta)), role)
                    if scores is not None:
                        self.save(scores, j, col, ct)
                    ct = self.pull_score(ct, bounded, role)
                    self.save(pt, j, col, used)
                    self.save(dt, j, col, ct)
