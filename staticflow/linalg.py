"""Norms, products and what solves linear equations, by the names of `torch.linalg`."""

from __future__ import annotations

from math import inf
from typing import Any

from staticflow.errors import LinAlgError, ShapeError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.basics.arithmetic import cast, mul
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.reduce import Dims, sum
from staticflow.ops.basics.view import atleast_1d, unsqueeze
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.sizes import as_size, as_sizes
from staticflow.ops.elementwise.maths import abs, pow
from staticflow.ops.loops.least_squares import lstsq
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.determinants import det, slogdet
from staticflow.ops.matrices.exponential import matrix_exp
from staticflow.ops.matrices.factors import eigh, eigvalsh, qr, svd, svdvals
from staticflow.ops.matrices.lu import lu, lu_factor, lu_solve
from staticflow.ops.matrices.products import cross as cross_of
from staticflow.ops.matrices.products import multi_dot
from staticflow.ops.matrices.reflections import householder_product
from staticflow.ops.matrices.singular_values import cond as cond_of
from staticflow.ops.matrices.singular_values import matrix_rank, pinv, spectral_norm
from staticflow.ops.matrices.solving import cholesky, inv, matrix_power, solve
from staticflow.ops.matrices.tensor_systems import tensorinv, tensorsolve
from staticflow.ops.matrices.triangle import diagonal as diagonal_of
from staticflow.ops.matrices.triangular import solve_triangular
from staticflow.ops.statistics.moments import vector_norm

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh",
    "householder_product", "inv", "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonals of matrices: a view."""
    return diagonal_of(A, offset, dim1, dim2)


def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The vector product along ``dim``, which has size 3; the other dims broadcast."""
    return cross_of(input, other, dim)


def cond(A: Any, p: float | str | None = None) -> Any:
    """How far errors grow in ``solve``: the ratio of the largest singular value to the smallest,
    with ``p=-2`` its inverse, and with another order of `matrix_norm` that norm of ``A`` times that
    of its inverse.

    >>> import staticflow as sf
    >>> sf.linalg.cond(sf.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    if p in (None, 2, -2):
        return cond_of(A, p)
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


def vander(x: Any, N: int | None = None) -> Any:
    """The powers 0, 1, ... of each element as a row (..., n, N), ``N`` of them, as many as elements
    in the last dim unless given.

    >>> import staticflow as sf
    >>> sf.linalg.vander(sf.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    x = atleast_1d(x)
    if not x.dtype.is_floating:
        x = cast(x, dtype=int64)
    count = x.shape[-1] if N is None else as_size(N)
    powers = iota.beside(x, shape=(count,), dim=0, dtype=x.dtype)
    return pow(unsqueeze(x, -1), powers)


@by_autocast
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The inner products of vectors along ``dim``; the other dims broadcast."""
    return sum(mul(x, y), dim)


def matrix_norm(
    x: Any,
    ord: float | str = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """The norm of matrices over ``dim``, rows and columns: "fro", or the largest (``ord`` 1, inf)
    or smallest (-1, -inf) sum of ``|x|`` over a column (1) or a row (inf), the largest (2) or
    smallest (-2) singular value, or "nuc", the sum of them.

    >>> import staticflow as sf
    >>> sf.linalg.matrix_norm(sf.tensor([[1.0, -2.0], [3.0, 4.0]]), 1)
    tensor(6.)
    """
    if dtype is not None:
        x = cast(x, dtype=dtype)
    rows, cols = (normalize_dim(d, x.ndim, "matrix_norm") for d in dim)
    if rows == cols or x.ndim < 2:
        raise ShapeError(
            f"matrix_norm: the dims {list(dim)} of a tensor of {x.ndim} dims are no matrix, "
            f"at {format_locs(here())}"
        )
    if ord == "fro":
        return vector_norm(x, 2, (rows, cols), keepdim)
    if ord in (2, -2, "nuc"):
        out = spectral_norm(movedim(x, (rows, cols), (-2, -1)), ord, keepdim)
        return movedim(out, (-2, -1), (rows, cols)) if keepdim else out
    if ord not in (1, -1, inf, -inf):
        raise ShapeError(
            f'matrix_norm: the order is {ord!r}; it must be "fro", "nuc", 1, -1, 2, -2, inf or '
            f"-inf, at {format_locs(here())}"
        )
    along, over = (rows, cols) if ord in (1, -1) else (cols, rows)
    sums = sum(abs(x), along, keepdim=True)
    out = (amax if ord in (1, inf) else amin)(sums, over, keepdim=True)
    return out if keepdim else out.squeeze((rows, cols))


def norm(
    input: Any,
    ord: float | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """The `matrix_norm` if ``dim`` names two dims, or none of a matrix whose ``ord`` is given; else
    the `vector_norm`, of all elements if there is neither.

    >>> import staticflow as sf
    >>> sf.linalg.norm(sf.tensor([[3.0], [4.0]]))
    tensor(5.)
    """
    named = () if dim is None else as_sizes(dim)
    if ord is not None and (len(named) == 2 or (not named and input.ndim == 2)):
        over = (named[0], named[1]) if named else (0, 1)
        return matrix_norm(input, ord, over, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ShapeError(
            f"norm: the order {ord!r} is of matrices; name two dims, at {format_locs(here())}"
        )
    return vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


refuses_foreign_in(globals())
