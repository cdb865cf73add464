"""Matrices as products of simpler ones: QR, eigenvalues of symmetric matrices, singular values.

A kernel computes the first; the others NumPy, of which compiled programs ask Python. Signs are
LAPACK's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import _umath_linalg

from staticflow.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from staticflow.graph.dims import Size, closed_size, dim_max, dim_min, is_provably_ge, same
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import new_full, zeros_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.lowering import Host, LoopNest
from staticflow.ops.declaring.tracing import is_traced, may_be_differentiated
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.elimination import each_matrix
from staticflow.ops.matrices.householder import reflections_of
from staticflow.ops.matrices.matrix_work import TeamWork, Work
from staticflow.ops.matrices.solving import identity, square, upper_op, with_our_errors
from staticflow.ops.matrices.triangle import diag_embed, tril

__all__ = [
    "QR", "SVD", "Eigen", "eigh", "eigh_op", "eigvalsh", "eigvalsh_op", "is_some",
    "matrix_sizes",
    "qr",
    "qr_by_some", "qr_op", "svd", "svd_by_columns", "svd_op", "svdvals", "svdvals_op",
]  # fmt: skip


def _by_lapack(name: str, instead: str, what: str, **attrs: Any) -> Any:
    """What gives the results of LAPACK for matrices of ``xp``, in their dtype.

    ``numpy.linalg`` computes those of float32 in float64, and rounds what comes out. The functions
    that it calls for that know float32, too, as which a matrix takes 0.5 to 0.7 times as long.
    Their ``name`` is none of NumPy's public ones: where there is none, and on a GPU, the function
    ``instead`` of ``xp.linalg`` is called. Infinite elements, of some of which LAPACK's iteration
    does not end, are refused as NaN is.
    """

    def compute(xp: Any, a: Any) -> Any:
        if xp.isinf(xp.tril(a) if what == "Eigenvalues" else a).any():  # what is read
            raise xp.linalg.LinAlgError(f"{what} did not converge: an element is infinite")
        function = getattr(_umath_linalg, name, None) if xp is np else None
        if function is None:
            found = getattr(xp.linalg, instead)(a, **attrs)
        else:
            try:
                with np.errstate(invalid="raise"):  # by which the function says so
                    found = function(a)
            except FloatingPointError:
                raise np.linalg.LinAlgError(f"{what} did not converge") from None
        return tuple(found) if isinstance(found, tuple) else found  # not a named one

    return with_our_errors(compute)


def matrix_sizes(x: TensorType) -> tuple[tuple[Any, ...], Any, Any]:
    """The batch, the rows and the columns of matrices."""
    if x.dtype not in (float32, float64):
        raise DTypeError(f"of {x.dtype.name}; matrices are factored in float32 or float64")
    if x.ndim < 2:
        raise ShapeError(f"{x} is no matrix")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


# -- QR -------------------------------------------------------------------------------------------


def _qr_infer(facts: Facts, a: TensorType, *, complete: bool) -> Any:
    batch, m, n = matrix_sizes(a)
    k = m if complete else dim_min(m, n)
    return TensorType(a.dtype, (*batch, m, k)), TensorType(a.dtype, (*batch, k, n))


def _qr_emit(nest: Any) -> None:
    width = nest.out_shape(0)[-1]
    with each_matrix(nest) as (b, work):
        count = dim_min(work.rows, work.columns)
        reflections = reflections_of(work, count, dim_max(width, work.columns))
        q = work.beside(work.rows, width)
        q.set_identity()
        reflections.apply(q)
        reflections.restore()
        for i, j in q.elements_along(work.rows, 0, width):
            nest.store(0, (*b, i, j), q.at(i, j))
        _store_upper(nest, b, work)


def _store_upper(nest: Any, batch: Any, work: Work) -> None:
    """Store the upper triangle of a matrix as the second result, with zeros below."""
    k, rows = nest.k, nest.out_shape(1)[-2]
    zero = k.const(0.0, work.dtype)
    if isinstance(work, TeamWork):
        for i, j in work.elements(rows, work.columns):
            is_below = k.compare("lt", k.index_value(j), k.index_value(i))
            nest.store(1, (*batch, i, j), k.select(is_below, zero, work.at(i, j)))
        return
    for i in nest.each("i", 0, rows):
        end = nest.name_size(dim_min(i, work.columns))
        for j in nest.along("j", 0, end):
            nest.store(1, (*batch, i, j), zero)
        for j in nest.along("j", end, work.columns):
            nest.store(1, (*batch, i, j), work.at(i, j))


def _qr_vjp(needs: Any, cts: Any, out: Any, a: Any, *, complete: bool) -> list[Any]:
    q, r = out
    m, n = a.shape[-2:]
    if complete and not is_provably_ge(n, m):
        raise AutogradError(
            f'qr: mode="complete" of shape {list(a.shape)} has no gradient, since its last columns '
            'are any that are orthogonal to the first; take mode="reduced", at '
            f"{format_locs(here())}"
        )
    of_q, of_r = (zeros_like(x) if ct is None else ct for x, ct in zip(out, cts, strict=True))
    behind = None
    if not is_provably_ge(m, n):  # columns behind are a2 = q @ r2
        k = r.shape[-2]
        of_r2 = of_r[..., k:]
        behind = matmul(q, of_r2)
        of_q = of_q + matmul(a[..., k:], mT(of_r2))
        r, of_r = r[..., :k], of_r[..., :k]
    # Walter and Lehmann 2018, "Algorithmic differentiation of linear algebra functions",
    # arXiv:1009.6112
    inner = matmul(r, mT(of_r)) - matmul(mT(of_q), q)
    both = of_q + matmul(q, tril(inner) + mT(tril(inner, -1)))
    of_a = mT(upper_op(r, mT(both)))
    return [of_a if behind is None else cat([of_a, behind], -1)]


qr_op = Op(
    name="qr",
    doc="Orthonormal columns q and an upper triangular r with ``q @ r = a``.",
    infer=_qr_infer,
    reference=strict(
        _qr_infer,
        lambda xp, a, *, complete: tuple(xp.linalg.qr(a, "complete" if complete else "reduced")),
    ),
    vjp=_qr_vjp,
    lowering=LoopNest(_qr_emit),
    numpy="slower",
    grad_name="LinalgQrBackward0",
)


class QR(NamedTuple):
    """Orthonormal columns and an upper triangular matrix."""

    Q: Any
    R: Any


@by_autocast
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
    complete = mode == "complete" and not (
        A.ndim > 1 and is_provably_ge(closed_size(A.shape[-1]), closed_size(A.shape[-2]))
    )
    q, r = _qr_factors(A, complete)
    return QR(q.new_empty(0) if mode == "r" else q, r)


@fused("LinalgQrBackward0")
def _qr_factors(A: Any, complete: bool) -> tuple[Any, ...]:
    return tuple(qr_op(A, complete=complete))


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
    reference=strict(_eigh_infer, _by_lapack("eigh_lo", "eigh", "Eigenvalues")),
    vjp=_eigh_vjp,
    lowering=Host(),
    grad_name="LinalgEighBackward0",
)


def _eigvalsh_infer(facts: Facts, a: TensorType) -> Any:
    return _eigh_infer(facts, a)[0]


eigvalsh_op = Op(
    name="eigvalsh",
    doc="The eigenvalues of the lower part of a, which ascend.",
    infer=_eigvalsh_infer,
    reference=strict(_eigvalsh_infer, _by_lapack("eigvalsh_lo", "eigvalsh", "Eigenvalues")),
    vjp=lambda needs, ct, out, a: _eigh_vjp(needs, (ct, None), eigh_op(a), a),
    lowering=Host(),
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
    _check_part("eigh", UPLO)
    return Eigen(*eigh_op(mT(A) if UPLO == "U" else A))


def _check_part(name: str, part: str) -> None:
    if part not in ("L", "U"):
        raise ArgumentError(f'{name}: UPLO is "L" or "U", not {part!r}, at {format_locs(here())}')


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of `eigh`, for which LAPACK has less to do than for the vectors."""
    if _is_recorded(A):
        return eigh(A, UPLO).eigenvalues
    _check_part("eigvalsh", UPLO)
    return eigvalsh_op(mT(A) if UPLO == "U" else A)


