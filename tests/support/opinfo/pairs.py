"""Functions of two and three numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.arithmetic import (
    PAIR_FAILURES,
    binary,
    pairwise,
    sized_pair,
    zero_if_impossible,
)
from opinfo.core import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Failure,
    OpInfo,
    Sample,
    pointwise,
    special,
    values,
)
from opinfo.trig import guarded
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

__all__ = ["ROWS"]

inf, nan = math.inf, math.nan
_ABOVE = (0.5, 3)


def _fmod(x: Any, y: Any) -> Any:
    if isinstance(x, float):
        return nan if y == 0 or math.isinf(x) else math.fmod(x, y)
    return int(math.copysign(1, x)) * (abs(x) % abs(y))


def _beside_nan(of: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: y if x != x else x if y != y else of(x, y)


def _heaviside(x: Any, y: Any) -> Any:
    return y if x == 0 else x > 0


def _logaddexp(x: float, y: float) -> float:
    if x == y:
        return x + math.log(2)
    return max(x, y) + math.log1p(math.exp(-abs(x - y))) if x == x and y == y else nan


def _logaddexp2(x: float, y: float) -> float:
    if x == y:
        return x + 1
    return max(x, y) + math.log2(1 + 2 ** -abs(x - y)) if x == x and y == y else nan


def _xlogy(x: float, y: float) -> float:
    if x == 0 and y == y:
        return 0.0
    return x * (math.log(y) if y > 0 else -inf if y == 0 else nan)


_NO_INTEGERS = (
    *PAIR_FAILURES,
    Failure(Sample((np.array([1]), np.array([1]))), DTypeError, "not defined for int64"),
)


def _of_floats(name: str, fn: Callable[[float, float], float], **row: Any) -> OpInfo:
    row.setdefault("samples", binary(_ABOVE, _ABOVE))
    expect = pointwise(lambda x, y: guarded(lambda _: fn(float(x), float(y)))(1.0))
    return pairwise(
        OPS[name], getattr(sf, name), expect=expect, dtypes=FLOATS, failures=_NO_INTEGERS, **row
    )  # fmt: skip


_WHOLE = {
    "dtypes": INTEGERS,
    "exact": True,
    "failures": (
        Failure(Sample((np.ones(3, "i4"), np.ones(2, "i4"))), ShapeError, "3 and 2 differ"),
        Failure(Sample((np.ones(2), np.ones(2))), DTypeError, "not defined for float64"),
        Failure(Sample((np.ones(2, "?"), np.ones(2, "?"))), DTypeError, "not defined for bool"),
    ),
}

_TWO = (
    pairwise(OPS["gcd"], sf.gcd, math.gcd, **_WHOLE),
    pairwise(OPS["lcm"], sf.lcm, math.lcm, **_WHOLE),
    pairwise(
        OPS["fmod"], sf.fmod, zero_if_impossible(_fmod), samples=binary(second=_ABOVE),
    ),
    _of_floats("hypot", math.hypot),
    pairwise(
        OPS["copysign"], sf.copysign, expect=pointwise(lambda x, y: math.copysign(x, y), real=True),
        dtypes=ALL, samples=binary(_ABOVE, _ABOVE), failures=PAIR_FAILURES, exact=True,
    ),
    pairwise(OPS["fmax"], sf.fmax, _beside_nan(max), dtypes=ALL, zeros=False),
    pairwise(OPS["fmin"], sf.fmin, _beside_nan(min), dtypes=ALL, zeros=False),
    pairwise(OPS["heaviside"], sf.heaviside, _heaviside, dtypes=ALL, exact=True),
    _of_floats("logaddexp", _logaddexp, absolute=2),
    _of_floats("logaddexp2", _logaddexp2, absolute=2),
    pairwise(
        OPS["xlogy"], sf.xlogy,
        expect=pointwise(lambda x, y: _xlogy(float(x), float(y)), real=True),
        dtypes=ALL, samples=binary(_ABOVE, _ABOVE), failures=PAIR_FAILURES, zeros=False,
    ),
)  # fmt: skip

# -- of three -------------------------------------------------------------------------------------

_TRIPLES = (
    ((3,), (3,), (3,)), ((), (3,), (2, 1)), ((2, 3), (), (3,)), ((), (), ()), ((0,), (1,), ()),
    ((2, 1), (1, 3), (3,)),
)  # fmt: skip


def _triples(numbers: bool = False, **attrs: Any) -> Callable[[DType, bool], Iterator[Sample]]:
    """Three tensors away from zero; or two and a number; and special values, each with each."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for kwargs in ({}, attrs) if attrs else ({},):
            for shapes in _TRIPLES:
                drawn = (values(s, dtype, *_ABOVE, seed=i) for i, s in enumerate(shapes))
                yield Sample(tuple(drawn), kwargs)
        if numbers:
            for weight in (0.25, 0.75, 1.0):
                x, y = values((2, 3), dtype), values((3,), dtype, seed=1)
                yield Sample((x, y, weight))
        if not smooth:
            few = special(dtype)[:7]
            yield Sample((few[:, None, None], few[:, None], few))

    return samples


def _lerp(x: float, y: float, w: float) -> float:
    return x + w * (y - x) if abs(w) < 0.5 else y - (y - x) * (1 - w)


def _quotient(x: float, y: float) -> float:
    return x / y if y else nan if x == 0 or x != x else math.copysign(inf, x) * math.copysign(1, y)


def _of_three(
    name: str,
    fn: Callable[..., float],
    samples: Any,
    dtypes: tuple[DType, ...] = FLOATS,
    refused: Any = 1,
) -> OpInfo:
    return OpInfo(
        OPS[name], getattr(sf, name), pointwise(fn), samples, dtypes, grad=True, absolute=4,
        zeros=False,
        sized=lambda dtype, n: Sample(
            (*sized_pair(dtype, n).args, values((3,), dtype, *_ABOVE, seed=2))
        ),
        failures=(Failure(Sample((np.array([refused]),) * 3), DTypeError, "not defined for"),),
    )  # fmt: skip


_THREE = (
    _of_three("lerp", _lerp, _triples(numbers=True)),
    _of_three(
        "addcmul", lambda x, a, b, value=1: x + a * b * value, _triples(value=2), NUMBERS, True
    ),
    _of_three(
        "addcdiv", lambda x, a, b, value=1: x + _quotient(a * value, b), _triples(value=-0.5)
    ),
)

ROWS = (*_TWO, *_THREE)
