"""Activation functions: ops of one tensor, whose parameters are numbers. relu, sigmoid and tanh are
in `maths` and `trig`."""

from __future__ import annotations

import math
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import clamp, logical_and, logical_or, where
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import compose, elementwise
from staticflow.ops.declaring.promote import one_number
from staticflow.ops.elementwise.maths import abs, exp, sigmoid
from staticflow.ops.elementwise.special import DENSITY, ndtr
from staticflow.ops.elementwise.trig import tanh

__all__ = [
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "logsigmoid", "mish", "relu6", "selu", "sigmoid_slope", "silu", "softplus", "softshrink",
    "softsign", "tanhshrink", "threshold",
]  # fmt: skip

# -- smooth ---------------------------------------------------------------------------------------

silu = compose(
    "silu", "``x * sigmoid(x)`` (Elfwing et al. 2017, arXiv:1702.03118).",
    lambda xp, x: x * sigmoid.reference(xp, x),
    lambda k, x: k.mul(x, k.sigmoid(x)),
    (lambda ct, out, x: ct * (sigmoid(x) * (1 + x * sigmoid(-x))),),
    numpy="slower",
)  # fmt: skip

gelu_op = compose(
    "gelu", "``x`` times the normal distribution's probability of less than ``x``.",
    lambda xp, x: xp.maximum(x, x.dtype.type(-1e4)) * ndtr.reference(xp, x),
    lambda k, x: k.gelu(x),
    (lambda ct, out, x: ct * (ndtr(x) + x * (exp(x * x * -0.5) * DENSITY)),),
    numpy="slower",
)  # fmt: skip

_INNER = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _gelu_tanh_vjp(ct: Any, out: Any, x: Any) -> Any:
    # x sigmoid(u(x)) with u = _INNER (x + _CUBIC x^3)
    square = x * x
    u = x * (square * (_INNER * _CUBIC) + _INNER)
    slope = square * (3 * _INNER * _CUBIC) + _INNER
    return ct * (sigmoid(u) * (1 + x * slope * sigmoid(-u)))


def _gelu_tanh_inner(x: Any) -> Any:
    return x * (x * x * (_INNER * _CUBIC) + _INNER)


gelu_tanh_op = compose(
    "gelu_tanh", "``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))``.",
    lambda xp, x: x * sigmoid.reference(xp, _gelu_tanh_inner(x)),
    # (1 + tanh(u)) / 2 = sigmoid(2 u)
    lambda k, x: k.mul(
        x, k.sigmoid(k.mul(x, k.fma(k.mul(x, x), _INNER * _CUBIC, _INNER)))
    ),
    (_gelu_tanh_vjp,),
    grad_name="GeluBackward0", numpy="slower",
)  # fmt: skip


@by_shape
def gelu(input: Any, approximate: str = "none") -> Any:
    """``x`` times the probability of less than ``x`` (Hendrycks and Gimpel 2016, arXiv:1606.08415);
    with ``approximate="tanh"`` their approximation of it.

    Raises `ArgumentError` for another word.
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            f'gelu: approximate is "none" or "tanh", not {approximate!r}, at {format_locs(here())}'
        )
    return gelu_op(input) if approximate == "none" else gelu_tanh_op(input)


def _softplus_emit(k: Any, x: Any, *, beta: float, threshold: float) -> Any:
    # log(1 + e^z) = max(z, 0) + log1p(e^-|z|), which does not overflow
    z = k.mul(x, beta)
    rest = k.log1p(k.exp(k.neg(k.abs(z))))
    y = k.div(k.add(k.relu(z), rest), beta)
    return k.select(k.compare("gt", z, threshold), x, y)


def _softplus_reference(xp: Any, x: Any, *, beta: float, threshold: float) -> Any:
    z = x * beta
    return xp.where(z > threshold, x, xp.logaddexp(z, z.dtype.type(0)) / beta)


def _softplus_vjp(ct: Any, out: Any, x: Any, *, beta: float, threshold: float) -> Any:
    z = x * beta
    return where(z > threshold, ct, ct * sigmoid(z))


softplus_op = compose(
    "softplus", "``log(1 + exp(beta x)) / beta``; ``x`` where ``beta x`` is above the threshold.",
    _softplus_reference, _softplus_emit, (_softplus_vjp,), numpy="slower",
)  # fmt: skip


@by_shape
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is above ``threshold``."""
    return softplus_op(input, beta=beta, threshold=threshold)


logsigmoid = compose(
    "logsigmoid", "The logarithm of `sigmoid`, exact where that is next to 0 or 1.",
    lambda xp, x: xp.minimum(x, x.dtype.type(0)) - xp.log1p(xp.exp(-xp.abs(x))),
    lambda k, x: k.sub(
        k.select(k.compare("gt", x, 0.0), 0.0, x), k.log1p(k.exp(k.neg(k.abs(x))))
    ),
    (lambda ct, out, x: ct * sigmoid_slope(-x),),
    grad_name="LogSigmoidBackward0", numpy="slower",
)  # fmt: skip


