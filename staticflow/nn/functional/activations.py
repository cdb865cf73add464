"""Activation functions: ops of one tensor, and plain functions of them."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.activation import (
    celu,
    elu,
    gelu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    relu6,
    selu,
    silu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from staticflow.ops.arithmetic import where
from staticflow.ops.declare import normalize_dim
from staticflow.ops.maths import relu, sigmoid
from staticflow.ops.softmax import log_softmax, softmax
from staticflow.ops.splitting import narrow
from staticflow.ops.trig import tanh

__all__ = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "selu", "sigmoid",
    "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold",
]  # fmt: skip


def softmin(input: Any, dim: int) -> Any:
    """`softmax` of minus ``input``."""
    return softmax(-input, dim)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half along ``dim`` times the sigmoid of the second (Dauphin et al. 2016, "Language
    modeling with gated convolutional networks"). Raises `ShapeError` for an odd size.

    >>> import staticflow as sf
    >>> glu(sf.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    at = normalize_dim(dim, input.ndim, "glu")
    size = input.shape[at] if input.ndim else 1
    if isinstance(size, int) and size % 2:
        raise ShapeError(
            f"glu: halves dim {at} of size {size}, which is odd, at {format_locs(here())}"
        )
    half = size // 2
    return narrow(input, at, 0, half) * sigmoid(narrow(input, at, half, half))


def prelu(input: Any, weight: Any) -> Any:
    """``input`` where it is positive, ``weight * input`` elsewhere; ``weight`` has one element, or
    one for each of the channels, dim 1 (He et al. 2015, "Delving deep into rectifiers")."""
    if weight.ndim == 1 and input.ndim > 2:
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    elif weight.ndim == 1 and input.ndim == 0:
        weight = weight.reshape(())
    return where(input > 0, input, weight * input)
