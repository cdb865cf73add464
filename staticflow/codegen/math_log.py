"""Logarithms: log, log2, log10, log1p; and the inverse hyperbolic functions that stand on log1p.

All split ``x = (1 + f) * 2**e`` with ``1/sqrt(2) <= 1 + f < sqrt(2)`` and take ``log(1 + f)`` as
``f + f**2 * Q(f)`` with a minimax polynomial Q, fitted by Remez's exchange. Errors are the largest
seen, in units in the last place.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.math_parts import (
    FORMATS,
    integer_to_float,
    polynomial,
    power_of_two,
    split_exponent,
    split_positive,
)
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["acosh", "asinh", "atanh", "log", "log1p", "log2", "log10"]

LOWEST = 0.5**0.5

# Q; log(1 + f) has a relative error of 2**-25.0 and 2**-56.3.
LOG: dict[DType, tuple[float, ...]] = {
    float32: (
        -0.4999999, 0.3333395, -0.25001824, 0.19962092, -0.16568705, 0.14915788, -0.14320414,
        0.08757881,
    ),
    float64: (
        -0.5000000000000003, 0.3333333333333291, -0.24999999999978204, 0.200000000001051,
        -0.166666666709028, 0.1428571427811034, -0.1249999963107955, 0.11111111171557068,
        -0.1000001711622396, 0.0909092515742928, -0.08332878345887795, 0.07691478350746739,
        -0.07149805369513916, 0.06685404620773573, -0.06194843165122766, 0.056622898696733696,
        -0.056793056650795294, 0.0652132604607342, -0.059957446495584564, 0.026145812082982306,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Base:
    """A base b: ``1 / ln b`` and ``log_b 2``, each as the sum of two floats."""

    slope: tuple[float, float]
    step: tuple[float, float]


NATURAL: dict[DType, Base] = {
    float32: Base((1.0, 0.0), (0.6931471824645996, -1.904654212e-09)),
    float64: Base((1.0, 0.0), (0.6931471805599453, 2.3190468138462996e-17)),
}
BINARY: dict[DType, Base] = {
    float32: Base((1.4426950216293335, 1.9259630335e-08), (1.0, 0.0)),
    float64: Base((1.4426950408889634, 2.0355273740931033e-17), (1.0, 0.0)),
}
DECIMAL: dict[DType, Base] = {
    float32: Base((0.4342944920063019, -1.01030499522e-08), (0.3010300099849701, -1.43209888e-08)),
    float64: Base(
        (0.4342944819032518, 1.098319650216765e-17), (0.3010299956639812, -2.8037281277851704e-18)
    ),
}


def _assemble(k: Builder, f: Operand, e: Operand, base: Base) -> Operand:
    """``log_b((1 + f) * 2**e)``, the small terms first."""
    curve = k.mul(k.mul(f, f), polynomial(k, f, LOG[f.dtype]))
    slope, step = base.slope, base.step
    if slope != (1.0, 0.0):
        curve = k.fma(f, slope[1], k.mul(curve, slope[0]))
    if step[1]:
        curve = k.fma(e, step[1], curve)
    return k.fma(e, step[0], k.fma(f, slope[0], curve))


def _at_the_ends(k: Builder, x: Operand, pole: float, y: Operand) -> Operand:
    """y inside the domain ``x > pole``; -inf at the pole, NaN below it, inf at inf, NaN at NaN."""
    y = k.select(k.compare("lt", x, inf), y, x)
    outside = k.select(k.compare("lt", x, pole), k.const(nan, x.dtype), -inf)
    return k.select(k.compare("le", x, pole), outside, y)


def _log(k: Builder, x: Operand, bases: dict[DType, Base]) -> Operand:
    m, e = split_positive(k, x, LOWEST)
    return _at_the_ends(k, x, 0.0, _assemble(k, k.sub(m, 1.0), e, bases[x.dtype]))


def log(k: Builder, x: Operand) -> Operand:
    """The natural logarithm for float32 and float64, within 1.2 ulp."""
    return _log(k, x, NATURAL)


def log2(k: Builder, x: Operand) -> Operand:
    """The binary logarithm for float32 and float64, within 1.5 ulp; exact for powers of two."""
    return _log(k, x, BINARY)


def log10(k: Builder, x: Operand) -> Operand:
    """The decimal logarithm for float32 and float64, within 1.3 ulp."""
    return _log(k, x, DECIMAL)


def log1p(k: Builder, x: Operand) -> Operand:
    """log(1 + x) for float32 and float64, within 1.8 ulp."""
    return _log1p(k, x, None)


def _log1p(k: Builder, x: Operand, low: Operand | None) -> Operand:
    """log(1 + x + low), where low is what x lost to rounding, if that is known.

    The exponent comes from the rounded ``1 + x``, f from x itself: ``x * 2**-e + (2**-e - 1)``.
    """
    form = FORMATS[x.dtype]
    _, e = split_exponent(k, k.add(x, 1.0), LOWEST)
    # 4 * 2**-e, because 2**-e alone is denormal for the largest x.
    power = power_of_two(k, k.sub(form.bias + 2, e), form)
    f = k.fma(k.mul(x, 0.25), power, k.fma(power, 0.25, -1.0))
    if low is not None:
        f = k.fma(k.mul(low, 0.25), power, f)
    y = _assemble(k, f, integer_to_float(k, e, form), NATURAL[x.dtype])
    small = k.compare("lt", k.apply("abs", x), 2.0 ** -(form.fraction + 2))
    return k.select(small, x, _at_the_ends(k, x, -1.0, y))


# -- inverse hyperbolic functions ------------------------------------------------------------------

HUGE: dict[DType, float] = {float32: 2.0**30, float64: 2.0**60}
"""From here on ``sqrt(x * x - 1)`` and ``sqrt(x * x + 1)`` are x to the last bit, and x + 1 too."""


def _log_of_sum(k: Builder, a: Operand, u: Operand, low: Operand) -> Operand:
    """log(1 + u + low), or log(2 a) for a huge a."""
    huge = k.compare("gt", a, HUGE[a.dtype])
    y = _log1p(k, k.select(huge, a, u), k.select(huge, 0.0, low))
    return k.add(y, k.select(huge, k.const(NATURAL[a.dtype].step[0], a.dtype), 0.0))


def asinh(k: Builder, x: Operand) -> Operand:
    """The inverse hyperbolic sine for float32 and float64, within 2 ulp:
    ``log(1 + a + a**2 / (1 + sqrt(1 + a**2)))`` with ``a = |x|``."""
    a = k.apply("abs", x)
    square = k.mul(a, a)
    more = k.div(square, k.add(k.apply("sqrt", k.add(square, 1.0)), 1.0))
    u = k.add(a, more)
    return k.apply("copysign", _log_of_sum(k, a, u, k.sub(more, k.sub(u, a))), x)


def acosh(k: Builder, x: Operand) -> Operand:
    """The inverse hyperbolic cosine for float32 and float64, within 2 ulp; NaN below 1:
    ``log(1 + t + sqrt(2 t + t**2))`` with ``t = x - 1``."""
    t = k.sub(x, 1.0)
    square = k.fma(t, t, k.add(t, t))
    root = k.apply("sqrt", square)
    u = k.add(root, t)
    lost = k.div(k.mul(k.fma(k.neg(root), root, square), 0.5), root)
    y = _log_of_sum(k, x, u, k.add(k.sub(t, k.sub(u, root)), lost))
    return k.select(k.compare("lt", x, 1.0), nan, y)


def atanh(k: Builder, x: Operand) -> Operand:
    """The inverse hyperbolic tangent for float32 and float64, within 2 ulp; NaN outside [-1, 1]:
    ``log(1 + 2 a / (1 - a)) / 2`` with ``a = |x|``."""
    a = k.apply("abs", x)
    double, rest = k.add(a, a), k.sub(1.0, a)
    u = k.div(double, rest)
    lost = k.sub(k.sub(1.0, rest), a)
    residue = k.fma(k.neg(u), lost, k.fma(k.neg(u), rest, double))
    y = k.mul(_log1p(k, u, k.div(residue, rest)), 0.5)
    return k.apply("copysign", y, x)