def sigmoid_slope(x: Any) -> Any:
    """``sigmoid(x)`` as a slope: of a symbol it is written as what has derivatives that are right
    where it is next to 1, too, and is compiled to a sigmoid."""
    return exp(logsigmoid(x)) if hasattr(x, "node") else sigmoid(x)


def _mish_emit(k: Any, x: Any) -> Any:
    # tanh(log(1 + e)) = n / (n + 2) with e = e^x and n = e (e + 2); 1 to the last bit from 20 on
    e = k.exp(k.select(k.compare("gt", x, 20.0), 20.0, x))
    n = k.mul(e, k.add(e, 2.0))
    return k.mul(x, k.div(n, k.add(n, 2.0)))


def _mish_reference(xp: Any, x: Any) -> Any:
    return x * xp.tanh(xp.logaddexp(x, x.dtype.type(0)))


def _mish_vjp(ct: Any, out: Any, x: Any) -> Any:
    t = tanh(softplus(x))
    return ct * (t + x * ((1 - t * t) * sigmoid(x)))


mish = compose(
    "mish", "``x * tanh(log(1 + exp(x)))`` (Misra 2019, arXiv:1908.08681).",
    _mish_reference, _mish_emit, (_mish_vjp,), numpy="slower",
)  # fmt: skip


@by_shape
def softsign(input: Any) -> Any:
    """``x / (1 + |x|)``."""
    return input / (abs(input) + 1)


@by_shape
def tanhshrink(input: Any) -> Any:
    """``x - tanh(x)``."""
    return input - tanh(input)


# -- exponential below 0 --------------------------------------------------------------------------


def _elu_reference(xp: Any, x: Any, *, low: float, scale: float, input_scale: float) -> Any:
    below = xp.expm1(xp.where(x > 0, x.dtype.type(0), x) * input_scale) * low
    return xp.where(x > 0, x * scale, below)


def _elu_emit(k: Any, x: Any, *, low: float, scale: float, input_scale: float) -> Any:
    below = k.mul(k.expm1(k.mul(x, input_scale)), low)
    return k.select(k.compare("gt", x, 0.0), k.mul(x, scale), below)


def _elu_vjp(ct: Any, out: Any, x: Any, *, low: float, scale: float, input_scale: float) -> Any:
    # exp of a non-positive number, so that nothing overflows where it is not chosen
    below = ct * (exp(where(x <= 0, x, 0.0) * input_scale) * (low * input_scale))
    return where(x <= 0, below, ct * scale)


elu_op = compose(
    "elu",
    "``scale * x`` above 0, ``low * (exp(input_scale * x) - 1)`` elsewhere.",
    _elu_reference, _elu_emit, (_elu_vjp,), numpy="slower",
)  # fmt: skip


@by_shape
def elu(input: Any, alpha: float = 1.0) -> Any:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al. 2015, arXiv:1511.07289)."""
    return elu_op(input, low=alpha, scale=1.0, input_scale=1.0)


@by_shape
def selu(input: Any) -> Any:
    """`elu` scaled so that mean 0 and variance 1 stay (Klambauer et al. 2017, arXiv:1706.02515)."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return elu_op(input, low=alpha * scale, scale=scale, input_scale=1.0)


