"""A few singular values of a large matrix, by products with random ones."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dims import Size, dim_min
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.reduce import mean
from staticflow.ops.basics.view import of_size
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.required import require_at_least, require_equal
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.factors import qr, svd
from staticflow.ops.random.sampling import randn

__all__ = ["pca_lowrank", "svd_lowrank"]


@by_shape
def svd_lowrank(
    A: Any, q: Size | None = 6, niter: int | None = 2, M: Any = None
) -> tuple[Any, Any, Any]:
    """U (..., m, q), S (..., q) and V (..., n, q) with ``U @ diag(S) @ V.mT`` near ``A`` (..., m,
    n), less ``M`` if that is given: its ``q`` largest singular values, nearly, where the others are
    small.

    Orthonormal columns are found that span most of what ``A`` gives of random vectors, of which
    ``niter`` products with ``A.mT @ A`` make large what is large. Raises `ShapeError` where ``q``
    is larger than m or n.

    Source: Halko, Martinsson and Tropp, "Finding Structure with Randomness" (2011), algorithms 4.4
    and 5.1.

    >>> import staticflow as sf
    >>> A = sf.ones(20, 2) @ sf.tensor([[1.0, 2.0], [0.0, 1.0]]) @ sf.ones(2, 10)
    >>> U, S, V = sf.svd_lowrank(A, q=2)
    >>> sf.allclose(U @ S.diag() @ V.mT, A, atol=1e-4)
    True
    """
    q, rounds = 6 if q is None else as_size(q), 2 if niter is None else as_size(niter)
    if A.ndim < 2:
        raise ShapeError(
            f"svd_lowrank: takes matrices (..., m, n), not the shape {list(A.shape)}, "
            f"at {format_locs(here())}"
        )
    if not isinstance(rounds, int) or rounds < 0:
        raise ArgumentError(
            f"svd_lowrank: niter is {rounds}; it must be 0 at least, at {format_locs(here())}"
        )
    A = A if M is None else A - M
    for dim in (-2, -1):
        A = require_at_least(A, A.shape[dim], q, f"svd_lowrank: q is {q}, and dim {dim} of A")
    columns = _columns_that_span(A, q, rounds)
    U, S, Vh = svd(matmul(mT(columns), A), full_matrices=False)
    found = (matmul(columns, U), S, mT(Vh))
    return tuple(_of_q(x, q) for x in found)


def _of_q(x: Any, q: Any) -> Any:
    """``x`` with ``q`` elements in its last dim, the least of sizes that are as large or larger."""
    dim = x.ndim - 1
    return of_size(require_equal(x, x.shape[dim], q, "svd_lowrank: q"), dim, q)


def _columns_that_span(A: Any, q: Any, rounds: int) -> Any:
    """Orthonormal columns (..., m, q) near what ``A`` gives of any vectors."""
    drawn = randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype, device=A.device)
    columns = _of_q(qr(matmul(A, drawn)).Q, q)
    for _ in range(rounds):
        columns = qr(matmul(A, qr(matmul(mT(A), columns)).Q)).Q
    return columns


@by_shape
def pca_lowrank(
    A: Any, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Any, Any, Any]:
    """`svd_lowrank` of ``A`` (..., m, n), whose rows are points, with their mean taken away if
    ``center``: the columns of V are the principal directions, and ``A @ V[:, :k]`` are the
    coordinates along the first k. Without ``q`` there are 6, or fewer where m or n is smaller.

    >>> import staticflow as sf
    >>> points = sf.tensor([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    >>> sf.pca_lowrank(points, q=1)[2].abs()
    tensor([[1.],
            [0.]])
    """
    center = as_bool("center", center)
    if A.ndim < 2:
        raise ShapeError(
            f"pca_lowrank: takes matrices (..., m, n), not the shape {list(A.shape)}, "
            f"at {format_locs(here())}"
        )
    few = dim_min(6, dim_min(A.shape[-2], A.shape[-1]))
    if center:
        A = A - mean(A, -2, keepdim=True)
    return svd_lowrank(A, few if q is None else q, niter)
