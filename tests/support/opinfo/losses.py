"""Losses of single elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opinfo.core import FLOATS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dtypes import DType, int64
from staticflow.ops import OPS


def _nll_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, kind in (
        ((4, 3), np.int64), ((1, 1), np.int32), ((3, 5, 2), np.uint8), ((0, 3), np.int64),
        ((2, 3, 0), np.int64), ((2, 3, 1, 4), np.int64), ((2, 300), np.uint8),
    ):  # fmt: skip
        classes = (shape[0], *shape[2:])
        target = values(classes, int64, 0, min(shape[1], 200) - 1).astype(kind)
        for ignored in (-100, 1, 200):
            yield Sample((values(shape, dtype, -3, -1), target), {"ignore_index": ignored})
    mixed = np.array([-100, 2, -100, 0])
    yield Sample((values((4, 3), dtype), mixed), {"ignore_index": -100})
    yield Sample((values((3, 4), dtype).T, mixed[::-1]), {"ignore_index": -100})


def _nll(x: Array, target: Array, ignore_index: int) -> Array:
    out = np.zeros(target.shape, x.dtype)
    for at in np.ndindex(target.shape):
        if target[at] != ignore_index:
            out[at] = -x[(at[0], target[at], *at[1:])]
    return out


def _classes(shape: object, dtype: str = "i8") -> Array:
    return np.zeros(shape, dtype)


def _refused(
    x: Array, target: Array, error: type[Exception], says: str, eager: bool = False
) -> Failure:
    return Failure(Sample((x, target), {"ignore_index": -100}), error, says, eager)


_SCORES = np.zeros((3, 4), "f4")
_NLL = OpInfo(
    OPS["nll"], OPS["nll"], _nll, _nll_samples, FLOATS, grad=True, zeros=False,
    sized=lambda dtype, n: Sample(
        (values((n, 3, n), dtype, -3, -1), _classes((n, n))), {"ignore_index": -100}
    ),
    failures=(
        _refused(_SCORES, np.array([0, 4, -100]), IndexRangeError, "index 4", eager=True),
        _refused(_SCORES, np.array([0, -1, 1]), IndexRangeError, "index -1", eager=True),
        _refused(_SCORES[:, :0], np.array([0, 1, 1]), IndexRangeError, "size 0", eager=True),
        _refused(_SCORES, _classes(3, "f4"), DTypeError, "integer"),
        _refused(_SCORES, _classes(1), ShapeError, "3 and 1 differ"),
        _refused(_SCORES, _classes((3, 1)), ShapeError, "(N, C, ...)"),
        _refused(_SCORES[0], _classes(()), ShapeError, "(N, C, ...)"),
        _refused(_SCORES.astype("i8"), _classes(3), DTypeError, "floating"),
    ),
)  # fmt: skip


def _bce_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for a, b in (((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((), ()), ((0, 2), (1, 2))):
        yield Sample((values(a, dtype, 0.1, 0.9), values(b, dtype, 0.2, 0.8, seed=1)))
    yield Sample((values((3, 2), dtype, 0.1, 0.9).T, values((2, 3), dtype, 0.2, 0.8)[::-1]))
    if not smooth:
        edges = np.array([0.0, 1.0, 0.0, 1.0, 0.5]).astype(dtype.numpy)
        yield Sample((edges, np.array([0.0, 1.0, 1.0, 0.0, 1.0]).astype(dtype.numpy)))
        yield Sample((np.array([np.nan, 0.5]).astype(dtype.numpy), edges[:2]))


def _bce(x: Array, target: Array) -> Array:
    wide, t = np.asarray(x, np.float64), np.asarray(target, np.float64)
    with np.errstate(all="ignore"):
        logs = np.maximum(np.log(wide), -100), np.maximum(np.log1p(-wide), -100)
    return np.asarray(-(t * logs[0] + (1 - t) * logs[1])).astype(x.dtype)


_BCE = OpInfo(
    OPS["binary_cross_entropy"], OPS["binary_cross_entropy"], _bce, _bce_samples, FLOATS, grad=True,
    zeros=False, absolute=4,
    sized=lambda dtype, n: Sample((values((n, 3), dtype, 0.1, 0.9), values((n, 1), dtype, 0.2, 0.8))),
    failures=(
        Failure(Sample((np.zeros(3, "f4"), np.zeros(2, "f4"))), ShapeError, "3 and 2 differ"),
    ),
)  # fmt: skip

ROWS = (_NLL, _BCE)
