"""Elimination in kernels, block by block of columns: the factors L and U, systems of equations,
Cholesky's factor.

Most of the work are products of blocks, in tiles of registers. Inside of a block it is done column
by column. A matrix is a copy in working memory, of a thread that takes one after the other. On a
GPU a block of threads has one, or, where they are small, a thread.

Golub and Van Loan 2013, "Matrix Computations", 3.2.11 and 4.2.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from staticflow.graph.dims import Size, ceil_div, dim_min, is_provably_ge, prod
from staticflow.ops.declaring.lowering import delinear
from staticflow.ops.matrices.matrix_work import BLOCK, SmallWork, TeamWork, Work

__all__ = ["copy_in", "each_matrix", "eliminate", "factor", "factor_definite", "solve_upper"]

_FEW = 8
"""Rows of known number up to which a GPU has a thread work on each matrix with as many columns
behind it, as it has a block on one of more. Not measured on a GPU."""


@contextmanager
def each_matrix(
    nest: Any, more: Size = 0, *, lower: bool = False, turned: bool = False
) -> Iterator[tuple[Any, Work]]:
    """Each matrix of the first argument in turn, in working memory with room for ``more`` columns
    behind it; gives its batch index. Of a symmetric one the ``lower`` part alone is read; if it is
    ``turned``, the last element comes first."""
    rows, n = nest.in_shape(0)[-2:]
    with _each_work(nest, rows, n + more) as (b, work):
        if lower:
            for i, j in work.elements_below(n):
                work.put(i, j, nest.load(0, (*b, i, j)))
        else:
            copy_in(nest, work, 0, b, n, 0, turned=turned)
        yield b, work


@contextmanager
def _each_work(nest: Any, rows: Size, columns: Size) -> Iterator[tuple[Any, Work]]:
    """Working memory of that size for each matrix of the first argument, which threads share where
    they are many, and its batch index."""
    batch = nest.in_shape(0)[:-2]
    if not nest.has_teams:
        with nest.in_groups(batch) as (workers, b, worker):
            yield b, Work(nest, rows, columns, workers, worker)
        return
    is_small = is_provably_ge(_FEW, rows) and is_provably_ge(2 * _FEW, columns)
    with nest.k.loop("matrix", prod(batch), kind="grid" if is_small else "blocks") as number:
        work = (SmallWork if is_small else TeamWork)(nest, rows, columns, prod(batch), number)
        yield delinear(number, batch), work


def copy_in(
    nest: Any, work: Work, argument: int, batch: Any, columns: Size, at: Size, *, turned: bool
) -> None:
    """Copy a matrix of an argument into the columns of working memory from ``at`` on; its rows in
    opposite order if it is ``turned``, and those of the first argument from the last column on."""
    n = work.rows
    for i, j in work.elements(n, columns):
        row = n - 1 - i if turned else i
        column = columns - 1 - j if turned and argument == 0 else j
        work.put(i, at + j, nest.load(argument, (*batch, row, column)))


def _blocks(work: Work, end: Size) -> Iterator[tuple[Size, Size]]:
    """The first and the end of each block of ``end`` columns, or rows."""
    for lo in work.nest.each("block", 0, end, BLOCK):
        yield lo, work.nest.name_size(dim_min(lo + BLOCK, end))


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
    n = work.rows
    for lo, hi in _blocks(work, count):
        for c in work.nest.each("c", lo, hi):
            bring_pivot(c, lo)
            work.take_column(c, hi, divide)
        work.take_rows(lo, hi)
        if not is_provably_ge(hi, n):
            to, a, b = work.part(hi, hi), work.part(hi, lo), work.part(lo, hi)
            work.add_product(to, a, b, n - hi, work.columns - hi, BLOCK)


def _bring_pivot(work: Work, c: Size, lo: Size) -> Any:
    """Bring the row from ``c`` on with the largest element in column ``c`` to row ``c``, from
    column ``lo`` on; gives the row that it was (int64)."""
    at = work.find_pivot(c)
    work.swap(c, work.k.bind(at, "p", work.rows), lo)
    return at


def solve_upper(work: Work) -> None:
    """Solve for the columns behind the upper factor, which become what they are products of."""
    n = work.rows
    count = ceil_div(n, BLOCK)
    for back in work.nest.each("block", 0, count, 1):
        lo = (count - 1 - back) * BLOCK
        hi = work.nest.name_size(dim_min(lo + BLOCK, n))
        work.solve_rows(lo, hi)
        if not is_provably_ge(0, lo):
            to, a, b = work.part(0, n), work.part(0, lo), work.part(lo, n)
            work.add_product(to, a, b, lo, work.columns - n, hi - lo, sign=-1)


def factor_definite(work: Work, visit: Callable[[Any], None]) -> None:
    """Cholesky's factor of a matrix of which the lower part is there. What is above becomes
    anything.

    ``visit`` is called with each square of an element of the diagonal, as soon as it is known.
    """
    n = work.rows
    is_one_block = is_provably_ge(BLOCK, n)
    if not is_one_block:
        work.make_room()
    for lo, hi in _blocks(work, n):
        if not is_one_block:
            work.subtract_before(lo, hi)
        for c in work.nest.each("c", lo, hi):
            square = work.at(c, c)
            visit(square)
            work.take_definite_column(c, hi, work.k.sqrt(square))
