"""Powers: x**y of floats, x**n for a known integer n, powers of integers; and hypot.

The power of floats is ``2**(y * log2 |x|)``. The logarithm and the product are carried as the
unevaluated sum of two floats, for an error of the product is a relative error of the result. Sums
and products of such pairs are Dekker's ("A floating-point technique for extending the available
precision", Numerische Mathematik 18, 1971), with fma for the exact product.
"""

from __future__ import annotations

from math import inf, nan, sqrt

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.exp import EXP2_RANGE, exp2_fraction
from staticflow.codegen.maths.formats import (
    FORMATS,
    at_least,
    at_most,
    nearest_integer,
    polynomial,
    scale,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["hypot", "integer_pow", "pow", "pow_int"]

# atanh(s) = s + s**3 * (1/3 + s**2 * P(s**2)) on |s| <= 0.1716, to 2**-36.8 and 2**-66.3.
ATANH: dict[DType, tuple[float, ...]] = {
    float32: (0.200000765, 0.14273539, 0.117100695),
    float64: (
        0.20000000000001145, 0.14285714285041375, 0.11111111261533854, 0.09090892040330646,
        0.07693385502606559, 0.06628244508310834, 0.06599734529164656,
    ),
}  # fmt: skip

# 1/3 and 2 log2(e), each as the sum of two floats.
THIRD: dict[DType, tuple[float, float]] = {
    float32: (0.3333333432674408, -9.934107758624577e-09),
    float64: (0.3333333333333333, 1.850371707708594e-17),
}
TWO_LOG2_E: dict[DType, tuple[float, float]] = {
    float32: (2.885390043258667, 3.851926067e-08),
    float64: (2.8853900817779268, 4.0710547481862066e-17),
}

# An exponent y past this gives 0, 1 or infinity whatever x is; it need not be any larger.
LARGEST_EXPONENT: dict[DType, float] = {float32: 2.0**40, float64: 2.0**70}


@dataclass(frozen=True, slots=True)
class _Pair:
    """The number ``high + low``; low is no more than a few units in the last place of high."""

    high: Operand
    low: Operand


def _sum(k: Builder, a: Operand, b: Operand) -> _Pair:
    """a + b exactly, where a is zero or its exponent is not below that of b."""
    high = k.add(a, b)
    return _Pair(high, k.sub(b, k.sub(high, a)))


def _product(k: Builder, a: _Pair, b: _Pair) -> _Pair:
    """a * b, but for the product of the low parts."""
    high = k.mul(a.high, b.high)
    low = k.fma(a.high, b.high, k.neg(high))
    return _Pair(high, k.fma(a.low, b.high, k.fma(a.high, b.low, low)))


def _constant(k: Builder, parts: dict[DType, tuple[float, float]], dtype: DType) -> _Pair:
    high, low = parts[dtype]
    return _Pair(k.const(high, dtype), k.const(low, dtype))


def _atanh(k: Builder, s: _Pair) -> _Pair:
    """The inverse hyperbolic tangent of a small s: its three leading terms count as pairs."""
    dtype = s.high.dtype
    z = _product(k, s, s)
    third = _constant(k, THIRD, dtype)
    curve = _sum(k, third.high, k.mul(z.high, polynomial(k, z.high, ATANH[dtype])))
    bend = _product(k, _product(k, s, z), _Pair(curve.high, k.add(curve.low, third.low)))
    total = _sum(k, s.high, bend.high)
    return _Pair(total.high, k.add(total.low, k.add(s.low, bend.low)))


def _log2(k: Builder, x: Operand) -> _Pair:
    """log2(x) for a positive finite x, to about 2**-34 and 2**-64 of it; its high part for 0 and
    infinity, too.

    ``x = m * 2**e`` with m in [1/sqrt(2), sqrt(2)], and ``log(m) = 2 atanh((m - 1) / (m + 1))``.
    """
    m, e = k.apply("mantissa", x), k.apply("exponent", x)
    large = k.compare("gt", m, sqrt(2))
    m, e = k.select(large, k.mul(m, 0.5), m), k.select(large, k.add(e, 1.0), e)
    one = k.const(1.0, x.dtype)
    above, below = k.sub(m, one), _sum(k, one, m)
    inverse = k.div(one, below.high)
    high = k.mul(above, inverse)
    rest = k.fma(k.neg(high), below.low, k.fma(k.neg(high), below.high, above))
    arc = _atanh(k, _Pair(high, k.mul(rest, inverse)))
    fraction = _product(k, arc, _constant(k, TWO_LOG2_E, x.dtype))
    total = _sum(k, e, fraction.high)
    return _Pair(total.high, k.add(total.low, fraction.low))


def _magnitude(k: Builder, a: Operand, y: Operand) -> Operand:
    """a**y for a >= 0 or NaN. Wrong, and put right by `pow`, only for y = 0."""
    dtype = a.dtype
    largest = LARGEST_EXPONENT[dtype]
    y = at_least(k, at_most(k, y, largest), -largest)
    log = _log2(k, a)
    product = k.mul(y, log.high)
    low = k.fma(y, log.low, k.fma(y, log.high, k.neg(product)))
    lowest, highest = EXP2_RANGE[dtype]
    within = at_least(k, at_most(k, product, highest), lowest)
    low = k.select(k.compare("eq", within, product), low, 0.0)
    n, bits = nearest_integer(k, within, 1.0, 2 * FORMATS[dtype].bias)
    return scale(k, exp2_fraction(k, k.add(k.sub(within, n), low)), bits)


def pow(k: Builder, x: Operand, y: Operand) -> Operand:
    """x**y for float32 and float64, within 1.1 ulp, with the special cases of C (F.10.4.4).

    1 for y = 0 or x = 1 even with NaN, NaN for a negative finite x and a y that is no integer, the
    sign of x for an odd y.
    """
    whole = k.compare("eq", y, k.apply("trunc", y))
    half = k.mul(y, 0.5)
    odd = k.apply("and", whole, k.compare("ne", half, k.apply("trunc", half)))
    result = k.apply("copysign", _magnitude(k, k.apply("abs", x), y), k.select(odd, x, 1.0))
    negative = k.apply("and", k.compare("lt", x, 0.0), k.compare("gt", x, -inf))
    result = k.select(k.apply("and", negative, k.apply("not", whole)), nan, result)
    one = k.apply("or", k.compare("eq", y, 0.0), k.compare("eq", x, 1.0))
    return k.select(one, 1.0, result)


def pow_int(k: Builder, x: Operand, n: int) -> Operand:
    """x**n for a known n by repeated multiplication, of ``1 / x`` for a negative n.

    For float32 and float64, each multiplication adds half an ulp and doubles what was there: 0.5
    for a square, 1 for a cube, 1.5 for n = 4 and n = -2. Integers wrap and need n >= 0: raises
    `ValueError` for a negative n.
    """
    if n < 0 and not x.dtype.is_floating:
        raise ValueError(f"{x.dtype} cannot be raised to the power of {n}")
    if n == 0:
        return k.const(1, x.dtype, x.lanes)
    base = x if n > 0 else k.div(k.const(1.0, x.dtype), x)
    result = base
    for bit in f"{abs(n):b}"[1:]:
        result = k.mul(result, result)
        if bit == "1":
            result = k.mul(result, base)
    return result


def integer_pow(k: Builder, x: Operand, y: Operand) -> Operand:
    """x**y of integers of one dtype, wrapping. For y < 0 the quotient 1 / x**-y towards zero: 0,
    but 1 or -1 for an x of 1 or -1; 0 for x = 0."""
    signed = y.dtype.kind == "i"
    result: Operand = k.const(1, x.dtype, x.lanes)
    power = x
    for bit in range(y.dtype.bits - signed):
        chosen = k.compare("ne", k.apply("and", y, 1 << bit), 0)
        result = k.select(chosen, k.mul(result, power), result)
        power = k.mul(power, power)
    if not signed:
        return result
    # Two's complement keeps the parity of y, so that the powers of 1 and -1 are right already.
    unit = k.apply("or", k.compare("eq", x, 1), k.compare("eq", x, -1))
    return k.select(k.apply("and", k.compare("lt", y, 0), k.apply("not", unit)), 0, result)


# Where squares would overflow or lose digits, and the power of two that then keeps them in range.
SQUARE_RANGE: dict[DType, tuple[float, float]] = {
    float32: (2.0**60, 2.0**100),
    float64: (2.0**500, 2.0**600),
}


def hypot(k: Builder, x: Operand, y: Operand) -> Operand:
    """sqrt(x x + y y) for float32 and float64, within 1.3 ulp; infinite with an infinity, even
    beside NaN."""
    a, b = k.apply("abs", x), k.apply("abs", y)
    limit, power = SQUARE_RANGE[x.dtype]
    larger = k.select(k.compare("gt", a, b), a, b)
    one = k.const(1.0, x.dtype)
    up = k.select(k.compare("lt", larger, 1 / limit), power, one)
    factor = k.select(k.compare("gt", larger, limit), 1 / power, up)
    back = k.select(k.compare("gt", larger, limit), power, k.div(one, up))
    s, t = k.mul(a, factor), k.mul(b, factor)
    root = k.apply("sqrt", k.fma(s, s, k.mul(t, t)))
    infinite = k.apply("or", k.compare("eq", a, inf), k.compare("eq", b, inf))
    return k.select(infinite, inf, k.mul(root, back))
