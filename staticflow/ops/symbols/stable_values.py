"""Values that stand in the place of forms that lose theirs at the extremes, as ``expm1(x)`` does of
``exp(x) - 1``: the rules of `stable_forms` find the forms, and call these.

Each function is right there in value, gradient and second derivative. Where the gradient of what is
said would lose what that of what was written keeps, it is that of something equal: the ``history``
of `keep_history`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from staticflow.graph.dims import prod
from staticflow.graph.node import Node
from staticflow.ops.along.extremes import supremum_op
from staticflow.ops.along.softmax import logsumexp_op, softmax_op
from staticflow.ops.basics.arithmetic import (
    add,
    div,
    keep_history,
    logical_and,
    logical_or,
    maximum,
    mul,
    neg,
    stop_gradient,
    where,
)
from staticflow.ops.basics.creation import ones_like
from staticflow.ops.basics.reduce import mean_op, sum_op
from staticflow.ops.basics.view import squeeze_op
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.maths import (
    abs,
    exp,
    expm1,
    isfinite,
    log,
    log1p,
    reciprocal,
    sigmoid,
    sign,
    sqrt,
)
from staticflow.ops.elementwise.pairs import hypot, logaddexp
from staticflow.ops.elementwise.special import erf, erfc, log_ndtr, ndtr, sinc
from staticflow.ops.elementwise.trig import cosh, sin, sinh, tanh
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.statistics.moments import vector_norm_op
from staticflow.ops.symbols.pattern import number_of
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "LN2", "accurate_expm1", "accurate_sigmoid", "accurate_tanh", "direction", "expm1_over_x",
    "has_own_log", "hypotenuse", "log1p_over_x", "log_cosh", "log_divided", "log_erfc",
    "log_mean_exp", "log_of_inverse", "log_one_minus_exp", "log_ratio", "log_scaled", "log_sum",
    "log_sum_with", "norm", "power_of_2", "power_of_2_of_ratio", "power_of_e", "root_of_squares",
    "sin_x_over_x", "sinc_near_0", "softmax", "softmax_times", "softplus", "times_minus",
    "variance", "x_over_expm1",
]  # fmt: skip

LN2 = math.log(2)


# -- signs ----------------------------------------------------------------------------------------


def times_minus(x: Any, c: Any) -> Any:
    """``x`` times minus the number that one of both is."""
    for value, factor in ((x, c), (c, x)):
        number = number_of(factor.node)
        if number is not None:
            return value * -number
    return None


# -- exponentials -------------------------------------------------------------------------------


def power_of_e(x: Any, c: Any) -> Any:
    """``c ** x`` where ``c`` is e as the dtype has it."""
    return exp(x) if _is_number(c, math.e, x) else None


def power_of_2(x: Any, c: Any) -> Any:
    """``2 ** (x c)`` where one of both is 1 / log 2 as the dtype has it."""
    for value, factor in ((x, c), (c, x)):
        if _is_number(factor, 1 / LN2, value):
            return exp(value)
    return None


def power_of_2_of_ratio(x: Any, c: Any) -> Any:
    """``2 ** (x / c)`` where ``c`` is log 2 as the dtype has it."""
    return exp(x) if _is_number(c, LN2, x) else None


def _is_number(c: Any, number: float, x: Any) -> bool:
    """Whether ``c`` is a number everywhere, rounded to the dtype of ``x``, floats, or not."""
    return x.dtype.is_floating and number_of(c.node) in (number, float(x.dtype.numpy.type(number)))


# -- functions of one exponential ------------------------------------------------------------------


def accurate_sigmoid(x: Any) -> Any:
    """``sigmoid(x)``, whose derivatives are right where it is next to 1, too: the op's own, of the
    result alone, takes that from 1."""
    return exp(logsigmoid(x))


def accurate_tanh(x: Any) -> Any:
    """``tanh(x)``, whose derivatives are right where it is next to 1 and -1, too."""
    near = abs(x) < 1
    far = accurate_sigmoid(where(near, 1.0, x) * 2.0) * 2.0
    return keep_history(where(near, tanh(where(near, x, 0.0)), far), tanh(x))


def accurate_expm1(x: Any) -> Any:
    """``expm1(x)``, whose derivatives are right where it is next to -1, too."""
    return keep_history(exp(x), expm1(x))


def softplus(x: Any) -> Any:
    """``log(1 + exp(x))``."""
    return neg(logsigmoid(neg(x)))


def log_cosh(x: Any) -> Any:
    """``log(cosh(x))``: near 0 by the sine of half of it."""
    size = abs(x)
    near = size < 1
    half = sinh(where(near, x, 0.0) * 0.5)
    far = where(near, 1.0, size)
    return where(near, log1p(half * half * 2.0), far + (softplus(far * -2.0) - LN2))


def log_one_minus_exp(x: Any) -> Any:
    """``log(1 - exp(x))``, below ``-log 2`` by one function and above it by the other (Maechler
    2012, "Accurately computing log(1 - exp(-|a|))"). Of a choice, as it is made of, it is none."""
    if x.node.op is where:
        return None
    near = x > -LN2
    return where(near, log(neg(expm1(where(near, x, -1.0)))), log1p(neg(exp(where(near, -1.0, x)))))


# -- logarithms ------------------------------------------------------------------------------------


def log_sum(x: Any, y: Any, c: Any = 1.0, d: Any = 1.0) -> Any:
    """``log(c exp(x) + d exp(y))``; None where ``c`` or ``d`` is no positive number."""
    logs = [_log_of_number(n) for n in (c, d)]
    if None in logs:
        return None
    a, b = (v if n == 0 else v + n for v, n in zip((x, y), logs, strict=True))
    return logaddexp(a, b)


def log_sum_with(x: Any, n: Any, c: Any = 1.0) -> Any:
    """``log(c exp(x) + n)``; None where ``c`` or ``n`` is no positive number, of two ones, which
    other forms are for, and of a sigmoid: it does not overflow, and beside a number it does not
    matter where it underflows."""
    above, beside = (_log_of_number(v) for v in (c, n))
    if above is None or beside is None or above == beside == 0 or x.node.op is logsigmoid:
        return None
    found = softplus(x + (above - beside) if above != beside else x)
    return found + beside if beside else found


def _log_of_number(x: Any) -> float | None:
    """The logarithm of what is a positive number, the same everywhere."""
    number = number_of(x.node) if isinstance(x, Symbol) else x
    return math.log(number) if number is not None and 0 < number < math.inf else None


def log_scaled(x: Any, c: Any) -> Any:
    """``log(x c)``, where one of the two is a positive number and the other is positive and has a
    logarithm that a form says otherwise."""
    for value, factor in ((x, c), (c, x)):
        added = _log_of_number(factor)
        if added is not None and has_own_log(value.node):
            return log(value) + added
    return None


def log_divided(x: Any, c: Any) -> Any:
    """``log(x / c)``, of such a value and such a number."""
    less = _log_of_number(c)
    return log(x) - less if less is not None and has_own_log(x.node) else None


def log_of_inverse(x: Any) -> Any:
    """``log(1 / x)``."""
    return -log(x) if has_own_log(x.node) else log_ratio(ones_like(x), x)


def has_own_log(node: Node) -> bool:
    """Whether a node is positive, and its logarithm is said by a form for just that."""
    if node.op in (sum_op, mean_op):
        return node.args[0].op is exp
    if node.op in (add, mul, div) and all(map(_is_multiple_of_exp, node.args)):
        return True
    if node.op in (mul, div, reciprocal):
        numbers = [n for a in node.args if (n := number_of(a)) is not None]
        others = [a for a in node.args if number_of(a) is None]
        return len(others) == 1 and all(n > 0 for n in numbers) and has_own_log(others[0])
    return node.op in (exp, cosh, erfc, ndtr, sigmoid, softmax_op)


def _is_multiple_of_exp(node: Node) -> bool:
    """Whether a node is an exponential, such a one times a positive number, or that number."""
    if node.op in (mul, div):
        return all(map(_is_multiple_of_exp, node.args))
    return node.op is exp or _log_of_number(Symbol(node)) is not None


def log_mean_exp(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """``log(mean(exp(x)))`` over ``dims``."""
    total = logsumexp_op(x, dims=dims, keepdim=keepdim)
    return total - log(ones_like(total) * prod(x.shape[d] for d in dims))


def log_ratio(a: Any, b: Any) -> Any:
    """``log(a / b)``: of the larger over the smaller by how much it exceeds 1, and as a difference
    of logarithms where that overflows, and where the ratio is a zero of either sign, as what is
    written makes no difference of these; its gradient is always that of the difference."""
    if not hasattr(a, "dtype") or not hasattr(b, "dtype"):
        return None
    apart = log(abs(a)) - log(abs(b))
    x, y = stop_gradient(a), stop_gradient(b)
    above = abs(x) >= abs(y)
    larger, smaller = where(above, x, y), where(above, y, x)
    excess = (larger - smaller) / smaller
    near = log1p(excess)
    signed = where(above, near, -near)
    is_lost = logical_and(excess == math.inf, logical_and(smaller != 0, isfinite(larger)))
    is_zero = logical_or(x == 0, abs(y) == math.inf)
    return keep_history(apart, where(logical_or(is_lost, is_zero), stop_gradient(apart), signed))


def log_erfc(x: Any) -> Any:
    """``log(erfc(x))``, from 1 on by the logarithm of the normal distribution. Of a choice, as it
    is made of, it is none."""
    if x.node.op is where:
        return None
    near = x < 1
    far = log_ndtr(where(near, 1.0, x) * -math.sqrt(2)) + LN2
    return where(near, log1p(neg(erf(where(near, x, 0.0)))), far)


# -- ratios that have a limit at 0 -----------------------------------------------------------------

_SERIES = (
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
    2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16,
)  # fmt: skip
"""``B(2 n) / (2 n)!`` from n = 1 on, with Bernoulli's numbers B."""


