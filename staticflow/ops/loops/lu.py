"""The factors L and U of matrices in the form of LAPACK, found column by column by a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, dim_min, same
from staticflow.graph.dtypes import float32, float64, int32, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import argmax
from staticflow.ops.along.order import argsort
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.axes import transpose
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.basics.expand import common_shape, expand
from staticflow.ops.basics.reduce import sum
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.elementwise.maths import abs
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.loops.while_loop import fori_loop
from staticflow.ops.matrices.triangle import tril, triu
from staticflow.ops.matrices.triangular import solve_triangular

__all__ = [
    "FactorsLU", "PackedLU", "lower_factor", "lu", "lu_factor", "lu_solve", "lu_unpack",
    "permutation", "upper_factor",
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


def _check_pivots(what: str, pivots: Any, shape: Sequence[Size]) -> None:
    if pivots.dtype is not int32 or pivots.ndim != len(shape):
        raise ShapeError(
            f"{what}: takes the pivots that lu_factor gives, int32 {list(shape)}, not "
            f"{pivots.dtype.name} {list(pivots.shape)}, at {format_locs(here())}"
        )


def lu(A: Any, *, pivot: bool = True) -> FactorsLU:
    """The factors P, L and U of matrices ``A`` (..., m, n) in float32 or float64, with
    ``P @ L @ U`` equal to ``A``: with k the smaller of m and n, P is (..., m, m), L (..., m, k) and
    U (..., k, n). The pivot is the largest element left of its column.

    Without ``pivot`` rows stay where they are and P is an empty tensor, as in PyTorch: digits are
    lost where an element on the diagonal is small beside others, and one of 0 gives infinities.

    >>> import staticflow as sf
    >>> sf.linalg.lu(sf.tensor([[1.0, 2.0], [4.0, 8.0]])).L
    tensor([[1.0000, 0.0000],
            [0.2500, 1.0000]])
    """
    _check_matrices("lu", A)
    packed, pivots = _factor(A, pivot)
    return lu_unpack(packed, pivots, unpack_pivots=pivot)


def lu_factor(A: Any, *, pivot: bool = True) -> PackedLU:
    """The factors of `lu` as `lu_solve` takes them: both in one matrix of the shape of ``A``, and
    the pivots (int32). One step of a loop for each column finds them. A singular matrix has a zero
    on the diagonal of U. Without ``pivot`` no rows are exchanged, as `lu` says.

    >>> import staticflow as sf
    >>> sf.linalg.lu_factor(sf.tensor([[1.0, 2.0], [4.0, 8.0]])).pivots
    tensor([2, 2], dtype=staticflow.int32)
    """
    _check_matrices("lu_factor", A)
    return PackedLU(*_factor(A, pivot))


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> FactorsLU:
    """The factors P, L and U, as `lu` gives them, of what `lu_factor` has taken apart. L and U are
    empty tensors unless ``unpack_data``, P is unless ``unpack_pivots``.

    >>> import staticflow as sf
    >>> LU, pivots = sf.linalg.lu_factor(sf.tensor([[1.0, 2.0], [4.0, 8.0]]))
    >>> sf.lu_unpack(LU, pivots).U
    tensor([[4., 8.],
            [0., 0.]])
    """
    _check_matrices("lu_unpack", LU_data)
    rows, columns = LU_data.shape[-2:]
    _check_pivots("lu_unpack", LU_pivots, (*LU_data.shape[:-2], dim_min(rows, columns)))
    data = as_bool("lu_unpack: 'unpack_data'", unpack_data)
    nothing = full.beside(LU_data, shape=(0,), value=0.0, dtype=LU_data.dtype)
    return FactorsLU(
        permutation(LU_data, LU_pivots)
        if as_bool("lu_unpack: 'unpack_pivots'", unpack_pivots)
        else nothing,
        lower_factor(LU_data) if data else nothing,
        upper_factor(LU_data) if data else nothing,
    )


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
    _check_pivots("lu_solve", pivots, LU.shape[:-1])
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


@fused("LinalgLuFactorExBackward0")
def _factor(A: Any, exchanges: bool) -> tuple[Any, Any]:
    """What `lu_factor` gives, with or without exchanges of rows.

    Source: Golub and Van Loan, "Matrix Computations", algorithm 3.4.1.
    """
    m, n = A.shape[-2:]
    least = dim_min(m, n)
    row, column, at = (_count(A, size) for size in (m, n, least))
    row = unsqueeze(row, -1)

    def eliminate(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        x, pivots = state
        if exchanges:
            first = sum(where(column == k, x, 0.0), -1, keepdim=True)
            chosen = argmax(where(row >= k, abs(first), -1.0), -2)
            x = _exchange(x, k, chosen)
            pivots = where(at == k, chosen + 1, pivots)
        top = sum(where(row == k, x, 0.0), -2, keepdim=True)
        left = sum(where(column == k, x, 0.0), -1, keepdim=True)
        pivot = sum(where(column == k, top, 0.0), -1, keepdim=True)
        if exchanges:  # of a pivot of 0 all of the column is
            part = where(pivot == 0, 0.0, left / where(pivot == 0, 1.0, pivot))
        else:
            part = left / pivot
        x = where((row > k) & (column > k), x - part * top, x)
        x = where((row > k) & (column == k), part, x)
        return x, pivots

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
