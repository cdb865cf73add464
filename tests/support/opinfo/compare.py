"""Tests of numbers beyond the six comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import staticflow as sf
from opinfo.arithmetic import sized_unary, unary
from opinfo.core import ALL, FLOATS, Array, OpInfo, Sample, finfo, pointwise, special, values
from staticflow.graph.dtypes import DTYPES, DType, bool_
from staticflow.ops import OPS

__all__ = ["ROWS"]

_SIGNBIT = OpInfo(
    OPS["signbit"], sf.signbit, pointwise(lambda x: math.copysign(1, x) < 0, bool_), unary(),
    ALL, grad=False, sized=sized_unary, exact=True,
)  # fmt: skip


def _replaced(x: Array, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    limits = finfo(next(d for d in DTYPES if d.numpy == x.dtype))

    def one(v: float) -> float:
        if v != v:
            return nan
        if math.isfinite(v):
            return v
        given, own = (posinf, limits.max) if v > 0 else (neginf, limits.min)
        return float(own) if given is None else given

    return pointwise(one)(x)


def _replaced_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield from unary()(dtype, smooth)
    numbers = values((3,), dtype) if smooth else special(dtype)
    yield Sample((numbers,), {"nan": 1.5, "posinf": 2.0, "neginf": -3.0})
    yield Sample((numbers, 2.5))


_NAN_TO_NUM = OpInfo(
    OPS["nan_to_num"], sf.nan_to_num, _replaced, _replaced_samples, FLOATS, grad=True,
    sized=sized_unary, exact=True,
)  # fmt: skip

ROWS = (_SIGNBIT, _NAN_TO_NUM)
