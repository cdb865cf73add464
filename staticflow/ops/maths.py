"""Functions of real numbers, element by element. Integers become float32 first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.errors import DTypeError
from staticflow.graph.dtypes import bool_
from staticflow.graph.op import OUT, Op
from staticflow.ops.arithmetic import where
from staticflow.ops.creation import ones_like, zeros_like
from staticflow.ops.declare import elementwise

__all__ = [
    "abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log",
    "log1p", "pow", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt",
    "square", "tan", "tanh", "trunc",
]  # fmt: skip


def _function(
    name: str,
    doc: str,
    reference: Callable[..., Any],
    partial: Callable[..., Any],
    saves: tuple[int, ...] = (0,),
) -> Op:
    """A function of one real number, lowered to the builder's method of its name."""
    return elementwise(
        name, doc, reference,
        lambda k, x: getattr(k, name)(x),
        (partial,),
        saves=saves, kinds="f", promote="float",
    )  # fmt: skip


exp = _function(
    "exp", "``e ** x``.",
    lambda xp, x: xp.exp(x), lambda ct, out, x: ct * out, (OUT,),
)  # fmt: skip
expm1 = _function(
    "expm1", "``e ** x - 1``, exact near 0.",
    lambda xp, x: xp.expm1(x), lambda ct, out, x: ct * (out + 1), (OUT,),
)  # fmt: skip
log = _function(
    "log", "The natural logarithm; -inf at 0, NaN below.",
    lambda xp, x: xp.log(x), lambda ct, out, x: ct / x,
)  # fmt: skip
log1p = _function(
    "log1p", "``log(1 + x)``, exact near 0.",
    lambda xp, x: xp.log1p(x), lambda ct, out, x: ct / (x + 1),
)  # fmt: skip
sqrt = _function(
    "sqrt", "The square root; NaN below 0.",
    lambda xp, x: xp.sqrt(x), lambda ct, out, x: ct * 0.5 / out, (OUT,),
)  # fmt: skip
rsqrt = _function(
    "rsqrt", "``1 / sqrt(x)``.",
    lambda xp, x: xp.reciprocal(xp.sqrt(x)),
    lambda ct, out, x: ct * -0.5 * (out * out * out), (OUT,),
)  # fmt: skip
reciprocal = _function(
    "reciprocal", "``1 / x``.",
    lambda xp, x: xp.reciprocal(x), lambda ct, out, x: -ct * (out * out), (OUT,),
)  # fmt: skip
sin = _function(
    "sin", "The sine of ``x`` in radians.",
    lambda xp, x: xp.sin(x), lambda ct, out, x: ct * cos(x),
)  # fmt: skip
cos: Op = _function(
    "cos", "The cosine of ``x`` in radians.",
    lambda xp, x: xp.cos(x), lambda ct, out, x: -ct * sin(x),
)  # fmt: skip
tan = _function(
    "tan", "The tangent of ``x`` in radians.",
    lambda xp, x: xp.tan(x), lambda ct, out, x: ct * (out * out + 1), (OUT,),
)  # fmt: skip
tanh = _function(
    "tanh", "The hyperbolic tangent.",
    lambda xp, x: xp.tanh(x), lambda ct, out, x: ct * (1 - out * out), (OUT,),
)  # fmt: skip


def _sigmoid_reference(xp: Any, x: Any) -> Any:
    # exp of a non-positive number on either side, so that nothing overflows
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1 / (1 + e), e / (1 + e))


sigmoid = _function(
    "sigmoid", "``1 / (1 + exp(-x))``.",
    _sigmoid_reference, lambda ct, out, x: ct * (out * (1 - out)), (OUT,),
)  # fmt: skip

_erf = np.frompyfunc(math.erf, 1, 1)


def _erf_reference(xp: Any, x: Any) -> Any:
    if xp is not np:
        from cupyx.scipy.special import erf as device_erf

        return device_erf(x)
    return np.asarray(_erf(x)).astype(x.dtype)


erf = _function(
    "erf", "The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t t)`` from 0 to x.",
    _erf_reference,
    lambda ct, out, x: ct * (2 / math.sqrt(math.pi)) * exp(-(x * x)),
)  # fmt: skip

