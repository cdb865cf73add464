"""Factors of matrices, and what is solved by them."""

from __future__ import annotations

from functools import cache
from typing import Any

from staticflow.eager.creation import full
from staticflow.nn.functional.pad import pad
from staticflow.ops.basics.arithmetic import clone
from staticflow.ops.basics.axes import transpose
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.determinants import det, slogdet
from staticflow.ops.matrices.exponential import matrix_exp
from staticflow.ops.matrices.factors import eigh, eigvalsh, qr, svd, svdvals
from staticflow.ops.matrices.lu import lower_factor, lu_factor, lu_solve, permutation, upper_factor
from staticflow.ops.matrices.reflections import cholesky_inverse, householder_product
from staticflow.ops.matrices.singular_values import pinv
from staticflow.ops.matrices.solving import (
    cholesky,
    inv,
    solve,
)
from staticflow.ops.matrices.triangular import cholesky_solve, solve_triangular
from staticflow.torch.rows.row import Rows, later

__all__ = ["BY_MEMORY", "FACTORS"]


def _make_info(matrices: Any) -> Any:
    """Zeros (int32) for each matrix, which is what LAPACK reports if all went well."""
    return full(matrices.shape[:-2], 0, dtype="int32")


def _inv(A: Any, check_errors: bool = False) -> tuple[Any, ...]:
    return inv(A), later(_make_info, A)


def _cholesky_ex(A: Any, upper: bool = False, check_errors: bool = False) -> tuple[Any, ...]:
    return cholesky(A, upper=upper), later(_make_info, A)


def _det(A: Any, *, contiguous: bool) -> tuple[Any, ...]:
    return det(A), *_factors_of_determinant(A, contiguous)


def _slogdet(A: Any, *, contiguous: bool) -> tuple[Any, ...]:
    return *slogdet(A), *_factors_of_determinant(A, contiguous)


def _factors_of_determinant(A: Any, contiguous: bool) -> tuple[Any, ...]:
    """PyTorch takes the transpose of a matrix whose rows lie one behind the other, as it has the
    same determinant and needs no copy for LAPACK."""
    return _factors_later(transpose(A, -2, -1) if contiguous else A)


def _factors_later(A: Any) -> tuple[Any, Any]:
    """What `lu_factor` gives, computed where it is used."""
    found = cache(lambda: lu_factor(A))
    return later(lambda: found()[0]), later(lambda: found()[1])


def _solve(A: Any, B: Any, left: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    kept = (*_factors_later(A), later(_make_info, A))
    if left:
        return solve(A, B), *kept
    turned = solve(transpose(A, -2, -1), transpose(B, -2, -1))
    return transpose(turned, -2, -1), *kept


def _lu_unpack(
    LU: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, ...]:
    return later(permutation, LU, pivots), later(lower_factor, LU), later(upper_factor, LU)


def _lu(A: Any, pivot: bool = True) -> tuple[Any, ...]:
    P, L, U = _lu_unpack(*lu_factor(A, pivot=pivot))
    return P if pivot else later(full, (0,), 0, dtype=A.dtype), L, U


def _lu_factor(A: Any, pivot: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    return *lu_factor(A, pivot=pivot), later(_make_info, A)


def _lu_solve(LU: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Any:
    return lu_solve(LU, pivots, B, left=left, adjoint=adjoint)


def _eigh(A: Any, UPLO: str = "L", compute_v: bool = True) -> tuple[Any, ...]:
    if compute_v:
        return tuple(eigh(A, UPLO))
    return eigvalsh(A, UPLO), later(full, (0,), 0, dtype=A.dtype)


def _svd(
    A: Any, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None
) -> tuple[Any, ...]:
    if compute_uv:
        return tuple(svd(A, full_matrices))
    nothing = later(full, (0,), 0, dtype=A.dtype)
    return nothing, svdvals(A), nothing


def _pinv(A: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    return pinv(A, None, hermitian, atol=atol, rtol=rtol)


def _triangular_solve(
    B: Any, A: Any, upper: bool = True, transpose_: bool = False, unitriangular: bool = False
) -> tuple[Any, ...]:
    used = transpose(A, -2, -1) if transpose_ else A
    upper = upper is not transpose_
    return solve_triangular(used, B, upper=upper, unitriangular=unitriangular), later(clone, A)


def _ormqr(A: Any, tau: Any, other: Any, left: bool = True, transpose_: bool = False) -> Any:
    """``other`` times the orthogonal matrix of all reflections in ``A`` (..., m, k)."""
    rows, columns = A.shape[-2:]
    Q = householder_product(pad(A, (0, rows - columns)), tau)
    Q = transpose(Q, -2, -1) if transpose_ else Q
    return matmul(Q, other) if left else matmul(other, Q)


FACTORS: Rows = {
    "aten.linalg_inv_ex.default": _inv,
    "aten.linalg_cholesky_ex.default": _cholesky_ex,
    "aten.cholesky.default": lambda A, upper=False: cholesky(A, upper=upper),
    "aten.cholesky_solve.default": cholesky_solve,
    "aten.cholesky_inverse.default": cholesky_inverse,
    "aten.linalg_householder_product.default": householder_product,
    "aten.ormqr.default": _ormqr,
    "aten.linalg_matrix_exp.default": matrix_exp,
    "aten.triangular_solve.default": _triangular_solve,
    "aten._linalg_det.default": _det,
    "aten._linalg_slogdet.default": _slogdet,
    "aten._linalg_solve_ex.default": _solve,
    "aten.linalg_lu_factor_ex.default": _lu_factor,
    "aten.linalg_lu.default": _lu,
    "aten.linalg_lu_solve.default": _lu_solve,
    "aten.lu_unpack.default": _lu_unpack,
    "aten.linalg_solve_triangular.default": solve_triangular,
    "aten.linalg_qr.default": lambda A, mode="reduced": tuple(qr(A, mode)),
    "aten._linalg_eigh.default": _eigh,
    "aten._linalg_svd.default": _svd,
    "aten.linalg_pinv.atol_rtol_tensor": _pinv,
}
"""Rows of factors."""

BY_MEMORY = frozenset({"aten._linalg_det.default", "aten._linalg_slogdet.default"})
"""Rows that are told whether the memory of their first argument is ``contiguous`` in PyTorch, as
what PyTorch's derivative reads of their results depends on it."""
