"""The error function and its kin, and sinc. Integers become float32 first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from staticflow.ops.basics.arithmetic import eq, where
from staticflow.ops.declaring.declare import compose, real_function
from staticflow.ops.elementwise.maths import exp
from staticflow.ops.elementwise.trig import cos

__all__ = [
    "DENSITY", "by_python", "erf", "erfc", "erfcx", "erfinv", "log_ndtr", "ndtr", "sinc",
]  # fmt: skip

DENSITY = 1 / math.sqrt(2 * math.pi)
"""Of the standard normal distribution at 0."""

_PER_ROOT_PI = 2 / math.sqrt(math.pi)


def _erfinv(x: float) -> float:
    """The inverse of erf by the quantiles of the normal distribution and, for a small x, a step of
    Newton's method."""
    from statistics import NormalDist  # which takes as long to import as twenty of these modules

    a = abs(x)
    if not a < 1:
        return math.copysign(math.inf, x) if a == 1 else math.nan
    y = -NormalDist().inv_cdf((1 - a) / 2) / math.sqrt(2)
    if a < 0.5:
        y -= (math.erf(y) - a) / _PER_ROOT_PI * math.exp(y * y)
    return math.copysign(y, x)


def _erfcx(x: float) -> float:
    """The scaled complement of erf, with the square exactly up to 25, from there on by the
    continued fraction."""
    if x >= 25:
        fraction = x
        for n in range(30, 0, -1):
            fraction = x + n / 2 / fraction
        return 1 / fraction / math.sqrt(math.pi)
    if not x > -27:
        return x if math.isnan(x) else math.inf
    from fractions import Fraction

    square = x * x
    lost = float(Fraction(x) ** 2 - Fraction(square))
    try:
        return math.exp(square) * (1 + lost) * math.erfc(x)
    except OverflowError:
        return math.inf


def _log_ndtr(x: float) -> float:
    if x < -1:
        return math.log(_erfcx(-x * math.sqrt(0.5)) / 2) - x * x / 2 if x > -1e150 else -math.inf
    return math.log1p(-math.erfc(x * math.sqrt(0.5)) / 2)


def by_python(name: str, function: Any) -> Any:
    """A reference that calls a function of Python's for each element; on a GPU, SciPy's by that
    name."""
    each = np.frompyfunc(function, 1, 1)

    def reference(xp: Any, x: Any) -> Any:
        if xp is not np:
            from cupyx.scipy import special

            return getattr(special, name)(x).astype(x.dtype)  # which may be a wider one
        return np.asarray(each(np.asarray(x, np.float64))).astype(x.dtype)

    return reference


erf = real_function(
    "erf", "The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t t)`` from 0 to x.",
    by_python("erf", math.erf),
    lambda ct, out, x: ct * (exp(-(x * x)) * _PER_ROOT_PI),
    numpy="slower",
)  # fmt: skip
erfc = real_function(
    "erfc", "``1 - erf(x)``, exact where ``erf(x)`` is next to 1.",
    by_python("erfc", math.erfc),
    lambda ct, out, x: ct * (exp(-(x * x)) * -_PER_ROOT_PI),
    numpy="slower",
)  # fmt: skip
erfcx = real_function(
    "erfcx", "``exp(x x) * erfc(x)``, which a large ``x`` leaves a number.",
    by_python("erfcx", _erfcx),
    lambda ct, out, x: ct * (x * out * 2 - _PER_ROOT_PI),
    numpy="slower",
)  # fmt: skip
ndtr = real_function(
    "ndtr", "The probability that a standard normal number is below ``x``.",
    by_python("ndtr", lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5))),
    lambda ct, out, x: ct * (exp(x * x * -0.5) * DENSITY),
    numpy="slower",
)  # fmt: skip
log_ndtr = real_function(
    "log_ndtr", "The logarithm of `ndtr`, also where that is 0.",
    by_python("log_ndtr", _log_ndtr),
    lambda ct, out, x: ct * _log_ndtr_slope(x),
    numpy="slower",
)  # fmt: skip


def _log_ndtr_slope(x: Any) -> Any:
    """The density over the probability. Both are numbers above 0, and below it their ratio is one
    over a scaled complement of erf, which above is infinite, with derivatives that are NaN."""
    above = x > 0
    high, low = where(above, x, 0.0), where(above, 0.0, x)
    return where(
        above,
        exp(high * high * -0.5) * DENSITY / ndtr(high),
        math.sqrt(2 / math.pi) / erfcx(low * -math.sqrt(0.5)),
    )


erfinv = real_function(
    "erfinv", "The inverse of `erf`: infinite at -1 and 1, NaN outside.",
    by_python("erfinv", _erfinv),
    lambda ct, out, x: ct * (exp(out * out) * (1 / _PER_ROOT_PI)),
    numpy="slower",
)  # fmt: skip


def _sinc_emit(k: Any, x: Any) -> Any:
    angle = k.mul(x, math.pi)
    return k.select(k.compare("eq", x, 0.0), 1.0, k.div(k.sin(angle), angle))


def _sinc_vjp(ct: Any, out: Any, x: Any) -> Any:
    at_zero = eq(x, 0)
    slope = (cos(x * math.pi) - out) / where(at_zero, 1.0, x)
    return where(at_zero, 0.0, ct * slope)


sinc = compose(
    "sinc", "``sin(pi x) / (pi x)``, 1 at 0.",
    lambda xp, x: xp.sinc(x),
    _sinc_emit, (_sinc_vjp,), promote="float",
)  # fmt: skip
