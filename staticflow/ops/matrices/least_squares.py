"""What the singular values of matrices tell: ranks, pseudo-inverses, least squares, norms, and how
far errors grow."""

from __future__ import annotations

from typing import Any, NamedTuple

from staticflow.errors import ArgumentError
from staticflow.graph.dims import closed_size, dim_max, fresh_sym, is_provably_ge
from staticflow.graph.dtypes import float32, float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import amax
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.late import measure_op, tied_op
from staticflow.ops.declaring.sizes import is_symbolic
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.factors import SVD, eigh, eigvalsh, is_some, svd, svdvals
from staticflow.ops.matrices.solving import (
    is_of_vectors,
)

__all__ = [
    "LeastSquares", "cond", "lstsq", "matrix_rank", "pinv", "pinverse", "spectral_norm",
]  # fmt: skip

Tolerance = Any
"""A number, a tensor of one for each matrix, or None: not given."""


def _above_tolerance(s: Any, A: Any, rtol: Tolerance, atol: Tolerance) -> Any:
    """Which singular values are no rounding errors."""
    absolute, relative = _for_matrices(atol), _for_matrices(rtol)
    if relative is None:
        larger: Any = dim_max(*A.shape[-2:])
        default = {float32: 2.0**-23, float64: 2.0**-52}[s.dtype] * larger
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
    return _above_tolerance(s, A, rtol, atol).sum(-1)


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
    a matrix that is ``hermitian`` the lower part is read, and its eigenvalues are what counts.

    >>> import staticflow as sf
    >>> sf.linalg.pinv(sf.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    if rcond is not None:
        _check_alone("pinv: rcond", atol, rtol)
        rtol = rcond
    if hermitian:
        values, q = eigh(A)
        kept = _above_tolerance(abs(values), A, rtol, atol)
        inverse = where(kept, 1 / where(kept, values, 1.0), 0.0)
        return matmul(q * unsqueeze(inverse, -2), mT(q))
    factors = svd(A, False)
    return _inverse_of(factors, _above_tolerance(factors.S, A, rtol, atol))


def _inverse_of(factors: SVD, kept: Any) -> Any:
    """The pseudoinverse by the singular values that are ``kept``."""
    u, s, vh = factors
    inverse = where(kept, 1 / where(kept, s, 1.0), 0.0)
    return matmul(mT(vh) * unsqueeze(inverse, -2), mT(u))


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


class LeastSquares(NamedTuple):
    """What `lstsq` gives."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


@by_autocast
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """The X for which ``A @ X`` is nearest to ``B`` (..., m, k), the smallest one of several, by
    `pinv`, whichever ``driver``; with the sums of squares that are left, where ``A`` (..., m, n)
    has more rows than columns and full rank, and with its rank and singular values.

    >>> import staticflow as sf
    >>> sf.linalg.lstsq(sf.tensor([[1.0], [1.0]]), sf.tensor([[1.0], [3.0]])).solution
    tensor([[2.0000]])
    """
    vectors = is_of_vectors(A, B)
    right = unsqueeze(B, -1) if vectors else B
    factors = svd(A, False)
    kept = _above_tolerance(factors.S, A, rcond, None)
    x = matmul(_inverse_of(factors, kept), right)
    rank, left = kept.sum(-1), matmul(A, x) - right
    residuals = _residuals(A, rank, (left * left).sum(-2))
    return LeastSquares(x.squeeze(-1) if vectors else x, residuals, rank, factors.S)


def _residuals(A: Any, rank: Any, squares: Any) -> Any:
    """The ``squares`` that are left, or nothing unless there are more rows than columns and each
    rank is full. In a graph, only whose run can tell, the run ends in an error instead."""
    rows, columns = map(closed_size, A.shape[-2:])
    if is_provably_ge(columns, rows):
        return squares.new_empty(0)
    full = (rank == columns).all()
    if not is_symbolic(full):
        return squares if full else squares.new_empty(0)
    if not is_provably_ge(rows, columns + 1):
        full = full & is_some(rows - columns, squares)
    binds = (fresh_sym("deficient", 1, late=True),)
    held = measure_op((~full).to(int64), most=0, what=_DEFICIENT, binds=binds)
    return tied_op(squares, held)


_DEFICIENT = (
    "lstsq, whose residuals are used in a graph, where they are those of full rank (of any rank "
    "they are ((A @ x - b) ** 2).sum(-2)): the number of matrices that have no full rank, or no "
    "more rows than columns,"
)


def spectral_norm(A: Any, ord: Any, keepdim: bool) -> Any:
    """The matrix norms that singular values say, over the last two dims: the largest (``ord`` 2),
    the smallest (-2), their sum ("nuc")."""
    s = svdvals(A)
    out = s.sum(-1) if ord == "nuc" else s[..., 0 if ord == 2 else -1]
    return unsqueeze(unsqueeze(out, -1), -1) if keepdim else out