def _x_over_expm1_near(x: Any) -> Any:
    """``x / (exp(x) - 1)`` where ``x`` is between -1 and 1, by its series (Abramowitz and Stegun
    1964, 23.1.1)."""
    square, series = x * x, 0.0
    for coefficient in reversed(_SERIES):
        series = (series + coefficient) * square
    return 1 - x * 0.5 + series


def x_over_expm1(x: Any) -> Any:
    """``x / (exp(x) - 1)``: near 0 by its series, elsewhere with the exponential that does not
    overflow."""
    near, above = abs(x) < 1, x > 0
    far = where(near, 1.0, x)
    fall = where(above, far, 1.0)
    rise = where(above, -1.0, far)
    beyond = where(
        above, fall * exp(-fall) / -accurate_expm1(-fall), abs(rise) / -accurate_expm1(rise)
    )
    return where(near, _x_over_expm1_near(where(near, x, 0.0)), beyond)


def expm1_over_x(x: Any) -> Any:
    """``(exp(x) - 1) / x``, near 0 as one over a series. Of a choice, as it is made of, it is
    none."""
    if x.node.op is where:
        return None
    near = abs(x) < 1
    far = where(near, 1.0, x)
    small = _x_over_expm1_near(where(near, x, 0.0))
    return where(near, reciprocal(small), accurate_expm1(far) * reciprocal(far))


