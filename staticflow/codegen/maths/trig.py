"""Sine, cosine and tangent.

The argument is reduced by multiples of pi / 2, subtracted in three parts by fma (Cody and Waite,
"Software Manual for the Elementary Functions", 1980), which keeps the relative precision of the
remainder r up to ``LIMIT``, and past that in integers (`far`); on ``|r| <= pi / 4`` follow
minimax polynomials, fitted by Remez's exchange. Infinity gives NaN. Errors are the largest seen, in
units in the last place.
"""

from __future__ import annotations

from math import inf, pi

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.far import Angle, reduce_far
from staticflow.codegen.maths.formats import FORMATS, nearest_integer, polynomial
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["LIMIT", "cos", "sin", "tan"]

LIMIT: dict[DType, float] = {float32: 2.0**19, float64: 2.0**49}
"""The largest ``|x|`` that is reduced by fma."""

# pi as a sum of three floats; pi / 2 is the sum of their halves.
PI: dict[DType, tuple[float, float, float]] = {
    float32: (3.1415927410125732, -8.742277657e-08, -3.43024902e-15),
    float64: (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}

# Polynomials of r**2: sin(r) = r + r**3 * SIN to 2**-27.4 and 2**-57.1, cos(r) = COS to 2**-32.2
# and 2**-62.9, tan(r) = r + r**3 * TAN to 2**-28.4 and 2**-57.7.
SIN: dict[DType, tuple[float, ...]] = {
    float32: (-0.16666651, 0.008331925, -0.00019484147),
    float64: (
        -0.16666666666666607, 0.008333333333316244, -0.00019841269824877049,
        2.755731199403167e-06, -2.5050495213850823e-08, 1.588176346669677e-10,
    ),
}  # fmt: skip
COS: dict[DType, tuple[float, ...]] = {
    float32: (1.0, -0.5, 0.041666638, -0.0013886959, 2.4393648e-05),
    float64: (
        1.0, -0.5, 0.04166666666666654, -0.0013888888888863972, 2.4801587283293985e-05,
        -2.755731260808118e-07, 2.087549201033829e-09, -1.1347970798069284e-11,
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


def _reduce(k: Builder, x: Operand, with_low: bool = False) -> Angle:
    """x as a multiple of pi / 2 and what is left, its low part 0 unless that is wanted. Where any
    lane is past the limit they are reduced once more, the long way, which those take."""
    first, second, third = (part / 2 for part in PI[x.dtype])
    turns, bits = nearest_integer(k, x, 2 / pi)
    before = k.fma(turns, -second, k.fma(turns, -first, x))
    r = k.fma(turns, -third, before)
    near = [r, bits]
    if with_low:
        near.append(k.fma(turns, -third, k.sub(before, r)))
    chosen = [k.var(part) for part in near]
    size = k.apply("abs", x)
    is_far = k.compare("gt", size, LIMIT[x.dtype])
    with k.when(k.any(is_far)):
        far = reduce_far(k, k.var(x))  # a var, so that nothing of this is computed before
        is_far = k.apply("and", is_far, k.compare("lt", size, inf))
        for part, own, other in zip(chosen, near, (far.r, far.n, far.low), strict=False):
            k.set(part, k.select(is_far, other, own))
    r, n, *low = map(k.freeze, chosen)
    return Angle(r, low[0] if low else k.const(0.0, x.dtype), n)


def _is_odd(k: Builder, n: Operand) -> Operand:
    return k.compare("ne", k.apply("and", n, 1), 0)


def _sine(k: Builder, r: Operand, n: Operand) -> Operand:
    """sin(n pi / 2 + r): sin r, cos r, -sin r, -cos r for n modulo 4."""
    f = FORMATS[r.dtype]
    z = k.mul(r, r)
    sine = k.fma(k.mul(r, z), polynomial(k, z, SIN[r.dtype]), r)
    y = k.select(_is_odd(k, n), polynomial(k, z, COS[r.dtype]), sine)
    sign = k.apply("and", k.apply("shl", n, f.dtype.bits - 2), -1 << f.dtype.bits - 1)
    return k.bitcast(k.apply("xor", k.bitcast(y, f.integer), sign), f.dtype)


def _keeping_zero(k: Builder, x: Operand, y: Operand) -> Operand:
    """y, or x where x is a zero, for its sign."""
    return k.select(k.compare("eq", x, 0.0), x, y)


def sin(k: Builder, x: Operand) -> Operand:
    """The sine for float32 and float64, within 1.6 ulp."""
    angle = _reduce(k, x)
    return _keeping_zero(k, x, _sine(k, angle.r, angle.n))


def cos(k: Builder, x: Operand) -> Operand:
    """The cosine for float32 and float64, within 1.6 ulp."""
    angle = _reduce(k, x)
    return _sine(k, angle.r, k.add(angle.n, 1))


def tan(k: Builder, x: Operand) -> Operand:
    """The tangent for float32 and float64, within 2.1 ulp:
    tan(n pi / 2 + r) is tan(r) for even n, -1 / tan(r) for odd n.

    Next to a pole the reciprocal doubles every error, so that what the last additions lost is
    kept, as a low part of r and of tan(r), and the quotient is corrected by its residue.
    """
    angle = _reduce(k, x, with_low=True)
    r = angle.r
    z = k.mul(r, r)
    curve = k.fma(k.mul(r, z), polynomial(k, z, TAN[x.dtype]), angle.low)
    tangent = k.add(r, curve)
    low = k.sub(curve, k.sub(tangent, r))
    quotient = k.div(k.const(-1.0, x.dtype), tangent)
    residue = k.fma(quotient, low, k.fma(quotient, tangent, 1.0))
    cotangent = k.fma(quotient, residue, quotient)
    return _keeping_zero(k, x, k.select(_is_odd(k, angle.n), cotangent, tangent))
