"""Rows of the windows of images, and of what adds them up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opinfo.core import ALL, NUMBERS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

Counts = tuple[int, ...]

_CASES: tuple[tuple[Counts, Counts, Counts, Counts], ...] = (
    ((2, 2, 5), (3,), (1,), (1,)), ((1, 2, 5, 6), (2, 3), (2, 1), (1, 2)),
    ((0, 1, 3, 3), (2, 2), (1, 1), (1, 1)), ((1, 1, 4, 4), (2, 2), (2, 2), (1, 1)),
)  # fmt: skip
_STEPS = {"stride": (1, 2), "dilation": (2, 1)}
_ATTRS = {"kernel": (2, 2), **_STEPS}
_BACK = {"size": (4, 5), **_STEPS}


def _counts(sizes: Counts, kernel: Counts, stride: Counts, dilation: Counts) -> Counts:
    each = zip(sizes, kernel, stride, dilation, strict=True)
    return tuple((n - (k - 1) * d - 1) // s + 1 for n, k, s, d in each)


def _place(i: Counts, rank: int, stride: Counts, dilation: Counts) -> Counts:
    each = zip(i[2 : 2 + rank], i[2 + rank :], stride, dilation, strict=True)
    return (*i[:2], *(at * s + o * d for o, at, s, d in each))


def _taken(x: Array, kernel: Counts, stride: Counts, dilation: Counts) -> Array:
    counts = _counts(x.shape[2:], kernel, stride, dilation)
    out = np.empty((*x.shape[:2], *kernel, *counts), x.dtype)
    for i in np.ndindex(out.shape):
        out[i] = x[_place(i, len(kernel), stride, dilation)]
    return out


def _added(y: Array, size: Counts, stride: Counts, dilation: Counts) -> Array:
    out = np.zeros((*y.shape[:2], *size))
    for i in np.ndindex(y.shape):
        out[_place(i, len(size), stride, dilation)] += float(y[i])
    return out.astype(y.dtype)


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, kernel, stride, dilation in _CASES:
        attrs = {"kernel": kernel, "stride": stride, "dilation": dilation}
        yield Sample((values(shape, dtype),), attrs)


def _window_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, kernel, stride, dilation in _CASES:
        counts = _counts(shape[2:], kernel, stride, dilation)
        attrs = {"size": shape[2:], "stride": stride, "dilation": dilation}
        yield Sample((values((*shape[:2], *kernel, *counts), dtype, 0.5),), attrs)


def _patches(x: Any, **attrs: Any) -> Any:
    return OPS["patches"](x, **attrs or _ATTRS)


def _unpatches(y: Any, **attrs: Any) -> Any:
    return OPS["unpatches"](y, **attrs or _BACK)


ROWS = (
    OpInfo(
        OPS["patches"], _patches, lambda x, **k: _taken(x, **k or _ATTRS), _samples, ALL,
        grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 2, 4, 5), dtype),)),
        failures=(Failure(Sample((np.zeros((1, 1, 2, 5), "f4"),)), ShapeError, "the room for a window of 3"),),
    ),
    OpInfo(
        OPS["unpatches"], _unpatches, lambda y, **k: _added(y, **k or _BACK), _window_samples,
        NUMBERS, grad=True,
        sized=lambda dtype, n: Sample((values((n, 2, 2, 2, 2, 2), dtype, 0.5),)),
        failures=(
            Failure(Sample((np.zeros((1, 1, 2, 2, 3, 2), "f4"),)), ShapeError, "the windows of"),
            Failure(Sample((np.zeros((1, 1, 2, 2, 2, 2), "?"),)), DTypeError, "bool"),
        ),
    ),
)  # fmt: skip