def _is_recorded(A: Any) -> bool:
    """Whether operations on ``A`` are recorded for backward, which needs the vectors."""
    return not is_traced(A) and may_be_differentiated(A)


# -- singular values ------------------------------------------------------------------------------


def _svd_infer(facts: Facts, a: TensorType, *, full: bool) -> Any:
    batch, m, n = matrix_sizes(a)
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
    some = is_some(size, x)
    return where(some, x, 0.0) / where(some, y, 1.0)


def is_some(size: Size, x: Any) -> Any:
    """Whether an open size, a number of the graph of ``x``, is more than 0."""
    return new_full(x, (), 0) + size > 0


_FULL = _by_lapack("svd_f", "svd", "SVD", full_matrices=True)
_SOME = _by_lapack("svd_s", "svd", "SVD", full_matrices=False)

svd_op = Op(
    name="svd",
    doc="Orthonormal columns u, the singular values s, which descend, and orthonormal rows vh.",
    infer=_svd_infer,
    reference=strict(_svd_infer, lambda xp, a, *, full: (_FULL if full else _SOME)(xp, a)),
    vjp=_svd_vjp,
    lowering=Host(),
    grad_name="LinalgSvdBackward0",
)


def _svdvals_infer(facts: Facts, a: TensorType) -> Any:
    return _svd_infer(facts, a, full=False)[1]


svdvals_op = Op(
    name="svdvals",
    doc="The singular values of a, which descend.",
    infer=_svdvals_infer,
    reference=strict(_svdvals_infer, _by_lapack("svd", "svd", "SVD", compute_uv=False)),
    vjp=lambda needs, ct, out, a: _svd_vjp(
        needs, (None, ct, None), svd_op(a, full=False), a, full=False
    ),
    lowering=Host(),
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
    """The singular values of `svd`, for which LAPACK has less to do than for the vectors."""
    return svd(A, False).S if _is_recorded(A) else svdvals_op(A)
