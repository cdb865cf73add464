"""Inverse trigonometric functions: asin, acos, atan, atan2.

Each is brought to ``c + v + v**3 * P(v**2)`` with a multiple c of pi / 2 and a small v, by the
identities in the docstrings; P is a minimax polynomial, fitted by Remez's exchange. Errors are the
largest seen, in units in the last place.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.formats import polynomial, sign_bit
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["acos", "asin", "atan", "atan2"]

# pi - 3 as a sum of two floats. The 3 is added last, which keeps the sums before it small.
PI_LESS_3: dict[DType, tuple[float, float]] = {
    float32: (0.14159265, 1.9841873e-09),
    float64: (0.14159265358979323, 1.1442377452219664e-17),
}

# (asin(v) / v - 1) / v**2 on |v| <= 1/2 as a polynomial of v**2, to 2**-27.6 and 2**-55.9 of
# asin(v), and the same of the arc tangent on |v| <= 1, to 2**-25.8 and 2**-57.5.
ASIN: dict[DType, tuple[float, ...]] = {
    float32: (0.16666752, 0.074953064, 0.045469772, 0.024180774, 0.042166412),
    float64: (
        0.16666666666665403, 0.075000000003386, 0.04464285682692995, 0.030381959197635762,
        0.02237175653577091, 0.01735972837205215, 0.013884995708179271, 0.012170824027674566,
        0.0065208522569357415, 0.01954813612621075, -0.01625598916506749, 0.031934383448612165,
    ),
}  # fmt: skip
ATAN: dict[DType, tuple[float, ...]] = {
    float32: (
        -0.33333153, 0.19993767, -0.14211, 0.10665754, -0.07551606, 0.043203805, -0.016362442,
        0.0029191896,
    ),
    float64: (
        -0.33333333333333065, 0.19999999999950985, -0.14285714282551018, 0.11111111006447928,
        -0.09090906994872668, 0.0769227976460476, -0.066664035763002, 0.05880525549448906,
        -0.05253510553980478, 0.04722300666783083, -0.04219134261355735, 0.03664119578013972,
        -0.029902979973606275, 0.021984035814354264, -0.013899998574542669, 0.007196231989368208,
        -0.0028848351851526997, 0.0008313098517485436, -0.0001521616000494925,
        1.3225446763734258e-05,
    ),
}  # fmt: skip


def _around(
    k: Builder, turns: Operand, v: Operand, z: Operand, coefficients: Sequence[float]
) -> Operand:
    """``turns * pi + v + v * z * P(z)`` for turns of 0, 1/2 and 1."""
    high, low = PI_LESS_3[v.dtype]
    curve = k.mul(k.mul(v, z), polynomial(k, z, coefficients))
    rest = k.add(k.fma(turns, high, v), k.fma(turns, low, curve))
    return k.fma(turns, 3.0, rest)


def _choose(k: Builder, cond: Operand, a: float, b: float, like: Operand) -> Operand:
    return k.select(cond, k.const(a, like.dtype), b)


def _half_angle(k: Builder, a: Operand) -> tuple[Operand, Operand, Operand]:
    """(whether a > 1/2, s, s**2) with ``asin(a) = pi / 2 - 2 asin(s)`` where it is, else s = a.

    ``s = sqrt((1 - a) / 2)``, NaN past 1.
    """
    big = k.compare("gt", a, 0.5)
    z = k.select(big, k.fma(a, -0.5, 0.5), k.mul(a, a))
    return big, k.select(big, k.apply("sqrt", z), a), z


def asin(k: Builder, x: Operand) -> Operand:
    """The arc sine for float32 and float64, within 1.8 ulp; NaN outside [-1, 1]."""
    big, s, z = _half_angle(k, k.apply("abs", x))
    v = k.select(big, k.mul(s, -2.0), s)
    y = _around(k, _choose(k, big, 0.5, 0.0, x), v, z, ASIN[x.dtype])
    return k.apply("copysign", y, x)


def acos(k: Builder, x: Operand) -> Operand:
    """The arc cosine for float32 and float64, within 1.2 ulp; NaN outside [-1, 1].

    pi / 2 - asin(x) for ``|x| <= 1/2``; 2 asin(s) above, pi - 2 asin(s) below.
    """
    big, s, z = _half_angle(k, k.apply("abs", x))
    v = k.select(big, k.apply("copysign", k.add(s, s), x), k.neg(x))
    ends = _choose(k, k.compare("lt", x, 0.0), 1.0, 0.0, x)
    return _around(k, k.select(big, ends, 0.5), v, z, ASIN[x.dtype])


def atan(k: Builder, x: Operand) -> Operand:
    """The arc tangent for float32 and float64, within 1.9 ulp: atan(x) = pi / 2 - atan(1 / x)."""
    a = k.apply("abs", x)
    big = k.compare("gt", a, 1.0)
    v = k.div(k.select(big, -1.0, a), k.select(big, a, 1.0))
    y = _around(k, _choose(k, big, 0.5, 0.0, x), v, k.mul(v, v), ATAN[x.dtype])
    return k.apply("copysign", y, x)


def atan2(k: Builder, y: Operand, x: Operand) -> Operand:
    """The angle of the point (x, y) in [-pi, pi] for float32 and float64, within 2 ulp.

    Signed zeros and infinities as in C: atan2(0, -0) is pi, atan2(inf, -inf) is 3 pi / 4.
    """
    ax, ay = k.apply("abs", x), k.apply("abs", y)
    steep = k.compare("gt", ay, ax)
    ratio = k.div(k.select(steep, k.neg(ax), ay), k.select(steep, ay, ax))
    # 0 / 0 counts as 0 and infinity / infinity as 1; any a / a is one of the two.
    diagonal = _choose(k, k.compare("gt", ay, 0.0), 1.0, 0.0, x)
    ratio = k.select(k.compare("eq", ay, ax), diagonal, ratio)
    left = sign_bit(k, x)
    v = k.select(left, k.neg(ratio), ratio)
    turns = k.select(steep, 0.5, _choose(k, left, 1.0, 0.0, x))
    return k.apply("copysign", _around(k, turns, v, k.mul(v, v), ATAN[x.dtype]), y)