def log1p_over_x(x: Any) -> Any:
    """``log(1 + x) / x``, which is ``y / (exp(y) - 1)`` of the logarithm y."""
    return x_over_expm1(log1p(x))


def sin_x_over_x(x: Any) -> Any:
    """``sin(x) / x``, near 0 by its series. Of a choice, as it is made of, it is none."""
    if x.node.op is where:
        return None
    near = abs(x) < 1
    far = where(near, 1.0, x)
    return where(near, _sine_series(where(near, x, 0.0)), sin(far) * reciprocal(far))


def _sine_series(x: Any) -> Any:
    """``sin(x) / x`` where ``x`` is between -1 and 1."""
    square, series = x * x, 0.0
    for n in reversed(range(1, 10)):
        series = (series + (-1) ** n / math.factorial(2 * n + 1)) * square
    return series + 1.0


def sinc_near_0(x: Any) -> Any:
    """``sinc(x)``, near 0 by its series. Of a choice, as it is made of, it is none."""
    if x.node.op is where:
        return None
    near = abs(x) < 0.25
    return where(near, _sine_series(where(near, x, 0.0) * math.pi), sinc(where(near, 1.0, x)))


def direction(x: Any) -> Any:
    """``x / |x|``, whose slopes near 0 would be differences of numbers out of range. Of a choice,
    as it is made of, and of integers, it is none."""
    if x.node.op is where or not x.dtype.is_floating:
        return None
    y = where(abs(x) < _SMALL, sign(x) * _SMALL, x)
    return y / abs(y)


