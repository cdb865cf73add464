"""The factors L and U of matrices in the form of LAPACK, found column by column by a loop."""

from __future__ import annotations

from typing import Any, NamedTuple

from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dims import Size, dim_min, same
from staticflow.graph.dtypes import float32, float64, int32, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import argmax
from staticflow.ops.along.order import argsort
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.axes import transpose
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import common_shape, expand
from staticflow.ops.basics.reduce import sum
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.elementwise.maths import abs
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.loops.while_loop import fori_loop
from staticflow.ops.matrices.triangle import tril, triu
from staticflow.ops.matrices.triangular import solve_triangular

__all__ = [
    "FactorsLU", "PackedLU", "lower_factor", "lu", "lu_factor", "lu_solve", "permutation",
    "upper_factor",
]  # fmt: skip


class PackedLU(NamedTuple):
    """L (below the diagonal, whose ones are not kept) and U in one matrix, and the pivots: row k
    was exchanged for the one whose number, from 1 on, stands at k."""

    LU: Any
    pivots: Any


class FactorsLU(NamedTuple):
    """A permutation, a lower triangular matrix with ones on its diagonal, an upper triangular one;
    their product is the matrix that was factored."""

    P: Any
    L: Any
    U: Any


def _check_matrices(what: str, A: Any) -> None:
    if A.dtype not in (float32, float64) or A.ndim < 2:
        raise (ShapeError if A.ndim < 2 else DTypeError)(
            f"{what}: takes matrices (..., m, n) of float32 or float64, not {A.dtype.name} "
            f"{list(A.shape)}, at {format_locs(here())}"
        )


def _check_pivoting(what: str, pivot: bool) -> None:
    if not pivot:
        raise SymbolicError(
            f"{what}: L and U are found with pivots, since without them digits are lost; leave "
            f"pivot=False out, at {format_locs(here())}"
        )


def lu(A: Any, *, pivot: bool = True) -> FactorsLU:
    """The factors P, L and U of matrices ``A`` (..., m, n) in float32 or float64, with
    ``P @ L @ U`` equal to ``A``: with k the smaller of m and n, P is (..., m, m), L (..., m, k) and
    U (..., k, n). The pivot is the largest element left of its column.

    Raises `SymbolicError` for ``pivot=False``.

    >>> import staticflow as sf
    >>> sf.linalg.lu(sf.tensor([[1.0, 2.0], [4.0, 8.0]])).L
    tensor([[1.0000, 0.0000],
            [0.2500, 1.0000]])
    """
    _check_matrices("lu", A)
    _check_pivoting("lu", pivot)
    packed, pivots = _factor(A)
    return FactorsLU(permutation(packed, pivots), lower_factor(packed), upper_factor(packed))


