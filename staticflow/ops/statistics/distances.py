"""Distances and angles between vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.errors import ArgumentError, ShapeError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import clamp
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.expand import broadcast_tensors
from staticflow.ops.basics.reduce import narrow_as, widen
from staticflow.ops.basics.view import contiguous, unsqueeze
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.declaring.tracing import is_traced
from staticflow.ops.statistics.moments import norm, vector_norm

__all__ = ["cdist", "cosine_similarity", "dist", "pairwise_distance", "pdist"]


@by_shape
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The ``p``-norm of ``input - other``.

    >>> import staticflow as sf
    >>> sf.dist(sf.tensor([1.0, 2.0]), sf.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return norm(input - other, p)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The ``p``-norm over the last dim of ``x1 - x2 + eps``, where ``eps`` keeps the derivative
    finite: (..., d) and (..., d) to (...)."""
    return _distance(x1, x2, p, eps, keepdim)


@fused("LinalgVectorNormBackward0")
def _distance(x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    return vector_norm(x1 - x2 + eps, p, dim=-1, keepdim=keepdim)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between the vectors along ``dim``, whose lengths are ``eps`` at
    least.

    >>> import staticflow as sf
    >>> sf.cosine_similarity(sf.tensor([[1.0, 0.0]]), sf.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    return _cosine(x1, x2, dim, eps)


@fused("SumBackward1")
def _cosine(x1: Any, x2: Any, dim: int, eps: float) -> Any:
    first, second = (
        x / clamp(vector_norm(x, 2, dim=dim, keepdim=True), min=eps)
        for x in broadcast_tensors(x1, x2)
    )
    return (first * second).sum(dim)


@by_shape
@by_autocast
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Any:
    """The ``p``-norms of the differences of all rows of ``x1`` (..., m, d) and of ``x2`` (...,
    n, d): (..., m, n). The gradient is 0 where the distance is 0.

    They are computed from the differences, whatever ``compute_mode`` says, those of floats of 16
    bits in float32.

    >>> import staticflow as sf
    >>> sf.cdist(sf.tensor([[0.0], [1.0]]), sf.tensor([[3.0], [5.0]]))
    tensor([[3., 5.],
            [2., 4.]])
    """
    if x1.ndim < 2 or x2.ndim < 2:
        raise ShapeError(
            f"cdist: takes matrices or batches of them, not shapes {list(x1.shape)} and "
            f"{list(x2.shape)}, at {format_locs(here())}"
        )
    if p < 0:
        raise ArgumentError(f"cdist: p is {p}; it must be 0 or more, at {format_locs(here())}")
    if compute_mode is not None and compute_mode not in _COMPUTE_MODES:
        raise ArgumentError(
            f"cdist: compute_mode is {compute_mode!r}; it must be None or one of "
            f"{', '.join(map(repr, _COMPUTE_MODES))}, at {format_locs(here())}"
        )
    columns = f"cdist: the columns of shape {list(x1.shape)} and of {list(x2.shape)}"
    x1 = require_equal(x1, x1.shape[-1], x2.shape[-1], columns)
    if _turning_pays(x1, x2):
        return _distances_to_columns(x1, contiguous(mT(x2)), p)
    return _distances(x1, x2, p)


_COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)  # fmt: skip


def _turning_pays(x1: Any, x2: Any) -> bool:
    """Whether `_distances_to_columns` takes less time than `_distances`: of eager tensors on the
    host. In a graph a copy would be index arithmetic where it is read."""
    if is_traced(x1) or is_traced(x2) or x2.__sf_gpu__ is not None:
        return False
    return bool(x2.shape[-2] >= _MANY and x1.shape[-1] == x2.shape[-1])


_MANY = 1 << 6
"""Rows of the second matrix from which on it is turned before, so that vectors hold the distances
to some of them: between 1000 rows of 32 and as many others they take 1.3 ms, and 6.4 where vectors
lie along rows, of 3 with their gradients 0.94, and 2.3; between 1000 rows of 100 and 10 others 105
microseconds, and 91."""


@fused("CdistBackward0")
def _distances(x1: Any, x2: Any, p: float) -> Any:
    first, second = widen(x1), widen(x2)
    return narrow_as(vector_norm(unsqueeze(first, -2) - unsqueeze(second, -3), p, dim=-1), x1)


@fused("CdistBackward0")
def _distances_to_columns(x1: Any, turned: Any, p: float) -> Any:
    first, second = widen(x1), widen(turned)
    return narrow_as(vector_norm(unsqueeze(first, -1) - unsqueeze(second, -3), p, dim=-2), x1)


def pdist(input: Any, p: float = 2.0) -> Any:
    """The ``p``-norms of the differences of the rows i < j of ``input`` (n, d): (n (n - 1) / 2,).
    The number of rows must be known."""
    rows = input.shape[0]
    if not isinstance(rows, int):
        raise SymbolicError(
            f"pdist: the number of rows, {rows}, is known only when the program runs; use "
            f"sf.cdist(x, x), at {format_locs(here())}"
        )
    first, second = np.triu_indices(rows, 1)
    # all n * n distances are less to write than the two rows of each of n * (n - 1) / 2 pairs
    return cdist(input, input, p)[first, second]
