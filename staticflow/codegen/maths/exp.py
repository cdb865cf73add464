"""The exponential and its kin: exp, exp2, expm1, sigmoid, tanh, sinh, cosh.

All reduce ``x = n * ln 2 + r`` with ``|r| <= ln 2 / 2`` (Cody and Waite, "Software Manual for the
Elementary Functions", 1980) and take minimax polynomials of r, fitted by Remez's exchange with the
coefficients rounded one after another. Errors are the largest seen, in units in the last place.
"""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.formats import (
    FORMATS,
    at_least,
    at_most,
    nearest_integer,
    polynomial,
    power_of_two,
    scale,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, float32, float64

__all__ = [
    "cosh",
    "exp",
    "exp2",
    "exp2_fraction",
    "expm1",
    "reduce_by_ln2",
    "sigmoid",
    "sinh",
    "tanh",
]

LOG2_E = 1.4426950408889634

# ln 2 = high + low. In an fma, n * high is subtracted exactly whatever its bits.
LN2: dict[DType, tuple[float, float]] = {
    float32: (0.6931471824645996, -1.904654212e-09),
    float64: (0.6931471805599453, 2.3190468138462996e-17),
}

# (e**r - 1 - r) / r**2; e**r - 1 has a relative error of 2**-26.1 and 2**-55.6.
EXP: dict[DType, tuple[float, ...]] = {
    float32: (0.5, 0.16666543, 0.041666403, 0.008366585, 0.0013940645),
    float64: (
        0.5000000000000006, 0.16666666666666685, 0.04166666666657363, 0.008333333333315316,
        0.0013888888932377615, 0.00019841269901068955, 2.480150444367735e-05,
        2.7557230037875753e-06, 2.7626330815860173e-07, 2.511371396875996e-08,
    ),
}  # fmt: skip

# (2**r - 1) / r on |r| <= 1/2; 2**r has a relative error of 2**-27.8 and 2**-57.7.
EXP2: dict[DType, tuple[float, ...]] = {
    float32: (0.6931472, 0.24022645, 0.055503666, 0.009618613, 0.0013387838, 0.0001533807),
    float64: (
        0.6931471805599453, 0.2402265069591012, 0.05550410866482254, 0.009618129107597519,
        0.0013333558146271906, 0.00015403530453839478, 1.5252733934162132e-05,
        1.3215436587082046e-06, 1.0178026866794142e-07, 7.0735986019708e-09,
        4.4595946883621426e-10,
    ),
}  # fmt: skip

# (sinh(r) / r - 1) / r**2 and (cosh(r) - 1) / r**2 as polynomials of r**2, both to 2**-26.1 and
# 2**-58.0 of sinh(r) / r and cosh(r).
SINH: dict[DType, tuple[float, ...]] = {
    float32: (0.16666542, 0.008366718),
    float64: (
        0.16666666666666677, 0.008333333333321386, 0.00019841269886815963, 2.755724345130563e-06,
        2.5109321404448207e-08,
    ),
}  # fmt: skip
COSH: dict[DType, tuple[float, ...]] = {
    float32: (0.5, 0.04166646, 0.0013935438),
    float64: (
        0.5000000000000013, 0.04166666666651048, 0.0013888888948352432, 2.480148851061072e-05,
        2.763180836035956e-07,
    ),
}  # fmt: skip

# Where to stop: outside, the result is what it is at the limit (0 or infinity, 0, -1, 1, infinity).
# Products below the least denormal take CPUs a hundred cycles. At these lower limits n is
# -2 * bias, so that `scale` has a factor 0, and -inf, with which scores are hidden, costs no more.
EXP_RANGE: dict[DType, tuple[float, float]] = {float32: (-176.0, 89.0), float64: (-1418.0, 710.0)}
EXP2_RANGE = {float32: (-254.0, 129.0), float64: (-2046.0, 1025.0)}
# Below, the result is 0, by the factor 0 of the lower limit: between the two, products would be
# below the least denormal.
EXP_LEAST: dict[DType, float] = {float32: -104.0, float64: -746.0}
EXP2_LEAST: dict[DType, float] = {float32: -150.0, float64: -1075.0}
SIGMOID_HIGHEST = {float32: 104.0, float64: 746.0}
EXPM1_LOWEST = {float32: -20.0, float64: -40.0}
TANH_HIGHEST = {float32: 10.0, float64: 20.0}
SINH_HIGHEST = {float32: 89.5, float64: 710.6}
# Below, f(x) = x to the last bit for expm1 and sinh; results may be denormal.
TINY = {float32: 2.0**-25, float64: 2.0**-54}


def reduce_by_ln2(k: Builder, x: Operand, bias: int) -> tuple[Operand, Operand, Operand]:
    """(r, n, bits of n + bias) with ``x = n * ln 2 + r``."""
    high, low = LN2[x.dtype]
    n, bits = nearest_integer(k, x, LOG2_E, bias)
    return k.fma(n, -low, k.fma(n, -high, x)), n, bits


def _exp_in_range(k: Builder, x: Operand) -> Operand:
    r, _, bits = reduce_by_ln2(k, x, 2 * FORMATS[x.dtype].bias)
    return scale(k, polynomial(k, r, (1.0, 1.0, *EXP[x.dtype])), bits)


def exp(k: Builder, x: Operand) -> Operand:
    """e**x for float32 and float64, within 1 ulp."""
    lowest, highest = EXP_RANGE[x.dtype]
    within = k.select(k.compare("lt", x, EXP_LEAST[x.dtype]), lowest, at_most(k, x, highest))
    return _exp_in_range(k, within)


def exp2(k: Builder, x: Operand) -> Operand:
    """2**x for float32 and float64, within 1 ulp; exact for integers."""
    lowest, highest = EXP2_RANGE[x.dtype]
    x = k.select(k.compare("lt", x, EXP2_LEAST[x.dtype]), lowest, at_most(k, x, highest))
    n, bits = nearest_integer(k, x, 1.0, 2 * FORMATS[x.dtype].bias)
    return scale(k, exp2_fraction(k, k.sub(x, n)), bits)


def exp2_fraction(k: Builder, r: Operand) -> Operand:
    """2**r for ``|r| <= 1/2``."""
    return polynomial(k, r, (1.0, *EXP2[r.dtype]))


def expm1(k: Builder, x: Operand) -> Operand:
    """e**x - 1 for float32 and float64, within 1.7 ulp: ``2**n * (e**r - 1) + (2**n - 1)``.

    All is halved until the end, because 2**n itself overflows where the result does not yet.
    """
    f = FORMATS[x.dtype]
    within = at_least(k, at_most(k, x, EXP_RANGE[x.dtype][1]), EXPM1_LOWEST[x.dtype])
    r, _, bits = reduce_by_ln2(k, within, f.bias - 1)
    half = power_of_two(k, bits, f)
    curve = k.mul(k.mul(r, r), polynomial(k, r, EXP[x.dtype]))
    y = k.mul(k.fma(half, curve, k.fma(half, r, k.sub(half, 0.5))), 2.0)
    return k.select(k.compare("lt", k.apply("abs", x), TINY[x.dtype]), x, y)


def sigmoid(k: Builder, x: Operand) -> Operand:
    """1 / (1 + e**-x) for float32 and float64, within 2 ulp.

    With ``d = 1 + e**|x|`` the result is 1 / d for a negative x, where it may be denormal, and
    1 - 1 / d otherwise. d is scaled down by a power of two, for it may overflow.
    """
    f = FORMATS[x.dtype]
    highest = SIGMOID_HIGHEST[x.dtype]
    a = at_most(k, k.apply("abs", x), highest)
    down = f.bias // 2
    r, _, bits = reduce_by_ln2(k, a, f.bias - down)
    power = power_of_two(k, bits, f)
    small = k.fma(k.mul(r, r), polynomial(k, r, EXP[x.dtype]), r)
    d = k.add(power, k.fma(power, small, 2.0**-down))
    y = k.div(k.const(1.0, x.dtype), d)
    y = k.mul(k.select(k.compare("ge", a, highest), 0.0, y), 2.0**-down)
    return k.select(k.compare("lt", x, 0.0), y, k.sub(1.0, y))


def tanh(k: Builder, x: Operand) -> Operand:
    """The hyperbolic tangent for float32 and float64, within 2 ulp: ``t / (t + 2)`` with
    ``t = e**(2|x|) - 1``.

    With ``|x| = n * (ln 2 / 2) + r / 2`` the low part of ln 2 is not needed: what it would change
    is damped by ``1 / (t + 2)``. Both sides of the division are taken 47/64 times, so that the
    divisor of a small x is not just above 2, where floats are sparse.
    """
    f = FORMATS[x.dtype]
    share = 0.734375
    a = at_most(k, k.apply("abs", x), TANH_HIGHEST[x.dtype])
    n, bits = nearest_integer(k, a, 2 * LOG2_E, f.bias)
    half_r = k.fma(n, -LN2[x.dtype][0] / 2, a)
    curve = tuple(c * share * 2.0 ** (i + 2) for i, c in enumerate(EXP[x.dtype]))
    bend = k.mul(k.mul(half_r, half_r), polynomial(k, half_r, curve))
    small = k.fma(half_r, 2 * share, bend)
    power = power_of_two(k, bits, f)
    t = k.fma(power, small, k.fma(power, share, -share))
    return k.apply("copysign", k.div(t, k.add(t, 2 * share)), x)


@dataclass(frozen=True, slots=True)
class _Angle:
    """``a = n * ln 2 + r >= 0`` for the addition theorems: up and down are 2**n / 4 and 2**-n / 4,
    p is their sum, cosh(n ln 2) / 2, and q is their difference, sinh(n ln 2) / 2; halved, because p
    itself may overflow. s is sinh(r) - r, c is cosh(r) - 1."""

    r: Operand
    up: Operand
    down: Operand
    p: Operand
    q: Operand
    s: Operand
    c: Operand


def _angle(k: Builder, a: Operand) -> _Angle:
    f = FORMATS[a.dtype]
    r, n, bits = reduce_by_ln2(k, at_most(k, a, SINH_HIGHEST[a.dtype]), f.bias - 2)
    up = power_of_two(k, bits, f)
    # 2**-n counts for nothing long before n = 100, where its exponent is still in range.
    down = k.sub(f.magic + f.bias - 2, at_most(k, n, 100.0))
    down = power_of_two(k, k.bitcast(down, f.integer), f)
    z = k.mul(r, r)
    s = k.mul(k.mul(r, z), polynomial(k, z, SINH[a.dtype]))
    c = k.mul(z, polynomial(k, z, COSH[a.dtype]))
    return _Angle(r, up, down, k.add(up, down), k.sub(up, down), s, c)


def sinh(k: Builder, x: Operand) -> Operand:
    """The hyperbolic sine for float32 and float64, within 2 ulp:
    sinh(a + b) = sinh(a) cosh(b) + cosh(a) sinh(b)."""
    a = k.apply("abs", x)
    t = _angle(k, a)
    half = k.add(k.fma(t.p, t.r, t.q), k.fma(t.q, t.c, k.mul(t.p, t.s)))
    y = k.select(k.compare("lt", a, TINY[x.dtype]), a, k.add(half, half))
    return k.apply("copysign", y, x)


def cosh(k: Builder, x: Operand) -> Operand:
    """The hyperbolic cosine for float32 and float64, within 1.4 ulp:
    cosh(a + b) = cosh(a) cosh(b) + sinh(a) sinh(b)."""
    t = _angle(k, k.apply("abs", x))
    half = k.add(k.fma(t.q, t.r, t.up), k.fma(t.p, t.c, k.fma(t.q, t.s, t.down)))
    return k.add(half, half)
