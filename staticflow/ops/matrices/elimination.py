"""Elimination in kernels, block by block of columns: the factors L and U, systems of equations,
Cholesky's factor.

Most of the work are products of blocks, in tiles of registers. Inside of a block it is done column
by column, on vectors along the rows. A matrix is a copy in working memory, whose rows are full
vectors and one more, lest they lie a power of two apart.

Golub and Van Loan 2013, "Matrix Computations", 3.2.11 and 4.2.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from staticflow.graph.dims import Size, ceil_div, dim_min, is_provably_ge

__all__ = ["Work", "each_matrix", "eliminate", "factor", "factor_definite", "solve_upper"]

_BLOCK = 32
"""Columns of a block: 768 x 768 float32 take up to 1.16 times as long with 16 or 64."""

_STRIP = 4
"""Vectors of a row that are worked on side by side, so that none waits for its last sum."""


class Work:
    """A matrix of ``rows`` x ``columns`` in working memory."""

    def __init__(self, nest: Any, rows: Size, columns: Size) -> None:
        self.nest, self.k, self.rows, self.columns = nest, nest.k, rows, columns
        dtype = nest.in_type(0).dtype
        self.lanes = nest.lanes(dtype, columns)
        self.length = (ceil_div(columns, self.lanes) + 1) * self.lanes
        self.name = nest.scratch(dtype, rows * self.length)

    def at(self, row: Size, column: Size, lanes: int = 1, bound: Size | None = None) -> Any:
        """An element, or several of a row."""
        return self.k.load(self.name, row * self.length + column, lanes, bound)

    def put(self, row: Size, column: Size, value: Any, bound: Size | None = None) -> None:
        """Store an element, or several of a row."""
        self.k.store(self.name, row * self.length + column, value, bound)

    def part(self, row: Size, column: Size) -> Any:
        """What begins at an element, for products."""
        return self.nest.matrix(self.name, row * self.length + column, self.length, 1)

    def strips(self, lo: Size, hi: Size, vectors: int = 1, kind: str = "serial") -> Iterator[Any]:
        """Columns ``lo..hi``, as many vectors at a time."""
        return self.nest.strips(lo, hi, self.lanes, vectors, kind)  # type: ignore[no-any-return]

    def swap(self, a: Size, b: Size, lo: Size) -> None:
        """Let two rows change places, from column ``lo`` on."""
        for strip in self.strips(lo, self.columns):
            for j, lanes, bound in strip:
                first, second = self.at(a, j, lanes, bound), self.at(b, j, lanes, bound)
                self.put(a, j, second, bound)
                self.put(b, j, first, bound)

    def add_multiple(self, to: Size, factor: Any, row: Size, lo: Size, hi: Size) -> None:
        """Add ``factor`` times a row to the row ``to``, in columns ``lo..hi``."""
        for strip in self.strips(lo, hi):
            for j, lanes, bound in strip:
                more = self.at(row, j, lanes, bound)
                self.put(to, j, self.k.fma(factor, more, self.at(to, j, lanes, bound)), bound)


@contextmanager
def each_matrix(
    nest: Any, more: Size = 0, *, lower: bool = False, turned: bool = False
) -> Iterator[tuple[Any, Work]]:
    """Each matrix of the first argument in turn, in working memory with room for ``more`` columns
    behind it; gives its batch index. Of a symmetric one the ``lower`` part alone is read; if it is
    ``turned``, the last element comes first."""
    shape = nest.in_shape(0)
    rows, n = shape[-2:]
    work = Work(nest, rows, n + more)
    with nest.loops(shape[:-2], "serial") as b:
        if lower:
            for i in nest.each("i", 0, n):
                for j in nest.each("j", 0, i + 1):
                    work.put(i, j, nest.load(0, (*b, i, j)))
        else:
            copy_in(nest, work, 0, b, n, 0, turned=turned)
        yield b, work


def copy_in(
    nest: Any, work: Work, argument: int, batch: Any, columns: Size, at: Size, *, turned: bool
) -> None:
    """Copy a matrix of an argument into the columns of working memory from ``at`` on; its rows in
    opposite order if it is ``turned``, and those of the first argument from the last column on."""
    n = work.rows
    for i in nest.each("i", 0, n):
        for j in nest.each("j", 0, columns):
            row = n - 1 - i if turned else i
            column = columns - 1 - j if turned and argument == 0 else j
            work.put(i, at + j, nest.load(argument, (*batch, row, column)))


def _blocks(work: Work, end: Size) -> Iterator[tuple[Size, Size]]:
    """The first and the end of each block of ``end`` columns, or rows."""
    for lo in work.nest.each("block", 0, end, _BLOCK):
        yield lo, work.nest.name_size(dim_min(lo + _BLOCK, end))


def eliminate(work: Work, visit: Callable[[Size, Any], None]) -> None:
    """Gaussian elimination with partial pivoting of the first columns, as many as rows; what stands
    behind them is transformed with them. Leaves the upper factor, and below it the lower one
    without its diagonal, negated, whose rows are not in their last order.

    ``visit`` is called for each column, as soon as its pivot stands on the diagonal, with the row
    that the pivot stood in before.
    """

    def bring_pivot(c: Size, lo: Size) -> None:
        visit(c, _bring_pivot(work, c, lo))

    _eliminate(work, work.rows, bring_pivot, lambda x, pivot: work.k.div(x, pivot))


def factor(work: Work, pivots: Callable[[Size, Any], None] | None) -> None:
    """The factors of matrices of any shape, in the form that `eliminate` leaves them in, but with
    rows of the lower one in their last order. Below a pivot of 0 all is 0, and stays it.

    ``pivots`` is called for each column with the row that the pivot stood in before. Without it no
    rows are exchanged, and what a 0 divides becomes infinite or NaN.
    """
    k = work.k

    def bring_pivot(c: Size, lo: Size) -> None:
        if pivots is not None:
            pivots(c, _bring_pivot(work, c, 0))

    def divide(x: Any, pivot: Any) -> Any:
        quotient = k.div(x, pivot)
        return quotient if pivots is None else k.select(k.compare("eq", pivot, 0.0), 0.0, quotient)

    _eliminate(work, dim_min(work.rows, work.columns), bring_pivot, divide)


def _eliminate(
    work: Work,
    count: Size,
    bring_pivot: Callable[[Size, Size], None],
    divide: Callable[[Any, Any], Any],
) -> None:
    """Eliminate below the first ``count`` elements of the diagonal: ``bring_pivot`` is called for
    each, with the first column of its block, before ``divide`` gives the quotients by it."""
    k, n = work.k, work.rows
    for lo, hi in _blocks(work, count):
        for c in work.nest.each("c", lo, hi):
            bring_pivot(c, lo)
            diagonal = work.at(c, c)
            for r in work.nest.each("r", c + 1, n):
                factor = k.neg(divide(work.at(r, c), diagonal))
                work.put(r, c, factor)
                work.add_multiple(r, factor, c, c + 1, hi)
        for strip in work.strips(hi, work.columns, _STRIP, "parallel"):
            for r in work.nest.each("r", lo + 1, hi):
                _subtract_rows(work, strip, r, lo, r, negated=True)
        if not is_provably_ge(hi, n):
            columns = work.columns - hi
            to, a, b = work.part(hi, hi), work.part(hi, lo), work.part(lo, hi)
            work.nest.add_product(to, a, b, n - hi, columns, _BLOCK)


def _bring_pivot(work: Work, c: Size, lo: Size) -> Any:
    """Bring the row from ``c`` on with the largest element in column ``c`` to row ``c``, from
    column ``lo`` on; gives the row that it was (int64)."""
    k = work.k
    best, position = k.var(k.abs(work.at(c, c))), k.var(k.index_value(c))
    for r in work.nest.each("r", c + 1, work.rows):
        size = k.abs(work.at(r, c))
        unknown = k.compare("ne", size, size)  # a NaN, lest it is lost
        larger = k.apply("or", k.compare("gt", size, best), unknown)
        k.set(position, k.select(larger, k.index_value(r), position))
        k.set(best, k.select(larger, size, best))
    at = k.freeze(position)
    work.swap(c, k.bind(at, "p", work.rows), lo)
    return at


def _subtract_rows(
    work: Work, strip: Any, row: Size, lo: Size, hi: Size, *, negated: bool
) -> list[Any]:
    """A strip of a row less the rows ``lo..hi`` times the elements of ``row`` in these columns, or
    more, if these are ``negated``; it is stored, and given."""
    k = work.k
    sums = [k.var(work.at(row, j, lanes, bound)) for j, lanes, bound in strip]
    for q in work.nest.each("q", lo, hi):
        factor = work.at(row, q) if negated else k.neg(work.at(row, q))
        for total, (j, lanes, bound) in zip(sums, strip, strict=True):
            k.set(total, k.fma(factor, work.at(q, j, lanes, bound), total))
    for total, (j, _, bound) in zip(sums, strip, strict=True):
        work.put(row, j, total, bound)
    return sums


def solve_upper(work: Work) -> None:
    """Solve for the columns behind the upper factor, which become what they are products of."""
    k, n = work.k, work.rows
    count = ceil_div(n, _BLOCK)
    for back in work.nest.each("block", 0, count, 1):
        lo = (count - 1 - back) * _BLOCK
        hi = work.nest.name_size(dim_min(lo + _BLOCK, n))
        for strip in work.strips(n, work.columns, _STRIP, "parallel"):
            for s in work.nest.each("s", 0, hi - lo):
                row = hi - 1 - s
                sums = _subtract_rows(work, strip, row, row + 1, hi, negated=False)
                for total, (j, _, bound) in zip(sums, strip, strict=True):
                    work.put(row, j, k.div(total, work.at(row, row)), bound)
        if not is_provably_ge(0, lo):
            to, a, b = work.part(0, n), work.part(0, lo), work.part(lo, n)
            work.nest.add_product(to, a, b, lo, work.columns - n, hi - lo, sign=-1)


def factor_definite(work: Work, visit: Callable[[Any], None]) -> None:
    """Cholesky's factor of a matrix of which the lower part is there. What is above becomes
    anything.

    ``visit`` is called with each square of an element of the diagonal, as soon as it is known.
    """
    k, n, each = work.k, work.rows, work.nest.each
    turned = None if is_provably_ge(_BLOCK, n) else Work(work.nest, n, _BLOCK)
    for lo, hi in _blocks(work, n):
        if turned is not None:
            before = work.nest.matrix(work.name, lo * work.length, 1, work.length)
            work.nest.turn(before, turned.part(0, 0), lo, hi - lo)
            to, a, b = work.part(lo, lo), work.part(lo, 0), turned.part(0, 0)
            work.nest.add_product(to, a, b, n - lo, hi - lo, lo, sign=-1)
        for c in each("c", lo, hi):
            square = work.at(c, c)
            visit(square)
            diagonal = k.sqrt(square)
            work.put(c, c, diagonal)
            for r in each("r", c + 1, hi):
                factor = k.div(work.at(r, c), diagonal)
                work.put(r, c, factor)
                work.put(c, r, factor)
            for r in each("r", c + 1, hi):
                work.add_multiple(r, k.neg(work.at(r, c)), c, c + 1, r + 1)
            for r in each("r", hi, n):
                factor = k.div(work.at(r, c), diagonal)
                work.put(r, c, factor)
                work.add_multiple(r, k.neg(factor), c, c + 1, hi)
