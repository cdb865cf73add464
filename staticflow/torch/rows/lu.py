"""The factors L and U of matrices in the form of LAPACK, which PyTorch's derivatives of
determinants and solutions read."""

from __future__ import annotations

from functools import cache
from typing import Any

from staticflow.graph.dims import Size, dim_min, same
from staticflow.graph.dtypes import int32, int64
from staticflow.ops.along.extremes import argmax
from staticflow.ops.along.order import argsort
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.axes import transpose
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.reduce import sum
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.elementwise.maths import abs
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.loops.while_loop import fori_loop
from staticflow.ops.matrices.triangle import tril, triu
from staticflow.ops.matrices.triangular import solve_triangular
from staticflow.torch.rows.row import later

__all__ = ["factor", "factors_later", "parts_of_factors", "solve_by_factors"]


def factor(A: Any) -> tuple[Any, Any]:
    """L (below the diagonal, whose ones are not kept) and U of matrices (..., m, n), in one of
    their shape, and pivots (int32): row k was exchanged for the one whose number, from 1 on, stands
    at k. The pivot is the largest element left of its column.

    Source: Golub and Van Loan, "Matrix Computations", algorithm 3.4.1.
    """
    m, n = A.shape[-2:]
    least = dim_min(m, n)
    row, column, at = (_count(A, size) for size in (m, n, least))
    row = unsqueeze(row, -1)

    def eliminate(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        x, pivots = state
        first = sum(where(column == k, x, 0.0), -1, keepdim=True)
        chosen = argmax(where(row >= k, abs(first), -1.0), -2)
        x = _exchange(x, k, chosen)
        top = sum(where(row == k, x, 0.0), -2, keepdim=True)
        left = sum(where(column == k, x, 0.0), -1, keepdim=True)
        pivot = sum(where(column == k, top, 0.0), -1, keepdim=True)
        part = where(pivot == 0, 0.0, left / where(pivot == 0, 1.0, pivot))
        x = where((row > k) & (column > k), x - part * top, x)
        x = where((row > k) & (column == k), part, x)
        return x, where(at == k, chosen + 1, pivots)

    start = expand(at, (*A.shape[:-2], least)) + 1
    if same(least, 0):
        return A, cast(start, dtype=int32)
    x, pivots = fori_loop(0, least, eliminate, (A, start))
    return x, cast(pivots, dtype=int32)


def _count(beside: Any, size: Size) -> Any:
    """0, 1, 2 and so on (int64)."""
    return iota.beside(beside, shape=(size,), dim=0, dtype=int64)


def _exchange(x: Any, k: Any, other: Any) -> Any:
    """``x`` (..., m, n) with the rows ``k`` and ``other`` (..., 1) in one another's place."""
    row = _count(x, x.shape[-2])
    return gather(x, -2, expand(unsqueeze(_swap(row, k, other, row), -1), x.shape))


def _swap(place: Any, k: Any, other: Any, order: Any) -> Any:
    """``order`` (..., m) with what stands at ``k`` and ``other`` exchanged; ``place`` counts."""
    at_k, at_other = (sum(where(place == p, order, 0), -1, keepdim=True) for p in (k, other))
    return where(place == k, at_other, where(place == other, at_k, order))


def _order_of(pivots: Any, rows: Size) -> Any:
    """For each of the ``rows`` of a factored matrix the row that it was, (..., rows)."""
    place, at = _count(pivots, rows), _count(pivots, pivots.shape[-1])

    def exchange(k: Any, order: Any) -> Any:
        other = sum(where(at == k, cast(pivots, dtype=int64), 0), -1, keepdim=True) - 1
        return _swap(place, k, other, order)

    start = expand(place, (*pivots.shape[:-1], rows)) + 0
    return fori_loop(0, pivots.shape[-1], exchange, start)


def solve_by_factors(LU: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Any:
    """The X with ``A @ X = B``, or ``X @ A = B`` unless ``left``, for the square A, or with
    ``adjoint`` its transpose, that `factor` has taken apart."""
    if not left:
        turned = solve_by_factors(LU, pivots, transpose(B, -2, -1), True, not adjoint)
        return transpose(turned, -2, -1)
    order = unsqueeze(_order_of(pivots, LU.shape[-2]), -1)
    if adjoint:
        half = solve_triangular(transpose(LU, -2, -1), B, upper=False)
        x = solve_triangular(transpose(LU, -2, -1), half, upper=True, unitriangular=True)
        return gather(x, -2, expand(argsort(order, -2), x.shape))
    half = solve_triangular(
        LU, gather(B, -2, expand(order, B.shape)), upper=False, unitriangular=True
    )
    return solve_triangular(LU, half, upper=True)


def factors_later(A: Any) -> tuple[Any, Any]:
    """What `factor` gives, computed where it is used."""
    found = cache(lambda: factor(A))
    return later(lambda: found()[0]), later(lambda: found()[1])


def parts_of_factors(
    LU: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, Any, Any]:
    """P, L and U of what `factor` has taken apart, with ``P @ L @ U`` the matrix."""
    m, n = LU.shape[-2:]
    least = dim_min(m, n)
    return (
        later(_permutation, LU, pivots),
        later(lambda: tril(narrow(LU, -1, 0, least), -1) + _ones_on_diagonal(LU, m, least)),
        later(lambda: triu(narrow(LU, -2, 0, least))),
    )


def _ones_on_diagonal(beside: Any, rows: Size, columns: Size) -> Any:
    return (unsqueeze(_count(beside, rows), -1) == _count(beside, columns)).to(beside.dtype)


def _permutation(LU: Any, pivots: Any) -> Any:
    """The matrix that puts rows back to where they were."""
    order = _order_of(pivots, LU.shape[-2])
    return (unsqueeze(_count(LU, LU.shape[-2]), -1) == unsqueeze(order, -2)).to(LU.dtype)
