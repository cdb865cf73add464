"""Elements left out at random while training."""

from __future__ import annotations

import math
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here, warn
from staticflow.ops.basics.creation import full
from staticflow.ops.random.dropout import dropout
from staticflow.ops.random.sampling import bernoulli

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def _channels(x: Any, rank: int, name: str) -> Any:
    """Ones with an element for each channel of ``x`` (N, C, ...) or (C, ...)."""
    if rank == 2 and x.ndim in (2, 3):
        shape, other = ("(N, C, L)", "dropout1d") if x.ndim == 3 else ("(N, C)", "dropout")
        warn(
            f"{name}: an input of {x.ndim} dims is taken as {shape}, as PyTorch does; write "
            f"{other}, which leaves out the same"
        )
        return _ones(x, (*x.shape[:2], *(1,) * (x.ndim - 2)))
    if x.ndim not in (rank + 1, rank + 2):
        alone = "" if rank == 2 else f" or {rank + 1} (C, ...)"
        raise ShapeError(
            f"{name}: takes an input of {rank + 2} dims (N, C, ...){alone}, not of shape "
            f"{list(x.shape)}, at {format_locs(here())}"
        )
    return _ones(x, (*x.shape[: x.ndim - rank], *(1,) * rank))


def _ones(x: Any, shape: Any) -> Any:
    return full.beside(x, shape=shape, value=1.0, dtype=x.dtype)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """``input`` (N, C, L) or (C, L) with whole channels left out, as `dropout` does elements
    (Tompson et al. 2015, arXiv:1411.4280)."""
    return _feature_dropout(1, input, p, training, inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """``input`` (N, C, H, W) with whole channels left out, as `dropout` does elements; as in
    PyTorch, (N, C, L) and (N, C) with a warning."""
    return _feature_dropout(2, input, p, training, inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """``input`` (N, C, D, H, W) or (C, D, H, W) with whole channels left out, as `dropout` does
    elements."""
    return _feature_dropout(3, input, p, training, inplace)


def _feature_dropout(rank: int, x: Any, p: float, training: bool, inplace: bool) -> Any:
    inplace = bool(inplace)  # an error of it comes before the draw
    kept = dropout(_channels(x, rank, f"dropout{rank}d"), p, training)
    if not training:
        return x
    return x.mul_(kept) if inplace else x * kept


_SELU_LOW = -1.7580993408473766
"""What SELU tends to: -scale * alpha (Klambauer et al. 2017, arXiv:1706.02515)."""


def _alpha_dropout(x: Any, ones: Any, p: float, training: bool, inplace: bool) -> Any:
    """Elements become `_SELU_LOW`; then all are scaled so that mean 0 and variance 1 stay."""
    dropped = dropout(ones, p, False)  # which checks p
    inplace = bool(inplace)  # an error of it comes before the draw
    if not training:
        return x
    kept = bernoulli(dropped, 1 - p)
    scale = 0.0 if p == 1 else 1 / math.sqrt((1 - p) * (1 + p * _SELU_LOW**2))
    shift = -scale * _SELU_LOW * p
    out = x * (kept * scale) + ((1 - kept) * (_SELU_LOW * scale) + shift)
    return x.copy_(out) if inplace else out


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`dropout` for networks of SELU: elements left out take the value that SELU tends to, and mean
    and variance stay (Klambauer et al. 2017, arXiv:1706.02515)."""
    return _alpha_dropout(input, _ones(input, input.shape), p, training, inplace)


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """`alpha_dropout` of whole channels of ``input`` (N, C, ...)."""
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return _alpha_dropout(input, _ones(input, shape), p, training, inplace)
