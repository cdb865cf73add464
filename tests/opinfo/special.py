"""The error function and its kin, and sinc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from opinfo.arithmetic import unary
from opinfo.core import Sample
from opinfo.maths import real
from staticflow.graph.dtypes import DType

__all__ = ["ROWS"]


def _erfinv(x: float) -> float:
    """By bisection."""
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if abs(x) < 1e-8:
        return x * (math.sqrt(math.pi) / 2)
    a = abs(x)
    low, high = 0.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        below = math.erf(middle) < a if a < 0.5 else math.erfc(middle) > 1 - a
        low, high = (middle, high) if below else (low, middle)
    return math.copysign(middle, x)


def _sinc(x: float) -> float:
    if x == 0 or not math.isfinite(x):
        return 1.0 if x == 0 else math.nan
    return math.sin(math.pi * x) / (math.pi * x)


def _moderate(dtype: DType, smooth: bool) -> Iterator[Sample]:
    """Without numbers of which pi times as much overflows or has lost its fraction."""
    for sample in unary(0.3, 2.7)(dtype, smooth):
        (x,) = sample.args
        moderate = ~(abs(x.astype(np.float64)) > 100)
        yield sample if moderate.all() else Sample((x[moderate],))


ROWS = (
    real("erf", math.erf),
    real("erfc", math.erfc),
    real("erfinv", _erfinv, -0.8, 0.8),
    replace(real("sinc", _sinc, absolute=4, zeros=False), samples=_moderate),
)
