"""Activation functions: ops of one tensor, and plain functions of them."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.softmax import default_dim, log_softmax, softmax
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import of_size
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.fused import fused
from staticflow.ops.elementwise import activation, maths
from staticflow.ops.elementwise.activation import (
    gelu,
    hardshrink,
    logsigmoid,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
)
from staticflow.ops.elementwise.maths import log, sigmoid
from staticflow.ops.elementwise.trig import tanh
from staticflow.ops.indexing.scatter_ops import scatter
from staticflow.ops.random.sampling import gives_back, rand_like

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6",
    "relu_", "rrelu", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink",
    "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip


def _run(fn: Any, inplace: bool, input: Any, *options: Any) -> Any:
    """``fn(input, *options)``, stored in the input if it is ``inplace``."""
    return input._update(fn, options, {}) if inplace else fn(input, *options)


def relu(input: Any, inplace: bool = False) -> Any:
    """``x`` where it is above 0, else 0; NaN stays."""
    return input.relu_() if inplace else maths.relu(input)


def relu_(input: Any) -> Any:
    """`relu` in place."""
    return input.relu_()


def relu6(input: Any, inplace: bool = False) -> Any:
    """``x`` held between 0 and 6."""
    return _run(activation.relu6, inplace, input)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """``x`` above 0, ``negative_slope * x`` elsewhere."""
    return _run(activation.leaky_relu, inplace, input, negative_slope)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """``x`` where it is above ``threshold``, else ``value``; NaN stays."""
    return _run(activation.threshold, inplace, input, threshold, value)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """``x`` held between ``min_val`` and ``max_val``; NaN stays. At the bounds the derivative is 0,
    other than that of `clamp`."""
    return _run(activation.hardtanh, inplace, input, min_val, max_val)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """``(x + 3) / 6`` held between 0 and 1."""
    return _run(activation.hardsigmoid, inplace, input)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """``x * hardsigmoid(x)`` (Howard et al. 2019, arXiv:1905.02244)."""
    return _run(activation.hardswish, inplace, input)


def silu(input: Any, inplace: bool = False) -> Any:
    """``x * sigmoid(x)`` (Elfwing et al. 2017, arXiv:1702.03118)."""
    return _run(activation.silu, inplace, input)


def mish(input: Any, inplace: bool = False) -> Any:
    """``x * tanh(log(1 + exp(x)))`` (Misra 2019, arXiv:1908.08681)."""
    return _run(activation.mish, inplace, input)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al. 2015, arXiv:1511.07289)."""
    return _run(activation.elu, inplace, input, alpha)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` elsewhere (Barron 2017, arXiv:1704.07483)."""
    return _run(activation.celu, inplace, input, alpha)


def selu(input: Any, inplace: bool = False) -> Any:
    """`elu` scaled so that mean 0 and variance 1 stay (Klambauer et al. 2017, arXiv:1706.02515)."""
    return _run(activation.selu, inplace, input)


def softmin(input: Any, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3) -> Any:
    """`softmax` of minus ``input``."""
    at = default_dim("softmin", input) if dim is None else normalize_dim(dim, input.ndim, "softmin")
    return softmax(-input, at, dtype)


@gives_back
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
    return _gate(input, at)


@fused("GluBackward0")
def _gate(x: Any, at: int) -> Any:
    half = x.shape[at] // 2
    x = of_size(x, at, half * 2)
    return narrow(x, at, 0, half) * sigmoid(narrow(x, at, half, half))


@by_autocast
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


@gives_back
def rrelu(
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """``x``, or ``a * x`` where it is negative, with ``a`` drawn between ``lower`` and ``upper``
    for each element in ``training``, and else in the middle (Xu et al. 2015, arXiv:1505.00853).
    Raises `ArgumentError` where ``lower`` is above ``upper``."""
    if lower > upper:
        raise ArgumentError(
            f"rrelu: lower, {lower}, is above upper, {upper}; it must not be, "
            f"at {format_locs(here())}"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = rand_like(input) * (upper - lower) + lower
    out = where(input >= 0, input, input * slope)
    return input._assign(out) if inplace else out
