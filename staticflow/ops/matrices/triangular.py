"""Systems of equations whose matrix is triangular, or a product of triangular ones."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.matrices.solving import identity, in_batches, lower_op, upper_op

__all__ = ["cholesky_solve", "solve_triangular"]


@by_shape
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
    if A.ndim < 2 or B.ndim < 2:
        raise ShapeError(
            f"solve_triangular: A has shape {list(A.shape)} and B {list(B.shape)}; both must be "
            "matrices, or batches of them: give a vector B as B.unsqueeze(-1), "
            f"at {format_locs(here())}"
        )
    A = require_equal(
        A, A.shape[-2], A.shape[-1], f"solve_triangular: A of shape {list(A.shape)} is not square"
    )
    if not left:
        return mT(solve_triangular(mT(A), mT(B), upper=not upper, unitriangular=unitriangular))
    part = where(identity(A) == 1, 1.0, A) if unitriangular else A
    return (upper_op if upper else lower_op)(*in_batches(part, B))


@by_shape
@by_autocast
def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """The X with ``A @ X = B`` for the A that `cholesky` has taken apart into ``L @ L.mT``, or
    ``L.mT @ L`` where ``L`` is ``upper``.

    >>> import staticflow as sf
    >>> A = sf.tensor([[4.0, 2.0], [2.0, 5.0]])
    >>> sf.cholesky_solve(sf.tensor([[4.0], [2.0]]), sf.linalg.cholesky(A))
    tensor([[1.],
            [0.]])
    """
    lower = mT(L) if upper else L
    half = solve_triangular(lower, B, upper=False)
    return solve_triangular(mT(lower), half, upper=True)
