"""`Scalars`: the builder with which ops write their elementwise lowering, ``k.exp(x)`` and others.

Every function is written in primitives of the Kernel IR, so that it inlines, is vectorised with
what surrounds it and reaches both back ends; none calls a library, and a branch
is one for what is rare, which all lanes take if any has to (`Builder.any`). NaN stays
NaN; signed zeros and infinities are as in Annex F of the C standard; results that are denormal or
about to overflow keep their accuracy. float16 and bfloat16 are computed in float32 and rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from staticflow.codegen.builder import Builder, Number
from staticflow.codegen.kernel import Const, Operand, Reg
from staticflow.codegen.maths import (
    arc,
    bessel,
    bits,
    division,
    erf,
    exp,
    floats,
    gamma,
    log,
    normal,
    powers,
    trig,
)
from staticflow.graph.dtypes import DType, bfloat16, float16, float32

__all__ = ["Scalars"]

_NARROW: tuple[DType, ...] = (float16, bfloat16)

# The exponents for which repeated multiplication stays within 2 ulp.
_SMALL_POWERS = range(-2, 5)


class Scalars(Builder):
    """A `Builder` with the mathematical functions.

    Operands have any number of lanes, scalars among vectors are splat, and a Python number beside
    an operand takes its dtype. Unless it says otherwise a function is for floating dtypes and gives
    the dtype of its operand. In float32 and float64 the error is at most 2 ulp, of the tangent
    and erfc 2.1, of erfinv 2.2, of the families of gamma and Bessel more; the docstrings in the
    modules of this folder tell what each function reaches.

    >>> from staticflow.codegen.kernel import Buffer
    >>> from staticflow.graph.dims import Sym
    >>> k = Scalars([Buffer("x", float32, "in"), Buffer("y", float32, "out")], [Sym("n")])
    >>> k.store("y", 0, k.exp(k.load("x", 0)))
    """

    def real(self, function: Callable[..., Operand], *args: Operand | Number) -> Operand:
        """``function(k, *args)``, which is written for float32 and float64, of operands of any
        floating dtype: narrow ones are widened and the result is rounded once."""
        operands = self._operands(*args)
        dtype = operands[0].dtype
        if dtype not in _NARROW:
            return function(self, *operands)
        return self.cast(function(self, *(self.cast(a, float32) for a in operands)), dtype)

    def _operands(self, *args: Operand | Number) -> tuple[Operand, ...]:
        """Python numbers as constants of the dtype of the operand beside them."""
        (dtype,) = {a.dtype for a in args if isinstance(a, (Reg, Const))}
        return tuple(self._as_operand(a, dtype) for a in args)

    # -- exponentials and logarithms -----------------------------------------------------------

    def exp(self, x: Operand) -> Operand:
        """e**x."""
        return self.real(exp.exp, x)

    def exp2(self, x: Operand) -> Operand:
        """2**x."""
        return self.real(exp.exp2, x)

    def expm1(self, x: Operand) -> Operand:
        """e**x - 1, with all digits near 0."""
        return self.real(exp.expm1, x)

    def log(self, x: Operand) -> Operand:
        """The natural logarithm; -inf at 0, NaN below."""
        return self.real(log.log, x)

    def log2(self, x: Operand) -> Operand:
        """The logarithm to base 2."""
        return self.real(log.log2, x)

    def log10(self, x: Operand) -> Operand:
        """The logarithm to base 10."""
        return self.real(log.log10, x)

    def log1p(self, x: Operand) -> Operand:
        """log(1 + x), with all digits near 0."""
        return self.real(log.log1p, x)

    def sigmoid(self, x: Operand) -> Operand:
        """1 / (1 + e**-x)."""
        return self.real(exp.sigmoid, x)

    def erf(self, x: Operand) -> Operand:
        """The error function."""
        return self.real(erf.erf, x)

    def erfc(self, x: Operand) -> Operand:
        """1 - erf(x), with all digits where erf(x) is next to 1."""
        return self.real(erf.erfc, x)

    def erfcx(self, x: Operand) -> Operand:
        """``e**(x x) erfc(x)``."""
        return self.real(erf.erfcx, x)

    def ndtr(self, x: Operand) -> Operand:
        """The probability that a standard normal number is below x."""
        return self.real(normal.ndtr, x)

    def log_ndtr(self, x: Operand) -> Operand:
        """Its logarithm, also where it is 0 itself."""
        return self.real(normal.log_ndtr, x)

    def gelu(self, x: Operand) -> Operand:
        """``x * ndtr(x)``."""
        return self.real(normal.gelu, x)

    def erfinv(self, x: Operand) -> Operand:
        """The y with erf(y) = x; NaN outside [-1, 1]."""
        return self.real(erf.erfinv, x)

    def lgamma(self, x: Operand) -> Operand:
        """The logarithm of |gamma(x)|; the module `gamma` tells how exact it is for negative x."""
        return self.real(gamma.lgamma, x)

    def digamma(self, x: Operand) -> Operand:
        """The derivative of `lgamma`."""
        return self.real(gamma.digamma, x)

    def polygamma(self, x: Operand, n: int) -> Operand:
        """The n-th derivative of `digamma`, n >= 1."""
        return self.real(lambda k, a: gamma.polygamma(k, a, n), x)

    def i0(self, x: Operand) -> Operand:
        """The modified Bessel function of the first kind of order 0."""
        return self.real(lambda k, a: bessel.bessel_i(k, a, 0), x)

    def i1(self, x: Operand) -> Operand:
        """The modified Bessel function of the first kind of order 1."""
        return self.real(lambda k, a: bessel.bessel_i(k, a, 1), x)

    def i0e(self, x: Operand) -> Operand:
        """``exp(-|x|) i0(x)``."""
        return self.real(lambda k, a: bessel.bessel_ie(k, a, 0), x)

    def i1e(self, x: Operand) -> Operand:
        """``exp(-|x|) i1(x)``."""
        return self.real(lambda k, a: bessel.bessel_ie(k, a, 1), x)

    # -- trigonometric and hyperbolic functions ------------------------------------------------

    def sin(self, x: Operand) -> Operand:
        """The sine; NaN of infinities."""
        return self.real(trig.sin, x)

    def cos(self, x: Operand) -> Operand:
        """The cosine; NaN of infinities."""
        return self.real(trig.cos, x)

    def tan(self, x: Operand) -> Operand:
        """The tangent; NaN of infinities."""
        return self.real(trig.tan, x)

    def asin(self, x: Operand) -> Operand:
        """The arc sine; NaN outside [-1, 1]."""
        return self.real(arc.asin, x)

    def acos(self, x: Operand) -> Operand:
        """The arc cosine; NaN outside [-1, 1]."""
        return self.real(arc.acos, x)

    def atan(self, x: Operand) -> Operand:
        """The arc tangent."""
        return self.real(arc.atan, x)

    def atan2(self, y: Operand | Number, x: Operand | Number) -> Operand:
        """The angle of the point (x, y), from -pi to pi."""
        return self.real(arc.atan2, y, x)

    def sinh(self, x: Operand) -> Operand:
        """The hyperbolic sine."""
        return self.real(exp.sinh, x)

    def cosh(self, x: Operand) -> Operand:
        """The hyperbolic cosine."""
        return self.real(exp.cosh, x)

    def tanh(self, x: Operand) -> Operand:
        """The hyperbolic tangent."""
        return self.real(exp.tanh, x)

    def asinh(self, x: Operand) -> Operand:
        """The inverse hyperbolic sine."""
        return self.real(log.asinh, x)

    def acosh(self, x: Operand) -> Operand:
        """The inverse hyperbolic cosine; NaN below 1."""
        return self.real(log.acosh, x)

    def atanh(self, x: Operand) -> Operand:
        """The inverse hyperbolic tangent; NaN outside [-1, 1]."""
        return self.real(log.atanh, x)

    # -- powers and roots ----------------------------------------------------------------------

    def pow(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """x**y, for integers too, which wrap. A small constant y is multiplied out."""
        base, exponent = self._operands(x, y)
        if isinstance(exponent, Const) and exponent.value in _SMALL_POWERS:
            n = int(exponent.value)
            if n >= 0 or base.dtype.is_floating:
                return self.pow_int(base, n)
        if not base.dtype.is_floating:
            return powers.integer_pow(self, base, exponent)
        return self.real(powers.pow, base, exponent)

    def pow_int(self, x: Operand, n: int) -> Operand:
        """x**n by repeated multiplication, for integers too if n >= 0 (else `ValueError`)."""
        return self.real(lambda k, a: powers.pow_int(k, a, n), x)

    def sqrt(self, x: Operand) -> Operand:
        """The square root; NaN below 0."""
        return self.apply("sqrt", x)

    def rsqrt(self, x: Operand) -> Operand:
        """1 / sqrt(x)."""
        return self.real(lambda k, a: k.div(1.0, k.apply("sqrt", a)), x)

    def reciprocal(self, x: Operand) -> Operand:
        """1 / x."""
        return self.div(1.0, x)

    def hypot(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """sqrt(x x + y y), which does not overflow on the way."""
        return self.real(powers.hypot, x, y)

    # -- rounding and division -----------------------------------------------------------------

    def floor(self, x: Operand) -> Operand:
        """The largest integer not above x."""
        return self.apply("floor", x)

    def ceil(self, x: Operand) -> Operand:
        """The smallest integer not below x."""
        return self.apply("ceil", x)

    def trunc(self, x: Operand) -> Operand:
        """x without its fraction."""
        return self.apply("trunc", x)

    def round(self, x: Operand) -> Operand:
        """The nearest integer, of two the even one."""
        return self.apply("round", x)

    def floor_divide(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """The largest integer not above x / y, for integers too; of integers 0 for y = 0."""
        a, b = self._operands(x, y)
        if a.dtype.is_floating:
            return self.real(division.floor_divide, a, b)
        return division.integer_floor_divide(self, a, b)

    def fmod(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """``x - trunc(x / y) * y``, for integers too; of integers 0 for y = 0."""
        a, b = self._operands(x, y)
        if a.dtype.is_floating:
            return self.real(division.fmod, a, b)
        return division.integer_fmod(self, a, b)

    def remainder(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """``x - floor_divide(x, y) * y``, for integers too; of integers 0 for y = 0."""
        a, b = self._operands(x, y)
        if a.dtype.is_floating:
            return self.real(division.remainder, a, b)
        return division.integer_remainder(self, a, b)

    def gcd(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """The greatest common divisor of integers; 0 of zeros."""
        return division.gcd(self, *self._operands(x, y))

    def lcm(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """The least common multiple of integers, which wraps; 0 where either is 0."""
        return division.lcm(self, *self._operands(x, y))

    # -- how floats are written ----------------------------------------------------------------

    def mantissa(self, x: Operand) -> Operand:
        """The m of ``x = m * 2**e`` with ``0.5 <= |m| < 1``; x where it is 0, infinite or NaN."""
        return self.real(floats.mantissa, x)

    def exponent(self, x: Operand) -> Operand:
        """The e that belongs to `mantissa`, as a float; 0 where x is 0, infinite or NaN."""
        return self.real(floats.exponent, x)

    def nextafter(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """The float next to x on the way to y."""
        return floats.nextafter(self, *self._operands(x, y))

    # -- bits of integers ----------------------------------------------------------------------

    def left_shift(self, x: Operand | Number, n: Operand | Number) -> Operand:
        """x * 2**n, wrapping; 0 for an n outside [0, bits)."""
        return bits.left_shift(self, *self._operands(x, n))

    def right_shift(self, x: Operand | Number, n: Operand | Number) -> Operand:
        """x / 2**n rounded down; 0 or -1, the sign, for an n outside [0, bits)."""
        return bits.right_shift(self, *self._operands(x, n))

    def threefry(self, key: Operand, counter: Operand) -> Operand:
        """64 random bits, as an int64, of a key and a counter in int64."""
        return bits.threefry(self, key, counter)

    # -- signs, extremes and tests, of integers too --------------------------------------------

    def abs(self, x: Operand) -> Operand:
        """|x|; the least integer stays as it is."""
        return x if x.dtype.kind == "u" else self.apply("abs", x)

    def neg(self, x: Operand) -> Operand:
        """-x; integers wrap."""
        return self.sub(0, x) if x.dtype.kind == "u" else self.apply("neg", x)

    def sign(self, x: Operand) -> Operand:
        """-1, 0 or 1 with the sign of x; 0 for zeros and NaN."""
        if x.dtype.kind == "u":
            return self.apply("min", x, 1)
        if x.dtype.kind == "i":
            return self.apply("max", self.apply("min", x, 1), -1)
        below = self.select(self.compare("lt", x, 0.0), self.const(-1.0, x.dtype), 0.0)
        return self.select(self.compare("gt", x, 0.0), 1.0, below)

    def relu(self, x: Operand) -> Operand:
        """0 where x is below it, else x: NaN stays, and x86 has it in one instruction."""
        return self.select(self.compare("gt", self.const(0, x.dtype), x), 0, x)

    def maximum(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """The larger; NaN if either is NaN."""
        return self.apply("max", x, y)

    def minimum(self, x: Operand | Number, y: Operand | Number) -> Operand:
        """The smaller; NaN if either is NaN."""
        return self.apply("min", x, y)

    def isnan(self, x: Operand) -> Operand:
        """Whether x is NaN, a bool."""
        return self.compare("ne", x, x)

    def isinf(self, x: Operand) -> Operand:
        """Whether x is infinite, a bool."""
        return self.compare("eq", self.apply("abs", x), inf)

    def isfinite(self, x: Operand) -> Operand:
        """Whether x is neither infinite nor NaN, a bool."""
        return self.compare("lt", self.apply("abs", x), inf)
