"""Logarithms: log, log2, log10, log1p; and the inverse hyperbolic functions that stand on log1p.

All split ``x = (1 + f) * 2**e`` with ``3/4 <= 1 + f < 3/2`` and take ``log(1 + f)`` as
``f + f**2 * Q(f)`` with a minimax polynomial Q, fitted by Remez's exchange. Errors are the largest
seen, in units in the last place.
"""

from __future__ import annotations

from math import inf, nan

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.formats import (
    FORMATS,
    polynomial,
    power_of_two,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["acosh", "asinh", "atanh", "log", "log1p", "log2", "log10"]

# Q; log(1 + f) has a relative error of 2**-27.6 and 2**-56.7.
LOG: dict[DType, tuple[float, ...]] = {
    float32: (
        -0.5, 0.33333454, -0.25000054, 0.19990607, -0.16647767, 0.14482057, -0.13162237,
        0.10448366, -0.04490994,
    ),
    float64: (
        -0.4999999999999997, 0.3333333333333395, -0.2500000000001957, 0.1999999999981593,
        -0.1666666666276066, 0.14285714301420316, -0.1250000034931819, 0.11111110794471692,
        -0.09999983774130632, 0.0909088979236727, -0.08333731887844804, 0.07693477853060213,
        -0.07138419824429114, 0.06642303346889275, -0.062491989819206076, 0.06087242917641414,
        -0.05977204046697593, 0.05074268293365578, -0.02935244409114472, 0.008056150768732668,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Base:
    """A base b: ``1 / ln b`` and ``log_b 2``, each as the sum of two floats; those of ``log_b 2``
    are not of different signs, so that infinity times either is no NaN."""

    slope: tuple[float, float]
    step: tuple[float, float]


NATURAL: dict[DType, Base] = {
    float32: Base((1.0, 0.0), (0.6931471228599548, 5.769998878690785e-08)),
    float64: Base((1.0, 0.0), (0.6931471805599453, 2.3190468138462996e-17)),
}
BINARY: dict[DType, Base] = {
    float32: Base((1.4426950216293335, 1.9259630335e-08), (1.0, 0.0)),
    float64: Base((1.4426950408889634, 2.0355273740931033e-17), (1.0, 0.0)),
}
DECIMAL: dict[DType, Base] = {
    float32: Base(
        (0.4342944920063019, -1.01030499522e-08), (0.3010299801826477, 1.5481333548450493e-08)
    ),
    float64: Base(
        (0.4342944819032518, 1.098319650216765e-17), (0.30102999566398114, 5.270742310347266e-17)
    ),
}


def _assemble(k: Builder, f: Operand, e: Operand, base: Base) -> Operand:
    """``log_b((1 + f) * 2**e)``, the small terms first but where e and f cancel exactly."""
    curve = k.mul(k.mul(f, f), polynomial(k, f, LOG[f.dtype]))
    slope, step = base.slope, base.step
    line = f
    if slope != (1.0, 0.0):
        line = k.mul(f, slope[0])
        curve = k.fma(f, slope[1], k.fma(curve, slope[0], k.fma(f, slope[0], k.neg(line))))
    if step == (1.0, 0.0):
        return k.add(k.add(e, line), curve)
    return k.fma(e, step[0], k.add(line, k.fma(e, step[1], curve)))


def _at_the_ends(k: Builder, x: Operand, pole: float, y: Operand) -> Operand:
    """y inside the domain ``x > pole``; -inf at the pole, NaN below it, inf at inf, NaN at NaN."""
    y = k.select(k.compare("lt", x, inf), y, x)
    outside = k.select(k.compare("lt", x, pole), k.const(nan, x.dtype), -inf)
    return k.select(k.compare("le", x, pole), outside, y)


def _log(k: Builder, x: Operand, bases: dict[DType, Base]) -> Operand:
    """At the ends the exponent is what comes out: -inf at 0, inf at inf, NaN below 0."""
    f = k.sub(k.apply("mantissa", x), 1.0)
    return _assemble(k, f, k.apply("exponent", x), bases[x.dtype])


def log(k: Builder, x: Operand) -> Operand:
    """The natural logarithm for float32 and float64, within 1.0 ulp."""
    return _log(k, x, NATURAL)


def log2(k: Builder, x: Operand) -> Operand:
    """The binary logarithm for float32 and float64, within 1.6 ulp; exact for powers of two."""
    return _log(k, x, BINARY)


def log10(k: Builder, x: Operand) -> Operand:
    """The decimal logarithm for float32 and float64, within 1.6 ulp."""
    return _log(k, x, DECIMAL)


def log1p(k: Builder, x: Operand) -> Operand:
    """log(1 + x) for float32 and float64, within 1.8 ulp."""
    return _log1p(k, x, None)


def _log1p(k: Builder, x: Operand, low: Operand | None) -> Operand:
    """log(1 + x + low), where low is what x lost to rounding, if that is known.

    The exponent comes from the rounded ``1 + x``, f from x itself: ``x * 2**-e + (2**-e - 1)``.
    """
    layout = FORMATS[x.dtype]
    e = k.apply("exponent", k.add(x, 1.0))
    # 4 * 2**-e, because 2**-e alone is denormal for the largest x.
    bits = k.bitcast(k.sub(layout.magic + layout.bias + 2, e), layout.integer)
    power = power_of_two(k, bits, layout)
    f = k.fma(k.mul(x, 0.25), power, k.fma(power, 0.25, -1.0))
    if low is not None:
        f = k.fma(k.mul(low, 0.25), power, f)
    y = _assemble(k, f, e, NATURAL[x.dtype])
    small = k.compare("lt", k.apply("abs", x), 2.0 ** -(layout.fraction + 2))
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
