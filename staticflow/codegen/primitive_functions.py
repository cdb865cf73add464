"""The primitives of Kernel IR on arrays of NumPy, exact to the bit, for the interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from staticflow.graph.dtypes import DType, bool_

__all__ = ["FUNCTIONS", "Array", "cast_array"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def cast_array(value: Array, dtype: DType) -> Array:
    """Elements in another dtype, as `Cast` says: anything to bool is ``!= 0``."""
    if dtype is bool_:
        return np.asarray(value != 0)
    return value.astype(dtype.numpy)


def _quotient(a: Array, b: Array) -> Array:
    """Towards zero, by Python's integers; the one quotient that is out of range wraps."""
    exact = (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in _pairs(a, b))
    return np.array([_wrap(q, a.dtype) for q in exact], a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    exact = (abs(x) % abs(y) * (-1 if x < 0 else 1) for x, y in _pairs(a, b))
    return np.array(list(exact), a.dtype)


def _pairs(a: Array, b: Array) -> list[tuple[int, int]]:
    return list(zip(map(int, a), map(int, b), strict=True))


def _wrap(value: int, dtype: np.dtype[Any]) -> int:
    limits = np.iinfo(dtype)
    return (value - int(limits.min)) % (1 << limits.bits) + int(limits.min)


def _mantissa(a: Array) -> Array:
    m, _ = _parts(a)
    return np.select([a == 0, a == np.inf], [1.0, 1.0], m).astype(a.dtype)


def _exponent(a: Array) -> Array:
    _, e = _parts(a)
    return np.select([a == 0, a == np.inf], [-np.inf, np.inf], e).astype(a.dtype)


def _parts(a: Array) -> tuple[Array, Array]:
    """m and e with ``a = m * 2**e`` and ``3/4 <= m < 3/2`` of finite positive numbers; NaN of what
    is not positive."""
    m, e = np.frexp(np.where(a > 0, a.astype(np.float64), np.nan))
    low = m < 0.75
    return np.where(low, m + m, m), np.where(np.isnan(m), m, e - 1.0 * low)


def _fma(a: Array, b: Array, c: Array) -> Array:
    values = zip(map(float, a), map(float, b), map(float, c), strict=True)
    return np.array([_fma_once(*v, a.dtype) for v in values], a.dtype)


def _fma_once(a: float, b: float, c: float, dtype: np.dtype[Any]) -> float:
    """``a * b + c`` as the float64 that rounds to the right ``dtype``."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        # The sign of an exact zero: that of both terms where they agree, else +.
        return a * b + c if Fraction(a) * Fraction(b) == 0 else 0.0
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if dtype == np.float64 or Fraction(nearest) == exact:
        return nearest
    # Rounding to odd keeps the second rounding, to the narrower dtype, right (Boldo and Melquiond,
    # "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd").
    is_odd = int(np.float64(nearest).view(np.int64)) & 1
    towards = math.inf if exact > Fraction(nearest) else -math.inf
    return nearest if is_odd else math.nextafter(nearest, towards)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fma": _fma,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "mantissa": _mantissa,
    "exponent": _exponent,
    "copysign": np.copysign,
    "quotient": _quotient,
    "remainder": _remainder,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "max": np.maximum,
    "min": np.minimum,
    "select": np.where,
}
"""What each primitive gives of the lanes of its operands."""
