"""Systems of a triangular matrix in kernels.

Of many right sides most of the work are products of blocks (`elimination`). Of a few it is reading
the matrix, once and as it lies: where its rows lie in memory as they are, an unknown is what is
left of its right side behind the sum over those that are known; where its columns do, each unknown
is taken from all right sides as soon as it is known.

On a GPU there are always blocks.

Golub and Van Loan 2013, "Matrix Computations", 3.1.
"""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import Size, is_provably_ge
from staticflow.ops.matrices.elimination import copy_in, each_matrix, solve_upper

__all__ = ["emit_triangular"]

_FEW = 4
"""Right sides up to which the matrix is read as it lies: with one, of 512 x 512 float32, a twelfth
of the time of blocks, which copy the matrix. Two to four were not timed."""

_SMALL = 16
"""Rows up to which a matrix is copied in any case: vectors along them would be mostly empty."""


def emit_triangular(nest: Any, lower: bool) -> None:
    """The x with ``a @ x = b``, where of a the ``lower`` part alone is read, or the upper one."""
    n, columns = nest.in_shape(1)[-2:]
    is_few = isinstance(columns, int) and columns <= _FEW
    if is_few and not is_provably_ge(_SMALL, n) and not nest.has_teams:
        _solve_few(nest, n, columns, lower)
    else:
        _solve_many(nest, lower)


def _solve_many(nest: Any, lower: bool) -> None:
    """The unknowns by blocks of columns; a lower system backwards is an upper one."""
    k, columns = nest.k, nest.in_shape(1)[-1]
    with each_matrix(nest, columns, turned=lower) as (b, work):
        n = work.rows
        for c in nest.each("c", 0, n):
            nest.require(k.compare("ne", work.at(c, c), 0.0), "singular")
        copy_in(nest, work, 1, b, columns, n, turned=lower)
        solve_upper(work)
        for i, j in work.elements(n, columns):
            nest.store(0, (*b, n - 1 - i if lower else i, j), work.at(i, n + j))


def _solve_few(nest: Any, n: Size, columns: int, lower: bool) -> None:
    """The unknowns row by row, or column by column, whichever lies in memory in one piece."""
    k = nest.k
    known = [nest.scratch(nest.in_type(0).dtype, n) for _ in range(columns)]
    with nest.loops(nest.in_shape(0)[:-2], "serial") as b:
        down, along = (nest.stride(0, len(b) + d) for d in (0, 1))
        by_columns = down in (1, -1) and along not in (1, -1)
        if by_columns:
            with k.loop("i", n) as i:
                for c, buffer in enumerate(known):
                    k.store(buffer, i, nest.load(1, (*b, i, c)))
        with k.loop("s", n) as s:
            row = s if lower else n - 1 - s
            pivot = nest.load(0, (*b, row, row))
            nest.require(k.compare("ne", pivot, 0.0), "singular")
            if by_columns:
                solved = [k.div(k.load(buffer, row), pivot) for buffer in known]
                _take_away(nest, b, row, (row + 1, n) if lower else (0, row), known, solved)
            else:
                sums = _sum_known(nest, b, row, (0, row) if lower else (row + 1, n), known)
                solved = [
                    k.div(k.sub(nest.load(1, (*b, row, c)), total), pivot)
                    for c, total in enumerate(sums)
                ]
            for c, value in enumerate(solved):
                k.store(known[c], row, value)
                nest.store(0, (*b, row, c), value)


def _sum_known(
    nest: Any, b: Any, row: Size, span: tuple[Size, Size], known: list[str]
) -> list[Any]:
    """The sums of a row times the unknowns of a span, for each right side."""
    k = nest.k
    sums = [k.var(k.const(0.0, nest.in_type(0).dtype)) for _ in known]
    with k.loop("j", span[1], lo=span[0]) as j, nest.lanes_along(j):
        factor = nest.load(0, (*b, row, j))
        for total, buffer in zip(sums, known, strict=True):
            k.accumulate(total, "add", k.mul(factor, k.load(buffer, j)))
    return [k.freeze(total) for total in sums]


def _take_away(
    nest: Any, b: Any, column: Size, span: tuple[Size, Size], known: list[str], solved: list[Any]
) -> None:
    """Take an unknown times its column from the right sides of a span of rows."""
    k = nest.k
    with k.loop("i", span[1], lo=span[0]) as i, nest.lanes_along(i):
        factor = nest.load(0, (*b, i, column))
        for buffer, value in zip(known, solved, strict=True):
            k.store(buffer, i, k.fma(k.neg(value), factor, k.load(buffer, i)))
