"""Rows of sums of a few weighted elements along a dim, and of their transpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opinfo.core import FLOATS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, int64
from staticflow.ops import OPS

_CASES = (((2, 2, 4, 3), (2, 2, 5)), ((2, 1, 3, 1), (1, 3, 2)), ((0, 2, 3, 2), (1, 1, 2)))
"""Shapes (B, C, S, R) and (B, K, P)."""


def _operands(like: tuple[int, ...], of: tuple[int, ...], places: int, dtype: DType) -> Sample:
    index = values(of, int64, 0, places - 1)
    given = (values(like, dtype, 0.5), index, values(of, dtype, 0.5))
    return Sample(given, {"count": of[1]})


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, of in _CASES:
        yield _operands(shape, of, shape[2], dtype)
    yield Sample((values((2, 1, 3, 2), dtype), values((1, 1, 4), int64, 0, 2)), {"count": 1})


def _back_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for (b, c, s, r), of in _CASES:
        sample = _operands((b, c, of[2], r), of, s, dtype)
        yield Sample(sample.args, {**sample.kwargs, "size": s})


def _terms(index: Array, shape: tuple[int, ...], weights: Any) -> Iterator[Any]:
    """Each place (b, c, p, r), where an element for it is, and its weight."""
    for b, c, p, r in np.ndindex(shape[0], shape[1], index.shape[2], shape[3]):
        first = b if len(index) > 1 else 0
        for k in range(index.shape[1]):
            weight = float(weights[0][first, k, p]) if weights else 1.0
            yield (b, c, p, r), (b, c, index[first, k, p], r), weight


def _read(x: Array, index: Array, *weights: Array, count: int) -> Array:
    out = np.zeros((*x.shape[:2], index.shape[2], x.shape[3]))
    for at, source, weight in _terms(index, x.shape, weights):
        out[at] += float(x[source]) * weight
    return out.astype(x.dtype)


def _added(y: Array, index: Array, *weights: Array, count: int, size: int) -> Array:
    out = np.zeros((*y.shape[:2], size, y.shape[3]))
    for at, source, weight in _terms(index, y.shape, weights):
        out[source] += float(y[at]) * weight
    return out.astype(y.dtype)


_X, _INDEX = np.zeros((2, 1, 3, 1), "f4"), np.zeros((1, 2, 4), "i8")

ROWS = (
    OpInfo(
        OPS["resample"], lambda *a, count=2: OPS["resample"](*a, count=count),
        lambda *a, count=2: _read(*a, count=count), _samples, FLOATS, grad=True, ulps=32,
        sized=lambda dtype, n: Sample(_operands((n, 2, 4, 3), (1, 2, 5), 4, dtype).args),
        failures=(
            Failure(Sample((_X, _INDEX)), ShapeError, "2 and 1 differ"),
            Failure(Sample((_X, _INDEX, _INDEX)), DTypeError, "weights are i64"),
            Failure(Sample((_X[0], _INDEX, _X)), ShapeError, "4 dims"),
        ),
    ),
    OpInfo(
        OPS["unresample"], lambda *a, count=2, size=4: OPS["unresample"](*a, count=count, size=size),
        lambda *a, count=2, size=4: _added(*a, count=count, size=size), _back_samples, FLOATS,
        grad=True, ulps=32,
        sized=lambda dtype, n: Sample(_operands((n, 2, 5, 3), (1, 2, 5), 4, dtype).args),
        failures=(
            Failure(Sample((_X, _INDEX, np.zeros((1, 2, 4), "f4"))), ShapeError, "and the positions"),
        ),
    ),
)  # fmt: skip
