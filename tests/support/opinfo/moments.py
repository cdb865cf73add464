"""Variances and norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import FLOATS, Array, Failure, OpInfo, Sample, layouts, special, values
from opinfo.reduce import reduced, ways
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

__all__ = ["ROWS"]


def _variance(correction: int) -> Callable[[list[float]], Any]:
    def of(group: list[float]) -> Any:
        wide = np.array(group, np.longdouble)
        return np.sum((wide - np.mean(wide)) ** 2) / np.longdouble(max(len(group) - correction, 0))

    return of


def _spread(root: bool) -> Callable[..., Array]:
    def expect(x: Array, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Array:
        correction = kwargs.get("correction", int(kwargs.get("unbiased", True)))
        of = _variance(correction)
        return reduced(lambda g: np.sqrt(of(g)) if root else of(g))(x, dim, keepdim)

    return expect


def _spread_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x in layouts(lambda shape: values(shape, dtype, -3, 3)):
        if smooth and (0 in x.strides or x.size < 2):
            continue  # no deviation: a kink of its root
        for i, way in enumerate(ways(x)):
            freedom = ({}, {"correction": 0}, {"unbiased": False}, {"correction": 2})[i % 4]
            if smooth and (x.shape == (2, 3) or x.shape == (3, 2)) and freedom == {"correction": 2}:
                freedom = {}
            sample = Sample((x,), {**way, **freedom})
            if not smooth or _spreads(x, way.get("dim")):
                yield sample
    if not smooth:
        yield Sample((special(dtype)[:6],))


def _spreads(x: Array, dim: Any) -> bool:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return math.prod(x.shape[d] for d in dims) > 1


def _norm(ord: float) -> Callable[[list[float]], float]:
    def of(group: list[float]) -> Any:
        size = np.abs(np.array(group, np.longdouble))
        if math.isinf(ord):
            return np.max(size) if ord > 0 else np.min(size)
        return np.sum(size != 0) if ord == 0 else np.sum(size**ord) ** np.longdouble(1 / ord)

    return of


_ORDERS = (2, 1, math.inf, 3, 0.5, -math.inf, 0, -1)


def _norm_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    orders = [o for o in _ORDERS if o or not smooth]
    for i, x in enumerate(layouts(lambda shape: values(shape, dtype, 0.5, 3))):
        if smooth and 0 in x.strides:
            continue
        for j, way in enumerate(ways(x)):
            ord = orders[(i + j) % len(orders)]
            if x.size or 0 <= ord < math.inf:
                yield Sample((x, ord), way)
    if not smooth:
        yield Sample((np.stack([special(dtype), special(dtype)[::-1]]), 1), {"dim": 0})


def _norm_expect(x: Array, ord: float, dim: Any = None, keepdim: bool = False) -> Array:
    return reduced(_norm(ord))(x, dim, keepdim)


_INTEGERS = Failure(Sample((np.zeros(3, "i8"),)), DTypeError, "floating")
_OUTSIDE = Failure(Sample((np.zeros((2, 3), "f4"),), {"dim": 2}), ShapeError, "out of range")

ROWS = (
    *(
        OpInfo(
            OPS[name], getattr(sf, name), _spread(root), _spread_samples, FLOATS, grad=True,
            sized=lambda dtype, n: Sample((values((3, n), dtype),), {"dim": 1}), ulps=16, zeros=False,
            failures=(
                _INTEGERS, _OUTSIDE,
                Failure(
                    Sample((np.zeros(3, "f4"),), {"unbiased": True, "correction": 2}), ShapeError,
                    "not both",
                ),
            ),
        )
        for name, root in (("var", False), ("std", True))
    ),
    OpInfo(
        OPS["vector_norm"], sf.vector_norm, _norm_expect, _norm_samples, FLOATS, grad=True, ulps=16,
        sized=lambda dtype, n: Sample((values((3, n), dtype, 1, 3), 3), {"dim": 1}), zeros=False,
        failures=(
            _INTEGERS, _OUTSIDE,
            Failure(Sample((np.zeros((3, 0), "f4"), math.inf, 1)), ShapeError, "of nothing"),
        ),
    ),
)  # fmt: skip
