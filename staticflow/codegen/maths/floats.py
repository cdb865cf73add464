"""How floats are written: their mantissa and exponent, and the floats next to them."""

from __future__ import annotations

from math import inf

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.graph.dtypes import DType, int16, int32, int64

__all__ = ["exponent", "mantissa", "nextafter"]

_BITS: dict[int, DType] = {16: int16, 32: int32, 64: int64}


def _split(k: Builder, x: Operand) -> tuple[Operand, Operand, Operand]:
    """(m, e, whether x is finite and not 0) with ``|x| = m * 2**e`` and ``0.5 <= m < 1``."""
    a = k.apply("abs", x)
    m, e = k.apply("mantissa", a), k.apply("exponent", a)
    large = k.compare("ge", m, 1.0)
    regular = k.apply("and", k.compare("gt", a, 0.0), k.compare("lt", a, inf))
    return k.select(large, k.mul(m, 0.5), m), k.select(large, k.add(e, 1.0), e), regular


def mantissa(k: Builder, x: Operand) -> Operand:
    """The m of ``x = m * 2**e`` with ``0.5 <= |m| < 1``, for float32 and float64, exact; x where it
    is 0, infinite or NaN."""
    m, _, regular = _split(k, x)
    return k.select(regular, k.apply("copysign", m, x), x)


def exponent(k: Builder, x: Operand) -> Operand:
    """The e that belongs to `mantissa`, as a float; 0 where x is 0, infinite or NaN."""
    _, e, regular = _split(k, x)
    return k.select(regular, e, 0.0)


def nextafter(k: Builder, x: Operand, y: Operand) -> Operand:
    """The float next to x on the way to y, of any floating dtype; y where both are equal.

    Floats of one sign are in the order of their bits, so that away from 0 the next one has the next
    bits: infinity those behind the largest number.
    """
    bits = _BITS[x.dtype.bits]
    away = k.compare("eq", k.compare("lt", x, y), k.compare("gt", x, 0.0))
    moved = k.add(k.bitcast(x, bits), k.select(away, k.const(1, bits), -1))
    smallest = k.bitcast(k.const(1, bits), x.dtype)
    from_zero = k.apply("copysign", smallest, y)
    near = k.select(k.compare("eq", x, 0.0), from_zero, k.bitcast(moved, x.dtype))
    near = k.select(k.compare("eq", x, y), y, near)
    return k.select(k.compare("ne", x, x), x, k.select(k.compare("ne", y, y), y, near))
