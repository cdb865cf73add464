"""Forms of expressions that lose their value at the extremes, and what is said for them.

Each is a rule with its identity. They are applied to what a person wrote before it is
differentiated, since the gradient of a form that overflows is NaN whatever becomes of its value,
and once more before the graph is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from staticflow.graph.dims import prod
from staticflow.ops.along.extremes import supremum_op
from staticflow.ops.along.softmax import log_softmax_op, logsumexp_op, softmax_op
from staticflow.ops.basics.arithmetic import (
    add,
    div,
    keep_history,
    logical_and,
    logical_or,
    mul,
    neg,
    stop_gradient,
    sub,
    where,
)
from staticflow.ops.basics.creation import ones_like
from staticflow.ops.basics.reduce import mean_op, sum_op
from staticflow.ops.basics.slicing import select_op, slice_op
from staticflow.ops.basics.view import reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.maths import (
    abs,
    exp,
    expm1,
    isfinite,
    log,
    log1p,
    pow,
    reciprocal,
    sigmoid,
    sign,
    sqrt,
)
from staticflow.ops.elementwise.pairs import hypot, logaddexp, xlogy
from staticflow.ops.elementwise.special import erf, erfc, log_ndtr, ndtr
from staticflow.ops.elementwise.trig import acosh, asinh, atanh, cosh, sin, sinh, tanh
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.indexing.index_ops import index_op
from staticflow.ops.statistics.moments import vector_norm_op
from staticflow.ops.symbols.pattern import Rule, attr, either, rule

__all__ = ["STABLE_FORMS"]

_LN2 = math.log(2)


# -- spellings ------------------------------------------------------------------------------------


def _square(x: Any) -> Any:
    return either(mul(x, x), pow(x, 2))


def _root(x: Any) -> Any:
    return either(sqrt(x), pow(x, 0.5))


def _half(x: Any) -> Any:
    return either(mul(x, 0.5), div(x, 2))


def _sum(x: Any) -> Any:
    return sum_op(x, dims=attr("dims"), keepdim=attr("keepdim"))


def _mean(x: Any) -> Any:
    return mean_op(x, dims=attr("dims"), keepdim=attr("keepdim"))


def _row_sum(x: Any) -> Any:
    """The sum along one dim, which stays as one of size 1."""
    kept = sum_op(x, dims=attr("dims"), keepdim=True)
    dropped = sum_op(x, dims=attr("dims"), keepdim=False)
    return either(kept, unsqueeze_op(dropped, dims=attr("dims")))


def _spellings(
    name: str,
    identity: str,
    replace: Callable[..., Any],
    *patterns: Callable[..., Any],
) -> tuple[Rule, ...]:
    """A rule for each of several patterns of the same variables."""
    return tuple(rule(name, identity, pattern, replace) for pattern in patterns)


# -- what is said instead -------------------------------------------------------------------------


def _softplus(x: Any) -> Any:
    return neg(logsigmoid(neg(x)))


def _log_cosh(x: Any) -> Any:
    """``log(cosh(x))``; at -inf, where the sum would be inf - inf, it is ``-x``."""
    return where(x == -math.inf, -x, x + _softplus(x * -2.0) - _LN2)


def _log_one_minus_exp(x: Any) -> Any:
    """``log(1 - exp(x))``, below ``-log 2`` by one function and above it by the other (Maechler
    2012, "Accurately computing log(1 - exp(-|a|))"). Of a choice, as it is made of, it is none."""
    if x.node.op is where:
        return None
    near = x > -_LN2
    return where(near, log(neg(expm1(where(near, x, -1.0)))), log1p(neg(exp(where(near, -1.0, x)))))


def _softmax(x: Any, dims: tuple[int, ...]) -> Any:
    return softmax_op(x, dim=dims[0]) if len(dims) == 1 else None


def _scale_of(x: Any, dims: tuple[int, ...]) -> Any:
    """The largest magnitude along ``dims``, or 1 where that is no number to divide by."""
    peak = supremum_op(abs(stop_gradient(x)), dims=dims, keepdim=True)
    return where(logical_and(isfinite(peak), peak > 0), peak, 1.0)


def _norm(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The Euclidean norm, whose squares neither over- nor underflow, and whose gradient is 0 where
    it is 0."""
    if not dims:
        return abs(x)
    scale = _scale_of(x, dims)
    norm = vector_norm_op(x / scale, ord=2.0, dims=dims, keepdim=True) * scale
    return norm if keepdim else squeeze_op(norm, dims=dims)