@by_shape
def celu(input: Any, alpha: float = 1.0) -> Any:
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` elsewhere (Barron 2017, arXiv:1704.07483)."""
    return elu_op(input, low=alpha, scale=1.0, input_scale=1 / alpha)


# -- of straight pieces ---------------------------------------------------------------------------

leaky_relu_op = compose(
    "leaky_relu", "``x`` above 0, ``negative_slope * x`` elsewhere.",
    lambda xp, x, *, negative_slope: xp.where(x > 0, x, x * negative_slope),
    lambda k, x, *, negative_slope: k.select(
        k.compare("gt", x, 0.0), x, k.mul(x, negative_slope)
    ),
    (lambda ct, out, x, *, negative_slope: where(x > 0, ct, ct * negative_slope),),
    numpy="small", exact=True, piecewise_linear=True,
)  # fmt: skip


@by_shape
def leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    """``x`` above 0, ``negative_slope * x`` elsewhere."""
    return leaky_relu_op(input, negative_slope=one_number(negative_slope, "negative_slope"))


def _between(xp: Any, x: Any, low: Any, high: Any) -> Any:
    number = x.dtype.type
    return xp.where(x < low, number(low), xp.where(x > high, number(high), x))


hardtanh_op = elementwise(
    "hardtanh", "``x`` held between ``min_val`` and ``max_val``, where the derivative is 0.",
    lambda xp, x, *, min_val, max_val: _between(xp, x, min_val, max_val),
    lambda k, x, *, min_val, max_val: k.select(
        k.compare("lt", x, min_val), min_val, k.select(k.compare("gt", x, max_val), max_val, x)
    ),
    (lambda ct, out, x, *, min_val, max_val: where(
        logical_or(x <= min_val, x >= max_val), 0.0, ct
    ),),
    kinds="if", numpy="small", exact=True, piecewise_linear=True,
)  # fmt: skip


@by_shape
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """``x`` held between ``min_val`` and ``max_val``; NaN stays. At the bounds the derivative is 0,
    other than that of `clamp`. Raises `ArgumentError` where ``min_val`` is above ``max_val``."""
    min_val, max_val = one_number(min_val, "min_val"), one_number(max_val, "max_val")
    if min_val > max_val:
        raise ArgumentError(
            f"hardtanh: min_val, {min_val}, is above max_val, {max_val}; it must not be, "
            f"at {format_locs(here())}"
        )
    if not input.dtype.is_floating:
        min_val, max_val = int(min_val), int(max_val)
    return hardtanh_op(input, min_val=min_val, max_val=max_val)


@by_shape
def relu6(input: Any) -> Any:
    """``x`` held between 0 and 6."""
    if input.dtype.kind == "u":
        return clamp(input, max=6)
    return hardtanh(input, 0.0, 6.0)


hardsigmoid = compose(
    "hardsigmoid", "``(x + 3) / 6`` held between 0 and 1.",
    lambda xp, x: _between(xp, x + 3, 0, 6) / 6,
    lambda k, x: k.div(_clamp(k, k.add(x, 3.0), 0.0, 6.0), 6.0),
    (lambda ct, out, x: where(logical_and(x > -3, x < 3), ct * (1 / 6), 0.0),),
    numpy="small", exact=True, piecewise_linear=True,
)  # fmt: skip


def _clamp(k: Any, x: Any, low: float, high: float) -> Any:
    x = k.select(k.compare("lt", x, low), low, x)
    return k.select(k.compare("gt", x, high), high, x)


def _hardswish_vjp(ct: Any, out: Any, x: Any) -> Any:
    middle = ct * (x * (1 / 3) + 0.5)
    return where(x <= -3, 0.0, where(x < 3, middle, ct))


hardswish = compose(
    "hardswish", "``x * hardsigmoid(x)`` (Howard et al. 2019, arXiv:1905.02244).",
    lambda xp, x: x * (_between(xp, x + 3, 0, 6) / 6),
    lambda k, x: k.mul(x, k.div(_clamp(k, k.add(x, 3.0), 0.0, 6.0), 6.0)),
    (_hardswish_vjp,),
    numpy="small", exact=True,
)  # fmt: skip

threshold_op: Op = elementwise(
    "threshold", "``x`` where it is above ``threshold``, else ``value``; NaN stays.",
    lambda xp, x, *, threshold, value: xp.where(
        x <= x.dtype.type(threshold), x.dtype.type(value), x
    ),
    lambda k, x, *, threshold, value: k.select(k.compare("le", x, threshold), value, x),
    (lambda ct, out, x, *, threshold, value: where(x <= threshold, 0.0, ct),),
    kinds="iuf", numpy="small", exact=True, piecewise_linear=True,
)  # fmt: skip


@by_shape
def threshold(input: Any, threshold: Any, value: Any) -> Any:
    """``x`` where it is above ``threshold``, else ``value``; NaN stays."""
    limits = one_number(threshold, "threshold"), one_number(value, "value")
    return threshold_op(input, threshold=limits[0], value=limits[1])


hardshrink_op = elementwise(
    "hardshrink", "``x`` where ``|x|`` is above ``lambd``, else 0; NaN stays.",
    lambda xp, x, *, lambd: xp.where(xp.abs(x) <= x.dtype.type(lambd), x.dtype.type(0), x),
    lambda k, x, *, lambd: k.select(k.compare("le", k.abs(x), lambd), 0.0, x),
    (lambda ct, out, x, *, lambd: where(abs(x) <= lambd, 0.0, ct),),
    kinds="f", numpy="small", exact=True, piecewise_linear=True,
)  # fmt: skip


@by_shape
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """``x`` where ``|x|`` is above ``lambd``, else 0."""
    return hardshrink_op(input, lambd=one_number(lambd, "lambd"))


def _softshrink_emit(k: Any, x: Any, *, lambd: float) -> Any:
    # x less what lies between the bounds, which is all of it in the middle
    size = k.abs(x)
    inside = k.select(k.compare("gt", size, lambd), lambd, size)
    return k.sub(x, k.apply("copysign", inside, x))


softshrink_op = compose(
    "softshrink", "``x`` brought nearer to 0 by ``lambd``, at most to 0.",
    lambda xp, x, *, lambd: x - _between(xp, x, -lambd, lambd),
    _softshrink_emit,
    (lambda ct, out, x, *, lambd: where(abs(x) <= lambd, 0.0, ct),),
    numpy="small", exact=True, piecewise_linear=True,
)  # fmt: skip


@by_shape
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """``x - lambd`` above ``lambd``, ``x + lambd`` below ``-lambd``, else 0.

    Raises `ArgumentError` for a negative ``lambd``.
    """
    lambd = one_number(lambd, "lambd")
    if lambd < 0:
        raise ArgumentError(
            f"softshrink: lambd must not be negative, not {lambd}, at {format_locs(here())}"
        )
    return softshrink_op(input, lambd=lambd)
