"""Matrices of products that others have taken apart."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import iota, zeros_like
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.solving import identity
from staticflow.ops.matrices.triangle import tril
from staticflow.ops.matrices.triangular import cholesky_solve

__all__ = ["cholesky_inverse", "householder_product"]


def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of the A that `cholesky` has taken apart into ``L @ L.mT``, or ``L.mT @ L`` where
    ``L`` is ``upper``.

    >>> import staticflow as sf
    >>> sf.cholesky_inverse(sf.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])
    """
    return cholesky_solve(identity(L), L, upper)


@by_autocast
def householder_product(A: Any, tau: Any) -> Any:
    """The first n columns of the product of the reflections ``I - tau[i] v v.mT``, where v is the
    column i of ``A`` (..., m, n) below its diagonal, with a one on it, and ``tau`` is (..., k) with
    k <= n <= m: the Q of what LAPACK's ``geqrf`` gives.

    >>> import staticflow as sf
    >>> sf.linalg.householder_product(sf.tensor([[5.0], [1.0]]), sf.tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """
    rows, columns, count = A.shape[-2], A.shape[-1], tau.shape[-1]
    if not all(isinstance(n, int) for n in (rows, columns, count)):
        raise SymbolicError(
            f"householder_product: the sizes of matrices of {list(A.shape)} and of tau, "
            f"{list(tau.shape)}, must be known as the graph is written; give them in the "
            f"placeholder, at {format_locs(here())}"
        )
    if not count <= columns <= rows:
        raise ShapeError(
            f"householder_product: A is {list(A.shape)} and tau {list(tau.shape)}; there must be "
            f"no more columns than rows and no more factors than columns, at {format_locs(here())}"
        )
    places = [iota.beside(A, shape=(rows, columns), dim=d, dtype=int64) for d in (0, 1)]
    out = zeros_like(A) + cast(places[0] == places[1], dtype=A.dtype)
    vectors = tril(A, -1) + out
    for i in reversed(range(count)):
        v = vectors[..., i : i + 1]
        out = out - unsqueeze(tau[..., i : i + 1], -1) * matmul(v, matmul(mT(v), out))
    return out
