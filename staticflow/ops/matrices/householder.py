"""Orthogonal factors in kernels: reflections that make a matrix upper triangular, in blocks of
columns, so that most of the work are products.

Each column below the diagonal is taken to 0 by a reflection ``1 - tau v vT``, where v is 1 on the
diagonal. Those of a block together are ``1 - V T VT`` with an upper triangular T.

Golub and Van Loan 2013, "Matrix Computations", 5.1 and 5.2; Schreiber and Van Loan 1989, "A
storage-efficient WY representation for products of Householder transformations".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from staticflow.graph.dims import Size, ceil_div, dim_min, is_provably_ge
from staticflow.graph.dtypes import DType, bool_
from staticflow.ops.matrices.matrix_work import Work

__all__ = ["Reflections"]

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
        size = ceil_div(count, _BLOCK) * _BLOCK * self.block
        self.factors = self.nest.scratch(self.dtype, size)  # T of each block, transposed
        self.triangles = self.nest.scratch(self.dtype, size)
        self.row = self.nest.scratch(self.dtype, _BLOCK)
        self.first, self.second = (Work(self.nest, self.block, width) for _ in range(2))
        self.kind = "parallel" if self.nest.has_teams else "serial"
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
                    self.work.put(r, c, self.k.load(self.triangles, self._at(lo, r, c)))

    def _at(self, lo: Size, row: Size, column: Size) -> Size:
        """Where a block's own square matrices have the element of a row and a column."""
        return (row - lo) * self.block + column - lo + lo * self.block

    def _put_apart(self, lo: Size, hi: Size) -> None:
        for r in self.nest.each("r", lo, hi):
            for c in self.nest.each("c", r, hi):
                self.k.store(self.triangles, self._at(lo, r, c), self.work.at(r, c))
                self.work.put(r, c, self.k.const(0.0, self.dtype))
            self.work.put(r, r, self.k.const(1.0, self.dtype))

    def _reflect(
        self, lo: Size, hi: Size, to: Work, left: Size, right: Size, *, transposed: bool
    ) -> None:
        """Multiply columns of a matrix by the reflections of a block, or in opposite order."""
        work, nest = self.work, self.nest
        width, rows, columns = hi - lo, self.rows - lo, right - left
        t = nest.matrix(self.factors, lo * self.block, self.block, 1)
        v, part = work.part(lo, lo), to.part(lo, left)
        first, second = self.first.part(0, 0), self.second.part(0, 0)
        nest.set_product(first, v.transpose, part, width, columns, rows)
        nest.set_product(second, t if transposed else t.transpose, first, width, columns, width)
        nest.add_product(part, v, second, rows, columns, width, sign=-1)

    # -- a block, column by column -----------------------------------------------------------------

    def _reflect_column(self, c: Size, lo: Size, hi: Size) -> None:
        """Reflect the columns of a block so that column ``c`` becomes 0 below the diagonal, where
        v is put."""
        k, work, row = self.k, self.work, self.row
        self._multiply_below(c, lo, hi)
        is_there = self._scale_if_needed(c, lo, hi)
        scale = k.freeze(k.var(self.scale))
        alpha = work.at(c, c)
        scaled = k.mul(alpha, scale)
        below = k.mul(k.load(row, c - lo), scale)
        norm = k.sqrt(k.fma(scaled, scaled, below))
        beta = k.select(k.compare("ge", scaled, 0.0), k.neg(norm), norm)
        tau = k.select(is_there, k.div(k.sub(beta, scaled), beta), 0.0)
        inverse = k.select(is_there, k.div(1.0, k.sub(scaled, beta)), 0.0)
        diagonal = k.select(is_there, k.div(beta, scale), alpha)
        for strip in work.strips(lo, hi, self.vectors):  # vT times the columns
            for j, lanes, bound in strip:
                total = k.load(row, j - lo, lanes, bound)
                k.store(row, j - lo, k.fma(inverse, total, work.at(c, j, lanes, bound)), bound)
        self._put_factors(c, lo, hi, tau)
        for strip in work.strips(lo, hi, self.vectors):
            for j, lanes, bound in strip:
                behind = k.compare("gt", k.index_value(j, lanes), k.index_value(c))
                change = k.mul(k.neg(tau), k.load(row, j - lo, lanes, bound))
                change = k.select(behind, change, 0.0)
                k.store(row, j - lo, change, bound)
                work.put(c, j, k.add(work.at(c, j, lanes, bound), change), bound)
        work.put(c, c, diagonal)
        first = c + 1 if work.lanes == 1 else lo
        for strip in work.strips(first, hi, self.vectors, self.kind):
            changes = [k.load(row, j - lo, lanes, bound) for j, lanes, bound in strip]
            for r in self.nest.each("r", c + 1, self.rows):
                v = k.mul(k.mul(work.at(r, c), scale), inverse)
                for change, (j, lanes, bound) in zip(changes, strip, strict=True):
                    work.put(r, j, k.fma(v, change, work.at(r, j, lanes, bound)), bound)
        for r in self.nest.each("r", c + 1, self.rows, 1, self.kind):
            work.put(r, c, k.mul(k.mul(work.at(r, c), scale), inverse))

    def _multiply_below(self, c: Size, lo: Size, hi: Size) -> None:
        """Store in ``self.row``, for each column ``lo..hi`` of a block, its product with column
        ``c``, scaled: the sum over the rows below the diagonal of ``c``."""
        k, work = self.k, self.work
        for strip in work.strips(lo, hi, self.vectors, self.kind):
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
                k.store(self.row, j - lo, functools.reduce(k.add, parts), bound)

    def _scale_if_needed(self, c: Size, lo: Size, hi: Size) -> Any:
        """Whether something below the diagonal of a column is not 0. Where the sum of its squares
        is too large or too small, all is scaled by what is about its largest element, and
        multiplied anew."""
        k, work = self.k, self.work
        there = k.var(k.const(True, bool_))
        scaled = k.mul(work.at(c, c), self.scale)
        below = k.mul(k.load(self.row, c - lo), self.scale)
        total = k.fma(scaled, scaled, below)
        usual = k.apply("and", k.compare("ge", total, 1 / _WIDE), k.compare("le", total, _WIDE))
        usual = k.apply("and", usual, k.compare("gt", below, 0.0))
        with k.when(k.apply("not", usual)):
            largest = k.var(k.const(0.0, self.dtype))
            for r in self.nest.each("r", c + 1, self.rows):
                k.set(largest, k.maximum(largest, k.abs(work.at(r, c))))
            nonzero = k.compare("ne", largest, 0.0)
            k.set(there, nonzero)
            tiny = float(np.finfo(self.dtype.numpy).tiny)
            size = k.maximum(k.maximum(largest, k.abs(work.at(c, c))), tiny)
            inverse = k.maximum(k.div(1.0, size), tiny)
            k.set(self.scale, k.select(nonzero, inverse, self.scale))
            self._multiply_below(c, lo, hi)
        return k.freeze(there)

    def _put_factors(self, c: Size, lo: Size, hi: Size, tau: Any) -> None:
        """The column of T that belongs to column ``c``: ``-tau T VT v``, and tau."""
        k = self.k
        for strip in self.work.strips(lo, hi, self.vectors):
            sums = [k.var(k.const(0.0, self.dtype, lanes)) for _, lanes, _ in strip]
            for q in self.nest.each("q", lo, c):
                factor = k.mul(k.neg(tau), k.load(self.row, q - lo))
                for total, (j, lanes, bound) in zip(sums, strip, strict=True):
                    k.set(total, k.fma(factor, self._load_factor(lo, q, j, lanes, bound), total))
            for total, (j, _, bound) in zip(sums, strip, strict=True):
                k.store(self.factors, self._at(lo, c, j), total, bound)
        k.store(self.factors, self._at(lo, c, c), tau)

    def _load_factor(self, lo: Size, row: Size, j: Size, lanes: int, bound: Size | None) -> Any:
        return self.k.load(self.factors, self._at(lo, row, j), lanes, bound)
