"""Stable forms of what is made of exponentials: sigmoids, softmaxes, sums of exponentials and their
logarithms, differences that vanish at 0, and hyperbolic functions."""

from __future__ import annotations

from typing import Any

from staticflow.ops.along.softmax import log_softmax_op, logsumexp_op, softmax_op
from staticflow.ops.basics.arithmetic import add, div, mul, neg, sub
from staticflow.ops.basics.slicing import select_op, slice_op
from staticflow.ops.basics.view import reshape_op
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.maths import exp, log, log1p, sigmoid
from staticflow.ops.elementwise.pairs import hypot, logaddexp
from staticflow.ops.elementwise.special import sinc
from staticflow.ops.elementwise.trig import acosh, asinh, atanh, cosh, sin, sinh, tanh
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.indexing.index_ops import index_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.pattern import attr, either, rule, spellings
from staticflow.ops.symbols.stable_spellings import (
    any_expm1,
    any_half,
    any_mean,
    any_multiple,
    any_root,
    any_row_sum,
    any_sigmoid,
    any_square,
    any_sum,
    inverses,
    ratios,
)
from staticflow.ops.symbols.stable_values import (
    LN2,
    accurate_expm1,
    accurate_sigmoid,
    accurate_tanh,
    expm1_over_x,
    log1p_over_x,
    log_cosh,
    log_divided,
    log_mean_exp,
    log_one_minus_exp,
    log_scaled,
    log_sum,
    log_sum_with,
    sin_x_over_x,
    sinc_near_0,
    softmax,
    softmax_times,
    softplus,
    x_over_expm1,
)

__all__ = ["EXPONENTIALS", "HYPERBOLIC", "SIGMOID", "SOFTMAX", "SUMS_OF_EXPONENTIALS"]


def _pick_log(pick: Any) -> Any:
    """The right side of a rule for the logarithm of a part of a softmax."""

    def replace(x: Any, dim: int, **rest: Any) -> Any:
        return pick(log_softmax_op(x, dim=dim), **rest)

    return replace


