"""Mantissas, exponents, and the floats next to others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.arithmetic import binary, pairwise, sized_unary, unary
from opinfo.core import FLOATS, Array, Failure, OpInfo, Sample, finfo, pointwise, special
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, dtype_of, int32
from staticflow.ops import OPS

__all__ = ["ROWS"]


def _denormal(dtype: DType) -> Array:
    limits = finfo(dtype)
    least = float(limits.smallest_subnormal)
    ends = [least, 3 * least, float(limits.smallest_normal) - least]
    return np.array([*ends, *(-v for v in ends)], dtype.numpy)


def _one(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield from unary()(dtype, smooth)
    if not smooth:
        yield Sample((_denormal(dtype),))


def _two(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield from binary()(dtype, smooth)
    if not smooth:
        each = np.concatenate([special(dtype), _denormal(dtype)])
        yield Sample((_denormal(dtype)[:, None], each))
        yield Sample((each[:, None], _denormal(dtype)))


def _nextafter(x: float, y: float, limits: Any) -> float:
    """By adding a unit in the last place, of which a float of 64 bits loses nothing."""
    least = float(limits.smallest_subnormal)
    if x == y:
        return y
    if x != x or y != y:
        return math.nan
    if x == 0:
        return math.copysign(least, y)
    if math.isinf(x):
        return math.copysign(float(limits.max), x)
    m, e = math.frexp(abs(x))
    unit = max(math.ldexp(1.0, e - 1 - int(limits.nmant)), least)
    outward = (x < y) == (x > 0)
    if not outward and m == 0.5 and unit > least:
        unit /= 2
    return math.copysign(abs(x) + unit if outward else abs(x) - unit, x)


def _expect_nextafter(x: Any, y: Any) -> Array:
    limits = finfo(dtype_of(next(a.dtype for a in (x, y) if hasattr(a, "dtype"))))
    return pointwise(lambda a, b: _nextafter(float(a), float(b), limits))(x, y)


_NO_INTEGERS = (Failure(Sample((np.array([1]),)), DTypeError, "not defined for int64"),)

ROWS = (
    OpInfo(
        OPS["frexp"], lambda x: sf.frexp(x).mantissa,
        pointwise(lambda x: math.frexp(x)[0]), _one, FLOATS, grad=True, sized=sized_unary,
        exact=True, failures=_NO_INTEGERS,
    ),
    OpInfo(
        OPS["frexp_exponent"], lambda x: sf.frexp(x).exponent,
        pointwise(lambda x: math.frexp(x)[1], int32), _one, FLOATS, grad=False, sized=sized_unary,
        exact=True, failures=_NO_INTEGERS,
    ),
    pairwise(
        OPS["nextafter"], sf.nextafter, expect=_expect_nextafter, samples=_two, dtypes=FLOATS,
        exact=True,
        failures=(
            Failure(Sample((np.ones(3, "f4"), np.ones(2, "f4"))), ShapeError, "3 and 2 differ"),
            Failure(Sample((np.array([1]), np.array([1]))), DTypeError, "not defined for int64"),
        ),
    ),
)  # fmt: skip
