"""Factors of matrices, and what is solved by them."""

from __future__ import annotations

from typing import Any, NoReturn

from staticflow.eager.creation import full
from staticflow.errors import SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import clone
from staticflow.ops.basics.axes import transpose
from staticflow.ops.matrices.factors import eigh, eigvalsh, qr, svd, svdvals
from staticflow.ops.matrices.least_squares import pinv
from staticflow.ops.matrices.solving import (
    cholesky,
    det,
    inv,
    slogdet,
    solve,
)
from staticflow.ops.matrices.triangular import cholesky_solve, solve_triangular
from staticflow.torch.rows.row import Rows, later

__all__ = ["FACTORS"]


def _refuse_lu() -> NoReturn:
    raise SymbolicError(
        "the factors L and U of a matrix, which PyTorch's derivative of a determinant or a "
        "solution reads, have no meaning here; take the module over with sf.torch.from_module, "
        f"at {format_locs(here())}"
    )


_LU = later(_refuse_lu)


def _make_info(matrices: Any) -> Any:
    """Zeros (int32) for each matrix, which is what LAPACK reports if all went well."""
    return full(matrices.shape[:-2], 0, dtype="int32")


def _inv(A: Any, check_errors: bool = False) -> tuple[Any, ...]:
    return inv(A), later(_make_info, A)


def _cholesky_ex(A: Any, upper: bool = False, check_errors: bool = False) -> tuple[Any, ...]:
    return cholesky(A, upper=upper), later(_make_info, A)


def _solve(A: Any, B: Any, left: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    if left:
        return solve(A, B), _LU, _LU, later(_make_info, A)
    turned = solve(transpose(A, -2, -1), transpose(B, -2, -1))
    return transpose(turned, -2, -1), _LU, _LU, later(_make_info, A)


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


def _cholesky_inverse(L: Any, upper: bool = False) -> Any:
    factor = transpose(L, -2, -1) if upper else L
    return inv(factor @ transpose(factor, -2, -1))


def _triangular_solve(
    B: Any, A: Any, upper: bool = True, transpose_: bool = False, unitriangular: bool = False
) -> tuple[Any, ...]:
    used = transpose(A, -2, -1) if transpose_ else A
    upper = upper is not transpose_
    return solve_triangular(used, B, upper=upper, unitriangular=unitriangular), later(clone, A)


FACTORS: Rows = {
    "aten.linalg_inv_ex.default": _inv,
    "aten.linalg_cholesky_ex.default": _cholesky_ex,
    "aten.cholesky.default": lambda A, upper=False: cholesky(A, upper=upper),
    "aten.cholesky_solve.default": cholesky_solve,
    "aten.cholesky_inverse.default": _cholesky_inverse,
    "aten.triangular_solve.default": _triangular_solve,
    "aten._linalg_det.default": lambda A: (det(A), _LU, _LU),
    "aten._linalg_slogdet.default": lambda A: (*slogdet(A), _LU, _LU),
    "aten._linalg_solve_ex.default": _solve,
    "aten.linalg_solve_triangular.default": solve_triangular,
    "aten.linalg_qr.default": lambda A, mode="reduced": tuple(qr(A, mode)),
    "aten._linalg_eigh.default": _eigh,
    "aten._linalg_svd.default": _svd,
    "aten.linalg_pinv.atol_rtol_tensor": _pinv,
}
"""Rows of factors."""
