"""Division that rounds down, and what it leaves: ``//``, ``%`` and fmod of floats and integers;
common divisors and multiples."""

from __future__ import annotations

from math import inf, nan

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Const, Operand
from staticflow.codegen.maths.formats import FORMATS, at_least, at_most, scale
from staticflow.data_classes import dataclass

__all__ = [
    "floor_divide",
    "fmod",
    "gcd",
    "integer_floor_divide",
    "integer_fmod",
    "integer_remainder",
    "lcm",
    "remainder",
]


_MOST_SHIFTS = 64
"""More steps than any quotient of two float64 takes: 2098 bits, some 50 at a time."""


@dataclass(frozen=True, slots=True)
class _Division:
    """``|x| = quotient * |y| + rest`` with ``0 <= rest < |y|``; whether x and y have different
    signs and the rest is not zero, which is where rounding down is not rounding towards zero; and
    the sign bit of x / y with all others clear."""

    quotient: Operand
    rest: Operand
    below: Operand
    sign: Operand


def _divide(k: Builder, x: Operand, y: Operand) -> _Division:
    """In two steps of fma: the first leaves an exact remainder, but of a quotient that was rounded,
    which the second divides again. Its quotient may be one too large, but only of quotients that
    have no bit left to tell. Where any lane has a quotient too large for that, what is left of
    those is found the long way."""
    f = FORMATS[x.dtype]
    a, b = k.apply("abs", x), k.apply("abs", y)
    ratio = k.div(a, b)
    first = k.apply("trunc", ratio)
    rest = k.fma(k.neg(first), b, a)
    second = k.apply("floor", k.div(rest, b))
    rest = k.fma(k.neg(second), b, rest)
    rest = k.select(k.compare("lt", rest, 0.0), k.add(rest, b), rest)
    left = k.var(rest)
    large = k.apply("and", k.compare("ge", ratio, 4.0**f.fraction), k.compare("lt", a, inf))
    with k.when(k.any(large)):
        k.set(left, k.select(large, _rest_of_large(k, k.var(a), k.var(b), large), rest))
    # Of an infinite y all of x is left; a zero y gives the infinite or undefined ratio, of which
    # nothing is left.
    smaller = k.compare("lt", a, b)
    rest = k.select(smaller, a, k.freeze(left))
    whole = k.select(large, ratio, k.add(first, second))
    whole = k.select(k.compare("eq", b, 0.0), ratio, whole)
    quotient = k.select(smaller, 0.0, whole)
    differ = k.apply("xor", k.bitcast(x, f.integer), k.bitcast(y, f.integer))
    below = k.apply("and", k.compare("lt", differ, 0), k.compare("gt", rest, 0.0))
    return _Division(quotient, rest, below, k.apply("and", differ, -1 << f.dtype.bits - 1))


def _rest_of_large(k: Builder, a: Operand, b: Operand, large: Operand) -> Operand:
    """What b leaves of a where the quotient is ``large``; NaN of b = 0.

    Multiples of b by powers of two, each the largest of which a quotient has a few bits less than a
    float, are taken away one after the other; what is left is exact each time.
    """
    f = FORMATS[a.dtype]
    positive = k.compare("gt", b, 0.0)
    large = k.apply("and", large, positive)
    own = k.apply("exponent", b)
    rest = k.var(k.select(large, a, 0.0))
    more = k.var(k.any(large))
    with k.loop("shift", _MOST_SHIFTS, going=more):
        shift = k.sub(k.sub(k.apply("exponent", rest), own), f.fraction - 2.0)
        shift = at_most(k, at_least(k, shift, 0.0), 2.0 * f.bias)
        times = scale(k, b, k.add(k.cast(shift, f.integer), 2 * f.bias))
        quotient = k.apply("trunc", k.div(rest, times))
        left = k.fma(k.neg(quotient), times, rest)
        left = k.select(k.compare("lt", left, 0.0), k.add(left, times), left)
        k.set(rest, k.select(large, left, 0.0))
        k.set(more, k.any(k.apply("and", large, k.compare("ge", rest, b))))
    return k.select(positive, k.freeze(rest), nan)


def floor_divide(k: Builder, x: Operand, y: Operand) -> Operand:
    """The largest integer not above x / y, for float32 and float64, as NumPy has it.

    Exact for ``|x / y| < 2**24`` and ``2**53``, then within an ulp. x / y for y = 0; NaN for an
    infinite x.
    """
    d = _divide(k, x, y)
    size = k.select(d.below, k.add(d.quotient, 1.0), d.quotient)
    f = FORMATS[x.dtype]
    return k.bitcast(k.apply("or", k.bitcast(size, f.integer), d.sign), f.dtype)


