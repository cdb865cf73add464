"""Functions of two and three numbers, element by element."""

from __future__ import annotations

import math
from typing import Any

from staticflow.graph.dtypes import float64
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import eq, logical_and, logical_or, where
from staticflow.ops.basics.creation import ones_like, zeros_like
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import compose, elementwise
from staticflow.ops.declaring.promote import one_number, result_type
from staticflow.ops.elementwise.activation import sigmoid_slope
from staticflow.ops.elementwise.maths import log, pow, sigmoid, sign, trunc

__all__ = [
    "addcdiv", "addcmul", "copysign", "float_power", "fmax", "fmin", "fmod", "gcd", "heaviside",
    "hypot", "lcm", "lerp", "logaddexp", "logaddexp2", "logit", "xlogy",
]  # fmt: skip

# -- division and distance ------------------------------------------------------------------------

fmod = elementwise(
    "fmod", "``x - trunc(x / y) * y``: the sign is that of ``x``; of an integer and 0 it is 0.",
    "fmod",
    lambda k, x, y: k.fmod(x, y),
    (lambda ct, out, x, y: ct, lambda ct, out, x, y: -ct * trunc(x / y)),
    kinds="iuf", numbers="wrap", numpy="small", exact=True,
)  # fmt: skip

gcd = elementwise(
    "gcd", "The greatest common divisor of integers, 0 of zeros; that of the least integer wraps.",
    "gcd",
    lambda k, x, y: k.gcd(x, y),
    kinds="iu",
)  # fmt: skip

lcm = elementwise(
    "lcm", "The least common multiple of integers, which wraps; 0 where ``x`` or ``y`` is 0.",
    "lcm",
    lambda k, x, y: k.lcm(x, y),
    kinds="iu",
)  # fmt: skip

hypot = elementwise(
    "hypot", "``sqrt(x * x + y * y)``, which does not overflow on the way.",
    lambda xp, x, y: xp.hypot(x, y),
    lambda k, x, y: k.hypot(x, y),
    (lambda ct, out, x, y: ct * (x / out), lambda ct, out, x, y: ct * (y / out)),
    kinds="f", numpy="slower",
)  # fmt: skip

copysign = elementwise(
    "copysign", "``|x|`` with the sign of ``y``, also that of a zero.",
    "copysign",
    lambda k, x, y: k.apply("copysign", x, y),
    (lambda ct, out, x, y: ct * (sign(x) * sign(out)), lambda ct, out, x, y: zeros_like(ct)),
    kinds="f", promote="float", numpy="small", exact=True,
)  # fmt: skip

# -- the larger and the smaller, beside NaN -------------------------------------------------------


def _prefer(k: Any, order: str, x: Any, y: Any) -> Any:
    chosen = k.select(k.compare(order, x, y), x, y)
    return k.select(k.compare("ne", y, y), x, chosen) if y.dtype.is_floating else chosen


def _prefers(order: str, x: Any, y: Any) -> Any:
    return (x >= y if order == "ge" else x <= y) | (y != y)  # numbers have no isnan


def _beside_nan(name: str, doc: str, order: str) -> Op:
    return elementwise(
        name, doc, name,
        lambda k, x, y: _prefer(k, order, x, y),
        (lambda ct, out, x, y: where(_prefers(order, x, y), ct, 0.0),
         lambda ct, out, x, y: where(_prefers(order, x, y), 0.0, ct)),
    )  # fmt: skip


fmax = _beside_nan("fmax", "The larger of ``x`` and ``y``; of NaN and a number the number.", "ge")
fmin = _beside_nan("fmin", "The smaller of ``x`` and ``y``; of NaN and a number the number.", "le")


def _heaviside_reference(xp: Any, x: Any, y: Any) -> Any:
    dtype = (x if hasattr(x, "dtype") else y).dtype
    return xp.where(xp.equal(x, 0), xp.asarray(y, dtype), xp.greater(x, 0).astype(dtype))


def _heaviside_emit(k: Any, x: Any, y: Any) -> Any:
    step = k.select(k.compare("gt", x, 0), k.const(1, x.dtype), 0)
    return k.select(k.compare("eq", x, 0), y, step)


heaviside = elementwise(
    "heaviside", "0 below 0, 1 above it, ``values`` at 0; 0 of NaN.",
    _heaviside_reference,
    _heaviside_emit,
    names=("input", "values"),
    numpy="small", exact=True,
)  # fmt: skip

# -- logarithms -----------------------------------------------------------------------------------


_LN2 = math.log(2)


def _logaddexp_emit(k: Any, x: Any, y: Any) -> Any:
    larger = k.select(k.compare("gt", x, y), x, y)
    rest = k.log1p(k.exp(k.neg(k.abs(k.sub(x, y)))))
    # equal infinities have no difference
    return k.select(k.compare("eq", x, y), k.add(x, _LN2), k.add(larger, rest))


logaddexp = compose(
    "logaddexp", "``log(exp(x) + exp(y))``, which does not overflow on the way.",
    lambda xp, x, y: xp.logaddexp(x, y),
    _logaddexp_emit,
    (lambda ct, out, x, y: ct * sigmoid_slope(x - y),
     lambda ct, out, x, y: ct * sigmoid_slope(y - x)),
    numpy="slower",
)  # fmt: skip


def _logaddexp2_emit(k: Any, x: Any, y: Any) -> Any:
    larger = k.select(k.compare("gt", x, y), x, y)
    rest = k.mul(k.log1p(k.exp2(k.neg(k.abs(k.sub(x, y))))), 1 / _LN2)
    return k.select(k.compare("eq", x, y), k.add(x, 1.0), k.add(larger, rest))


