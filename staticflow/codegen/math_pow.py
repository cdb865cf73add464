"""Powers: x**y of floats to the last bits, x**n for a known n, and powers of integers.

The power of floats is ``2**(y * log2 |x|)`` with the logarithm and the product carried as the
unevaluated sum of two floats, for a relative error of the product is multiplied by its size, which
may be 1075. Sums and products of such pairs are Dekker's ("A floating-point technique for extending
the available precision", 1971), with fma for the exact product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.math_exp import EXP2_RANGE, exp2_fraction
from staticflow.codegen.math_parts import (
    FORMATS,
    at_least,
    at_most,
    integer_to_float,
    nearest_integer,
    polynomial,
    scale,
    split_exponent,
    split_normal,
)
from staticflow.graph.dtypes import DType, float32, float64

__all__ = ["integer_pow", "pow", "pow_int"]

# log((1 + s) / (1 - s)) = 2 s + s**3 * (2/3 + s**2 * P(s**2)), |s| <= 0.1716, to 2**-36.8 and
# 2**-66.3 of the whole.
LOG: dict[DType, tuple[float, ...]] = {
    float32: (0.40000153, 0.28547078, 0.23420139),
    float64: (
        0.4000000000000229, 0.2857142857008275, 0.22222222523067708, 0.18181784080661292,
        0.15386771005213118, 0.13256489016621667, 0.13199469058329313,
    ),
}  # fmt: skip

# 2/3 and log2(e), each as the sum of two floats.
TWO_THIRDS: dict[DType, tuple[float, float]] = {
    float32: (0.6666666865348816, -1.98682155e-08),
    float64: (0.6666666666666666, 3.700743415417188e-17),
}
LOG2_E: dict[DType, tuple[float, float]] = {
    float32: (1.4426950216293335, 1.9259630335e-08),
    float64: (1.4426950408889634, 2.0355273740931033e-17),
}

# An exponent y past this gives 0, 1 or infinity for every x, so that it need not be larger.
LARGEST_EXPONENT: dict[DType, float] = {float32: 2.0**40, float64: 2.0**70}


@dataclass(frozen=True, slots=True)
class _Pair:
    """The number ``high + low``, low being at most about a unit in the last place of high."""

    high: Operand
    low: Operand


def _sum(k: Builder, a: Operand | float, b: Operand) -> _Pair:
    """a + b exactly, where a is zero or the larger one."""
    high = k.add(a, b)
    return _Pair(high, k.sub(b, k.sub(high, a)))


def _product(k: Builder, a: _Pair, b: _Pair) -> _Pair:
    """a * b but for the product of the low parts."""
    high = k.mul(a.high, b.high)
    low = k.fma(a.high, b.high, k.neg(high))
    return _Pair(high, k.fma(a.low, b.high, k.fma(a.high, b.low, low)))


def _constant(k: Builder, parts: tuple[float, float], dtype: DType) -> _Pair:
    return _Pair(k.const(parts[0], dtype), k.const(parts[1], dtype))


def _log2(k: Builder, x: Operand) -> _Pair:
    """log2(x) of a positive finite x, to about 2**-35 and 2**-65 of it.

    ``x = m * 2**e`` with m in [1/sqrt(2), sqrt(2)] and ``log(m) = log((1 + s) / (1 - s))`` with
    ``s = (m - 1) / (m + 1)``.
    """
    m, e = split_normal(k, x, 0.5**0.5)
    f = k.sub(m, 1.0)
    divisor = _sum(k, m, k.const(1.0, x.dtype)) if False else None
    raise NotImplementedError