def remainder(k: Builder, x: Operand, y: Operand) -> Operand:
    """``x - floor(x / y) * y`` with the sign of y, for float32 and float64, as Python has it.

    Exact, but for one rounding where the signs differ. NaN for y = 0 and for an infinite x.
    """
    d = _divide(k, x, y)
    rest = k.select(d.below, k.sub(k.apply("abs", y), d.rest), d.rest)
    return k.apply("copysign", rest, y)


def fmod(k: Builder, x: Operand, y: Operand) -> Operand:
    """``x - trunc(x / y) * y`` with the sign of x, for float32 and float64, as C has it.

    Exact. NaN for y = 0 and for an infinite x.
    """
    return k.apply("copysign", _divide(k, x, y).rest, x)


def _without_zero(k: Builder, y: Operand) -> Operand:
    """y, or 1 where it is 0."""
    if isinstance(y, Const) and y.value:
        return y
    return k.select(k.compare("eq", y, 0), k.const(1, y.dtype), y)


def _divide_integers(k: Builder, x: Operand, y: Operand) -> tuple[Operand, Operand, Operand]:
    """(quotient towards zero, rest, whether rounding down makes the quotient one less)."""
    divisor = _without_zero(k, y)
    quotient = k.apply("quotient", x, divisor)
    rest = k.sub(x, k.mul(quotient, divisor))
    differ = k.compare("lt", k.apply("xor", rest, y), 0)
    return quotient, rest, k.apply("and", differ, k.compare("ne", rest, 0))


def _power_of_two(y: Operand) -> int | None:
    """n where y is the constant 2**n."""
    if not isinstance(y, Const) or y.value <= 0 or int(y.value).bit_count() != 1:
        return None
    return int(y.value).bit_length() - 1


def integer_floor_divide(k: Builder, x: Operand, y: Operand) -> Operand:
    """The largest integer not above x / y; 0 for y = 0, as NumPy has it."""
    shift = _power_of_two(y)
    if shift is not None:  # x // 2**n = x >> n, of negative x too
        return k.apply("shr", x, shift) if shift else x
    quotient, _, below = _divide_integers(k, x, y)
    if x.dtype.kind == "i":
        quotient = k.sub(quotient, k.cast(below, x.dtype))
    if isinstance(y, Const) and y.value:
        return quotient
    return k.select(k.compare("eq", y, 0), 0, quotient)


def integer_remainder(k: Builder, x: Operand, y: Operand) -> Operand:
    """``x - floor(x / y) * y``, with the sign of y; 0 for y = 0, as NumPy has it."""
    shift = _power_of_two(y)
    if shift is not None:  # x % 2**n is the last n bits, of negative x too
        return k.apply("and", x, (1 << shift) - 1)
    _, rest, below = _divide_integers(k, x, y)
    if x.dtype.kind == "u":
        return rest
    return k.add(rest, k.select(below, y, 0))


def integer_fmod(k: Builder, x: Operand, y: Operand) -> Operand:
    """``x - trunc(x / y) * y``, with the sign of x; 0 for y = 0."""
    return _divide_integers(k, x, y)[1]


def gcd(k: Builder, x: Operand, y: Operand) -> Operand:
    """The greatest common divisor of integers of one dtype by Euclid's algorithm, 0 of zeros.

    It goes on while any lane has a rest, by Lame's theorem for less than 1.5 steps for each bit.
    The magnitudes are kept below 0, where the least integer has one, too.
    """
    dtype, lanes = x.dtype, max(x.lanes, y.lanes)
    signed = dtype.kind == "i"
    a, b = (k.var(k.splat(k.apply("min", n, k.neg(n)) if signed else n, lanes)) for n in (x, y))
    more = k.var(k.fold("or", k.compare("ne", b, 0)))
    with k.loop("euclid", dtype.bits * 3 // 2, going=more):
        done = k.compare("eq", b, 0)
        divisor = k.select(done, k.const(1, dtype), b)
        rest = k.apply("remainder", a, divisor)  # 0 where done
        k.set(a, k.select(done, a, b))
        k.set(b, rest)
        k.set(more, k.fold("or", k.compare("ne", rest, 0)))
    divided = k.freeze(a)
    return k.neg(divided) if signed else divided


def lcm(k: Builder, x: Operand, y: Operand) -> Operand:
    """The least common multiple of integers of one dtype, wrapping; 0 where either is 0."""
    product = k.mul(k.apply("quotient", x, _without_zero(k, gcd(k, x, y))), y)
    if x.dtype.kind == "u":
        return product
    return k.select(k.compare("lt", k.apply("xor", x, y), 0), k.neg(product), product)
