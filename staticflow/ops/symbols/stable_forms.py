"""Forms of expressions that lose their value at the extremes, and what is said for them.

Each is a rule with its identity. They are applied to what a person wrote before it is
differentiated, since the gradient of a form that overflows is NaN whatever becomes of its value,
and once more before the graph is compiled.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from staticflow.ops.along.softmax import log_softmax_op, logsumexp_op, softmax_op
from staticflow.ops.basics.arithmetic import add, div, keep_history, mul, neg, sub
from staticflow.ops.basics.reduce import mean_op, sum_op
from staticflow.ops.basics.slicing import select_op, slice_op
from staticflow.ops.basics.view import reshape_op, unsqueeze_op
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.maths import (
    abs,
    exp,
    expm1,
    log,
    log1p,
    log2,
    log10,
    pow,
    reciprocal,
    rsqrt,
    sigmoid,
    sqrt,
)
from staticflow.ops.elementwise.pairs import hypot, logaddexp, xlogy
from staticflow.ops.elementwise.special import erf, erfc, log_ndtr, ndtr, sinc
from staticflow.ops.elementwise.trig import acosh, asinh, atanh, cosh, sin, sinh, tanh
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.indexing.index_ops import index_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.pattern import Rule, attr, either, rule, spellings
from staticflow.ops.symbols.stable_values import (
    LN2,
    accurate_expm1,
    accurate_sigmoid,
    accurate_tanh,
    direction,
    expm1_over_x,
    has_own_log,
    hypotenuse,
    log1p_over_x,
    log_cosh,
    log_divided,
    log_erfc,
    log_mean_exp,
    log_of_inverse,
    log_one_minus_exp,
    log_ratio,
    log_scaled,
    log_sum,
    log_sum_with,
    norm,
    root_of_squares,
    sin_x_over_x,
    sinc_near_0,
    softmax,
    softmax_times,
    softplus,
    variance,
    x_over_expm1,
)

__all__ = ["STABLE_FORMS"]


# -- spellings ------------------------------------------------------------------------------------


def _square(x: Any) -> Any:
    return either(mul(x, x), pow(x, 2))


def _root(x: Any) -> Any:
    return either(sqrt(x), pow(x, 0.5))


def _roots(x: Any) -> tuple[Any, ...]:
    """The patterns of the root of ``x``."""
    return sqrt(x), pow(x, 0.5)


def _squares(*terms: Any) -> Any:
    """The sum of the squares of some terms, added up one after the other."""
    return functools.reduce(add, map(_square, terms))


def _half(x: Any) -> Any:
    return either(mul(x, 0.5), div(x, 2))


def _sigmoid(x: Any) -> Any:
    return either(sigmoid(x), exp(logsigmoid(x)))


def _expm1(x: Any) -> Any:
    return either(expm1(x), keep_history(exp(x), expm1(x)))


def _inverse(x: Any) -> tuple[Any, ...]:
    """The patterns of one over ``x``."""
    return reciprocal(x), div(1, x), pow(x, -1)


def _ratios(x: Any, y: Any) -> tuple[Any, ...]:
    """The patterns of ``x`` over ``y``."""
    return div(x, y), mul(x, either(*_inverse(y)))


def _sum(x: Any) -> Any:
    return sum_op(x, dims=attr("dims"), keepdim=attr("keepdim"))


def _mean(x: Any) -> Any:
    return mean_op(x, dims=attr("dims"), keepdim=attr("keepdim"))


def _row_sum(x: Any) -> Any:
    """The sum along one dim, which stays as one of size 1."""
    kept = sum_op(x, dims=attr("dims"), keepdim=True)
    dropped = sum_op(x, dims=attr("dims"), keepdim=False)
    return either(kept, unsqueeze_op(dropped, dims=attr("dims")))


def _multiple(x: Any, c: Any) -> Any:
    return either(x, mul(x, c))


def _pick_log(pick: Any) -> Any:
    """The right side of a rule for the logarithm of a part of a softmax."""

    def replace(x: Any, dim: int, **rest: Any) -> Any:
        return pick(log_softmax_op(x, dim=dim), **rest)

    return replace


def _in_base(base: int) -> Any:
    """The right side of a rule for the logarithm to another base, of a value whose natural
    logarithm a form says otherwise; of others it would round what is exact, as log2(8) is."""

    def replace(x: Any) -> Any:
        return log(x) * (1 / math.log(base)) if has_own_log(x.node) else None

    return replace


# -- the rules ------------------------------------------------------------------------------------

# What stands otherwise for the same bits, so that the forms need not be written in each way.
_SIGNS = (
    rule("minus_minus", "-(-x) = x", lambda x: neg(neg(x)), lambda x: x),
    rule("add_minus", "y + (-x) = y - x", lambda x, y: add(y, neg(x)), lambda x, y: y - x),
    rule("sub_minus", "y - (-x) = y + x", lambda x, y: sub(y, neg(x)), lambda x, y: y + x),
    rule("sub_minus_one", "x - (-1) = x + 1", lambda x: sub(x, -1), lambda x: x + 1),
    rule("times_minus_one", "x * -1 = -x", lambda x: mul(x, -1), lambda x: -x),
    *spellings(
        "half_of_twice",
        "2 x / 2 = x",
        lambda x: x,
        lambda x: _half(mul(x, 2)).options,
    ),
)

_SIGMOID = (
    *spellings(
        "sigmoid_by_hand", "1 / (1 + exp(-x)) = sigmoid(x)", accurate_sigmoid,
        lambda x: _inverse(add(exp(neg(x)), 1)),
        lambda x: div(exp(x), add(exp(x), 1)),
        lambda x: mul(exp(x), _sigmoid(neg(x))),
    ),
    *spellings(
        "sigmoid_of_minus", "1 / (1 + exp(x)) = sigmoid(-x)", lambda x: accurate_sigmoid(-x),
        lambda x: _inverse(add(exp(x), 1)),
    ),
    *spellings(
        "times_sigmoid", "y / (1 + exp(-x)) = y sigmoid(x)",
        lambda x, y: y * accurate_sigmoid(x),
        lambda x, y: div(y, add(exp(neg(x)), 1)),
        lambda x, y: div(mul(y, exp(x)), add(exp(x), 1)),
    ),
    rule(
        "times_sigmoid", "y / (1 + exp(-x)) = y sigmoid(x)",
        lambda x, y: div(y, add(exp(x), 1)), lambda x, y: y * accurate_sigmoid(-x),
    ),
    rule(
        "density_of_sigmoid", "exp(x) / (1 + exp(x))^2 = sigmoid(x) sigmoid(-x)",
        lambda x: div(exp(x), _square(add(exp(x), 1))),
        lambda x: accurate_sigmoid(x) * accurate_sigmoid(-x),
    ),
    rule(
        "one_minus_sigmoid", "1 - sigmoid(x) = sigmoid(-x)",
        lambda x: sub(1, _sigmoid(x)), lambda x: accurate_sigmoid(-x),
    ),
    rule(
        "log_of_sigmoid", "log sigmoid(x) = min(x, 0) - log(1 + exp(-|x|))",
        lambda x: log(sigmoid(x)), lambda x: logsigmoid(x),
    ),
    rule(
        "log1p_minus_sigmoid", "log(1 - sigmoid(x)) = log sigmoid(-x)",
        lambda x: log1p(neg(_sigmoid(x))), lambda x: logsigmoid(-x),
    ),
    rule(
        "x_minus_logsigmoid", "x - log sigmoid(x) = -log sigmoid(-x)",
        lambda x: sub(x, logsigmoid(x)), softplus,
    ),
    rule(
        "x_plus_logsigmoid", "x + log sigmoid(-x) = log sigmoid(x)",
        lambda x: add(x, logsigmoid(neg(x))), lambda x: logsigmoid(x),
    ),
    *spellings(
        "log_one_plus_tanh", "log(1 + tanh(x)) = log sigmoid(2 x) + log 2",
        lambda x: logsigmoid(x * 2.0) + LN2,
        lambda x: log(add(tanh(x), 1)), lambda x: log1p(tanh(x)),
    ),
    *spellings(
        "log_one_minus_tanh", "log(1 - tanh(x)) = log sigmoid(-2 x) + log 2",
        lambda x: logsigmoid(x * -2.0) + LN2,
        lambda x: log(sub(1, tanh(x))), lambda x: log1p(neg(tanh(x))),
    ),
)  # fmt: skip

_SOFTMAX = (
    rule(
        "softmax_by_hand", "exp(x) / sum exp(x) = softmax(x)",
        lambda x: div(exp(x), _row_sum(exp(x))), lambda x, dims: softmax(x, dims),
    ),
    rule(
        "exp_of_log_of_softmax", "exp log softmax(x) = softmax(x)",
        lambda x: exp(log_softmax_op(x, dim=attr("dim"))), lambda x, dim: softmax_op(x, dim=dim),
    ),
    rule(
        "mean_by_exponentials", "(exp(x) v) / sum exp(x) = softmax(x) v",
        lambda x, v: div(matmul_op(exp(x), v), _row_sum(exp(x))), softmax_times,
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
    *spellings(
        "one_over_exp", "1 / exp(x) = exp(-x)", lambda x: exp(-x), lambda x: _inverse(exp(x))
    ),
    rule("log_of_exp", "log exp(x) = x", lambda x: log(exp(x)), lambda x: x),
    rule(
        "log_sum_exp", "log sum exp(x) = m + log sum exp(x - m), m = max x",
        lambda x: log(_sum(exp(x))),
        lambda x, dims, keepdim: logsumexp_op(x, dims=dims, keepdim=keepdim),
    ),
    rule(
        "log_mean_exp", "log mean exp(x) = log sum exp(x) - log n",
        lambda x: log(_mean(exp(x))),
        lambda x, dims, keepdim: log_mean_exp(x, dims, keepdim),
    ),
    rule(
        "log_of_cosh_by_exp", "log(exp(x) + exp(-x)) = log cosh(x) + log 2",
        lambda x: log(add(exp(x), exp(neg(x)))), lambda x: log_cosh(x) + LN2,
    ),
    rule(
        "log_of_two_exps", "log(c exp(x) + d exp(y)) = logaddexp(x + log c, y + log d)",
        lambda x, y, c, d: log(add(_multiple(exp(x), c), _multiple(exp(y), d))), log_sum,
    ),
    rule(
        "log_of_three_exps", "log(exp(x) + exp(y) + exp(z)) by logaddexp, twice",
        lambda x, y, z: log(add(add(exp(x), exp(y)), exp(z))),
        lambda x, y, z: logaddexp(logaddexp(x, y), z),
    ),
    rule("softplus", "log(1 + exp(x)) = -log sigmoid(-x)", lambda x: log1p(exp(x)), softplus),
    rule(
        "log_of_exp_and_number", "log(c exp(x) + n) = log(1 + exp(x + log c - log n)) + log n",
        lambda x, c, n: log(add(_multiple(exp(x), c), n)), log_sum_with,
    ),
    *spellings(
        "log_one_minus_exp", "log(1 - exp(x)) = log(-expm1(x))", log_one_minus_exp,
        lambda x: log1p(neg(exp(x))), lambda x: log(neg(_expm1(x))),
    ),
    rule(
        "log_exp_minus_one", "log(exp(x) - 1) = x + log(1 - exp(-x))",
        lambda x: log(_expm1(x)), lambda x: x + log_one_minus_exp(neg(x)),
    ),
    rule("log_cosh", "log cosh(x), near 0 by sinh", lambda x: log(cosh(x)), log_cosh),
    rule("log_scaled", "log(c x) = log x + log c", lambda x, c: log(mul(x, c)), log_scaled),
    rule("log_divided", "log(x / c) = log x - log c", lambda x, c: log(div(x, c)), log_divided),
)  # fmt: skip


_LOGARITHMS = (
    rule("log_one_plus", "log(1 + x) = log1p(x)", lambda x: log(add(x, 1)), lambda x: log1p(x)),
    *spellings(
        "log_one_minus", "log(1 - x) = log1p(-x)", lambda x: log1p(-x),
        lambda x: log(sub(1, x)), lambda x: log(neg(sub(x, 1))),
    ),
    rule(
        "log_of_inverse", "log(1 / x) = -log x",
        lambda x: log(either(*_inverse(x))), log_of_inverse,
    ),
    *spellings(
        "log_of_ratio", "log(a / b) = log |a| - log |b| where a / b over- or underflows", log_ratio,
        lambda a, b: log(div(a, b)), lambda a, b: log(mul(a, either(*_inverse(b)))),
    ),
    rule(
        "log_of_erfc", "log erfc(x), from 1 on by log ndtr",
        lambda x: log(erfc(x)), log_erfc,
    ),
    rule(
        "log1p_of_minus_erf", "log(1 - erf(x)) = log erfc(x)",
        lambda x: log1p(neg(erf(x))), log_erfc,
    ),
    rule(
        "log1p_of_erf", "log(1 + erf(x)) = log erfc(-x)",
        lambda x: log1p(erf(x)), lambda x: log_erfc(-x),
    ),
    rule("one_minus_erf", "1 - erf(x) = erfc(x)", lambda x: sub(1, erf(x)), lambda x: erfc(x)),
    rule("one_plus_erf", "1 + erf(x) = erfc(-x)", lambda x: add(erf(x), 1), lambda x: erfc(-x)),
    rule(
        "log_of_ndtr", "the logarithm where ndtr is 0",
        lambda x: log(ndtr(x)), lambda x: log_ndtr(x),
    ),
    rule("x_log_x", "x log x is 0 at 0", lambda x: mul(x, log(x)), lambda x: xlogy(x, x)),
    *(
        rule(
            "other_base", "log2 x = log x / log 2, of a logarithm that a form says otherwise",
            (lambda x: log2(x)) if base == 2 else (lambda x: log10(x)), _in_base(base),
        )
        for base in (2, 10)
    ),
)  # fmt: skip

_EXPONENTIALS = (
    *spellings(
        "exp_minus_one", "exp(x) - 1 = expm1(x)", accurate_expm1,
        lambda x: sub(exp(x), 1), lambda x: add(exp(x), -1),
    ),
    rule(
        "one_minus_exp", "1 - exp(x) = -expm1(x)",
        lambda x: sub(1, exp(x)), lambda x: -accurate_expm1(x),
    ),
    *spellings(
        "x_over_expm1", "x / (exp(x) - 1) is 1 at 0", x_over_expm1,
        lambda x: _ratios(x, _expm1(x)), lambda x: div(neg(x), neg(_expm1(x))),
    ),
    rule(
        "x_over_one_minus_exp", "x / (1 - exp(-x)) is 1 at 0",
        lambda x: div(x, neg(_expm1(neg(x)))), lambda x: x_over_expm1(-x),
    ),
    *spellings(
        "expm1_over_x", "(exp(x) - 1) / x is 1 at 0", expm1_over_x,
        lambda x: _ratios(_expm1(x), x),
    ),
    *spellings(
        "log1p_over_x", "log(1 + x) / x is 1 at 0", log1p_over_x, lambda x: _ratios(log1p(x), x),
    ),
    *spellings(
        "sin_x_over_x", "sin(x) / x is 1 at 0", sin_x_over_x,
        lambda x: _ratios(sin(x), x), lambda x: div(neg(sin(x)), neg(x)),
    ),
    rule(
        "sinc_near_0", "sin(pi x) / (pi x), near 0 by its series",
        lambda x: sinc(x), sinc_near_0,
    ),
)  # fmt: skip

_HYPERBOLIC = (
    *spellings(
        "tanh_by_exp", "(e^x - e^-x) / (e^x + e^-x) = tanh(x)", accurate_tanh,
        lambda x: div(sub(exp(x), exp(neg(x))), add(exp(x), exp(neg(x)))),
        lambda x: div(sinh(x), cosh(x)),
    ),
    *spellings(
        "tanh_by_expm1", "(e^x - 1) / (e^x + 1) = tanh(x / 2)", lambda x: accurate_tanh(x * 0.5),
        lambda x: div(_expm1(x), add(exp(x), 1)), lambda x: mul(_expm1(x), _sigmoid(neg(x))),
    ),
    rule(
        "tanh_by_one_minus_exp", "(1 - e^x) / (1 + e^x) = -tanh(x / 2)",
        lambda x: div(neg(_expm1(x)), add(exp(x), 1)), lambda x: accurate_tanh(x * -0.5),
    ),
    rule(
        "tanh_by_sigmoid", "2 sigmoid(x) - 1 = tanh(x / 2)",
        lambda x: sub(mul(_sigmoid(x), 2), 1), lambda x: accurate_tanh(x * 0.5),
    ),
    rule(
        "tanh_by_sigmoid_of_minus", "1 - 2 sigmoid(x) = -tanh(x / 2)",
        lambda x: sub(1, mul(_sigmoid(x), 2)), lambda x: accurate_tanh(x * -0.5),
    ),
    *spellings(
        "sinh_by_exp", "(e^x - e^-x) / 2 = sinh(x)", lambda x: sinh(x),
        lambda x: _half(sub(exp(x), exp(neg(x)))).options,
        lambda x: sub(_half(exp(x)), _half(exp(neg(x)))),
    ),
    *spellings(
        "atanh_by_log", "log((1 + x) / (1 - x)) = 2 atanh(x)", lambda x: atanh(x) * 2,
        lambda x: log(div(add(x, 1), sub(1, x))), lambda x: sub(log1p(x), log1p(neg(x))),
    ),
    *spellings(
        "atanh_by_log_of_inverse", "log((1 - x) / (1 + x)) = -2 atanh(x)", lambda x: atanh(x) * -2,
        lambda x: log(div(sub(1, x), add(x, 1))), lambda x: sub(log1p(neg(x)), log1p(x)),
    ),
    *spellings(
        "acosh_by_log", "log(x + sqrt(x x - 1)) = acosh(x)", lambda x: acosh(x),
        lambda x: log(add(x, _root(either(sub(_square(x), 1), add(_square(x), -1))))),
        lambda x: log(add(x, _root(mul(sub(x, 1), add(x, 1))))),
    ),
    *spellings(
        "asinh_by_log", "log(x + sqrt(x x + 1)) = asinh(x)", lambda x: asinh(x),
        lambda x: log(add(x, _root(add(_square(x), 1)))),
        lambda x: log(add(x, either(hypot(x, 1), hypot(1, x)))),
    ),
)  # fmt: skip

_SQUARES = (
    *spellings(
        "root_of_square", "sqrt(x x) = |x|", lambda x: abs(x),
        lambda x: sqrt(_square(x)), lambda x: pow(_square(x), 0.5),
    ),
    *spellings(
        "inverse_root_of_square", "1 / sqrt(x x) = 1 / |x|", lambda x: reciprocal(abs(x)),
        lambda x: rsqrt(_square(x)), lambda x: pow(_square(x), -0.5),
    ),
    *spellings("direction", "x / |x| is 1 or -1", direction, lambda x: _ratios(x, abs(x))),
    *spellings(
        "root_of_two_squares", "sqrt(x x + y y) = hypot(x, y)", hypotenuse,
        lambda x, y: sqrt(add(_square(x), _square(y))),
        lambda x, y: pow(add(_square(x), _square(y)), 0.5),
    ),
    *spellings(
        "root_of_squares", "sqrt(x x + y y + z z) = m sqrt((x / m)^2 + ...), m the largest |x|",
        root_of_squares,
        lambda x, y, z: _roots(_squares(x, y, z)),
        lambda x, y, z, u: _roots(_squares(x, y, z, u)),
        lambda x, y, z, u, v: _roots(_squares(x, y, z, u, v)),
        lambda x, y, z, u, v, w: _roots(_squares(x, y, z, u, v, w)),
    ),
    *spellings(
        "norm_by_hand", "sqrt(sum x x) = m sqrt(sum (x / m)^2), m = max |x|", norm,
        lambda x: sqrt(_sum(_square(x))), lambda x: pow(_sum(_square(x)), 0.5),
    ),
    *spellings(
        "inverse_norm", "1 / sqrt(sum x x) = 1 / (m sqrt(sum (x / m)^2)), m = max |x|",
        lambda x, dims, keepdim: reciprocal(norm(x, dims, keepdim)),
        lambda x: rsqrt(_sum(_square(x))), lambda x: pow(_sum(_square(x)), -0.5),
    ),
    rule(
        "variance_by_hand", "mean(x x) - mean(x)^2 = mean((x - mean x)^2)",
        lambda x: sub(_mean(_square(x)), _square(_mean(x))), variance,
    ),
)  # fmt: skip

# A clone, and a view of all, are a node of their own for whoever asks for their gradient: such a
# node is closed, and the others say nothing.
_CLONES = (rule("clone", "a copy has the same value", lambda x: keep_history(x, x), lambda x: x),)

STABLE_FORMS: tuple[Rule, ...] = (
    *_SIGNS, *_HYPERBOLIC, *_SIGMOID, *_SOFTMAX, *_SUMS_OF_EXPONENTIALS, *_EXPONENTIALS, *_SQUARES,
    *_LOGARITHMS, *_CLONES,
)  # fmt: skip
"""The rules, those first that another one would hide."""
