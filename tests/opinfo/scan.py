"""Loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, float32, float64, int64
from staticflow.ops import OPS

__all__ = ["ROWS"]


def _call(init: Any, xs: Any, w: Any, reverse: bool = False) -> Any:
    """A carry of two parts, rows of xs, a captured w, and ys of two parts."""

    def step(carry: Any, x: Any) -> Any:
        h, total = carry
        h = h * w + x
        return (h, total + h.sum()), {"h": h, "x": x * w}

    return sf.scan(step, (init, init.sum()), xs, reverse=reverse)


def _expect(init: Array, xs: Array, w: Array, reverse: bool = False) -> Any:
    h, total = init, init.sum(dtype=init.dtype)
    hs = np.zeros((len(xs), *init.shape), init.dtype)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        h = hs[t] = h * w + xs[t]
        total = total + h.sum(dtype=init.dtype)
    return ((h, np.asarray(total)), {"h": hs, "x": xs * w})


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for steps in (1, 2, 5):
        for shape in ((), (3,), (0,)):
            for reverse in (False, True):
                args = (
                    values(shape, dtype),
                    values((steps, *shape), dtype),
                    values(shape, dtype, 0.5, 1),
                )
                yield Sample(args, {"reverse": reverse})
    yield Sample((values((3,), dtype), values((3, 4), dtype).T[::-1], values((), dtype)))


def _wrong(*args: Any, error: type[Exception], says: str) -> Failure:
    return Failure(Sample(args), error, says)


def _sized(dtype: DType, n: int) -> Sample:
    return Sample((values((3,), dtype), values((n, 3), dtype), values((3,), dtype, 0.5, 1)))


ROWS = (
    OpInfo(
        OPS["scan"], _call, _expect, _samples, (float32, float64, int64), grad=True, sized=_sized,
        ulps=16, zeros=False,
        failures=(
            _wrong(np.ones(2, "f4"), np.ones((4, 3), "f4"), np.ones(2, "f4"), error=ShapeError, says="differ"),
            _wrong(np.ones(3, "f4"), np.float32(1) * np.ones(()), np.ones(3, "f4"), error=ShapeError, says="0-d"),
            _wrong(np.ones(3, "f4"), np.ones((4, 3), "f8"), np.ones(3, "f4"), error=DTypeError, says="carry[0]"),
            _wrong(np.ones(1, "f4"), np.ones((4, 3), "f4"), np.ones(1, "f4"), error=ShapeError, says="carry[0]"),
        ),
    ),
)  # fmt: skip