def lu_factor(A: Any, *, pivot: bool = True) -> PackedLU:
    """The factors of `lu` as `lu_solve` takes them: both in one matrix of the shape of ``A``, and
    the pivots (int32). One step of a loop for each column finds them. A singular matrix has a zero
    on the diagonal of U.

    Raises `SymbolicError` for ``pivot=False``.

    >>> import staticflow as sf
    >>> sf.linalg.lu_factor(sf.tensor([[1.0, 2.0], [4.0, 8.0]])).pivots
    tensor([2, 2], dtype=staticflow.int32)
    """
    _check_matrices("lu_factor", A)
    _check_pivoting("lu_factor", pivot)
    return PackedLU(*_factor(A))


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """The X with ``A @ X = B``, or ``X @ A = B`` unless ``left``, for the square matrices A that
    `lu_factor` has taken apart, or with ``adjoint`` for their transposes; batches are broadcast.

    Raises `LinAlgError` where a matrix is singular, also when a program runs.

    >>> import staticflow as sf
    >>> LU, pivots = sf.linalg.lu_factor(sf.tensor([[0.0, 2.0], [4.0, 0.0]]))
    >>> sf.linalg.lu_solve(LU, pivots, sf.tensor([[2.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    for matrices in (LU, B):
        _check_matrices("lu_solve", matrices)
    if not same_size(*LU.shape[-2:]):
        raise ShapeError(
            f"lu_solve: takes the factors of square matrices, not {list(LU.shape)}, at "
            f"{format_locs(here())}"
        )
    if pivots.dtype is not int32 or pivots.ndim != LU.ndim - 1:
        raise ShapeError(
            f"lu_solve: takes the pivots that lu_factor gives, int32 {list(LU.shape[:-1])}, not "
            f"{pivots.dtype.name} {list(pivots.shape)}, at {format_locs(here())}"
        )
    if B.dtype is not LU.dtype:
        raise DTypeError(
            f"lu_solve: LU is of {LU.dtype.name} and B of {B.dtype.name}; cast one of them, at "
            f"{format_locs(here())}"
        )
    if not left:
        turned = lu_solve(LU, pivots, transpose(B, -2, -1), adjoint=not adjoint)
        return transpose(turned, -2, -1)
    n = LU.shape[-1]
    rows = f"lu_solve: the rows of B {list(B.shape)} and of LU {list(LU.shape)}"
    B = require_equal(B, B.shape[-2], n, rows)
    many = f"lu_solve: the pivots {list(pivots.shape)} and the rows of LU {list(LU.shape)}"
    pivots = require_equal(pivots, pivots.shape[-1], n, many)
    batch = common_shape([LU.shape[:-2], B.shape[:-2]], "lu_solve")
    LU, B = (expand(x, (*batch, *x.shape[-2:])) for x in (LU, B))
    order = unsqueeze(expand(_order_of(pivots, LU.shape[-2]), LU.shape[:-1]), -1)
    if adjoint:
        half = solve_triangular(transpose(LU, -2, -1), B, upper=False)
        x = solve_triangular(transpose(LU, -2, -1), half, upper=True, unitriangular=True)
        return gather(x, -2, expand(argsort(order, -2), x.shape))
    half = solve_triangular(
        LU, gather(B, -2, expand(order, B.shape)), upper=False, unitriangular=True
    )
    return solve_triangular(LU, half, upper=True)


def _factor(A: Any) -> tuple[Any, Any]:
    """What `lu_factor` gives.

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
    row = expand(_count(x, x.shape[-2]), x.shape[:-1])
    return gather(x, -2, expand(unsqueeze(_swap(k, other, row), -1), x.shape))


def _swap(k: Any, other: Any, order: Any) -> Any:
    """``order`` (..., m) with what stands at ``k`` and at ``other`` (..., 1) exchanged."""
    place = _count(order, order.shape[-1])
    at_k = sum(where(place == k, order, 0), -1, keepdim=True)
    at_other = gather(order, -1, other)
    return where(place == k, at_other, where(place == other, at_k, order))


def _order_of(pivots: Any, rows: Size) -> Any:
    """For each of the ``rows`` of a factored matrix the row that it was, (..., rows)."""
    place, at = _count(pivots, rows), _count(pivots, pivots.shape[-1])

    def exchange(k: Any, order: Any) -> Any:
        other = sum(where(at == k, cast(pivots, dtype=int64), 0), -1, keepdim=True) - 1
        return _swap(k, other, order)

    start = expand(place, (*pivots.shape[:-1], rows)) + 0
    return fori_loop(0, pivots.shape[-1], exchange, start)


def lower_factor(LU: Any) -> Any:
    """The L of what `lu_factor` has taken apart."""
    m, n = LU.shape[-2:]
    least = dim_min(m, n)
    return tril(narrow(LU, -1, 0, least), -1) + _ones_on_diagonal(LU, m, least)


def upper_factor(LU: Any) -> Any:
    """The U of what `lu_factor` has taken apart."""
    return triu(narrow(LU, -2, 0, dim_min(*LU.shape[-2:])))


def _ones_on_diagonal(beside: Any, rows: Size, columns: Size) -> Any:
    return (unsqueeze(_count(beside, rows), -1) == _count(beside, columns)).to(beside.dtype)


def permutation(LU: Any, pivots: Any) -> Any:
    """The P of what `lu_factor` has taken apart: it puts rows back to where they were."""
    order = _order_of(pivots, LU.shape[-2])
    return (unsqueeze(_count(LU, LU.shape[-2]), -1) == unsqueeze(order, -2)).to(LU.dtype)