_SMALL = 1e-4
"""Its square, and one over it, are numbers in every dtype."""


# -- rows ------------------------------------------------------------------------------------------


def softmax(x: Any, dims: tuple[int, ...]) -> Any:
    """The softmax along one dim; None for several."""
    return softmax_op(x, dim=dims[0]) if len(dims) == 1 else None


def softmax_times(x: Any, v: Any, dims: tuple[int, ...]) -> Any:
    """``softmax(x) @ v`` along the last dim; None along others."""
    last = x.ndim - 1
    return matmul_op(softmax_op(x, dim=last), v) if dims == (last,) and x.ndim > 1 else None


def _scale_of(x: Any, dims: tuple[int, ...]) -> Any:
    """The largest magnitude along ``dims``, or 1 where that is no number to divide by."""
    return _number_to_divide_by(supremum_op(abs(stop_gradient(x)), dims=dims, keepdim=True))


def _number_to_divide_by(peak: Any) -> Any:
    """The elements of ``peak`` that are above 0 and finite, by which one may divide, and 1 in the
    place of any other."""
    return where(logical_and(isfinite(peak), peak > 0), peak, 1.0)


def norm(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The Euclidean norm, whose squares neither over- nor underflow, and whose gradient is 0 where
    it is 0."""
    if not dims:
        return abs(x)
    scale = _scale_of(x, dims)
    found = vector_norm_op(x / scale, ord=2.0, dims=dims, keepdim=True) * scale
    return found if keepdim else squeeze_op(found, dims=dims)


def variance(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The mean of the squares of how far elements are from their mean."""
    apart = x - mean_op(x, dims=dims, keepdim=True)
    return mean_op(apart * apart, dims=dims, keepdim=keepdim)


def hypotenuse(x: Any, y: Any) -> Any:
    """``sqrt(x x + y y)`` of floats; None of others."""
    return hypot(x, y) if hasattr(x, "dtype") and x.dtype.is_floating else None


def root_of_squares(**terms: Any) -> Any:
    """The root of the sum of the squares of floats, with the gradient that is written where some
    of them are 0; None of others. Of what is scaled, as it is made of, it is none."""
    apart = terms.values()
    if any(_is_scaled(x) for x in apart):
        return None
    scale = _number_to_divide_by(functools.reduce(maximum, [abs(stop_gradient(x)) for x in apart]))
    scaled = [x / scale for x in apart]
    return sqrt(functools.reduce(add, [x * x for x in scaled])) * scale


def _is_scaled(x: Any) -> bool:
    """Whether this is divided by a choice, as of a scale or 1, or is no tensor of floats."""
    if not hasattr(x, "dtype") or not x.dtype.is_floating:
        return True
    return x.node.op is div and x.node.args[1].op is where
