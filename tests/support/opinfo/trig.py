"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import staticflow as sf
from opinfo.arithmetic import PAIR_FAILURES, binary, pairwise
from opinfo.core import ALL, pointwise
from opinfo.maths import bounded, real
from staticflow.ops import OPS

__all__ = ["ROWS", "guarded"]


def guarded(fn: Callable[[float], float]) -> Callable[[float], float]:
    """NaN where Python finds an argument outside the domain, infinity where a result overflows."""

    def apply(x: float) -> float:
        try:
            return fn(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf if x > 0 else fn(math.copysign(1, x)) * math.inf

    return apply


def _at_the_ends(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)


_REAL = (
    real("sin", bounded(math.sin)),
    real("cos", bounded(math.cos)),
    real("tan", bounded(math.tan), -1.2, 1.2, ulps=16),
    real("tanh", math.tanh),
    real("asin", guarded(math.asin), -0.8, 0.8),
    real("acos", guarded(math.acos), -0.8, 0.8),
    real("atan", math.atan),
    real("sinh", guarded(math.sinh)),
    real("cosh", guarded(math.cosh)),
    real("asinh", math.asinh),
    real("acosh", guarded(math.acosh), 1.3),
    real("atanh", guarded(_at_the_ends), -0.8, 0.8),
    real("deg2rad", lambda x: x * (math.pi / 180)),
    real("rad2deg", lambda x: x * 180 / math.pi),
)


def _atan2(y: Any, x: Any) -> float:
    return math.atan2(float(y), float(x))


_ATAN2 = pairwise(
    OPS["atan2"], sf.atan2, expect=pointwise(_atan2, real=True), dtypes=ALL,
    samples=binary((0.5, 3), (0.5, 3)), failures=PAIR_FAILURES,
)  # fmt: skip

ROWS = (*_REAL, _ATAN2)
