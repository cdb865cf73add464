"""What the singular values of matrices tell: ranks, pseudo-inverses, norms, and how far errors
grow."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.dims import dim_max
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import amax
from staticflow.ops.basics.arithmetic import stop_gradient, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.tracing import may_be_differentiated
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.factors import SVD, eigh, eigvalsh, svd, svdvals
from staticflow.ops.matrices.solving import solve
from staticflow.ops.matrices.tall_systems import PRECISION
from staticflow.ops.matrices.triangle import diag_embed, tril

__all__ = [
    "above_tolerance", "cond", "matrix_rank", "pinv", "pinverse", "pseudoinverse", "spectral_norm",
]  # fmt: skip

Tolerance = Any
"""A number, a tensor of one for each matrix, or None: not given."""


def above_tolerance(s: Any, A: Any, rtol: Tolerance, atol: Tolerance) -> Any:
    """Which singular values are no rounding errors."""
    absolute, relative = _for_matrices(atol), _for_matrices(rtol)
    if relative is None:
        larger: Any = dim_max(*A.shape[-2:])
        default = PRECISION[s.dtype] * larger
        if hasattr(absolute, "ndim"):
            relative = where(absolute > 0, 0.0, default)
        else:
            relative = 0.0 if absolute else default
    none = new_full(s, (*s.shape[:-1], 1), 0)  # there may be no singular value
    bound = amax(cat([s, none], -1), -1, keepdim=True) * relative
    return s > (bound if absolute is None else bound.clamp(min=absolute))


def _for_matrices(tolerance: Tolerance) -> Any:
    """A tolerance in a shape that meets the singular values of its matrix."""
    return unsqueeze(tolerance, -1) if getattr(tolerance, "ndim", 0) else tolerance


def _check_alone(what: str, *others: Tolerance) -> None:
    if any(other is not None for other in others):
        raise ArgumentError(
            f"{what} stands for atol and rtol, and one of these is given, too; give one of them, "
            f"at {format_locs(here())}"
        )


def matrix_rank(
    A: Any,
    tol: Tolerance = None,
    hermitian: bool = False,
    *,
    atol: Tolerance = None,
    rtol: Tolerance = None,
) -> Any:
    """How many singular values are larger than ``atol`` and than ``rtol`` times the largest, int64;
    ``rtol`` is the larger size times the distance of 1 to the next number unless ``atol`` or it is
    given. Either may be a tensor that broadcasts with the batch of ``A``. ``tol`` is ``atol``, with
    0 for ``rtol``.

    >>> import staticflow as sf
    >>> sf.linalg.matrix_rank(sf.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    if tol is not None:
        _check_alone("matrix_rank: tol", atol, rtol)
        atol, rtol = tol, 0.0
    s = abs(eigvalsh(A)) if hermitian else svdvals(A)
    return above_tolerance(s, A, rtol, atol).sum(-1)


def pinv(
    A: Any,
    rcond: Tolerance = None,
    hermitian: bool = False,
    *,
    atol: Tolerance = None,
    rtol: Tolerance = None,
) -> Any:
    """The pseudoinverses (..., n, m) of matrices (..., m, n), by `svd`; singular values that
    `matrix_rank` does not count with the same tolerances are taken for 0. ``rcond`` is ``rtol``. Of
    a matrix that is ``hermitian`` the lower part is read, its eigenvalues are what counts, and the
    gradient is symmetric.

    The derivatives are those among matrices of one rank (Golub and Pereyra 1973): there are none
    across ranks.

    >>> import staticflow as sf
    >>> sf.linalg.pinv(sf.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    if rcond is not None:
        _check_alone("pinv: rcond", atol, rtol)
        rtol = rcond
    if hermitian:
        values, q = eigh(stop_gradient(A))
        kept = above_tolerance(abs(values), A, rtol, atol)
        return pseudoinverse(_symmetric(A), SVD(q, values, mT(q)), kept)
    factors = svd(stop_gradient(A), False)
    return pseudoinverse(A, factors, above_tolerance(factors.S, A, rtol, atol))


def _symmetric(A: Any) -> Any:
    """The symmetric matrices of which ``A`` has the lower part, with a symmetric gradient."""
    lower = tril(stop_gradient(A))
    mean = (A + mT(A)) * 0.5
    return mean + (lower + mT(tril(lower, -1)) - stop_gradient(mean))


def pseudoinverse(A: Any, factors: SVD, kept: Any) -> Any:
    """The pseudoinverse of ``A`` by the singular values that are ``kept`` of its ``factors``, which
    are taken for constants.

    With these, ``C = A^T U S^-1``, ``R = S^-1 V^T A^T`` and ``K = S^-1 R A C`` are V, U^T and I,
    and ``C K^-1 S^-1 R`` is the pseudoinverse of any matrix of that rank near ``A``: so its
    derivatives, of any order, need no gaps between singular values, as those of the factors do.
    """
    u, s, vh = map(stop_gradient, factors)
    inverse = where(kept, 1 / where(kept, s, 1.0), 0.0)
    across, down = unsqueeze(inverse, -2), unsqueeze(inverse, -1)
    if not may_be_differentiated(A):
        return matmul(mT(vh) * across, mT(u))
    columns = matmul(mT(A), u * across)
    rows = matmul(down * vh, mT(A))
    near_identity = down * matmul(matmul(rows, A), columns) + diag_embed(where(kept, 0.0, 1.0))
    return matmul(columns, solve(near_identity, down * rows))


@by_autocast
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """`pinv` as ``torch.pinverse`` has it."""
    return pinv(input, rtol=rcond)


def cond(A: Any, p: Any = None) -> Any:
    """The ratio of the largest singular value to the smallest, or with ``p=-2`` its inverse.

    >>> import staticflow as sf
    >>> sf.linalg.cond(sf.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    if p not in (None, 2, -2):
        raise ArgumentError(f"cond: p is None, 2 or -2, not {p!r}, at {format_locs(here())}")
    s = svdvals(A)
    first, last = s[..., 0], s[..., -1]
    return last / first if p == -2 else first / last


def spectral_norm(A: Any, ord: Any, keepdim: bool) -> Any:
    """The matrix norms that singular values say, over the last two dims: the largest (``ord`` 2),
    the smallest (-2), their sum ("nuc")."""
    s = svdvals(A)
    out = s.sum(-1) if ord == "nuc" else s[..., 0 if ord == 2 else -1]
    return unsqueeze(unsqueeze(out, -1), -1) if keepdim else out
