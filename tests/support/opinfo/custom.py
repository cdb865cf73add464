"""Values with a derivative of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opinfo.core import FLOATS, Array, OpInfo, Sample, values
from staticflow.autograd import Function
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

__all__ = ["ROWS"]


class _Halves(Function):
    """``x * x`` and ``x * y / 2``, saving arguments and a result, and one without a derivative."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        square = x * x
        ctx.save_for_backward(x, y, square)
        return square, x * (y / 2), x > y

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any, unused: Any) -> Any:
        x, y, square = ctx.saved_tensors
        return a * 2 * x + b * y / 2, (b * x + 0 * square) / 2


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in ((), (0,), (1,), (3,), (2, 3)):
        yield Sample((values(shape, dtype), values(shape, dtype)))


def _expect(x: Array, y: Array) -> Any:
    return x * x, x * (y / np.asarray(2, y.dtype)), x > y


ROWS = (
    OpInfo(
        OPS["custom"], _Halves.apply, _expect, _samples, FLOATS, grad=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), values((n, 3), dtype))),
    ),
    OpInfo(
        OPS["once_differentiable"], OPS["once_differentiable"], lambda x: x,
        lambda dtype, smooth: (Sample((values(s, dtype),)) for s in ((), (0,), (3,))),
        FLOATS, grad=False, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
    ),
)  # fmt: skip
