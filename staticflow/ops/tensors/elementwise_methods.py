"""The methods of tensors that work element by element, and their in-place forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from staticflow.ops.basics import arithmetic as ar
from staticflow.ops.declaring.foreign import NumbersChecked, foreign_errors, refuse_foreign
from staticflow.ops.declaring.other_names import with_own_names
from staticflow.ops.elementwise import (
    bessel,
    bits,
    compare,
    floats,
    gamma,
    maths,
    pairs,
    special,
    trig,
    variants,
)
from staticflow.ops.random import fills, sampling
from staticflow.ops.tensors import shortcuts

__all__ = ["STORED_BY", "ElementwiseMethods", "in_place"]

Function = Callable[..., Any]

STORED_BY: dict[Function, Function] = {}
"""What gives the value that an in-place method stores, by method."""


def in_place(fn: Function, name: str = "") -> Function:
    """The form that stores what ``fn`` gives in the tensor itself; errors call it ``name``, or as
    ``fn`` is called, with an underscore."""

    name = name or getattr(fn, "__name__", "") or getattr(fn, "name", "")
    checked = NumbersChecked.of(fn)

    @wraps(fn, (), ())  # of which it has the signature
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                kwargs = with_own_names(fn, kwargs)
            if checked is not None and (key := checked.key(args, kwargs)) not in checked.passed:
                checked.check(f"{name}_", key, (self, *args), kwargs)
            return self._update(fn, args, kwargs)
        except foreign_errors() as error:
            refuse_foreign(fn, f"{name}_", error, (self, *args), kwargs)
            raise

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"`{name}` in place."
    STORED_BY[method] = fn
    return method


def drawn_in_place(name: str, fn: Function) -> Function:
    """The form that fills the tensor itself with the numbers that ``fn`` draws."""

    @sampling.gives_back  # also where what was drawn does not fit
    @wraps(fn, (), ())
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._assign(fn(self, *args, **kwargs))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Fill the tensor with: {fn.__doc__}"
    STORED_BY[method] = fn
    return method


class ElementwiseMethods:
    """What tensors of both modes have of the functions of numbers: a function by each name."""

    __slots__ = ()

    # arithmetic
    add, sub, div, mul, neg = variants.add, variants.sub, variants.div, ar.mul, ar.neg
    remainder, floor_divide, fmod = ar.remainder, ar.floor_divide, pairs.fmod
    addcmul, addcdiv, lerp, hypot = pairs.addcmul, pairs.addcdiv, pairs.lerp, pairs.hypot
    float_power, gcd, lcm = pairs.float_power, pairs.gcd, pairs.lcm
    subtract, divide, true_divide, multiply, negative = sub, div, div, mul, neg
    # powers and logarithms
    pow, square, sqrt, rsqrt = maths.pow, maths.square, maths.sqrt, maths.rsqrt
    reciprocal, exp, exp2, expm1 = maths.reciprocal, maths.exp, maths.exp2, maths.expm1
    log, log2, log10, log1p = maths.log, maths.log2, maths.log10, maths.log1p
    logaddexp, logaddexp2, logit = pairs.logaddexp, pairs.logaddexp2, pairs.logit
    xlogy, ldexp = pairs.xlogy, shortcuts.ldexp
    # trigonometric and hyperbolic functions
    sin, cos, tan, asin, acos, atan = trig.sin, trig.cos, trig.tan, trig.asin, trig.acos, trig.atan
    atan2, sinh, cosh, tanh, asinh = trig.atan2, trig.sinh, trig.cosh, trig.tanh, trig.asinh
    acosh, atanh, deg2rad, rad2deg = trig.acosh, trig.atanh, trig.deg2rad, trig.rad2deg
    arcsin, arccos, arctan, arctan2, arcsinh, arccosh = asin, acos, atan, atan2, asinh, acosh
    arctanh = atanh
    # special functions and activations
    erf, erfc, erfinv, sinc = special.erf, special.erfc, special.erfinv, special.sinc
    lgamma, digamma, polygamma = gamma.lgamma, gamma.digamma, gamma.polygamma_method
    mvlgamma, i0 = gamma.mvlgamma, bessel.i0
    sigmoid, relu = maths.sigmoid, maths.relu
    # signs and rounding
    abs, sign, floor, ceil, trunc = maths.abs, maths.sign, maths.floor, maths.ceil, maths.trunc
    frac, round, copysign, heaviside = maths.frac, variants.round, pairs.copysign, pairs.heaviside
    absolute, sgn, fix, positive = abs, sign, trunc, shortcuts.positive
    frexp, nextafter = floats.frexp, floats.nextafter
    # bounds
    clamp, maximum, minimum, fmax, fmin = ar.clamp, ar.maximum, ar.minimum, pairs.fmax, pairs.fmin
    nan_to_num = compare.nan_to_num
    clip, clamp_min, clamp_max = clamp, shortcuts.clamp_min, shortcuts.clamp_max
    # comparison and logic
    lt, le, gt, ge, eq, ne, logical_and = ar.lt, ar.le, ar.gt, ar.ge, ar.eq, ar.ne, ar.logical_and
    logical_or, logical_xor, logical_not = ar.logical_or, ar.logical_xor, ar.logical_not
    isnan, isinf, isfinite, isposinf = maths.isnan, maths.isinf, maths.isfinite, compare.isposinf
    isneginf, signbit, isclose = compare.isneginf, compare.signbit, compare.isclose
    isreal = shortcuts.isreal
    allclose, equal = compare.allclose, compare.equal
    less, less_equal, greater, greater_equal, not_equal = lt, le, gt, ge, ne
    # bits
    bitwise_and, bitwise_or, bitwise_xor = bits.bitwise_and, bits.bitwise_or, bits.bitwise_xor
    bitwise_not, bitwise_left_shift = bits.bitwise_not, bits.bitwise_left_shift
    bitwise_right_shift = bits.bitwise_right_shift
    # random numbers
    bernoulli, multinomial = sampling.bernoulli, sampling.multinomial

    # -- in-place forms -----------------------------------------------------------------------

    add_, sub_, div_ = in_place(variants.add), in_place(variants.sub), in_place(variants.div)
    mul_, neg_, remainder_ = in_place(ar.mul), in_place(ar.neg), in_place(ar.remainder)
    floor_divide_, fmod_ = in_place(ar.floor_divide), in_place(pairs.fmod)
    addcmul_, addcdiv_ = in_place(pairs.addcmul), in_place(pairs.addcdiv)
    lerp_, hypot_ = in_place(pairs.lerp), in_place(pairs.hypot)
    gcd_, lcm_ = in_place(pairs.gcd), in_place(pairs.lcm)
    float_power_, pow_ = in_place(pairs.float_power), in_place(maths.pow)
    square_, sqrt_, rsqrt_ = in_place(maths.square), in_place(maths.sqrt), in_place(maths.rsqrt)
    reciprocal_, exp_, exp2_ = in_place(maths.reciprocal), in_place(maths.exp), in_place(maths.exp2)
    expm1_, log_, log2_ = in_place(maths.expm1), in_place(maths.log), in_place(maths.log2)
    log10_, log1p_, logit_ = in_place(maths.log10), in_place(maths.log1p), in_place(pairs.logit)
    xlogy_, sin_, cos_ = in_place(pairs.xlogy), in_place(trig.sin), in_place(trig.cos)
    tan_, asin_, acos_ = in_place(trig.tan), in_place(trig.asin), in_place(trig.acos)
    atan_, atan2_, sinh_ = in_place(trig.atan), in_place(trig.atan2), in_place(trig.sinh)
    cosh_, tanh_, asinh_ = in_place(trig.cosh), in_place(trig.tanh), in_place(trig.asinh)
    acosh_, atanh_, deg2rad_ = in_place(trig.acosh), in_place(trig.atanh), in_place(trig.deg2rad)
    rad2deg_, erf_, erfc_ = in_place(trig.rad2deg), in_place(special.erf), in_place(special.erfc)
    erfinv_, sinc_ = in_place(special.erfinv), in_place(special.sinc)
    lgamma_, digamma_ = in_place(gamma.lgamma), in_place(gamma.digamma)
    polygamma_ = in_place(gamma.polygamma_method, "polygamma")
    mvlgamma_ = in_place(gamma.mvlgamma)
    i0_ = in_place(bessel.i0)
    sigmoid_, relu_, abs_ = in_place(maths.sigmoid), in_place(maths.relu), in_place(maths.abs)
    sign_, floor_, ceil_ = in_place(maths.sign), in_place(maths.floor), in_place(maths.ceil)
    trunc_, frac_, round_ = in_place(maths.trunc), in_place(maths.frac), in_place(variants.round)
    copysign_, heaviside_ = in_place(pairs.copysign), in_place(pairs.heaviside)
    nextafter_ = in_place(floats.nextafter)
    clamp_min_, clamp_max_ = in_place(shortcuts.clamp_min), in_place(shortcuts.clamp_max)
    ldexp_ = in_place(shortcuts.ldexp)
    clamp_, nan_to_num_, lt_ = in_place(ar.clamp), in_place(compare.nan_to_num), in_place(ar.lt)
    le_, gt_, ge_, eq_ = in_place(ar.le), in_place(ar.gt), in_place(ar.ge), in_place(ar.eq)
    ne_, logical_and_ = in_place(ar.ne), in_place(ar.logical_and)
    logical_or_, logical_xor_ = in_place(ar.logical_or), in_place(ar.logical_xor)
    logical_not_, bitwise_and_ = in_place(ar.logical_not), in_place(bits.bitwise_and)
    bitwise_or_, bitwise_xor_ = in_place(bits.bitwise_or), in_place(bits.bitwise_xor)
    bitwise_not_ = in_place(bits.bitwise_not)
    bitwise_left_shift_ = in_place(bits.bitwise_left_shift)
    bitwise_right_shift_ = in_place(bits.bitwise_right_shift)
    uniform_ = drawn_in_place("uniform_", fills.uniform_like)
    normal_ = drawn_in_place("normal_", fills.normal_like)
    bernoulli_ = drawn_in_place("bernoulli_", fills.bernoulli_like)
    exponential_ = drawn_in_place("exponential_", fills.exponential_like)
    log_normal_ = drawn_in_place("log_normal_", fills.log_normal_like)
    cauchy_ = drawn_in_place("cauchy_", fills.cauchy_like)
    geometric_ = drawn_in_place("geometric_", fills.geometric_like)
    random_ = drawn_in_place("random_", fills.random_like)
    subtract_, divide_, true_divide_, multiply_, negative_ = sub_, div_, div_, mul_, neg_
    arcsin_, arccos_, arctan_, arctan2_, arcsinh_ = asin_, acos_, atan_, atan2_, asinh_
    arccosh_, arctanh_, absolute_, sgn_, fix_, clip_ = acosh_, atanh_, abs_, sign_, trunc_, clamp_
    less_, less_equal_, greater_, greater_equal_, not_equal_ = lt_, le_, gt_, ge_, ne_
