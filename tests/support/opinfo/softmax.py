"""Exponentials normalised along a dim, and losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import FLOATS, INTEGERS, Array, Failure, OpInfo, Sample, layouts, values
from opinfo.reduce import reduced, ways
from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dtypes import DType, int32, int64
from staticflow.ops import OPS

__all__ = ["ROWS"]

_INF = math.inf


def _extremes(dtype: DType) -> Array:
    """Rows that overflow without care, and rows of infinities and NaN."""
    rows = [
        [1e4, 1e4 - 1, 0], [-1e4, -1e4 + 1, -1e4], [0, -_INF, 1], [-_INF, -_INF, -_INF],
        [_INF, 0, 1], [math.nan, 0, 1], [60, -60, 0],
    ]  # fmt: skip
    return np.array(rows).astype(dtype.numpy)


def _log_sum_exp(group: list[float]) -> float:
    """``m + log(sum(exp(x - m)))`` with exact sums."""
    if any(v != v for v in group):
        return math.nan
    m = max(group, default=-_INF)
    if math.isinf(m):
        return m
    return m + math.log(math.fsum(math.exp(v - m) for v in group))


def _softmax(row: list[float]) -> list[float]:
    """A row of only -inf has no distribution, nor has one with +inf or NaN."""
    m = max(row, default=0.0)
    if not math.isfinite(m) or any(v != v for v in row):
        return [math.nan] * len(row)
    total = math.fsum(math.exp(v - m) for v in row)
    return [math.exp(v - m) / total for v in row]


def _log_softmax(row: list[float]) -> list[float]:
    m = max(row, default=0.0)
    if not math.isfinite(m) or any(v != v for v in row):
        return [math.nan] * len(row)
    log_total = math.log(math.fsum(math.exp(v - m) for v in row)) if row else 0.0
    return [v - m - log_total for v in row]


def _along(one: Callable[[list[float]], list[float]]) -> Callable[..., Array]:
    """The expectation of an op along ``dim``, by a function of each row."""

    def expect(x: Array, dim: int) -> Array:
        if x.ndim == 0:
            return np.array(one([float(x)])[0]).astype(x.dtype)
        rows = np.moveaxis(x.astype(np.float64), dim, -1)
        out = np.empty(rows.shape)
        for at in np.ndindex(rows.shape[:-1]):
            out[at] = one(rows[at].tolist())
        return np.moveaxis(out, -1, dim).astype(x.dtype)

    return expect


def _dim_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x in layouts(lambda shape: values(shape, dtype)):
        strided = not x.flags.c_contiguous
        for dim in (0, -1) if strided else range(-max(x.ndim, 1), max(x.ndim, 1)):
            yield Sample((x, dim))
    yield Sample((values((0, 3), dtype), 1))
    yield Sample((values((3, 0), dtype), 1))
    if not smooth:
        yield Sample((_extremes(dtype), 1))


def _softmax_row(name: str, one: Callable[[list[float]], list[float]]) -> OpInfo:
    return OpInfo(
        OPS[name], getattr(sf, name), _along(one), _dim_samples, FLOATS, grad=True, ulps=16, absolute=8,
        sized=lambda dtype, n: Sample((values((3, n), dtype), 1)), zeros=False,
        failures=(Failure(Sample((np.zeros((2, 3), "f4"), 2)), ShapeError, "out of range"),),
    )  # fmt: skip


def _lse_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x in layouts(lambda shape: values(shape, dtype, 1, 3)):
        for way in ways(x):
            yield Sample((x,), {"dim": None, **way})
    if not smooth:
        yield Sample((_extremes(dtype), 1))


# -- losses ---------------------------------------------------------------------------------------


_IGNORED = -7


def _ce_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, kind in (
        ((4, 3), np.int64), ((1, 1), np.int32), ((3, 5), np.uint8), ((0, 3), np.int64),
        ((2, 300), np.uint8), ((2, 3, 4), np.int64), ((2, 3, 0), np.int64), ((1, 2, 1, 3), np.int32),
    ):  # fmt: skip
        rest = (shape[0], *shape[2:])
        target = values(rest, int64, 0, min(shape[1], 200) - 1).astype(kind)
        yield Sample((values(shape, dtype), target))
    x = values((3, 4), dtype).T
    yield Sample((x, np.array([2, 0, 1, 2])[::-1]))
    for mean in (False, True):
        yield Sample((x, np.array([2, _IGNORED, 1, _IGNORED])), {"mean": mean})
    yield Sample((values((2, 3, 4), dtype), values((2, 4), int64, 0, 2)), {"mean": True})
    if not smooth:
        yield Sample((_extremes(dtype), np.array([0, 1, 2, 0, 1, 2, 0])))


def _cross_entropy_call(x: Any, target: Any, mean: bool = False) -> Any:
    return OPS["cross_entropy"](x, target, ignore_index=_IGNORED, mean=mean)


def _cross_entropy(x: Array, target: Array, mean: bool = False) -> tuple[Array, Array]:
    total = reduced(_log_sum_exp)(x.astype(np.float64), 1, True)
    loss = np.zeros(target.shape)
    for n, *rest in np.ndindex(target.shape):
        at = target[(n, *rest)]
        if at != _IGNORED:  # the logarithm of the sum beside the score that counts
            row = [float(v) - float(x[(n, at, *rest)]) for v in x[(n, slice(None), *rest)]]
            loss[(n, *rest)] = _log_sum_exp(row)
    if mean:
        loss = loss.sum() / np.sum(target != _IGNORED)
    wide = x.dtype if x.dtype.itemsize > 2 else np.float32
    return loss.astype(x.dtype), total.astype(wide)


def _classes(shape: Any, dtype: str = "i8") -> Array:
    return np.zeros(shape, dtype)


_SCORES = np.zeros((3, 4), "f4")
_CROSS_ENTROPY = OpInfo(
    OPS["cross_entropy"], _cross_entropy_call, _cross_entropy, _ce_samples, FLOATS, grad=True,
    zeros=False, absolute=8, ulps=16,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), _classes(n))),
    failures=(
        Failure(Sample((_SCORES, np.array([0, 4, 1]))), IndexRangeError, "index 4", eager=True),
        Failure(Sample((_SCORES, np.array([0, -1, 1]))), IndexRangeError, "index -1", eager=True),
        Failure(Sample((_SCORES, _classes(3, "f4"))), DTypeError, "integer"),
        Failure(Sample((_SCORES, _classes(1))), ShapeError, "3 and 1 differ"),
        Failure(Sample((_SCORES, _classes((3, 1)))), ShapeError, "(N, C, ...)"),
        Failure(Sample((_SCORES.astype("i8"), _classes(3))), DTypeError, "floating"),
    ),
)  # fmt: skip

_ASKED = {"classes": 5, "ignore_index": 2, "dtype": int32, "of": "loss"}
_CLASS_INDEX = OpInfo(
    OPS["class_index"], lambda target, **attrs: OPS["class_index"](target, **attrs),
    lambda target, classes, ignore_index, dtype, of: np.where(
        target == ignore_index, -1, target.astype("i8")
    ).astype("i4"),
    lambda dtype, smooth: (
        Sample((values(shape, dtype, 0, 4),), _ASKED)
        for shape in ((), (0,), (3,), (2, 3))
    ),
    INTEGERS, grad=False, exact=True,
    sized=lambda dtype, n: Sample(
        (values((n,), dtype, 0, 4),), _ASKED
    ),
)  # fmt: skip


def _mse_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for a, b in (
        ((3,), (3,)),
        ((2, 3), ()),
        ((2, 1), (1, 3)),
        ((0,), (0,)),
        ((), ()),
        ((0, 2), (1, 2)),
    ):
        if smooth and 0 in (*a, *b):
            continue  # the mean of nothing
        yield Sample((values(a, dtype), values(b, dtype, seed=1)))
    yield Sample((values((3, 2), dtype).T, values((2, 3), dtype)[::-1]))
    yield Sample((values((2, 3), dtype), 1.5))


def _mse(x: Array, y: Any) -> Array:
    wide = (np.asarray(x, np.float64) - np.asarray(y, np.float64)) ** 2
    mean = math.fsum(wide.reshape(-1).tolist()) / wide.size if wide.size else math.nan
    return np.array(mean).astype(x.dtype)


_MSE = OpInfo(
    OPS["mse_loss"], OPS["mse_loss"], _mse, _mse_samples, FLOATS, grad=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), values((n, 1), dtype))),
    failures=(Failure(Sample((np.zeros(3, "f4"), np.zeros(2, "f4"))), ShapeError, "3 and 2 differ"),),
)  # fmt: skip

ROWS = (
    _softmax_row("softmax", _softmax),
    _softmax_row("log_softmax", _log_softmax),
    OpInfo(
        OPS["logsumexp"], sf.logsumexp, lambda x, dim, keepdim=False: reduced(_log_sum_exp)(x, dim, keepdim),
        _lse_samples, FLOATS, grad=True, zeros=False, absolute=8,
        sized=lambda dtype, n: Sample((values((3, n), dtype), 1)),
    ),
    _CROSS_ENTROPY,
    _CLASS_INDEX,
    _MSE,
)  # fmt: skip
