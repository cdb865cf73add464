"""What the mathematical functions are made of: number formats, polynomials, powers of two."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, float32, float64, int32, int64

__all__ = [
    "FORMATS",
    "Format",
    "at_least",
    "at_most",
    "nearest_integer",
    "polynomial",
    "power_of_two",
    "scale",
    "sign_bit",
]


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE 754 binary format: ``fraction`` stored bits, exponents biased by ``bias``."""

    dtype: DType
    integer: DType
    fraction: int
    bias: int

    @property
    def magic(self) -> float:
        """1.5 * 2**fraction. Added to a small number it leaves the nearest integer, ties to even,
        in the low end of the fraction, whose own bits are zero."""
        return 1.5 * 2.0**self.fraction

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with a full fraction."""
        return 2.0 ** (1 - self.bias)


FORMATS: dict[DType, Format] = {
    float32: Format(float32, int32, fraction=23, bias=127),
    float64: Format(float64, int64, fraction=52, bias=1023),
}


_LONG, _SHORT = 14, 8
"""From how many coefficients on a polynomial is worked out in several chains of operations, and
how many a chain has at most."""


def polynomial(k: Builder, x: Operand, coefficients: Sequence[float]) -> Operand:
    """``sum(c * x**i)``, constant coefficient first; two or more of them.

    By Horner's rule, which is one chain of operations, each of which waits for the one before it. A
    CPU sees only so many operations ahead; so the terms behind the first two of a long polynomial
    are worked out in several chains. Those two, which count most, are added last, as by Horner.
    """
    if len(coefficients) >= _LONG:
        first, second, *rest = coefficients
        return k.fma(k.fma(_in_chains(k, x, rest), x, second), x, first)
    *others, last = coefficients
    value: Operand | float = last
    for c in reversed(others):
        value = k.fma(value, x, c)
    assert not isinstance(value, float)
    return value


def _in_chains(k: Builder, x: Operand, coefficients: Sequence[float]) -> Operand:
    """The polynomial by even and odd powers apart, and by those again."""
    if len(coefficients) <= _SHORT:
        return polynomial(k, x, coefficients)
    square = k.mul(x, x)
    even, odd = (_in_chains(k, square, coefficients[i::2]) for i in (0, 1))
    return k.fma(odd, x, even)


def at_most(k: Builder, x: Operand, limit: float) -> Operand:
    """The smaller of both; NaN stays NaN. One instruction on x86, unlike the primitive ``min``."""
    return k.select(k.compare("gt", x, limit), limit, x)


def at_least(k: Builder, x: Operand, limit: float) -> Operand:
    """The larger of both; NaN stays NaN."""
    return k.select(k.compare("lt", x, limit), limit, x)


def nearest_integer(
    k: Builder, x: Operand, factor: float, bias: int = 0
) -> tuple[Operand, Operand]:
    """The integer n nearest to ``x * factor``, as a float, and bits whose low end is ``n + bias``.

    Right for ``|n| < 2**(fraction - 2)``. The bits are those of a float near `Format.magic`, so
    that shifting them left by ``fraction`` leaves nothing but the low end.
    """
    f = FORMATS[x.dtype]
    shift = f.magic + bias
    shifted = k.add(x, shift) if factor == 1.0 else k.fma(x, factor, shift)
    return k.sub(shifted, shift), k.bitcast(shifted, f.integer)


def power_of_two(k: Builder, biased: Operand, f: Format) -> Operand:
    """``2**(e - f.bias)``, where e is the low end of ``biased``, a normal number's exponent."""
    return k.bitcast(k.apply("shl", biased, f.fraction), f.dtype)


def scale(k: Builder, x: Operand, twice: Operand) -> Operand:
    """``x * 2**n``, rounded once, where the low end of ``twice`` is ``n + 2 * bias``.

    In two steps, so that results that are denormal or overflow come out right: n may be anything
    from ``-2 * bias`` to ``2 * bias``; of the least two a factor is 0.
    """
    f = FORMATS[x.dtype]
    half = k.apply("shr", twice, 1)
    rest = k.sub(twice, half)
    return k.mul(k.mul(x, power_of_two(k, half, f)), power_of_two(k, rest, f))


def sign_bit(k: Builder, x: Operand) -> Operand:
    """Whether the sign bit is set: true for -0.0, unlike ``x < 0``."""
    return k.compare("lt", k.bitcast(x, FORMATS[x.dtype].integer), 0)
