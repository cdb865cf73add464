"""What the stable forms are written in: patterns that match each of the spellings of a value."""

from __future__ import annotations

import functools
from typing import Any

from staticflow.ops.basics.arithmetic import add, div, keep_history, mul
from staticflow.ops.basics.reduce import mean_op, sum_op
from staticflow.ops.basics.view import unsqueeze_op
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.maths import (
    exp,
    expm1,
    pow,
    reciprocal,
    sigmoid,
    sqrt,
)
from staticflow.ops.symbols.pattern import attr, either

__all__ = [
    "any_expm1",
    "any_half",
    "any_mean",
    "any_multiple",
    "any_root",
    "any_row_sum",
    "any_sigmoid",
    "any_square",
    "any_squares",
    "any_sum",
    "inverses",
    "ratios",
    "roots",
]


def any_square(x: Any) -> Any:
    """The pattern of the square of ``x``."""
    return either(mul(x, x), pow(x, 2))


def any_root(x: Any) -> Any:
    """The pattern of the root of ``x``."""
    return either(sqrt(x), pow(x, 0.5))


def roots(x: Any) -> tuple[Any, ...]:
    """The patterns of the root of ``x``."""
    return sqrt(x), pow(x, 0.5)


def any_squares(*terms: Any) -> Any:
    """The sum of the squares of some terms, added up one after the other."""
    return functools.reduce(add, map(any_square, terms))


def any_half(x: Any) -> Any:
    """The pattern of half of ``x``."""
    return either(mul(x, 0.5), div(x, 2))


def any_sigmoid(x: Any) -> Any:
    """The pattern of the sigmoid of ``x``, or of the exponential of its logarithm."""
    return either(sigmoid(x), exp(logsigmoid(x)))


def any_expm1(x: Any) -> Any:
    """The pattern of ``exp(x) - 1``, with whatever gradient."""
    return either(expm1(x), keep_history(exp(x), expm1(x)))


def inverses(x: Any) -> tuple[Any, ...]:
    """The patterns of one over ``x``."""
    return reciprocal(x), div(1, x), pow(x, -1)


def ratios(x: Any, y: Any) -> tuple[Any, ...]:
    """The patterns of ``x`` over ``y``."""
    return div(x, y), mul(x, either(*inverses(y)))


def any_sum(x: Any) -> Any:
    """The pattern of a sum of ``x`` over some dims."""
    return sum_op(x, dims=attr("dims"), keepdim=attr("keepdim"))


def any_mean(x: Any) -> Any:
    """The pattern of a mean of ``x`` over some dims."""
    return mean_op(x, dims=attr("dims"), keepdim=attr("keepdim"))


def any_row_sum(x: Any) -> Any:
    """The sum along one dim, which stays as one of size 1."""
    kept = sum_op(x, dims=attr("dims"), keepdim=True)
    dropped = sum_op(x, dims=attr("dims"), keepdim=False)
    return either(kept, unsqueeze_op(dropped, dims=attr("dims")))


def any_multiple(x: Any, c: Any) -> Any:
    """The pattern of ``x``, or of ``x`` times ``c``."""
    return either(x, mul(x, c))
