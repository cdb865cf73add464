"""Linear algebra by the names of the array API: its main functions and its extension ``linalg``."""

from __future__ import annotations

from typing import Any, NoReturn

from staticflow import linalg
from staticflow.array_api.elementwise import meet
from staticflow.array_api.refused import LINALG, refuse
from staticflow.array_api.statistics import over
from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics import axes as dims
from staticflow.ops.basics import reduce
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.matrices import contract, products, solving
from staticflow.ops.statistics import moments

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix products of the last two dims, the dims before them broadcast; of a vector the
    products with its elements."""
    return contract.matmul(*meet(x1, x2))


def matrix_transpose(x: Any, /) -> Any:
    """``x`` with its last two dims exchanged."""
    return dims.mT(x)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The sums of products over the last ``axes`` dims of ``x1`` and the first of ``x2``, or over
    those that a pair of sequences names."""
    return products.tensordot(*meet(x1, x2), axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The inner products of vectors along ``axis``, which counts from the end; the other dims
    broadcast. Raises `ShapeError` where ``axis`` has two sizes."""
    x1, x2 = meet(x1, x2)
    at = normalize_dim(axis, min(x1.ndim, x2.ndim), "vecdot") - min(x1.ndim, x2.ndim)
    if isinstance(x1.shape[at] - x2.shape[at], int) and x1.shape[at] != x2.shape[at]:
        raise ShapeError(
            f"vecdot: the sizes of dim {axis} of {list(x1.shape)} and {list(x2.shape)} differ; "
            f"they must be equal, at {format_locs(here())}"
        )
    return reduce.sum(x1 * x2, at, dtype=x1.dtype)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector products along ``axis``, which has size 3; the other dims broadcast."""
    return linalg.cross(*meet(x1, x2), dim=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of each element of one vector with each of another, in a matrix."""
    return products.outer(*meet(x1, x2))


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices that lie ``offset`` above the main ones."""
    return linalg.diagonal(x, offset=offset)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices that lie ``offset`` above the main ones."""
    return reduce.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower triangular matrices L, or the ``upper`` ones, with ``L @ L.mT = x``."""
    return linalg.cholesky(x, upper=upper)


def det(x: Any, /) -> Any:
    """The determinants of matrices."""
    return linalg.det(x)


def slogdet(x: Any, /) -> Any:
    """The signs of the determinants and the logarithms of their absolute values, as the named tuple
    (sign, logabsdet)."""
    return linalg.slogdet(x)


def inv(x: Any, /) -> Any:
    """The inverses of matrices."""
    return linalg.inv(x)


def solve(x1: Any, x2: Any, /) -> Any:
    """The y with ``x1 @ y = x2``: ``x2`` is a vector if it has one dim, else matrices."""
    left, right = meet(x1, x2)
    if right.ndim == 1:
        return solving.solve_matrices(left, right.unsqueeze(-1)).squeeze(-1)
    return solving.solve_matrices(left, right)


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The pseudoinverses of matrices; singular values up to ``rtol`` times the largest are taken
    for 0."""
    return linalg.pinv(x, rtol=rtol)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values are larger than ``rtol`` times the largest."""
    return linalg.matrix_rank(x, rtol=rtol)


def matrix_power(x: Any, n: int, /) -> Any:
    """Square matrices to an integer power; a negative one is that of the inverses."""
    return linalg.matrix_power(x, n)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norms of matrices, of an order that `staticflow.linalg.matrix_norm` has."""
    return linalg.matrix_norm(x, ord, keepdim=keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norms of vectors over ``axis``, or of all elements."""
    values, at = over(x, axis)
    return moments.vector_norm(values, ord, at, keepdims and values is x)


def eigh(x: Any, /) -> Any:
    """The eigenvalues, which ascend, and the eigenvectors, the columns, of symmetric matrices, as
    the named tuple (eigenvalues, eigenvectors)."""
    return linalg.eigh(x)


def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues of symmetric matrices; they ascend."""
    return linalg.eigvalsh(x)


def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """Orthonormal columns Q and an upper triangular R with ``Q @ R = x``, as the named tuple
    (Q, R)."""
    return linalg.qr(x, mode)


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """Orthonormal U and Vh and the singular values S, which descend, with
    ``U @ diag(S) @ Vh = x``, as the named tuple (U, S, Vh)."""
    return linalg.svd(x, full_matrices)


def svdvals(x: Any, /) -> Any:
    """The singular values of matrices; they descend."""
    return linalg.svdvals(x)


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name, LINALG)


refuses_foreign_in(globals())
