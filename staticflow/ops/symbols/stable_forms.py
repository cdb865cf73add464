"""Forms of expressions that lose their value at the extremes, and what is said for them.

Each is a rule with its identity. They are applied to what a person wrote before it is
differentiated, since the gradient of a form that overflows is NaN whatever becomes of its value,
and once more before the graph is compiled.
"""

from __future__ import annotations

import math
from typing import Any

from staticflow.ops.basics.arithmetic import add, div, keep_history, mul, neg, sub
from staticflow.ops.elementwise.maths import (
    abs,
    exp2,
    log,
    log1p,
    log2,
    log10,
    pow,
    reciprocal,
    rsqrt,
    sqrt,
)
from staticflow.ops.elementwise.pairs import xlogy
from staticflow.ops.elementwise.special import erf, erfc, log_ndtr, ndtr
from staticflow.ops.symbols.pattern import Rule, either, rule, spellings
from staticflow.ops.symbols.stable_exponentials import (
    EXPONENTIALS,
    HYPERBOLIC,
    SIGMOID,
    SOFTMAX,
    SUMS_OF_EXPONENTIALS,
)
from staticflow.ops.symbols.stable_spellings import (
    any_half,
    any_mean,
    any_square,
    any_squares,
    any_sum,
    inverses,
    ratios,
    roots,
)
from staticflow.ops.symbols.stable_values import (
    direction,
    has_own_log,
    hypotenuse,
    log_erfc,
    log_of_inverse,
    log_ratio,
    norm,
    power_of_2,
    power_of_2_of_ratio,
    power_of_e,
    root_of_squares,
    times_minus,
    variance,
)

__all__ = ["STABLE_FORMS"]


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
    rule("minus_x_times_number", "(-x) c = x (-c)", lambda x, c: mul(neg(x), c), times_minus),
    rule("minus_difference_from_1", "-(x - 1) = 1 - x", lambda x: neg(sub(x, 1)), lambda x: 1 - x),
    rule("power_of_e", "e ** x = exp(x)", lambda x, c: pow(c, x), power_of_e),
    rule("power_of_2", "2 ** (x / log 2) = exp(x)", lambda x, c: exp2(mul(x, c)), power_of_2),
    rule(
        "power_of_2_of_ratio",
        "2 ** (x / log 2) = exp(x)",
        lambda x, c: exp2(div(x, c)),
        power_of_2_of_ratio,
    ),
    rule("twice_of_half", "2 (x / 2) = x", lambda x: mul(any_half(x), 2), lambda x: x),
    *spellings(
        "half_of_twice",
        "2 x / 2 = x",
        lambda x: x,
        lambda x: any_half(mul(x, 2)).options,
    ),
)


_LOGARITHMS = (
    rule("log_one_plus", "log(1 + x) = log1p(x)", lambda x: log(add(x, 1)), lambda x: log1p(x)),
    *spellings(
        "log_one_minus", "log(1 - x) = log1p(-x)", lambda x: log1p(-x),
        lambda x: log(sub(1, x)), lambda x: log(neg(sub(x, 1))),
    ),
    rule(
        "log_of_inverse", "log(1 / x) = -log x",
        lambda x: log(either(*inverses(x))), log_of_inverse,
    ),
    *spellings(
        "log_of_ratio", "log(a / b) = log |a| - log |b| where a / b over- or underflows", log_ratio,
        lambda a, b: log(div(a, b)), lambda a, b: log(mul(a, either(*inverses(b)))),
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


_SQUARES = (
    *spellings(
        "root_of_square", "sqrt(x x) = |x|", lambda x: abs(x),
        lambda x: sqrt(any_square(x)), lambda x: pow(any_square(x), 0.5),
    ),
    *spellings(
        "inverse_root_of_square", "1 / sqrt(x x) = 1 / |x|", lambda x: reciprocal(abs(x)),
        lambda x: rsqrt(any_square(x)), lambda x: pow(any_square(x), -0.5),
    ),
    *spellings("direction", "x / |x| is 1 or -1", direction, lambda x: ratios(x, abs(x))),
    *spellings(
        "root_of_two_squares", "sqrt(x x + y y) = hypot(x, y)", hypotenuse,
        lambda x, y: sqrt(add(any_square(x), any_square(y))),
        lambda x, y: pow(add(any_square(x), any_square(y)), 0.5),
    ),
    *spellings(
        "root_of_squares", "sqrt(x x + y y + z z) = m sqrt((x / m)^2 + ...), m the largest |x|",
        root_of_squares,
        lambda x, y, z: roots(any_squares(x, y, z)),
        lambda x, y, z, u: roots(any_squares(x, y, z, u)),
        lambda x, y, z, u, v: roots(any_squares(x, y, z, u, v)),
        lambda x, y, z, u, v, w: roots(any_squares(x, y, z, u, v, w)),
    ),
    *spellings(
        "norm_by_hand", "sqrt(sum x x) = m sqrt(sum (x / m)^2), m = max |x|", norm,
        lambda x: sqrt(any_sum(any_square(x))), lambda x: pow(any_sum(any_square(x)), 0.5),
    ),
    *spellings(
        "inverse_norm", "1 / sqrt(sum x x) = 1 / (m sqrt(sum (x / m)^2)), m = max |x|",
        lambda x, dims, keepdim: reciprocal(norm(x, dims, keepdim)),
        lambda x: rsqrt(any_sum(any_square(x))), lambda x: pow(any_sum(any_square(x)), -0.5),
    ),
    rule(
        "variance_by_hand", "mean(x x) - mean(x)^2 = mean((x - mean x)^2)",
        lambda x: sub(any_mean(any_square(x)), any_square(any_mean(x))), variance,
    ),
)  # fmt: skip

# A clone, and a view of all, are a node of their own for whoever asks for their gradient: such a
# node is closed, and the others say nothing.
_CLONES = (rule("clone", "a copy has the same value", lambda x: keep_history(x, x), lambda x: x),)

STABLE_FORMS: tuple[Rule, ...] = (
    *_SIGNS, *HYPERBOLIC, *SIGMOID, *SOFTMAX, *SUMS_OF_EXPONENTIALS, *EXPONENTIALS, *_SQUARES,
    *_LOGARITHMS, *_CLONES,
)  # fmt: skip
"""The rules, those first that another one would hide."""
