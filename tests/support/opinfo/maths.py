"""Functions of real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.arithmetic import binary, sized_unary, unary
from opinfo.core import (
    ALL,
    FLOATS,
    NUMBERS,
    Failure,
    OpInfo,
    Sample,
    pointwise,
    special,
    values,
)
from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DType, bool_
from staticflow.ops import OPS

__all__ = [
    "NO_BOOL",
    "ROWS",
    "bounded",
    "inverse",
    "real",
    "saturating",
    "sigmoid",
]

inf, nan = math.inf, math.nan


def saturating(fn: Callable[[float], float]) -> Callable[[float], float]:
    """Python raises where IEEE overflows."""

    def apply(x: float) -> float:
        try:
            return fn(x)
        except OverflowError:
            return inf

    return apply


def inverse(x: float) -> float:
    return math.copysign(inf, x) if x == 0 else 1 / x


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -inf if x == 0 else nan


def _log1p(x: float) -> float:
    return math.log1p(x) if x > -1 else -inf if x == -1 else nan


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else nan


def bounded(fn: Callable[[float], float]) -> Callable[[float], float]:
    """Trigonometry has no value at infinity."""
    return lambda x: nan if math.isinf(x) else fn(x)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def real(
    name: str, fn: Callable[[float], float], low: float = -3, high: float = 3, **row: Any
) -> OpInfo:
    return OpInfo(
        OPS[name],
        getattr(sf, name),
        pointwise(lambda x: fn(float(x)), real=True),
        unary(low, high),
        ALL,
        grad=True,
        sized=sized_unary,
        **row,
    )


_REAL = (
    real("exp", saturating(math.exp)),
    real("expm1", saturating(math.expm1)),
    real("log", _log, 0.3),
    real("log1p", _log1p, -0.7),
    real("exp2", saturating(lambda x: 2.0**x)),
    real("log2", lambda x: math.log2(x) if x > 0 else _log(x), 0.3),
    real("log10", lambda x: math.log10(x) if x > 0 else _log(x), 0.3),
    real("sqrt", _sqrt, 0.3),
    real("rsqrt", lambda x: inverse(_sqrt(x)), 0.3),
    real("reciprocal", inverse, 0.5),
    real("sigmoid", sigmoid),
)


# -- steps and signs ------------------------------------------------------------------------------


def _step(fn: Callable[[float], int]) -> Callable[[Any], Any]:
    """Integers stay; the zeros that come of a negative number are negative."""

    def apply(x: Any) -> Any:
        if not isinstance(x, float) or not math.isfinite(x):
            return x
        return math.copysign(fn(x), x)

    return apply


def _sign(x: Any) -> Any:
    return (x > 0) - (x < 0)


NO_BOOL = (Failure(Sample((np.array([True]),)), DTypeError, "not defined for bool"),)


def _plain(name: str, fn: Callable[[Any], Any], **row: Any) -> OpInfo:
    return OpInfo(
        OPS[name], getattr(sf, name), pointwise(fn), unary(), NUMBERS, grad=True, sized=sized_unary,
        failures=NO_BOOL, **row,
    )  # fmt: skip


_STEPS = (
    _plain("floor", _step(math.floor), exact=True),
    _plain("ceil", _step(math.ceil), exact=True),
    _plain("trunc", _step(math.trunc), exact=True),
    _plain("round", _step(round), exact=True),
    _plain("abs", abs, exact=True),
    replace(_plain("sign", _sign, exact=True), dtypes=ALL, failures=()),
    _plain("relu", lambda x: 0 if x < 0 else x, exact=True),
)

_FRAC = OpInfo(
    OPS["frac"], sf.frac, pointwise(lambda x: x - math.trunc(x) if math.isfinite(x) else nan),
    unary(), FLOATS, grad=True, sized=sized_unary, zeros=False,
    failures=(Failure(Sample((np.array([1]),)), DTypeError, "not defined for int64"),),
)  # fmt: skip


# -- tests ---------------------------------------------------------------------------------------


def _test(name: str, fn: Callable[[float], bool]) -> OpInfo:
    expect = pointwise(lambda x: fn(float(x)), bool_)
    return OpInfo(OPS[name], getattr(sf, name), expect, unary(), ALL, grad=False, sized=sized_unary)


_TESTS = (
    _test("isnan", math.isnan),
    _test("isinf", math.isinf),
    _test("isfinite", math.isfinite),
)


# -- power ---------------------------------------------------------------------------------------


def _pow(x: Any, y: Any) -> Any:
    if not isinstance(x, float) and not isinstance(y, float):
        return x**y if y >= 0 else (x if y % 2 else 1) if abs(x) == 1 else 0
    return float(np.float64(x) ** np.float64(y))  # C's pow: IEEE 754-2008, 9.2.1


def _pow_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    positive = (0.5, 3)
    for a, b in (((3,), (3,)), ((2, 1), (1, 3)), ((), (3,)), ((2, 3), ()), ((0,), (1,))):
        yield Sample((values(a, dtype, *positive), values(b, dtype, 0, 3, seed=1)))
    exponents = (2, 3, 0, 1, 2.5, -1, 0.5, -2) if dtype.is_floating else (2, 3, 0, 1)
    for y in exponents:
        yield Sample((values((2, 3), dtype, *positive), y))
    yield Sample((2, values((2, 3), dtype, 0, 3)))
    if smooth:
        return
    yield from binary(specials=False)(dtype, False)
    if dtype.is_floating:
        yield Sample((special(dtype)[:, None], special(dtype)))
        for y in (2, 3, 0, -1, 0.5):
            yield Sample((special(dtype), y))
    else:
        few = np.array([0, 1, 2, 3, 7], dtype.numpy)
        yield Sample((special(dtype)[:, None], few))


_POW = OpInfo(
    OPS["pow"], sf.pow, pointwise(_pow), _pow_samples, NUMBERS, grad=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype, 0, 3), values((n, 1), dtype, 0, 3))),
    failures=(
        Failure(Sample((np.array([True]), np.array([True]))), DTypeError, "not defined for bool"),
        Failure(Sample((np.array([2, 3]), -1)), DTypeError, "negative", eager=True),
    ),
)  # fmt: skip

ROWS = (*_REAL, *_STEPS, _FRAC, *_TESTS, _POW)
