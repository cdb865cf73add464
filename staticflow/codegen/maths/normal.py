"""The normal distribution: the probability of less than a number, and GELU, which is made of it."""

from __future__ import annotations

from math import sqrt

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.erf import ERFC_HIGHEST, erfc_of_positive, erfcx
from staticflow.codegen.maths.exp import EXP, LOG2_E
from staticflow.codegen.maths.formats import (
    FORMATS,
    at_least,
    at_most,
    nearest_integer,
    polynomial,
    power_of_two,
)
from staticflow.codegen.maths.log import log, log1p
from staticflow.graph.dtypes import float32

__all__ = ["gelu", "log_ndtr", "ndtr"]

# The square root of 1/2 is high + low.
ROOT_HALF_HIGH, ROOT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17

# Past the limits the probability of less than -a is 0: as such, or by that of erfc.
HIGHEST, HIGHEST_DOUBLE = 14.42, 38.8
# Of float32: e**(a a / 2) times the probability of less than -a, for 0 <= a up to the limit, as
# P / Q to 2**-26.2: a minimax quotient of our own, by Lawson's weights, coefficients rounded one
# after another.
ABOVE = (0.5, 0.4376059, 0.18271275, 0.040453907, 0.0040887897)
BELOW = (1.0, 1.6730967, 1.2003592, 0.468089, 0.101409525, 0.010248953)
# ln 2 = high + low, where n * high is exact for ``|n| < 256``.
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.4286068203094172e-06
# Powers of two are kept normal by this many binary places, which are taken back at the end.
SPARE = 48


def ndtr(k: Builder, x: Operand) -> Operand:
    """The probability that a standard normal number is below x, within 4.9 ulp for float32 and 4.2
    for float64, denormal results included."""
    narrow = x.dtype is float32
    tail = _tail(k, x) if narrow else _tail_by_erfc(k, k.apply("abs", x))
    return k.select(k.compare("gt", x, 0.0), k.sub(1.0, tail), tail)


def log_ndtr(k: Builder, x: Operand) -> Operand:
    """The logarithm of `ndtr`, also where that is 0: for x below -1 by the scaled complement of the
    error function, within 5 ulp."""
    h = k.mul(x, sqrt(0.5))
    tail = k.fma(k.mul(x, -0.5), x, log(k, k.mul(erfcx(k, k.neg(h)), 0.5)))
    return k.select(k.compare("lt", x, -1.0), tail, log1p(k, k.neg(ndtr(k, k.neg(x)))))


def gelu(k: Builder, x: Operand) -> Operand:
    """``x * ndtr(x)`` as ``max(x, 0) - a ndtr(-a)`` for ``a = |x|``, within 5.2 ulp for float32 and
    4.7 for float64 down to -37, from where on the probability is denormal."""
    above = at_least(k, x, -0.0)
    if x.dtype is float32:
        return k.fma(_tail_scaled(k, x, times_a=True), -(0.5**SPARE), above)
    a = at_most(k, k.apply("abs", x), HIGHEST_DOUBLE)
    return k.fma(k.neg(a), _tail_by_erfc(k, a), above)


def _tail(k: Builder, x: Operand) -> Operand:
    """The probability of less than ``-|x|``, for float32."""
    return k.mul(_tail_scaled(k, x), 0.5**SPARE)


def _tail_scaled(k: Builder, x: Operand, times_a: bool = False) -> Operand:
    """The tail times ``2**SPARE``, and times ``a = |x|`` if that is asked for. The quotient and the
    power do not wait for each other."""
    f = FORMATS[float32]
    a = at_most(k, k.apply("abs", x), HIGHEST)
    # -a a / 2 = n ln 2 + r, by twice of it: what the square loses to rounding is none of r
    n, bits = nearest_integer(k, k.mul(a, a), -LOG2_E / 2, f.bias + SPARE)
    r = k.fma(k.neg(a), a, k.mul(n, -2 * LN2_HIGH))
    r = k.fma(n, -2 * LN2_LOW, r)
    # e**(r / 2) = 1 + r q
    q = polynomial(k, r, tuple(c / 2 ** (i + 1) for i, c in enumerate((1.0, *EXP[float32]))))
    above = polynomial(k, a, ABOVE)
    ratio = k.div(k.mul(above, a) if times_a else above, polynomial(k, a, BELOW))
    ratio = k.mul(ratio, power_of_two(k, bits, f))
    ratio = k.select(k.compare("ge", a, HIGHEST), 0.0, ratio)
    return k.fma(ratio, k.mul(r, q), ratio)


def _tail_by_erfc(k: Builder, a: Operand) -> Operand:
    """The tail in float64: half of ``erfc(h)`` for ``h = a sqrt(1/2)``, and what ``h`` lost to
    rounding times the derivative, which is next to ``-2 h erfc(h)`` where that matters."""
    h = k.mul(a, ROOT_HALF_HIGH)
    lost = k.fma(a, ROOT_HALF_LOW, k.fma(a, ROOT_HALF_HIGH, k.neg(h)))
    tail = k.mul(erfc_of_positive(k, at_most(k, h, ERFC_HIGHEST[h.dtype])), 0.5)
    change = k.mul(tail, k.mul(k.mul(h, -2.0), lost))
    return k.add(tail, k.select(k.compare("gt", tail, 0.0), change, 0.0))  # not of infinity
