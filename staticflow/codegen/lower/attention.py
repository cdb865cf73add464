"""Attention, whose weights are worked out block by block and never in memory as a whole.

A task is a block of queries. Keys pass by in blocks; the scores of both blocks, transposed, are a
product in a workspace that stays in a cache. The lanes of all vectors are queries: so each has the
largest score and the sum of the exponentials in a lane of its own, keys and values are read where
they are, whatever their layout, and no lanes are ever added up. When a score is larger than all
before it, what was summed up is scaled down (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et
al. 2022, arXiv:2205.14135).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.plan import Span
from staticflow.codegen.gemm.tile import Matrix, each
from staticflow.codegen.kernel import LANE, Buffer, Kernel
from staticflow.codegen.lower.attention_blocks import AttentionBlocks, Keys, Queries
from staticflow.codegen.lower.attention_gradient import Backward
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.tasks import bind_index, each_in_groups
from staticflow.codegen.lower.team_attention import emit_team_attention
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.graph.dims import Size, ceil_div, prod
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import linear

__all__ = ["lower_attention"]


def lower_attention(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> tuple[Kernel, list[Scratch]]:
    """The kernel of an op that lowers by `Attend`, and the scratch memory that it wants."""
    node = body.outputs[0].args[0]
    if target.teams:
        emit_team_attention(k, node, names, outs)
        return k.kernel(node.op.name), []
    kind = Backward if node.op.lowering.backward else Forward
    work = kind(k, node, names, outs, target)
    k.buffers["scratch"] = Buffer("scratch", work.dtype, "inout")
    size = work.emit()
    return k.kernel(node.op.name), [Scratch("scratch", work.dtype, size)]


class Forward(AttentionBlocks):
    """``softmax((scale q) k^T) v`` and the logarithms of the sums."""

    def emit(self) -> Size:
        """Write the kernel; gives the elements of scratch memory."""
        k, block = self.k, self.block
        sizes = [
            (self.inner, block), (self.step, block), (self.width, block), *[(1, block)] * 3,
            *self.rooms_of_roles(),
        ]  # fmt: skip
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
        self, queries: Queries, qt: Matrix, st: Matrix, ot: Matrix, peak: Matrix, total: Matrix,
        shrink: Matrix, *rooms: Matrix,
    ) -> None:  # fmt: skip
        batch = queries.batch
        q, key, value = (self.matrix(i, batch) for i in range(3))
        self.transpose(queries, q, qt, self.inner)
        self.scale_rows(qt, self.inner, queries)
        for row, start in ((peak, -math.inf), (total, 0.0)):
            self.all_rows(row, 1, queries, start)
        self.all_rows(ot, self.width, queries, 0.0)
        for keys in self.keys_of(queries):
            a, b = self.below(key, keys.first), self.below(value, keys.first)
            self.tiles(a, qt, keys.count, self.inner, queries.panels, queries.padded, self.into(st))
            self.bring(queries, keys, rooms)
            self._weigh(queries, keys, st, peak, total, shrink)
            self.tiles(
                b.transpose, st, self.width, keys.count, queries.panels, queries.padded,
                self.onto(ot, shrink),
            )  # fmt: skip
        self._finish(queries, ot, peak, total)

    def _weigh(
        self, queries: Queries, keys: Keys, st: Matrix, peak: Matrix, total: Matrix,
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
                    if self.changes_scores:
                        roles = self.roles_at(queries, keys, j, col)
                        score = self.change_score(self.bound_score(score), roles)
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
                        factor = self.role("factor", queries, keys, j, col)
                        weight = k.mul(weight, factor)
                    self.save(st, j, col, weight)
            for col, total_reg in zip(cols, sums, strict=True):
                self.save(total, 0, col, total_reg)

    def _finish(self, queries: Queries, ot: Matrix, peak: Matrix, total: Matrix) -> None:
        """Divide by the sums, and store the results."""
        k = self.k
        out, lse, low = self.outs
        at = linear((*queries.batch, queries.first), (*self.lead, self.queries))
        for cols in self.vectors(queries):
            sums = [self.load(total, 0, col) for col in cols]
            has_empty = "empty" in self.of
            empty = [self.role("empty", queries, Keys(0, 1), 0, col) for col in cols if has_empty]
            for i, (col, whole) in enumerate(zip(cols, sums, strict=True)):
                most, rest = self.load(peak, 0, col), k.log(whole)
                both = k.add(most, rest)
                lost = k.add(k.sub(most, both), rest)
                if has_empty:
                    both, lost = k.select(empty[i], math.inf, both), k.select(empty[i], 0.0, lost)
                k.store(lse, at + col + LANE, both, queries.bound(col))
                k.store(low, at + col + LANE, lost, queries.bound(col))
            divisors = [self.divisor(whole, self.lanes) for whole in sums]
            for row in each(k, "e", Span(0, self.width, 1)):
                for i, (col, whole) in enumerate(zip(cols, divisors, strict=True)):
                    value = k.div(self.load(ot, row, col), whole)
                    self.save(ot, row, col, k.select(empty[i], 0.0, value) if has_empty else value)
        to = Matrix(out, at * self.width, self.width, 1)
        copy_columns(k, ot.transpose, to, queries.count, 0, self.width, self.lanes)
