"""Attention on a GPU, whose weights are in registers and shared memory alone.

Forward a block of threads has 64 queries, past which keys go in blocks, as in `Forward` of the CPU.
Backward is two launches, so that every sum has one owner and the same order in each run: a block of
threads has 64 queries and adds up their cotangent, then one has a block of keys and adds up those
of keys and values. Both work the weights out again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from staticflow.codegen.kernel import TEAMS, Operand
from staticflow.codegen.lower.attention_parts import AttentionParts
from staticflow.codegen.lower.tasks import bind_index
from staticflow.codegen.lower.team_results import Rows, TeamResult, inside, own_elements
from staticflow.codegen.lower.team_tiles import SIDE, TILE, Kept, Passing, TeamTiles, divmod_of
from staticflow.codegen.lower.values import Values
from staticflow.codegen.lower.windows import COL, ROW, Array
from staticflow.codegen.maths.scalars import Scalars
from staticflow.graph.dims import Dim, Size, ceil_div, dim_min, prod
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import Index
from staticflow.passes.access import broadcast_index

__all__ = ["emit_team_attention"]

Role: TypeAlias = Callable[[str], Operand]

_SHARED_ROW = 256
"""Bytes of the scores of a query in shared memory: 64 keys of 4 bytes. A block of threads has 48
KiB of it for everything."""

_ROWS = ("lse", "low", "delta")
"""Names of what the derivative is given for each query."""

_PARTS = TEAMS["blocks"] // TILE
"""Threads for each query where scores of a block of keys are compared and added up."""


def emit_team_attention(k: Scalars, node: Node, names: Mapping[Node, str], outs: list[str]) -> None:
    """The kernel of an op that lowers by `Attend`."""
    kind = _Backward if node.op.lowering.backward else _Forward
    kind(k, node, names, outs).emit()


class _TeamAttention(AttentionParts):
    """What both kernels share. ``step`` keys are in a block."""

    def __init__(self, k: Scalars, node: Node, names: Mapping[Node, str], outs: list[str]) -> None:
        super().__init__(k, node, names, outs)
        self.arrays = [Array(a, names) for a in self.matrices]
        self.step = _SHARED_ROW // self.dtype.itemsize
        self.pitch = self.step + 1
        self.count = TILE // SIDE * self.step // SIDE  # scores of a thread

    @contextmanager
    def blocks_of(self, size: Size, step: int) -> Iterator[tuple[Rows, TeamTiles, str]]:
        """A launch with a block of threads for each ``step`` rows: these, what multiplies tiles,
        and the shared array of the scores of queries and keys."""
        k, blocks = self.k, ceil_div(size, step)
        with k.loop("tile", prod(self.lead) * blocks, kind="blocks") as tile:
            some = 1 if blocks == 0 else blocks  # of none there is no iteration
            number = bind_index(k, tile // some, prod(self.lead))
            batch = self.batches(number)
            first = bind_index(k, (tile - number * some) * step, size)
            rows = self._rows(batch, number, first, size, step)
            tiles = TeamTiles(k, self.dtype)
            yield rows, tiles, k.local(self.dtype, TILE * self.pitch, "shared")

    def _rows(self, batch: Index, number: Size, first: Size, size: Size, step: int) -> Rows:
        count = bind_index(self.k, dim_min(size - first, step), step + 1)
        return Rows(batch, number * size, first, count)

    def keys_of(self, queries: Rows) -> Iterator[Rows]:
        """The blocks of keys that some of the queries may see, in a loop over them."""
        start, end = self.span_of_keys(queries.first, queries.count, self.step)
        with self.k.loop("keys", end, lo=start, step=self.step) as first:
            yield self._rows(queries.batch, 0, first, self.keys, self.step)

    def queries_of(self, keys: Rows) -> Iterator[Rows]:
        """The blocks of queries that may see some of the keys, in a loop over them."""
        start, end = self.span_of_queries(keys.first, keys.count, TILE)
        with self.k.loop("queries", end, lo=start, step=TILE) as first:
            yield self._rows(keys.batch, 0, first, self.queries, TILE)

    # -- products ----------------------------------------------------------------------------

    def rows_of(self, which: int, rows: Rows) -> Passing:
        """Rows of a matrix as an operand, the inner dimension of which are the columns."""
        return Passing(
            lambda row, column: self._element(which, rows.batch, row, column),
            not self._lies_by_columns(which), rows.first, rows.first + rows.count,
        )  # fmt: skip

    def columns_of(self, which: int, rows: Rows, chunk: Size) -> Passing:
        """The columns of a matrix from ``chunk`` on as an operand, the inner dimension of which are
        some rows."""
        width = self.arrays[which].shape[-1]
        return Passing(
            lambda column, row: self._element(which, rows.batch, rows.first + row, column),
            self._lies_by_columns(which), chunk, width,
        )  # fmt: skip

    def _element(self, which: int, batch: Index, row: Size, column: Size) -> Operand:
        """An element of a matrix; queries are scaled."""
        k, array = self.k, self.arrays[which]
        value = array.load(k, (*batch, *broadcast_index((row, column), array.shape[-2:])))
        scaled = which == 0 and self.scale != 1
        return k.mul(value, k.const(self.scale, self.dtype)) if scaled else value

    def _lies_by_columns(self, which: int) -> bool:
        """Whether the elements of a column of a matrix are neighbours in memory."""
        array = self.arrays[which]
        lead: Index = (0,) * len(self.lead)
        return array.matrix((*lead, Dim.of(ROW), Dim.of(COL))).row == 1

    def products_of_rows(
        self, tiles: TeamTiles, sums: str, left: tuple[int, Rows], right: tuple[int, Rows]
    ) -> None:
        """The product of rows of a matrix with each row of another one, in ``sums``."""
        depth = self.arrays[left[0]].shape[-1]
        tiles.clear(sums, self.count)
        tiles.add_up(
            sums, self.rows_of(*left), self.rows_of(*right), (0, depth), depth, columns=self.step
        )

    # -- scores ------------------------------------------------------------------------------

    def each_score(
        self, queries: Rows, keys: Rows, write: Callable[[int, Size, Role], None],
        otherwise: Callable[[int, Size], None],
    ) -> None:  # fmt: skip
        """Call ``write(own, place, role)`` for each score of a thread: which of its own it is,
        where it is in shared memory, and what gives the number that stands for its query and key
        under a name. What has no query or no key gets ``otherwise``."""
        k = self.k
        with k.loop("t", TEAMS["blocks"], kind="threads") as t:
            for own, row, column in own_elements(t, TILE, self.step):
                place = row * self.pitch + column
                here = inside(k, (row, queries.count), (column, keys.count))
                there = self._role_at(queries, keys, row, column)
                k.choose(
                    here,
                    functools.partial(write, own, place, there),
                    functools.partial(otherwise, own, place),
                )

    def _role_at(self, queries: Rows, keys: Rows, row: Size, column: Size) -> Role:
        """What gives the number under a name, that of a role or of a row, of a query and a key."""
        k = self.k

        def role(name: str) -> Operand:
            query = bind_index(k, queries.first + row, self.queries)
            if name in _ROWS:
                return self.at(self.rows[_ROWS.index(name)], (*queries.batch, query))
            key = bind_index(k, keys.first + column, self.keys)
            return self.at(self.of[name], (*queries.batch, query, key))

        return role

    def at(self, node: Node, index: Index) -> Operand:
        """An element of an array that broadcasts to the shape of the scores, or of its rows."""
        values = Values(self.k, self.names)
        return values.at(node, broadcast_index(index, node.tensor_type.shape))


class _Forward(_TeamAttention):
    """``softmax((scale q) k^T) v`` and the logarithms of the sums."""

    def emit(self) -> None:
        """Write the kernel."""
        k = self.k
        with self.blocks_of(self.queries, TILE) as (queries, tiles, scores):
            self.scores = scores
            self.parts = k.local(self.dtype, TEAMS["blocks"], "shared")
            self.peak, self.total, self.shrink = (
                k.local(self.dtype, TILE, "shared") for _ in range(3)
            )
            sums = k.local(self.dtype, TILE // SIDE * TILE // SIDE, "private")
            result = TeamResult(k, self.outs[0], self.dtype, queries, self.width, TILE)
            with k.loop("row", TILE, kind="threads") as row:
                k.store(self.peak, row, k.const(-math.inf, self.dtype))
                k.store(self.total, row, tiles.zero)
            for keys in self.keys_of(queries):
                self.products_of_rows(tiles, sums, (0, queries), (1, keys))
                self._weigh(queries, keys, sums)
                weights = Kept(scores, self.pitch, 1)
                for chunk in result.chunks():
                    tiles.clear(sums, result.count)
                    values = self.columns_of(2, keys, chunk)
                    tiles.add_up(sums, weights, values, (0, keys.count), keys.count)
                    result.add(chunk, sums, lambda row: k.load(self.shrink, row))
            self._finish(queries, result)

    def _weigh(self, queries: Rows, keys: Rows, sums: str) -> None:
        """Make exponentials of the scores, and bring the largest ones and the sums up to date."""
        k, lowest = self.k, self.k.const(-math.inf, self.dtype)

        def score(own: int, place: Size, role: Callable[[str], Operand]) -> None:
            k.store(
                self.scores, place, self.change_score(self.bound_score(k.load(sums, own)), role)
            )

        self.each_score(queries, keys, score, lambda own, at: k.store(self.scores, at, lowest))
        with self._parts_of_rows() as (t, row, first):
            most = k.var(lowest)
            with k.loop("key", self.step // _PARTS) as j:
                x = k.load(self.scores, row * self.pitch + first + j)
                k.set(most, k.select(k.compare("gt", x, most), x, most))
            k.store(self.parts, t, most)
        with k.loop("row", TILE, kind="threads") as row:
            before: Operand = k.load(self.peak, row)
            peak = before
            for part in range(_PARTS):
                x = k.load(self.parts, row + part * TILE)
                peak = k.select(k.compare("gt", x, peak), x, peak)
            k.store(self.peak, row, peak)
            k.store(self.shrink, row, k.exp(k.sub(before, self._base(peak))))
        with self._parts_of_rows() as (t, row, first):
            base = self._base(k.load(self.peak, row))
            total = k.var(k.const(0.0, self.dtype))
            with k.loop("key", self.step // _PARTS) as j:
                at = row * self.pitch + first + j
                weight = k.exp(k.sub(k.load(self.scores, at), base))
                k.set(total, k.add(total, weight))
                k.store(self.scores, at, weight)
            k.store(self.parts, t, total)
        with k.loop("row", TILE, kind="threads") as row:
            whole: Operand = k.mul(k.load(self.total, row), k.load(self.shrink, row))
            for part in range(_PARTS):
                whole = k.add(whole, k.load(self.parts, row + part * TILE))
            k.store(self.total, row, whole)
        if "factor" in self.of:

            def multiply(own: int, place: Size, role: Callable[[str], Operand]) -> None:
                weight = k.load(self.scores, place)
                k.store(self.scores, place, k.mul(weight, role("factor")))

            self.each_score(queries, keys, multiply, lambda own, at: None)

    @contextmanager
    def _parts_of_rows(self) -> Iterator[tuple[Dim, Size, Size]]:
        """A loop over threads, each with a part of the scores of a query: its number, its row, and
        the first column."""
        with self.k.loop("t", TEAMS["blocks"], kind="threads") as t:
            part, row = divmod_of(t, TILE)
            yield t, row, part * (self.step // _PARTS)

    def _base(self, peak: Operand) -> Operand:
        """The number that is subtracted from a query's scores before their exponentials: ``peak``,
        the largest of them, or 0 where all are -inf, since -inf less -inf is NaN."""
        return self.k.select(self.k.compare("eq", peak, -math.inf), 0.0, peak)

    def _finish(self, queries: Rows, result: TeamResult) -> None:
        """Divide by the sums, and store the results."""
        k = self.k
        _, lse, low = self.outs

        def divide(value: Operand, row: Size) -> Operand:
            value = k.div(value, self.divisor(k.load(self.total, row)))
            return (
                k.select(self._is_empty(queries, row), 0.0, value) if self._may_be_empty else value
            )

        result.finish(divide)
        with k.loop("row", TILE, kind="threads") as row, k.when(inside(k, (row, queries.count))):
            most, rest = k.load(self.peak, row), k.log(k.load(self.total, row))
            both = k.add(most, rest)
            lost = k.add(k.sub(most, both), rest)
            if self._may_be_empty:
                empty = self._is_empty(queries, row)
                both, lost = k.select(empty, math.inf, both), k.select(empty, 0.0, lost)
            at = queries.before + queries.first + row
            k.store(lse, at, both)
            k.store(low, at, lost)

    @property
    def _may_be_empty(self) -> bool:
        return "empty" in self.of

    def _is_empty(self, queries: Rows, row: Size) -> Operand:
        query = bind_index(self.k, queries.first + row, self.queries)
        return self.at(self.of["empty"], (*queries.batch, query, 0))


class _Backward(_TeamAttention):
    """The cotangents of queries, keys and values, from the logarithms of the sums that the first
    kernel leaves."""

    def emit(self) -> None:
        """Write both launches."""
        self._of_queries()
        self._of_keys()

    def _of_queries(self) -> None:
        k = self.k
        with self.blocks_of(self.queries, TILE) as (queries, tiles, room):
            used, cts = self._sums()
            scores = k.local(self.dtype, self.count, "private") if self.with_scores else None
            sums = k.local(self.dtype, TILE // SIDE * TILE // SIDE, "private")
            result = TeamResult(k, self.outs[0], self.dtype, queries, self.inner, TILE)
            for keys in self.keys_of(queries):
                self._weights(tiles, queries, keys, used, cts, scores)
                if scores is not None:
                    self._save_scores(queries, keys, scores)
                self._show(cts, room)
                self._multiply(tiles, result, sums, Kept(room, self.pitch, 1), (1, keys))
            by = k.const(self.scale, self.dtype)
            result.finish(lambda value, row: k.mul(value, by) if self.scale != 1 else value)

    def _of_keys(self) -> None:
        k = self.k
        with self.blocks_of(self.keys, self.step) as (keys, tiles, room):
            used, cts = self._sums()
            sums = k.local(self.dtype, self.step // SIDE * TILE // SIDE, "private")
            of_keys, of_values = (
                TeamResult(k, buffer, self.dtype, keys, width, self.step)
                for buffer, width in zip(self.outs[1:3], (self.inner, self.width), strict=True)
            )
            for queries in self.queries_of(keys):
                self._weights(tiles, queries, keys, used, cts)
                transposed = Kept(room, 1, self.pitch)
                self._show(used, room)
                self._multiply(tiles, of_values, sums, transposed, (3, queries))
                self._show(cts, room)
                self._multiply(tiles, of_keys, sums, transposed, (0, queries))
            for result in (of_keys, of_values):
                result.finish(lambda value, row: value)

    def _sums(self) -> tuple[str, str]:
        """Private arrays of the weights and the cotangents of the scores that are a thread's."""
        first, second = (self.k.local(self.dtype, self.count, "private") for _ in range(2))
        return first, second

    def _multiply(
        self, tiles: TeamTiles, result: TeamResult, sums: str, left: Kept, right: tuple[int, Rows]
    ) -> None:
        """Add a product to a result, chunk by chunk."""
        which, rows = right
        for chunk in result.chunks():
            tiles.clear(sums, result.count)
            columns = self.columns_of(which, rows, chunk)
            tiles.add_up(sums, left, columns, (0, rows.count), rows.count, rows=result.height)
            result.add(chunk, sums)

    def _save_scores(self, queries: Rows, keys: Rows, scores: str) -> None:
        """Store the cotangents of scores that are each thread's."""
        k = self.k
        with k.loop("t", TEAMS["blocks"], kind="threads") as t:
            for own, row, column in own_elements(t, TILE, self.step):
                with k.when(inside(k, (row, queries.count), (column, keys.count))):
                    query = queries.before + queries.first + row
                    at = query * self.keys + keys.first + column
                    k.store(self.outs[3], at, k.load(scores, own))

    def _weights(
        self, tiles: TeamTiles, queries: Rows, keys: Rows, used: str, cts: str,
        scores: str | None = None,
    ) -> None:  # fmt: skip
        """The weights as they are used, the cotangents of the products of queries and keys, and
        those of ``scores`` where there is an array for them."""
        k = self.k
        self.products_of_rows(tiles, used, (0, queries), (1, keys))
        self.products_of_rows(tiles, cts, (3, queries), (2, keys))

        def weigh(own: int, place: Size, role: Callable[[str], Operand]) -> None:
            lse, low, delta = map(role, ("lse", "low", "delta"))
            bounded = self.bound_score(k.load(used, own))
            score = self.change_score(bounded, role)
            weight = k.exp(k.sub(k.sub(score, lse), low))
            ct: Operand = k.load(cts, own)
            multiplied = weight
            if "factor" in self.of:
                factor = role("factor")
                ct, multiplied = k.mul(ct, factor), k.mul(weight, factor)
            ct = self.keep_seen(k.mul(weight, k.sub(ct, delta)), role)
            if scores is not None:
                k.store(scores, own, ct)
            ct = self.pull_score(ct, bounded, role)
            k.store(used, own, multiplied)
            k.store(cts, own, ct)

        def nothing(own: int, place: Size) -> None:
            k.store(used, own, tiles.zero)
            k.store(cts, own, tiles.zero)

        self.each_score(queries, keys, weigh, nothing)

    def _show(self, own: str, room: str) -> None:
        """Copy what is each thread's to shared memory."""
        k = self.k
        with k.loop("t", TEAMS["blocks"], kind="threads") as t:
            for i, row, column in own_elements(t, TILE, self.step):
                k.store(room, row * self.pitch + column, k.load(own, i))