relu = elementwise(
    "relu", "``x`` where it is above 0, else 0; NaN stays.",
    lambda xp, x: xp.maximum(x, x.dtype.type(0)),
    lambda k, x: k.relu(x),
    (lambda ct, out, x: where(out <= 0, 0.0, ct),),
    saves=(OUT,), kinds="iuf",
)  # fmt: skip

abs = elementwise(
    "abs", "``|x|``.",
    lambda xp, x: xp.abs(x),
    lambda k, x: x if x.dtype.kind == "u" else k.apply("abs", x),
    (lambda ct, out, x: ct * sign(x),),
    saves=(0,), kinds="iuf",
)  # fmt: skip


def _flat(name: str, doc: str, reference: Callable[..., Any]) -> Op:
    """A step function: its derivative is 0 wherever it has one. Integers stay what they are."""
    return elementwise(
        name, doc,
        lambda xp, x: x.copy() if x.dtype.kind in "iu" else reference(xp, x),
        lambda k, x: getattr(k, name)(x) if x.dtype.is_floating else x,
        (lambda ct, out, x: zeros_like(ct),),
        kinds="iuf",
    )  # fmt: skip


sign: Op = elementwise(
    "sign", "-1, 0 or 1 with the sign of ``x``; NaN stays.",
    lambda xp, x: xp.sign(x),
    lambda k, x: k.sign(x),
    (lambda ct, out, x: zeros_like(ct),),
    kinds="iuf",
)  # fmt: skip
floor = _flat("floor", "The largest integer not above ``x``.", lambda xp, x: xp.floor(x))
ceil = _flat("ceil", "The smallest integer not below ``x``.", lambda xp, x: xp.ceil(x))
trunc = _flat("trunc", "``x`` without its fraction.", lambda xp, x: xp.trunc(x))
round = _flat("round", "The nearest integer; halves go to the even one.", lambda xp, x: xp.rint(x))


def _test(name: str, doc: str) -> Op:
    return elementwise(
        name, doc,
        lambda xp, x: getattr(xp, name)(x),
        lambda k, x: getattr(k, name)(x),
        result=bool_, kinds="f", promote="float",
    )  # fmt: skip


isnan = _test("isnan", "Whether ``x`` is NaN, a bool.")
isinf = _test("isinf", "Whether ``x`` is infinite, a bool.")
isfinite = _test("isfinite", "Whether ``x`` is neither infinite nor NaN, a bool.")


def _pow_reference(xp: Any, x: Any, y: Any) -> Any:
    if isinstance(y, int | float) and y == 2:
        return xp.square(x)  # as the power with this exponent gives, and much faster
    if isinstance(y, int) and y < 0 and x.dtype.kind in "iu":
        raise DTypeError(f"an integer to the negative power {y} is no integer; use a float tensor")
    out = xp.power(x, y)
    half = y == 0.5
    if half is False or not xp.any(half):
        return out
    # NumPy may take the square root here, which is not the power at -0.0 and -inf
    end = out.dtype.type(xp.inf)
    return xp.where(half & (x == -end), end, xp.where(half, xp.abs(out), out))


def _pow_base(ct: Any, out: Any, x: Any, y: Any) -> Any:
    # d x**y / dx = y x**(y-1), and 0 where y is 0 even if x is 0
    if isinstance(y, int | float):
        return zeros_like(ct) if y == 0 else ct * (y * pow(x, y - 1) if y != 2 else x * 2)
    return where(y == 0, 0.0, ct * (y * pow(x, y - 1)))


def _pow_exponent(ct: Any, out: Any, x: Any, y: Any) -> Any:
    # d x**y / dy = x**y log x, and 0 at x = 0 for y >= 0
    if isinstance(x, int | float):
        x = ones_like(y) * x
    return where((x == 0) & (y >= 0), 0.0, ct * (out * log(x)))


pow: Op = elementwise(
    "pow", "``x ** y``.",
    _pow_reference,
    lambda k, x, y: k.pow(x, y),
    (_pow_base, _pow_exponent),
    saves=(0, 1, OUT), kinds="iuf",
)  # fmt: skip


def square(x: Any) -> Any:
    """``x * x``."""
    return pow(x, 2)