SIGMOID = (
    *spellings(
        "sigmoid_by_hand", "1 / (1 + exp(-x)) = sigmoid(x)", accurate_sigmoid,
        lambda x: inverses(add(exp(neg(x)), 1)),
        lambda x: div(exp(x), add(exp(x), 1)),
        lambda x: mul(exp(x), any_sigmoid(neg(x))),
    ),
    *spellings(
        "sigmoid_of_minus", "1 / (1 + exp(x)) = sigmoid(-x)", lambda x: accurate_sigmoid(-x),
        lambda x: inverses(add(exp(x), 1)),
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
    *spellings(
        "density_of_sigmoid", "exp(x) / (1 + exp(x))^2 = sigmoid(x) sigmoid(-x)",
        lambda x: accurate_sigmoid(x) * accurate_sigmoid(-x),
        lambda x: ratios(exp(x), any_square(add(exp(x), 1))),
        lambda x: sub(any_sigmoid(x), any_square(any_sigmoid(x))),
    ),
    *spellings(
        "softmax_of_two", "exp(x) / (exp(x) + exp(y)) = sigmoid(x - y)",
        lambda x, y: accurate_sigmoid(x - y),
        lambda x, y: ratios(exp(x), add(exp(x), exp(y))),
    ),
    rule(
        "x_minus_x_sigmoid", "x - x sigmoid(-x) = x sigmoid(x)",
        lambda x: sub(x, mul(x, any_sigmoid(neg(x)))), lambda x: x * accurate_sigmoid(x),
    ),
    rule(
        "one_plus_tanh", "1 + tanh(x) = 2 sigmoid(2 x)",
        lambda x: add(tanh(x), 1), lambda x: sigmoid(x * 2.0) * 2.0,
    ),
    rule(
        "one_minus_tanh", "1 - tanh(x) = 2 sigmoid(-2 x)",
        lambda x: sub(1, tanh(x)), lambda x: sigmoid(x * -2.0) * 2.0,
    ),
    rule(
        "one_minus_sigmoid", "1 - sigmoid(x) = sigmoid(-x)",
        lambda x: sub(1, any_sigmoid(x)), lambda x: accurate_sigmoid(-x),
    ),
    rule(
        "log_of_sigmoid", "log sigmoid(x) = min(x, 0) - log(1 + exp(-|x|))",
        lambda x: log(sigmoid(x)), lambda x: logsigmoid(x),
    ),
    rule(
        "log1p_minus_sigmoid", "log(1 - sigmoid(x)) = log sigmoid(-x)",
        lambda x: log1p(neg(any_sigmoid(x))), lambda x: logsigmoid(-x),
    ),
    rule(
        "x_minus_logsigmoid", "x - log sigmoid(x) = -log sigmoid(-x)",
        lambda x: sub(x, logsigmoid(x)), softplus,
    ),
    rule(
        "x_plus_logsigmoid", "x + log sigmoid(-x) = log sigmoid(x)",
        lambda x: add(x, logsigmoid(neg(x))), lambda x: logsigmoid(x),
    ),
    rule(
        "log_one_plus_tanh", "log(1 + tanh(x)) = log sigmoid(2 x) + log 2",
        lambda x: log1p(tanh(x)), lambda x: logsigmoid(x * 2.0) + LN2,
    ),
    rule(
        "log_one_minus_tanh", "log(1 - tanh(x)) = log sigmoid(-2 x) + log 2",
        lambda x: log1p(neg(tanh(x))), lambda x: logsigmoid(x * -2.0) + LN2,
    ),
)  # fmt: skip

SOFTMAX = (
    rule(
        "softmax_by_hand", "exp(x) / sum exp(x) = softmax(x)",
        lambda x: div(exp(x), any_row_sum(exp(x))), lambda x, dims: softmax(x, dims),
    ),
    rule(
        "exp_of_log_of_softmax", "exp log softmax(x) = softmax(x)",
        lambda x: exp(log_softmax_op(x, dim=attr("dim"))), lambda x, dim: softmax_op(x, dim=dim),
    ),
    rule(
        "mean_by_exponentials", "(exp(x) v) / sum exp(x) = softmax(x) v",
        lambda x, v: div(matmul_op(exp(x), v), any_row_sum(exp(x))), softmax_times,
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

SUMS_OF_EXPONENTIALS = (
    *spellings(
        "one_over_exp", "1 / exp(x) = exp(-x)", lambda x: exp(-x), lambda x: inverses(exp(x))
    ),
    rule("log_of_exp", "log exp(x) = x", lambda x: log(exp(x)), lambda x: x),
    rule(
        "log_sum_exp", "log sum exp(x) = m + log sum exp(x - m), m = max x",
        lambda x: log(any_sum(exp(x))),
        lambda x, dims, keepdim: logsumexp_op(x, dims=dims, keepdim=keepdim),
    ),
    rule(
        "log_mean_exp", "log mean exp(x) = log sum exp(x) - log n",
        lambda x: log(any_mean(exp(x))),
        lambda x, dims, keepdim: log_mean_exp(x, dims, keepdim),
    ),
    rule(
        "log_of_cosh_by_exp", "log(exp(x) + exp(-x)) = log cosh(x) + log 2",
        lambda x: log(add(exp(x), exp(neg(x)))), lambda x: log_cosh(x) + LN2,
    ),
    rule(
        "log_of_two_exps", "log(c exp(x) + d exp(y)) = logaddexp(x + log c, y + log d)",
        lambda x, y, c, d: log(add(any_multiple(exp(x), c), any_multiple(exp(y), d))), log_sum,
    ),
    rule(
        "log_of_three_exps", "log(exp(x) + exp(y) + exp(z)) by logaddexp, twice",
        lambda x, y, z: log(add(add(exp(x), exp(y)), exp(z))),
        lambda x, y, z: logaddexp(logaddexp(x, y), z),
    ),
    rule("softplus", "log(1 + exp(x)) = -log sigmoid(-x)", lambda x: log1p(exp(x)), softplus),
    rule(
        "log_of_exp_and_number", "log(c exp(x) + n) = log(1 + exp(x + log c - log n)) + log n",
        lambda x, c, n: log(add(any_multiple(exp(x), c), n)), log_sum_with,
    ),
    *spellings(
        "log_one_minus_exp", "log(1 - exp(x)) = log(-expm1(x))", log_one_minus_exp,
        lambda x: log1p(neg(exp(x))), lambda x: log(neg(any_expm1(x))),
    ),
    rule(
        "log_exp_minus_one", "log(exp(x) - 1) = x + log(1 - exp(-x))",
        lambda x: log(any_expm1(x)), lambda x: x + log_one_minus_exp(neg(x)),
    ),
    rule("log_cosh", "log cosh(x), near 0 by sinh", lambda x: log(cosh(x)), log_cosh),
    rule("log_scaled", "log(c x) = log x + log c", lambda x, c: log(mul(x, c)), log_scaled),
    rule("log_divided", "log(x / c) = log x - log c", lambda x, c: log(div(x, c)), log_divided),
)  # fmt: skip

EXPONENTIALS = (
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
        lambda x: ratios(x, any_expm1(x)), lambda x: div(neg(x), neg(any_expm1(x))),
    ),
    rule(
        "x_over_one_minus_exp", "x / (1 - exp(-x)) is 1 at 0",
        lambda x: div(x, neg(any_expm1(neg(x)))), lambda x: x_over_expm1(-x),
    ),
    *spellings(
        "expm1_over_x", "(exp(x) - 1) / x is 1 at 0", expm1_over_x,
        lambda x: ratios(any_expm1(x), x),
    ),
    *spellings(
        "log1p_over_x", "log(1 + x) / x is 1 at 0", log1p_over_x, lambda x: ratios(log1p(x), x),
    ),
    *spellings(
        "sin_x_over_x", "sin(x) / x is 1 at 0", sin_x_over_x,
        lambda x: ratios(sin(x), x), lambda x: div(neg(sin(x)), neg(x)),
    ),
    rule(
        "sinc_near_0", "sin(pi x) / (pi x), near 0 by its series",
        lambda x: sinc(x), sinc_near_0,
    ),
)  # fmt: skip

HYPERBOLIC = (
    *spellings(
        "tanh_by_exp", "(e^x - e^-x) / (e^x + e^-x) = tanh(x)", accurate_tanh,
        lambda x: div(sub(exp(x), exp(neg(x))), add(exp(x), exp(neg(x)))),
        lambda x: div(sinh(x), cosh(x)),
    ),
    *spellings(
        "tanh_by_expm1", "(e^x - 1) / (e^x + 1) = tanh(x / 2)", lambda x: accurate_tanh(x * 0.5),
        lambda x: div(any_expm1(x), add(exp(x), 1)),
        lambda x: mul(any_expm1(x), any_sigmoid(neg(x))),
    ),
    *spellings(
        "tanh_by_one_minus_exp", "(1 - e^x) / (1 + e^x) = -tanh(x / 2)",
        lambda x: accurate_tanh(x * -0.5),
        lambda x: div(neg(any_expm1(x)), add(exp(x), 1)),
        lambda x: mul(neg(any_expm1(x)), any_sigmoid(neg(x))),
    ),
    rule(
        "tanh_by_sigmoid", "2 sigmoid(x) - 1 = tanh(x / 2)",
        lambda x: sub(mul(any_sigmoid(x), 2), 1), lambda x: accurate_tanh(x * 0.5),
    ),
    rule(
        "tanh_by_sigmoids", "sigmoid(x) - sigmoid(-x) = tanh(x / 2)",
        lambda x: sub(any_sigmoid(x), any_sigmoid(neg(x))), lambda x: accurate_tanh(x * 0.5),
    ),
    rule(
        "tanh_by_sigmoid_of_minus", "1 - 2 sigmoid(x) = -tanh(x / 2)",
        lambda x: sub(1, mul(any_sigmoid(x), 2)), lambda x: accurate_tanh(x * -0.5),
    ),
    *spellings(
        "sinh_by_exp", "(e^x - e^-x) / 2 = sinh(x)", lambda x: sinh(x),
        lambda x: any_half(sub(exp(x), exp(neg(x)))).options,
        lambda x: sub(any_half(exp(x)), any_half(exp(neg(x)))),
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
        lambda x: log(add(x, any_root(either(sub(any_square(x), 1), add(any_square(x), -1))))),
        lambda x: log(add(x, any_root(mul(sub(x, 1), add(x, 1))))),
    ),
    *spellings(
        "asinh_by_log", "log(x + sqrt(x x + 1)) = asinh(x)", lambda x: asinh(x),
        lambda x: log(add(x, any_root(add(any_square(x), 1)))),
        lambda x: log(add(x, either(hypot(x, 1), hypot(1, x)))),
    ),
)  # fmt: skip