def _log_mean_exp(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    total = logsumexp_op(x, dims=dims, keepdim=keepdim)
    return total - log(ones_like(total) * prod(x.shape[d] for d in dims))


def _variance(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    apart = x - mean_op(x, dims=dims, keepdim=True)
    return mean_op(apart * apart, dims=dims, keepdim=keepdim)


def _log_ratio(a: Any, b: Any) -> Any:
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


_SERIES = (
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
    2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16,
)  # fmt: skip
"""``B(2 n) / (2 n)!`` from n = 1 on, with Bernoulli's numbers B."""


def _x_over_expm1(x: Any) -> Any:
    """``x / (exp(x) - 1)``: near 0 by its series (Abramowitz and Stegun 1964, 23.1.1), elsewhere
    with the exponential that does not overflow."""
    near, above = abs(x) < 1, x > 0
    t = where(near, x, 0.0)
    square, series = t * t, 0.0
    for coefficient in reversed(_SERIES):
        series = (series + coefficient) * square
    far = where(near, 1.0, x)
    fall = where(above, far, 1.0)
    rise = where(above, -1.0, far)
    beyond = where(above, fall * exp(-fall) / -expm1(-fall), abs(rise) / -expm1(rise))
    return where(near, 1 - t * 0.5 + series, beyond)


def _sin_x_over_x(x: Any) -> Any:
    """``sin(x) / x``, near 0 by its series."""
    near = abs(x) < 1
    t = where(near, x, 0.0)
    square, series = t * t, 0.0
    for n in reversed(range(1, 10)):
        series = (series + (-1) ** n / math.factorial(2 * n + 1)) * square
    far = where(near, 1.0, x)
    return where(near, series + 1.0, sin(far) * reciprocal(far))


def _direction(x: Any) -> Any:
    """``x / |x|``, whose slopes near 0 would be differences of numbers out of range. Of a choice,
    as it is made of, it is none."""
    if x.node.op is where:
        return None
    y = where(abs(x) < _SMALL, sign(x) * _SMALL, x)
    return y / abs(y)


_SMALL = 1e-4
"""Its square, and one over it, are numbers in every dtype."""


def _pick_log(pick: Callable[..., Any]) -> Callable[..., Any]:
    """The rule's right side for the logarithm of a part of a softmax."""

    def replace(x: Any, dim: int, **rest: Any) -> Any:
        return pick(log_softmax_op(x, dim=dim), **rest)

    return replace


# -- the rules ------------------------------------------------------------------------------------

_SIGMOID = (
    *_spellings(
        "sigmoid_by_hand", "1 / (1 + exp(-x)) = sigmoid(x)", lambda x: sigmoid(x),
        lambda x: div(1, add(exp(neg(x)), 1)),
        lambda x: reciprocal(add(exp(neg(x)), 1)),
        lambda x: pow(add(exp(neg(x)), 1), -1),
        lambda x: div(exp(x), add(exp(x), 1)),
    ),
    *_spellings(
        "sigmoid_of_minus", "1 / (1 + exp(x)) = sigmoid(-x)", lambda x: sigmoid(neg(x)),
        lambda x: div(1, add(exp(x), 1)),
        lambda x: reciprocal(add(exp(x), 1)),
        lambda x: pow(add(exp(x), 1), -1),
    ),
    rule(
        "one_minus_sigmoid", "1 - sigmoid(x) = sigmoid(-x)",
        lambda x: sub(1, sigmoid(x)), lambda x: sigmoid(neg(x)),
    ),
    rule(
        "log_of_sigmoid", "log sigmoid(x) = min(x, 0) - log(1 + exp(-|x|))",
        lambda x: log(sigmoid(x)), lambda x: logsigmoid(x),
    ),
    rule(
        "log1p_minus_sigmoid", "log(1 - sigmoid(x)) = log sigmoid(-x)",
        lambda x: log1p(neg(sigmoid(x))), lambda x: logsigmoid(neg(x)),
    ),
)  # fmt: skip

_SOFTMAX = (
    rule(
        "softmax_by_hand", "exp(x) / sum exp(x) = softmax(x)",
        lambda x: div(exp(x), _row_sum(exp(x))), lambda x, dims: _softmax(x, dims),
    ),
    rule(
        "log_of_softmax", "log softmax(x) = x - logsumexp(x)",
        lambda x: log(softmax_op(x, dim=attr("dim"))), lambda x, dim: log_softmax_op(x, dim=dim),
    ),
    rule(
        "log_of_gathered", "the logarithm of a softmax is taken before elements are chosen",
        lambda x, index: log(gather_op(softmax_op(x, dim=attr("dim")), index, dim=attr("along"))),
        lambda x, index, dim, along: gather_op(log_softmax_op(x, dim=dim), index, dim=along),
    ),
    rule(
        "log_of_indexed", "the logarithm of a softmax is taken before elements are chosen",
        lambda x, i: log(index_op(softmax_op(x, dim=attr("dim")), i, dims=attr("dims"))),
        lambda x, i, dim, dims: index_op(log_softmax_op(x, dim=dim), i, dims=dims),
    ),
    rule(
        "log_of_indexed_twice", "the logarithm of a softmax is taken before elements are chosen",
        lambda x, i, j: log(index_op(softmax_op(x, dim=attr("dim")), i, j, dims=attr("dims"))),
        lambda x, i, j, dim, dims: index_op(log_softmax_op(x, dim=dim), i, j, dims=dims),
    ),
    rule(
        "log_of_selected", "the logarithm of a softmax is taken before elements are chosen",
        lambda x: log(
            select_op(softmax_op(x, dim=attr("dim")), dim=attr("along"), index=attr("index"))
        ),
        lambda x, dim, along, index: select_op(
            log_softmax_op(x, dim=dim), dim=along, index=index
        ),
    ),
    rule(
        "log_of_sliced", "the logarithm of a softmax is taken before elements are chosen",
        lambda x: log(
            slice_op(
                softmax_op(x, dim=attr("dim")),
                start=attr("start"), size=attr("size"), step=attr("step"),
            )
        ),
        _pick_log(slice_op),
    ),
    rule(
        "log_of_reshaped", "the logarithm of a softmax is taken before it is reshaped",
        lambda x: log(reshape_op(softmax_op(x, dim=attr("dim")), shape=attr("shape"))),
        _pick_log(reshape_op),
    ),
)  # fmt: skip

_SUMS_OF_EXPONENTIALS = (
    rule(
        "log_sum_exp", "log sum exp(x) = m + log sum exp(x - m), m = max x",
        lambda x: log(_sum(exp(x))),
        lambda x, dims, keepdim: logsumexp_op(x, dims=dims, keepdim=keepdim),
    ),
    rule(
        "log_mean_exp", "log mean exp(x) = log sum exp(x) - log n",
        lambda x: log(_mean(exp(x))),
        lambda x, dims, keepdim: _log_mean_exp(x, dims, keepdim),
    ),
    rule(
        "log_of_two_exps", "log(exp(x) + exp(y)) = logaddexp(x, y)",
        lambda x, y: log(add(exp(x), exp(y))), lambda x, y: logaddexp(x, y),
    ),
    rule("softplus", "log(1 + exp(x)) = -log sigmoid(-x)", lambda x: log1p(exp(x)), _softplus),
    rule(
        "log_one_minus_exp", "log(1 - exp(x)) = log(-expm1(x))",
        lambda x: log1p(neg(exp(x))), _log_one_minus_exp,
    ),
    rule(
        "log_exp_minus_one", "log(exp(x) - 1) = x + log(1 - exp(-x))",
        lambda x: log(expm1(x)), lambda x: x + _log_one_minus_exp(neg(x)),
    ),
    rule(
        "log_cosh", "log cosh(x) = x + log(1 + exp(-2 x)) - log 2",
        lambda x: log(cosh(x)), _log_cosh,
    ),
)  # fmt: skip


_LOGARITHMS = (
    rule("log_one_plus", "log(1 + x) = log1p(x)", lambda x: log(add(x, 1)), lambda x: log1p(x)),
    rule(
        "log_one_minus", "log(1 - x) = log1p(-x)",
        lambda x: log(sub(1, x)), lambda x: log1p(neg(x)),
    ),
    rule(
        "log_of_ratio", "log(a / b) = log |a| - log |b| where a / b over- or underflows",
        lambda a, b: log(div(a, b)), _log_ratio,
    ),
    rule(
        "log_of_erfc", "log erfc(x) = log(2 ndtr(-sqrt(2) x))",
        lambda x: log(erfc(x)), lambda x: log_ndtr(x * -math.sqrt(2)) + _LN2,
    ),
    rule("one_minus_erf", "1 - erf(x) = erfc(x)", lambda x: sub(1, erf(x)), lambda x: erfc(x)),
    rule(
        "log_of_ndtr", "the logarithm where ndtr is 0",
        lambda x: log(ndtr(x)), lambda x: log_ndtr(x),
    ),
    rule("x_log_x", "x log x is 0 at 0", lambda x: mul(x, log(x)), lambda x: xlogy(x, x)),
)  # fmt: skip

_EXPONENTIALS = (
    *_spellings(
        "exp_minus_one", "exp(x) - 1 = expm1(x)", lambda x: expm1(x),
        lambda x: sub(exp(x), 1), lambda x: add(exp(x), -1),
    ),
    rule(
        "x_over_expm1", "x / (exp(x) - 1) is 1 at 0", lambda x: div(x, expm1(x)), _x_over_expm1
    ),
    rule(
        "sin_x_over_x", "sin(x) / x is 1 at 0",
        lambda x: div(sin(x), x), _sin_x_over_x,
    ),
)  # fmt: skip

_HYPERBOLIC = (
    *_spellings(
        "tanh_by_exp", "(e^x - e^-x) / (e^x + e^-x) = tanh(x)", lambda x: tanh(x),
        lambda x: div(sub(exp(x), exp(neg(x))), add(exp(x), exp(neg(x)))),
        lambda x: div(sinh(x), cosh(x)),
    ),
    rule(
        "tanh_by_expm1", "(e^x - 1) / (e^x + 1) = tanh(x / 2)",
        lambda x: div(expm1(x), add(exp(x), 1)), lambda x: tanh(x * 0.5),
    ),
    rule(
        "tanh_by_one_minus_exp", "(1 - e^x) / (1 + e^x) = -tanh(x / 2)",
        lambda x: div(sub(1, exp(x)), add(exp(x), 1)), lambda x: tanh(x * -0.5),
    ),
    rule(
        "tanh_by_sigmoid", "2 sigmoid(x) - 1 = tanh(x / 2)",
        lambda x: sub(mul(sigmoid(x), 2), 1), lambda x: tanh(x * 0.5),
    ),
    rule(
        "sinh_by_exp", "(e^x - e^-x) / 2 = sinh(x)",
        lambda x: _half(sub(exp(x), exp(neg(x)))).options[0], lambda x: sinh(x),
    ),
    rule(
        "sinh_by_exp", "(e^x - e^-x) / 2 = sinh(x)",
        lambda x: _half(sub(exp(x), exp(neg(x)))).options[1], lambda x: sinh(x),
    ),
    rule(
        "atanh_by_log", "log((1 + x) / (1 - x)) = 2 atanh(x)",
        lambda x: log(div(add(x, 1), sub(1, x))), lambda x: atanh(x) * 2,
    ),
    rule(
        "acosh_by_log", "log(x + sqrt(x x - 1)) = acosh(x)",
        lambda x: log(add(x, _root(either(sub(_square(x), 1), add(_square(x), -1))))),
        lambda x: acosh(x),
    ),
    rule(
        "asinh_by_log", "log(x + sqrt(x x + 1)) = asinh(x)",
        lambda x: log(add(x, _root(add(_square(x), 1)))), lambda x: asinh(x),
    ),
)  # fmt: skip

_SQUARES = (
    *_spellings(
        "root_of_square", "sqrt(x x) = |x|", lambda x: abs(x),
        lambda x: sqrt(_square(x)), lambda x: pow(_square(x), 0.5),
    ),
    rule("direction", "x / |x| is 1 or -1", lambda x: div(x, abs(x)), _direction),
    *_spellings(
        "root_of_two_squares", "sqrt(x x + y y) = hypot(x, y)", lambda x, y: _hypot(x, y),
        lambda x, y: sqrt(add(_square(x), _square(y))),
        lambda x, y: pow(add(_square(x), _square(y)), 0.5),
    ),
    *_spellings(
        "norm_by_hand", "sqrt(sum x x) = m sqrt(sum (x / m)^2), m = max |x|",
        lambda x, dims, keepdim: _norm(x, dims, keepdim),
        lambda x: sqrt(_sum(_square(x))), lambda x: pow(_sum(_square(x)), 0.5),
    ),
    rule(
        "variance_by_hand", "mean(x x) - mean(x)^2 = mean((x - mean x)^2)",
        lambda x: sub(_mean(_square(x)), _square(_mean(x))),
        lambda x, dims, keepdim: _variance(x, dims, keepdim),
    ),
)  # fmt: skip


def _hypot(x: Any, y: Any) -> Any:
    return hypot(x, y) if hasattr(x, "dtype") and x.dtype.is_floating else None


# A clone, and a view of all, are a node of their own for whoever asks for their gradient: such a
# node is closed, and the others say nothing.
_CLONES = (rule("clone", "a copy has the same value", lambda x: keep_history(x, x), lambda x: x),)

STABLE_FORMS: tuple[Rule, ...] = (
    *_SIGMOID, *_SOFTMAX, *_SUMS_OF_EXPONENTIALS, *_HYPERBOLIC, *_EXPONENTIALS, *_SQUARES,
    *_LOGARITHMS, *_CLONES,
)  # fmt: skip
"""The rules, those first that another one would hide."""
