"""Activation functions: ops of one tensor, and plain functions of them."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.ops import activation, maths
from staticflow.ops.activation import (
    gelu,
    hardshrink,
    logsigmoid,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
)
from staticflow.ops.arithmetic import where
from staticflow.ops.creation import zeros_like
from staticflow.ops.declare import normalize_dim
from staticflow.ops.fused import fused
from staticflow.ops.maths import log, sigmoid
from staticflow.ops.sampling import rand_like
from staticflow.ops.scatter import scatter
from staticflow.ops.softmax import log_softmax, softmax
from staticflow.ops.splitting import narrow
from staticflow.ops.trig import tanh
from staticflow.ops.view import of_size

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6",
    "relu_", "rrelu", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink",
    "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip


def _or_in_place(name: str, fn: Any, options: int = 0) -> Any:
    """The function with PyTorch's further argument ``inplace``, which comes after ``options``
    others: whether the result is stored in the input."""

    def activation(input: Any, *args: Any, inplace: bool = False, **named: Any) -> Any:
        if len(args) > options:
            args, inplace = args[:-1], args[-1]
        if not inplace:
            return fn(input, *args, **named)
        method = getattr(input, f"{name}_", None)
        return method(*args, **named) if method else input._update(fn, args, named)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = fn.doc if isinstance(fn, Op) else fn.__doc__
    return activation


relu, relu6 = _or_in_place("relu", maths.relu), _or_in_place("relu6", activation.relu6)
selu, silu = _or_in_place("selu", activation.selu), _or_in_place("silu", activation.silu)
mish, hardswish = (
    _or_in_place("mish", activation.mish),
    _or_in_place("hardswish", activation.hardswish),
)
hardsigmoid = _or_in_place("hardsigmoid", activation.hardsigmoid)
elu, celu = _or_in_place("elu", activation.elu, 1), _or_in_place("celu", activation.celu, 1)
leaky_relu = _or_in_place("leaky_relu", activation.leaky_relu, 1)
hardtanh = _or_in_place("hardtanh", activation.hardtanh, 2)
threshold = _or_in_place("threshold", activation.threshold, 2)


def relu_(input: Any) -> Any:
    """`relu` in place."""
    return input.relu_()


def softmin(input: Any, dim: int) -> Any:
    """`softmax` of minus ``input``."""
    return softmax(-input, dim)


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """A random choice along ``dim`` that has a gradient: the softmax of ``logits`` and Gumbel noise
    over ``tau``; with ``hard`` a one at its largest element, with the gradient of the softmax (Jang
    et al. 2016, arXiv:1611.01144). ``eps`` changes nothing."""
    noise = -log(-log(1 - rand_like(logits)))
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    at = soft.max(dim, keepdim=True).indices
    return scatter(zeros_like(soft), dim, at, 1.0) - soft.detach() + soft


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
    return _gated(input, at)


@fused("GluBackward0")
def _gated(x: Any, at: int) -> Any:
    half = x.shape[at] // 2
    x = of_size(x, at, half * 2)
    return narrow(x, at, 0, half) * sigmoid(narrow(x, at, half, half))


def prelu(input: Any, weight: Any) -> Any:
    """``input`` where it is positive, ``weight * input`` elsewhere; ``weight`` has one element, or
    one for each of the channels, dim 1 (He et al. 2015, "Delving deep into rectifiers")."""
    if weight.ndim == 1 and input.ndim > 2:
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    elif weight.ndim == 1 and input.ndim == 0:
        weight = weight.reshape(())
    return _leaky(input, weight)


@fused("PreluKernelBackward0")
def _leaky(x: Any, weight: Any) -> Any:
    return where(x > 0, x, weight * x)


def rrelu(
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """``x``, or ``a * x`` where it is negative, with ``a`` drawn between ``lower`` and ``upper``
    for each element in ``training``, and else in the middle (Xu et al. 2015, arXiv:1505.00853)."""
    if not training:
        slope: Any = (lower + upper) / 2
    else:
        slope = rand_like(input) * (upper - lower) + lower
    out = where(input >= 0, input, input * slope)
    return input._assign(out) if inplace else out