logaddexp2 = compose(
    "logaddexp2", "``log2(2**x + 2**y)``, which does not overflow on the way.",
    lambda xp, x, y: xp.logaddexp2(x, y),
    _logaddexp2_emit,
    (lambda ct, out, x, y: ct * sigmoid((x - y) * _LN2),
     lambda ct, out, x, y: ct * sigmoid((y - x) * _LN2)),
    numpy="slower",
)  # fmt: skip


def _xlogy_reference(xp: Any, x: Any, y: Any) -> Any:
    return xp.where((x == 0) & ~xp.isnan(y), xp.zeros_like(x * y), x * xp.log(y))


def _xlogy_emit(k: Any, x: Any, y: Any) -> Any:
    zero = k.apply("and", k.compare("eq", x, 0.0), k.compare("eq", y, y))
    return k.select(zero, 0.0, k.mul(x, k.log(y)))


def _xlogy_first(ct: Any, out: Any, x: Any, y: Any) -> Any:
    log_y = log(y) if hasattr(y, "dtype") else log(ones_like(x) * y)
    return where(logical_and(eq(x, 0), y <= 0), 0.0, ct * log_y)


xlogy = compose(
    "xlogy", "``x * log(y)``, which is 0 where ``x`` is, unless ``y`` is NaN.",
    _xlogy_reference, _xlogy_emit,
    (_xlogy_first, lambda ct, out, x, y: ct * (x / y)),
    promote="float", numpy="slower",
)  # fmt: skip


def _logit_reference(xp: Any, x: Any, *, low: float | None, high: float | None) -> Any:
    number = x.dtype.type
    x = x if low is None or high is None else xp.minimum(xp.maximum(x, number(low)), number(high))
    return xp.log(x / (1 - x))


def _logit_emit(k: Any, x: Any, *, low: float | None, high: float | None) -> Any:
    if low is not None and high is not None:
        x = k.select(k.compare("lt", x, low), low, x)
        x = k.select(k.compare("gt", x, high), high, x)
    return k.log(k.div(x, k.sub(k.const(1.0, x.dtype), x)))


def _logit_vjp(ct: Any, out: Any, x: Any, *, low: float | None, high: float | None) -> Any:
    free = low is None or high is None
    first, last, beyond = (0.0, 1.0, math.nan) if free else (low, high, 0.0)
    return where(logical_or(x < first, x > last), beyond, ct / (x * (1 - x)))


logit_op = compose(
    "logit", "``log(x / (1 - x))``, with ``x`` held between ``low`` and ``high`` unless None.",
    _logit_reference, _logit_emit, (_logit_vjp,), promote="float", numpy="slower",
)  # fmt: skip


@by_shape
def logit(input: Any, eps: float | None = None) -> Any:
    """``log(x / (1 - x))``, with ``x`` held between ``eps`` and ``1 - eps`` if that is given, where
    the derivative is 0 outside."""
    eps = None if eps is None else one_number(eps, "eps")
    return logit_op(input, low=eps, high=None if eps is None else 1 - eps)


@by_shape
def float_power(input: Any, exponent: Any) -> Any:
    """``input ** exponent`` in float64. One of both is a tensor."""
    wide = [x.to(float64) if hasattr(x, "__sf_mode__") else float(x) for x in (input, exponent)]
    return pow(*wide)


# -- of three tensors -----------------------------------------------------------------------------


def _lerp_reference(xp: Any, x: Any, y: Any, w: Any) -> Any:
    # from the nearer end, so that a weight of 1 gives the other end
    return xp.where(xp.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w))


def _lerp_emit(k: Any, x: Any, y: Any, w: Any) -> Any:
    gap = k.sub(y, x)
    near = k.add(x, k.mul(w, gap))
    far = k.sub(y, k.mul(gap, k.sub(k.const(1.0, w.dtype), w)))
    return k.select(k.compare("lt", k.abs(w), 0.5), near, far)


lerp = compose(
    "lerp", "``input + weight * (end - input)``.",
    _lerp_reference, _lerp_emit,
    (lambda ct, out, x, y, w: ct * (1 - w), lambda ct, out, x, y, w: ct * w,
     lambda ct, out, x, y, w: ct * (y - x)),
    promote="common",
    names=("input", "end", "weight"), numpy="small", exact=True,
)  # fmt: skip

addcmul_op = compose(
    "addcmul", "``input + value * tensor1 * tensor2``.",
    lambda xp, x, a, b, *, value: x + a * b * value,
    lambda k, x, a, b, *, value: k.add(x, k.mul(k.mul(a, b), value)),
    (lambda ct, out, x, a, b, *, value: ct,
     lambda ct, out, x, a, b, *, value: ct * (b * value),
     lambda ct, out, x, a, b, *, value: ct * (a * value)),
    kinds="iuf", numpy="small", exact=True,
)  # fmt: skip


@by_shape
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """``input + value * tensor1 * tensor2``; of integers with ``value`` cut to an integer."""
    value = one_number(value, "value")
    whole = not result_type([input, tensor1, tensor2]).is_floating
    return addcmul_op(input, tensor1, tensor2, value=int(value) if whole else value)


addcdiv_op = compose(
    "addcdiv", "``input + value * tensor1 / tensor2``.",
    lambda xp, x, a, b, *, value: x + a * value / b,
    lambda k, x, a, b, *, value: k.add(x, k.div(k.mul(a, value), b)),
    (lambda ct, out, x, a, b, *, value: ct,
     lambda ct, out, x, a, b, *, value: ct * (value / b),
     lambda ct, out, x, a, b, *, value: -ct * (a * value / (b * b))),
    numpy="small", exact=True,
)  # fmt: skip


@by_shape
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """``input + value * tensor1 / tensor2``; floating tensors only."""
    return addcdiv_op(input, tensor1, tensor2, value=one_number(value, "value"))
