"""Matrices as products of simpler ones: QR, eigenvalues of symmetric matrices, singular values; and
what follows from these. NumPy computes them, of which compiled programs ask Python; their signs are
LAPACK's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from staticflow.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from staticflow.graph.dims import Size, dim_max, dim_min, fresh_sym, is_provably_ge, plain, same
from staticflow.graph.dtypes import float32, float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.arithmetic import where
from staticflow.ops.axes import mT
from staticflow.ops.contract import matmul
from staticflow.ops.creation import new_full, zeros_like
from staticflow.ops.declare import strict
from staticflow.ops.extremes import amax
from staticflow.ops.joining import cat
from staticflow.ops.late import measure_op, tied_op
from staticflow.ops.lowering import Host
from staticflow.ops.sizes import is_symbolic
from staticflow.ops.solving import (
    checked,
    identity,
    is_of_vectors,
    solve_matrices,
    solve_op,
    square,
)
from staticflow.ops.triangle import diag_embed, tril, triu
from staticflow.ops.view import unsqueeze

__all__ = [
    "QR", "SVD", "Eigen", "LeastSquares", "cholesky_solve", "cond", "eigh", "eigh_op", "eigvalsh",
    "lstsq", "matrix_rank", "pinv", "pinverse", "qr", "qr_by_some", "qr_op", "solve_triangular",
    "spectral_norm", "svd", "svd_by_columns", "svd_op", "svdvals",
]  # fmt: skip


def _matrix(x: TensorType) -> tuple[tuple[Any, ...], Any, Any]:
    """The batch, the rows and the columns of matrices."""
    if x.dtype not in (float32, float64):
        raise DTypeError(f"of {x.dtype.name}; matrices are factored in float32 or float64")
    if x.ndim < 2:
        raise ShapeError(f"{x} is no matrix")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


# -- QR -------------------------------------------------------------------------------------------


def _qr_infer(facts: Facts, a: TensorType, *, complete: bool) -> Any:
    batch, m, n = _matrix(a)
    k = m if complete else dim_min(m, n)
    return TensorType(a.dtype, (*batch, m, k)), TensorType(a.dtype, (*batch, k, n))


def _qr_vjp(needs: Any, cts: Any, out: Any, a: Any, *, complete: bool) -> list[Any]:
    q, r = out
    if not same(q.shape[-1], r.shape[-1]):
        raise AutogradError(
            f'qr: mode="complete" of shape {list(a.shape)} has no gradient, since its last columns '
            'are any that are orthogonal to the first; take mode="reduced", at '
            f"{format_locs(here())}"
        )
    # Walter and Lehmann 2018, "Algorithmic differentiation of linear algebra functions",
    # arXiv:1009.6112
    of_q, of_r = (zeros_like(x) if ct is None else ct for x, ct in zip(out, cts, strict=True))
    inner = matmul(r, mT(of_r)) - matmul(mT(of_q), q)
    lower = tril(inner, -1)
    both = of_q + matmul(q, lower + mT(lower) + (inner - lower - triu(inner, 1)))
    return [mT(solve_op(r, mT(both)))]


qr_op = Op(
    name="qr",
    doc="Orthonormal columns q and an upper triangular r with ``q @ r = a``.",
    infer=_qr_infer,
    reference=strict(
        _qr_infer,
        lambda xp, a, *, complete: tuple(xp.linalg.qr(a, "complete" if complete else "reduced")),
    ),
    vjp=_qr_vjp,
    lowering=Host(),
    saves=(OUT,),
    grad_name="LinalgQrBackward0",
)


class QR(NamedTuple):
    """Orthonormal columns and an upper triangular matrix."""

    Q: Any
    R: Any


def qr(A: Any, mode: str = "reduced") -> QR:
    """Orthonormal columns Q and an upper triangular R with ``Q @ R = A`` (..., m, n): of shapes
    (m, k) and (k, n), where k is the smaller of both, or with ``mode="complete"`` m. ``"r"`` gives
    R alone, beside an empty Q.

    >>> import staticflow as sf
    >>> q, r = sf.linalg.qr(sf.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> sf.allclose(q @ r, sf.tensor([[3.0, 1.0], [4.0, 2.0]]))
    True
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(
            f'qr: mode is "reduced", "complete" or "r", not {mode!r}, at {format_locs(here())}'
        )
    complete = mode == "complete"
    first = dim_min(*map(plain, A.shape[-2:])) if A.ndim > 1 else 0
    if A.ndim > 1 and not same(first, A.shape[-1]):  # of as many columns as there may be in Q, and
        q, r = qr_op(A[..., :first], complete=complete)  # what the others are in these
        r = cat([r, matmul(mT(q), A[..., first:])], -1)
    else:
        q, r = qr_op(A, complete=complete)
    return QR(q.new_empty(0) if mode == "r" else q, r)


def qr_by_some(input: Any, some: bool = True) -> QR:
    """`qr` as ``torch.qr`` has it: complete unless ``some``."""
    return qr(input, "reduced" if some else "complete")


# -- symmetric matrices ---------------------------------------------------------------------------


def _eigh_infer(facts: Facts, a: TensorType) -> Any:
    square(facts, a)
    return TensorType(a.dtype, a.shape[:-1]), a


def _eigh_vjp(needs: Any, cts: Any, out: Any, a: Any) -> list[Any]:
    # Giles 2008, "Collected matrix derivative results", 3.1
    values, vectors = out
    of_values, of_vectors = cts
    inner = zeros_like(vectors) if of_values is None else diag_embed(of_values)
    if of_vectors is not None:
        gaps = unsqueeze(values, -2) - unsqueeze(values, -1)
        alone = identity(vectors) == 1
        turned = matmul(mT(vectors), of_vectors) / where(alone, 1.0, gaps)
        inner = inner + where(alone, 0.0, turned)
    whole = matmul(matmul(vectors, inner), mT(vectors))
    return [(whole + mT(whole)) * 0.5]


eigh_op = Op(
    name="eigh",
    doc="The eigenvalues, which ascend, and eigenvectors, the columns, of the lower part of a.",
    infer=_eigh_infer,
    reference=strict(_eigh_infer, checked(lambda xp, a: tuple(xp.linalg.eigh(a)))),
    vjp=_eigh_vjp,
    lowering=Host(),
    saves=(OUT,),
    grad_name="LinalgEighBackward0",
)


class Eigen(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


def eigh(A: Any, UPLO: str = "L") -> Eigen:
    """The eigenvalues (..., n), which ascend, and eigenvectors (..., n, n), the columns, of
    symmetric matrices, of which the lower part is read, or with ``UPLO="U"`` the upper one. Of
    equal eigenvalues the vectors have no gradient.

    >>> import staticflow as sf
    >>> sf.linalg.eigh(sf.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    if UPLO not in ("L", "U"):
        raise ArgumentError(f'eigh: UPLO is "L" or "U", not {UPLO!r}, at {format_locs(here())}')
    return Eigen(*eigh_op(mT(A) if UPLO == "U" else A))


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of `eigh`."""
    return eigh(A, UPLO).eigenvalues


# -- singular values ------------------------------------------------------------------------------


def _svd_infer(facts: Facts, a: TensorType, *, full: bool) -> Any:
    batch, m, n = _matrix(a)
    k = dim_min(m, n)
    shapes = ((m, m if full else k), (k,), (n if full else k, n))
    return tuple(TensorType(a.dtype, (*batch, *s)) for s in shapes)


def _skew(x: Any) -> Any:
    return x - mT(x)


def _svd_vjp(needs: Any, cts: Any, out: Any, a: Any, *, full: bool) -> list[Any]:
    # Townsend 2016, "Differentiating the singular value decomposition"
    u, s, vh = out
    k = s.shape[-1]
    of_u, of_s, of_vh = cts
    if full and not same(a.shape[-2], a.shape[-1]) and (of_u is not None or of_vh is not None):
        raise AutogradError(
            f"svd: the vectors of shape {list(a.shape)} with full_matrices=True have no gradient, "
            "since the last ones are any that are orthogonal to the others; take "
            f"full_matrices=False, at {format_locs(here())}"
        )
    u, vh = u[..., :k], vh[..., :k, :]
    row, column = unsqueeze(s, -2), unsqueeze(s, -1)
    inner = zeros_like(matmul(vh, mT(vh))) if of_s is None else diag_embed(of_s)
    alone = identity(inner) == 1
    apart = where(alone, 1.0, (row - column) * (row + column))
    outside: Any = 0.0
    if of_u is not None:
        inner = inner + _skew(matmul(mT(u), of_u)) / apart * row
        rest = of_u - matmul(u, matmul(mT(u), of_u))
        outside = matmul(_quotient_if(a.shape[-2] - k, rest, row), vh)
    if of_vh is not None:
        inner = inner + column * (_skew(matmul(vh, mT(of_vh))) / apart)
        rest = of_vh - matmul(matmul(of_vh, mT(vh)), vh)
        outside = outside + matmul(u, _quotient_if(a.shape[-1] - k, rest, column))
    return [matmul(matmul(u, inner), vh) + outside]


def _quotient_if(size: Size, x: Any, y: Any) -> Any:
    """``x / y`` if ``size``, how many rows or columns have no singular value, is more than 0; else
    zeros, where elements of ``y`` may be 0."""
    if isinstance(size, int):
        return x / y if size else zeros_like(x)
    some = _is_some(size, x)
    return where(some, x, 0.0) / where(some, y, 1.0)


def _is_some(size: Size, x: Any) -> Any:
    """Whether an open size, a number of the graph of ``x``, is more than 0."""
    return new_full(x, (), 0) + size > 0


svd_op = Op(
    name="svd",
    doc="Orthonormal columns u, the singular values s, which descend, and orthonormal rows vh.",
    infer=_svd_infer,
    reference=strict(
        _svd_infer, checked(lambda xp, a, *, full: tuple(xp.linalg.svd(a, full_matrices=full)))
    ),
    vjp=_svd_vjp,
    lowering=Host(),
    saves=(OUT,),
    grad_name="LinalgSvdBackward0",
)


class SVD(NamedTuple):
    """Left singular vectors as columns, singular values, right singular vectors as rows."""

    U: Any
    S: Any
    Vh: Any


def svd(A: Any, full_matrices: bool = True) -> SVD:
    """Orthonormal U and Vh and the singular values S, which descend, with
    ``U @ diag(S) @ Vh = A`` (..., m, n). U is (m, m) and Vh (n, n); unless ``full_matrices`` they
    have only as many columns and rows as S has elements. Of equal singular values the vectors
    have no gradient.

    >>> import staticflow as sf
    >>> sf.linalg.svd(sf.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    return SVD(*svd_op(A, full=bool(full_matrices)))


def svd_by_columns(input: Any, some: bool = True, compute_uv: bool = True) -> SVD:
    """`svd` as ``torch.svd`` gives it: right singular vectors are columns, too, and there are only
    as many as singular values unless ``some`` is False. ``compute_uv`` False gives zeros for both
    kinds of vectors."""
    u, s, vh = svd(input, not some)
    return SVD(u, s, mT(vh)) if compute_uv else SVD(zeros_like(u), s, zeros_like(mT(vh)))


def svdvals(A: Any) -> Any:
    """The singular values of `svd`."""
    return svd(A, False).S


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
    `matrix_rank` does not count with the same tolerances are taken for 0. ``rcond`` is ``rtol``.

    >>> import staticflow as sf
    >>> sf.linalg.pinv(sf.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    if rcond is not None:
        _check_alone("pinv: rcond", atol, rtol)
        rtol = rcond
    u, s, vh = svd(A, False)
    kept = _above_tolerance(s, A, rtol, atol)
    inverse = where(kept, 1 / where(kept, s, 1.0), 0.0)
    return matmul(mT(vh) * unsqueeze(inverse, -2), mT(u))


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
    x = matmul(pinv(A, rtol=rcond), right)
    rank, left = matrix_rank(A, rtol=rcond), matmul(A, x) - right
    residuals = _residuals(A, rank, (left * left).sum(-2))
    return LeastSquares(x.squeeze(-1) if vectors else x, residuals, rank, svdvals(A))


def _residuals(A: Any, rank: Any, squares: Any) -> Any:
    """The ``squares`` that are left, or nothing unless there are more rows than columns and each
    rank is full. In a graph, only whose run can tell, the run ends in an error instead."""
    rows, columns = map(plain, A.shape[-2:])
    if is_provably_ge(columns, rows):
        return squares.new_empty(0)
    full = (rank == columns).all()
    if not is_symbolic(full):
        return squares if full else squares.new_empty(0)
    if not is_provably_ge(rows, columns + 1):
        full = full & _is_some(rows - columns, squares)
    binds = (fresh_sym("deficient", 1, late=True),)
    held = measure_op((~full).to(int64), most=0, what=_DEFICIENT, binds=binds)
    return tied_op(squares, held)


_DEFICIENT = (
    "lstsq, whose residuals are used in a graph, where they are those of full rank (of any rank "
    "they are ((A @ x - b) ** 2).sum(-2)): the number of matrices that have no full rank, or no "
    "more rows than columns,"
)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """The X with ``A @ X = B``, or ``X @ A = B`` unless ``left``, where only the ``upper`` part of
    ``A`` (..., n, n), or the lower one, is read; with ``unitriangular`` its diagonal is taken for
    ones.

    >>> import staticflow as sf
    >>> sf.linalg.solve_triangular(
    ...     sf.tensor([[2.0, 9.0], [0.0, 4.0]]), sf.tensor([[2.0], [0.0]]), upper=True
    ... )
    tensor([[1.],
            [0.]])
    """
    part = triu(A) if upper else tril(A)
    if unitriangular:
        part = where(identity(A) == 1, 1.0, part)
    return solve_matrices(part, B) if left else mT(solve_matrices(mT(part), mT(B)))


def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """The X with ``A @ X = B`` for the A that `cholesky` has taken apart into ``L @ L.mT``, or
    ``L.mT @ L`` where ``L`` is ``upper``.

    >>> import staticflow as sf
    >>> A = sf.tensor([[4.0, 2.0], [2.0, 5.0]])
    >>> cholesky_solve(sf.tensor([[4.0], [2.0]]), sf.linalg.cholesky(A))
    tensor([[1.],
            [0.]])
    """
    lower = mT(L) if upper else L
    half = solve_triangular(lower, B, upper=False)
    return solve_triangular(mT(lower), half, upper=True)


def spectral_norm(A: Any, ord: Any, keepdim: bool) -> Any:
    """The matrix norms that singular values say, over the last two dims: the largest (``ord`` 2),
    the smallest (-2), their sum ("nuc")."""
    s = svdvals(A)
    out = s.sum(-1) if ord == "nuc" else s[..., 0 if ord == 2 else -1]
    return unsqueeze(unsqueeze(out, -1), -1) if keepdim else out
