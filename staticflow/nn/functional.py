"""The functions behind the layers: ops and plain functions of ops, alike in both modes."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ShapeError
from staticflow.ops.contract import linear
from staticflow.ops.indexing import gather
from staticflow.ops.maths import relu, sigmoid, tanh
from staticflow.ops.softmax import log_softmax, mse_loss_op, nll_loss_op, softmax

__all__ = [
    "check_reduction", "cross_entropy", "linear", "log_softmax", "mse_loss", "nll_loss", "relu",
    "sigmoid", "softmax", "tanh",
]  # fmt: skip

_REDUCED = {
    "none": lambda each: each,
    "mean": lambda each: each.mean(),
    "sum": lambda each: each.sum(),
}


def check_reduction(reduction: str) -> str:
    """``reduction`` if it is one of "mean", "sum" and "none"; else a `ShapeError`."""
    if reduction not in _REDUCED:
        raise ShapeError(f'a loss is reduced by "mean", "sum" or "none", not {reduction!r}')
    return reduction


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """``(input - target) ** 2``, broadcast, and its mean or sum over all elements.

    >>> import staticflow as sf
    >>> mse_loss(sf.tensor([1.0, 3.0]), sf.tensor([1.0, 1.0]))
    tensor(2.)
    """
    if check_reduction(reduction) == "mean":
        return mse_loss_op(input, target)
    return _REDUCED[reduction]((input - target) ** 2)


def nll_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Minus the log-probability ``input`` (N, C) of the classes ``target`` (N,), integers.

    The mean over N (NaN if N is 0), the sum, or all N. Raises `IndexRangeError` for a class outside
    [0, C).
    """
    if check_reduction(reduction) == "mean":
        return nll_loss_op(input, target)
    if input.ndim != 2 or target.ndim != 1:
        raise ShapeError(
            "nll_loss: takes log-probabilities (N, C) and classes (N,), not shapes "
            f"{input.shape} and {target.shape}"
        )
    chosen = gather(input, 1, target.reshape(target.shape[0], 1))
    return _REDUCED[reduction](-chosen.reshape(target.shape[0]))


def cross_entropy(input: Any, target: Any, reduction: str = "mean") -> Any:
    """`nll_loss` of the `log_softmax` of scores ``input`` (N, C), for classes ``target`` (N,).

    >>> import staticflow as sf
    >>> cross_entropy(sf.zeros(2, 4), sf.tensor([0, 3]))
    tensor(1.3863)
    """
    return nll_loss(log_softmax(input, 1), target, reduction)
