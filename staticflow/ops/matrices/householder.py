"""Orthogonal factors in kernels: reflections that make a matrix upper triangular, in blocks of
columns, so that most of the work are products.

Each column below the diagonal is taken to 0 by a reflection ``1 - tau v vT``, where v is 1 on the
diagonal. Those of a block together are ``1 - V T VT`` with an upper triangular T.

Golub and Van Loan 2013, "Matrix Computations", 5.1 and 5.2; Schreiber and Van Loan 1989, "A
storage-efficient WY representation for products of Householder transformations".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from staticflow.graph.dims import Size, ceil_div, dim_min, is_provably_ge
from staticflow.graph.dtypes import DType, bool_
from staticflow.ops.matrices.matrix_work import THREADS, TeamWork, Work

__all__ = ["Reflections", "reflections_of"]

_BLOCK = 32
"""Columns of a block."""

_CHAINS = 4
"""Rows that are added up side by side, so that none waits for the sum before."""

_WIDE = 2.0**20
"""Sums of squares that are more, or less than a part in so many, are of numbers to be scaled."""


class Reflections:
    """The reflections that make the first ``count`` columns of a matrix upper triangular, no more
    than it has rows; all other columns are reflected with them.

    The upper triangle of a block's own rows is kept apart, so that V lies as it is, with ones and
    zeros, where the block was. `restore` puts the triangles back.
    """

    def __init__(self, work: Work, count: Size, width: Size) -> None:
        """``width`` is how many columns are reflected at a time, at most."""
        self.work, self.count = work, count
        self.nest, self.k, self.rows = work.nest, work.k, work.rows
        self.dtype: DType = work.nest.in_type(0).dtype
        self.block = dim_min(_BLOCK, count) if isinstance(count, int) else _BLOCK
        self.vectors = min(4, max(1, _BLOCK // work.lanes))
        size = ceil_div(count, _BLOCK) * _BLOCK
        self.factors = work.room(size, self.block)  # T of each block, transposed
        self.triangles = work.room(size, self.block)
        self.row = work.room(1, _BLOCK)
        self.first, self.second = (work.beside(self.block, width) for _ in range(2))
        self.scale = self.k.var(self.k.const(1.0, self.dtype))
        for lo, hi in self._blocks():
            for c in self.nest.each("c", lo, hi):
                self._reflect_column(c, lo, hi)
            self._put_apart(lo, hi)
            if not is_provably_ge(hi, work.columns):
                self._reflect(lo, hi, work, hi, work.columns, transposed=True)

    def _blocks(self) -> Iterator[tuple[Size, Size]]:
        for lo in self.nest.each("block", 0, self.count, _BLOCK):
            yield lo, self.nest.name_size(dim_min(lo + _BLOCK, self.count))

    def apply(self, to: Work) -> None:
        """Multiply a matrix by the orthogonal one that the reflections come to, from the left. Its
        first columns are those of the identity, as many as there are reflections, or all."""
        blocks = ceil_div(self.count, _BLOCK)
        for back in self.nest.each("block", 0, blocks, 1):
            lo = (blocks - 1 - back) * _BLOCK
            hi = self.nest.name_size(dim_min(lo + _BLOCK, self.count))
            self._reflect(lo, hi, to, lo, to.columns, transposed=False)

    def restore(self) -> None:
        """Put the upper triangular matrix into its place, where V has lain."""
        for lo, hi in self._blocks():
            for r in self.nest.each("r", lo, hi):
                for c in self.nest.each("c", r, hi):
                    self.work.put(r, c, self._load(self.triangles, r, c - lo))

    def _put_apart(self, lo: Size, hi: Size) -> None:
        for r in self.nest.each("r", lo, hi):
            for c in self.nest.each("c", r, hi):
                self._store(self.triangles, r, c - lo, self.work.at(r, c))
                self.work.put(r, c, self.k.const(0.0, self.dtype))
            self.work.put(r, r, self.k.const(1.0, self.dtype))

    def _reflect(
        self, lo: Size, hi: Size, to: Work, left: Size, right: Size, *, transposed: bool
    ) -> None:
        """Multiply columns of a matrix by the reflections of a block, or in opposite order."""
        work, nest = self.work, self.nest
        width, rows, columns = hi - lo, self.rows - lo, right - left
        t = nest.matrix(self.factors.buffer, self.factors.at(lo, 0), self.block, 1)
        v, part = work.part(lo, lo), to.part(lo, left)
        first, second = self.first.part(0, 0), self.second.part(0, 0)
        self._set_product(first, v.transpose, part, width, columns, rows)
        self._set_product(second, t if transposed else t.transpose, first, width, columns, width)
        work.add_product(part, v, second, rows, columns, width, sign=-1)

    def _set_product(self, to: Any, a: Any, b: Any, m: Size, n: Size, depth: Size) -> None:
        self.nest.set_product(to, a, b, m, n, depth)

    def _load(self, of: Any, row: Size, column: Size, lanes: int = 1, bound: Any = None) -> Any:
        """An element of a matrix without gaps, or several of a row."""
        return self.k.load(of.buffer, of.at(row, column), lanes, bound)

    def _store(self, to: Any, row: Size, column: Size, value: Any, bound: Any = None) -> None:
        """Store an element of a matrix without gaps, or several of a row."""
        self.k.store(to.buffer, to.at(row, column), value, bound)

    # -- a block, column by column -----------------------------------------------------------------

    def _reflect_column(self, c: Size, lo: Size, hi: Size) -> None:
        """Reflect the columns of a block so that column ``c`` becomes 0 below the diagonal, where
        v is put."""
        k, work = self.k, self.work
        self._multiply_below(c, lo, hi)
        is_there = self._scale_if_needed(c, lo, hi)
        scale = k.freeze(k.var(self.scale))
        alpha = work.at(c, c)
        scaled = k.mul(alpha, scale)
        below = k.mul(self._load(self.row, 0, c - lo), scale)
        norm = k.sqrt(k.fma(scaled, scaled, below))
        beta = k.select(k.compare("ge", scaled, 0.0), k.neg(norm), norm)
        tau = k.select(is_there, k.div(k.sub(beta, scaled), beta), 0.0)
        inverse = k.select(is_there, k.div(1.0, k.sub(scaled, beta)), 0.0)
        diagonal = k.select(is_there, k.div(beta, scale), alpha)
        self._put_row(c, lo, hi, tau, inverse)
        work.put(c, c, diagonal)
        self._put_below(c, lo, hi, lambda r: k.mul(k.mul(work.at(r, c), scale), inverse))

    def _put_row(self, c: Size, lo: Size, hi: Size, tau: Any, inverse: Any) -> None:
        """The column of T that belongs to column ``c``, and the row ``c`` behind the diagonal; what
        is added to it stays in ``self.row``."""
        k, work, row = self.k, self.work, self.row
        for strip in work.strips(lo, hi, self.vectors):  # vT times the columns
            for j, lanes, bound in strip:
                total = self._load(row, 0, j - lo, lanes, bound)
                total = k.fma(inverse, total, work.at(c, j, lanes, bound))
                self._store(row, 0, j - lo, total, bound)
        self._put_factors(c, lo, hi, tau)
        for strip in work.strips(lo, hi, self.vectors):
            for j, lanes, bound in strip:
                behind = k.compare("gt", k.index_value(j, lanes), k.index_value(c))
                change = k.mul(k.neg(tau), self._load(row, 0, j - lo, lanes, bound))
                change = k.select(behind, change, 0.0)
                self._store(row, 0, j - lo, change, bound)
                work.put(c, j, k.add(work.at(c, j, lanes, bound), change), bound)

    def _put_below(self, c: Size, lo: Size, hi: Size, element: Callable[[Size], Any]) -> None:
        """Reflect the rows below ``c``, of whose column ``c`` an ``element`` of v is made."""
        k, work = self.k, self.work
        first = c + 1 if work.lanes == 1 else lo
        for strip in work.strips(first, hi, self.vectors):
            changes = [self._load(self.row, 0, j - lo, lanes, bound) for j, lanes, bound in strip]
            for r in self.nest.each("r", c + 1, self.rows):
                v = element(r)
                for change, (j, lanes, bound) in zip(changes, strip, strict=True):
                    work.put(r, j, k.fma(v, change, work.at(r, j, lanes, bound)), bound)
        for r in self.nest.each("r", c + 1, self.rows):
            work.put(r, c, element(r))

    def _multiply_below(self, c: Size, lo: Size, hi: Size) -> None:
        """Store in ``self.row``, for each column ``lo..hi`` of a block, its product with column
        ``c``, scaled: the sum over the rows below the diagonal of ``c``."""
        k, work = self.k, self.work
        for strip in work.strips(lo, hi, self.vectors):
            sums = [
                [k.var(k.const(0.0, self.dtype, lanes)) for _, lanes, _ in strip]
                for _ in range(_CHAINS)
            ]
            whole = self.nest.name_size((self.rows - c - 1) // _CHAINS * _CHAINS + c + 1)
            for first, end, chains in ((c + 1, whole, _CHAINS), (whole, self.rows, 1)):
                for r in self.nest.each("r", first, end, chains):
                    for chain, totals in enumerate(sums[:chains]):
                        x = k.mul(work.at(r + chain, c), self.scale)
                        for total, (j, lanes, bound) in zip(totals, strip, strict=True):
                            more = work.at(r + chain, j, lanes, bound)
                            k.set(total, k.fma(x, more, total))
            for (j, _, bound), parts in zip(strip, zip(*sums, strict=True), strict=True):
                self._store(self.row, 0, j - lo, functools.reduce(k.add, parts), bound)

    def _scale_if_needed(self, c: Size, lo: Size, hi: Size) -> Any:
        """Whether something below the diagonal of a column is not 0. Where the sum of its squares
        is too large or too small, all is scaled by what is about its largest element, and
        multiplied anew."""
        k, work = self.k, self.work
        there = k.var(k.const(True, bool_))
        scaled = k.mul(work.at(c, c), self.scale)
        below = k.mul(self._load(self.row, 0, c - lo), self.scale)
        total = k.fma(scaled, scaled, below)
        usual = k.apply("and", k.compare("ge", total, 1 / _WIDE), k.compare("le", total, _WIDE))
        usual = k.apply("and", usual, k.compare("gt", below, 0.0))
        with k.when(k.apply("not", usual)):
            largest = self._largest_below(c)
            nonzero = k.compare("ne", largest, 0.0)
            k.set(there, nonzero)
            tiny = float(np.finfo(self.dtype.numpy).tiny)
            size = k.maximum(k.maximum(largest, k.abs(work.at(c, c))), tiny)
            inverse = k.maximum(k.div(1.0, size), tiny)
            k.set(self.scale, k.select(nonzero, inverse, self.scale))
            self._multiply_below(c, lo, hi)
        return k.freeze(there)

    def _largest_below(self, c: Size) -> Any:
        """The largest absolute element below the diagonal of a column."""
        k, largest = self.k, self.k.var(self.k.const(0.0, self.dtype))
        for r in self.nest.each("r", c + 1, self.rows):
            k.set(largest, k.maximum(largest, k.abs(self.work.at(r, c))))
        return largest

    def _put_factors(self, c: Size, lo: Size, hi: Size, tau: Any) -> None:
        """The column of T that belongs to column ``c``: ``-tau T VT v``, and tau."""
        k = self.k
        for strip in self.work.strips(lo, hi, self.vectors):
            sums = [k.var(k.const(0.0, self.dtype, lanes)) for _, lanes, _ in strip]
            for q in self.nest.each("q", lo, c):
                factor = k.mul(k.neg(tau), self._load(self.row, 0, q - lo))
                for total, (j, lanes, bound) in zip(sums, strip, strict=True):
                    more = self._load(self.factors, q, j - lo, lanes, bound)
                    k.set(total, k.fma(factor, more, total))
            for total, (j, _, bound) in zip(sums, strip, strict=True):
                self._store(self.factors, c, j - lo, total, bound)
        self._store(self.factors, c, c - lo, tau)


class _TeamReflections(Reflections):
    """Reflections that a block of threads shares out. Sums over rows are of eight parts, each by
    the 32 threads of a warp, which have a column of the block each."""

    work: TeamWork

    def __init__(self, work: TeamWork, count: Size, width: Size) -> None:
        self.sums = work.k.local(work.dtype, THREADS, "shared")
        self.room = work.room_for_products(width)
        super().__init__(work, count, width)

    def _set_product(self, to: Any, a: Any, b: Any, m: Size, n: Size, depth: Size) -> None:
        self.work.set_product(to, a, b, m, n, depth, self.room)

    def restore(self) -> None:
        """Put the upper triangular matrix into its place, where V has lain."""
        for lo, hi in self._blocks():
            for r, c in self._upper(lo, hi):
                self.work.put(r, c, self._load(self.triangles, r, c - lo))

    def _put_apart(self, lo: Size, hi: Size) -> None:
        work = self.work
        for r, c in self._upper(lo, hi):
            self._store(self.triangles, r, c - lo, work.at(r, c))
            is_one = self.k.compare("eq", self.k.index_value(r), self.k.index_value(c))
            work.put(r, c, self.k.select(is_one, self.k.const(1.0, self.dtype), 0.0))

    def _upper(self, lo: Size, hi: Size) -> Iterator[tuple[Size, Size]]:
        """The indices of the upper triangle of a block's own rows."""
        for t in self.work.each_of(0, _BLOCK * _BLOCK):
            r, c = lo + t // _BLOCK, lo + t % _BLOCK
            with self.work.when(r, "le", c), self.work.when(c, "lt", hi):
                yield r, c

    def _put_below(self, c: Size, lo: Size, hi: Size, element: Callable[[Size], Any]) -> None:
        k, work = self.k, self.work
        for r, j in work.panel(c, hi):
            change = self._load(self.row, 0, j - lo)
            work.put(r, j, k.fma(element(r), change, work.at(r, j)))
        for r in work.each_of(c + 1, self.rows):
            work.put(r, c, element(r))

    def _multiply_below(self, c: Size, lo: Size, hi: Size) -> None:
        k, work, parts = self.k, self.work, THREADS // _BLOCK
        for t in work.each_of(0, THREADS):
            j = lo + t % _BLOCK
            total = k.var(k.const(0.0, self.dtype))
            with work.when(j, "lt", hi):
                for r in self.nest.each("r", c + 1 + t // _BLOCK, self.rows, parts):
                    x = k.mul(work.at(r, c), self.scale)
                    k.set(total, k.fma(x, work.at(r, j), total))
            k.store(self.sums, t, total)
        for j in work.each_of(lo, hi):
            of_parts = [k.load(self.sums, j - lo + part * _BLOCK) for part in range(parts)]
            self._store(self.row, 0, j - lo, functools.reduce(k.add, of_parts))

    def _largest_below(self, c: Size) -> Any:
        k, largest = self.k, self.k.var(self.k.const(0.0, self.dtype))
        for r in self.work.each_of(c + 1, self.rows):
            k.accumulate(largest, "max", k.abs(self.work.at(r, c)))
        return k.freeze(largest)


def reflections_of(work: Work, count: Size, width: Size) -> Reflections:
    """The reflections of a matrix, by a block of threads where such has it."""
    if isinstance(work, TeamWork):
        return _TeamReflections(work, count, width)
    return Reflections(work, count, width)
