"""Sine, cosine and tangent.

The argument is reduced by multiples of pi (sine, cosine) or pi / 2 (tangent) that are subtracted in
three parts by fma (Cody and Waite, "Software Manual for the Elementary Functions", 1980), which
keeps the relative precision of the remainder up to ``LIMIT``; then follows one minimax polynomial,
fitted by Remez's exchange. Past the limit no digit of the result means anything, but it stays the
sine, cosine or tangent of some angle. Infinity gives NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.math_parts import (
    FORMATS,
    at_least,
    at_most,
    nearest_integer,
    polynomial,
)
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["LIMIT", "cos", "sin", "tan"]

LIMIT: dict[DType, float] = {float32: 2.0**20, float64: 2.0**49}
"""The largest ``|x|`` for which sin, cos and tan keep their promise."""

# pi as a sum of three floats; pi / 2 is the sum of their halves.
PI: dict[DType, tuple[float, float, float]] = {
    float32: (3.1415927410125732, -8.742277657e-08, -3.43024902e-15),
    float64: (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}

# How far the remainder may be past pi / 2 and pi / 4, where n is not quite the nearest integer.
SIN_BOUND = 1.65
TAN_BOUND = 0.82

# (sin(r) / r - 1) / r**2 as a polynomial of r**2, to 2**-26.5 and 2**-59.7 of sin(r), and the same
# of the tangent, to 2**-28.4 and 2**-57.7.
SIN: dict[DType, tuple[float, ...]] = {
    float32: (-0.16666657, 0.008332985, -0.00019803346, 2.5915338e-06),
    float64: (
        -0.16666666666666663, 0.00833333333333293, -0.00019841269841119205, 2.7557319196582496e-06,
        -2.505210561552698e-08, 1.6058880069661022e-10, -7.641526392950857e-13,
        2.7066030044069723e-15,
    ),
}  # fmt: skip
TAN: dict[DType, tuple[float, ...]] = {
    float32: (
        0.33333367, 0.13332072, 0.054126155, 0.020944726, 0.011697547, -0.000985245, 0.0048973127,
    ),
    float64: (
        0.3333333333333354, 0.13333333333301403, 0.053968253985312305, 0.02186948807510364,
        0.008863242933421885, 0.0035920508520990704, 0.001456385658049802, 0.0005872392838213693,
        0.0002493044382202324, 6.992952119544256e-05, 9.105227534758669e-05,
        -5.4595270003586067e-05, 7.188073782927696e-05, -3.534947184593082e-05,
        1.2171177161386553e-05,
    ),
}  # fmt: skip


def _subtract(k: Builder, x: Operand, n: Operand, share: float, bound: float) -> Operand:
    """``x - n * share * pi``, kept within the bound where ``|x|`` is past the limit."""
    for part in PI[x.dtype]:
        x = k.fma(n, -part * share, x)
    return at_least(k, at_most(k, x, bound), -bound)


def _odd_polynomial(k: Builder, r: Operand, coefficients: Sequence[float]) -> Operand:
    """``r + r**3 * P(r**2)``."""
    z = k.mul(r, r)
    return k.fma(k.mul(r, z), polynomial(k, z, coefficients), r)


def _alternating(k: Builder, x: Operand, parity: Operand) -> Operand:
    """x, negated where the integer ``parity`` is odd."""
    f = FORMATS[x.dtype]
    sign = k.apply("shl", parity, f.dtype.bits - 1)
    return k.bitcast(k.apply("xor", k.bitcast(x, f.integer), sign), f.dtype)


def sin(k: Builder, x: Operand) -> Operand:
    """The sine for float32 and float64, within 1.5 ulp for ``|x| <= LIMIT``:
    sin(n pi + r) = (-1)**n sin(r)."""
    n, parity = nearest_integer(k, x, 1 / pi)
    r = _subtract(k, x, n, 1.0, SIN_BOUND)
    y = _alternating(k, _odd_polynomial(k, r, SIN[x.dtype]), parity)
    return k.select(k.compare("eq", x, 0.0), x, y)


def cos(k: Builder, x: Operand) -> Operand:
    """The cosine for float32 and float64, within 1.5 ulp for ``|x| <= LIMIT``:
    cos((n + 1/2) pi + r) = (-1)**(n + 1) sin(r)."""
    n, parity = nearest_integer(k, k.fma(x, 1 / pi, -0.5), 1.0, 1)
    r = _subtract(k, x, k.fma(n, 2.0, 1.0), 0.5, SIN_BOUND)
    return _alternating(k, _odd_polynomial(k, r, SIN[x.dtype]), parity)


def tan(k: Builder, x: Operand) -> Operand:
    """The tangent for float32 and float64, within 2 ulp for ``|x| <= LIMIT``:
    tan(n pi/2 + r) = tan(r) for even n, -1 / tan(r) for odd n."""
    n, parity = nearest_integer(k, x, 2 / pi)
    r = _subtract(k, x, n, 0.5, TAN_BOUND)
    t = _odd_polynomial(k, r, TAN[x.dtype])
    odd = k.compare("ne", k.apply("and", parity, 1), 0)
    y = k.div(k.select(odd, -1.0, t), k.select(odd, t, 1.0))
    return k.select(k.compare("eq", x, 0.0), x, y)
