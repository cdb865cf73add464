"""Linear systems and inverses of tensors of which some dims count rows and the others columns."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import closed_size, prod
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import Shape
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.view import ravel, reshape
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.matrices.solving import inv, solve

__all__ = ["tensorinv", "tensorsolve"]


def tensorsolve(A: Any, B: Any, dims: Sequence[int] | None = None) -> Any:
    """The x with ``tensordot(A, x, x.ndim) = B``: as many dims of ``A`` as ``B`` has count
    equations, those behind them unknowns, of which x has the shape. ``dims`` of ``A`` go behind the
    others first.

    Raises `ShapeError` unless there are as many equations as unknowns, and `LinAlgError` as
    `solve` does.

    >>> import staticflow as sf
    >>> A = sf.eye(6).reshape(2, 3, 6) * 2
    >>> sf.linalg.tensorsolve(A, sf.ones(2, 3)).shape
    (6,)
    """
    if dims is not None:
        dims = tuple(dims)
        A = movedim(A, dims, tuple(range(A.ndim - len(dims), A.ndim)))
    if B.ndim > A.ndim:
        raise ShapeError(
            f"tensorsolve: B has {B.ndim} dims and A {A.ndim}; the first dims of A are those of B, "
            f"at {format_locs(here())}"
        )
    matrix = _as_matrix("tensorsolve", A, B.ndim)
    right = require_equal(
        ravel(B), matrix.shape[0], _count(B.shape), "tensorsolve: the equations of A and B"
    )
    return reshape(solve(matrix, right), A.shape[B.ndim :])


def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of ``A`` for `tensordot`: its first ``ind`` dims count rows, the others columns,
    and the inverse has the latter in front: ``tensordot(tensorinv(A, ind), B, ind)`` is
    ``tensorsolve(A, B)``.

    Raises `ShapeError` unless there are as many rows as columns, and `LinAlgError` as `inv` does.

    >>> import staticflow as sf
    >>> sf.linalg.tensorinv(sf.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    ind = operator.index(ind)
    if ind < 1:
        raise ShapeError(
            f"tensorinv: ind is {ind}; it must be 1 at least, the number of dims that count rows, "
            f"at {format_locs(here())}"
        )
    inverse = inv(_as_matrix("tensorinv", A, ind))
    return reshape(inverse, (*A.shape[ind:], *A.shape[:ind]))


def _as_matrix(what: str, A: Any, rows: int) -> Any:
    """The square matrix whose rows the first dims of ``A`` count, and whose columns the others."""
    m, n = _count(A.shape[:rows]), _count(A.shape[rows:])
    square = require_equal(A, m, n, f"{what}: the rows and columns of A of shape {list(A.shape)}")
    return reshape(square, (m, n))


def _count(shape: Shape) -> Any:
    return prod([closed_size(n) for n in shape])
