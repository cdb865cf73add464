"""Other strides, and bits as another dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import ALL, NUMBERS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.ops import OPS

__all__ = ["ROWS"]


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    x = values((2, 6), dtype)
    yield Sample((x, (3, 2), (4, 1)))
    yield Sample((x, (3, 3), (1, 2), 2))
    yield Sample((x, (), (), 5))
    yield Sample((x, (0, 2), (1, 1)))
    yield Sample((x, (2, 3), (0, 1)))
    yield Sample((values((4,), dtype), (4,), (1,)))


def _gathered(x: Array, size: Any, stride: Any, offset: int = 0) -> Array:
    out = np.empty(size, x.dtype)
    for at in np.ndindex(*size):
        out[at] = x.ravel()[offset + int(np.dot(at, stride))]
    return out


def _of_rows(x: Any, *args: Any) -> Any:
    """Of what lies in rows, as a graph must know."""
    return sf.as_strided(x.contiguous(), *args)


_AS_STRIDED = OpInfo(
    OPS["as_strided"], _of_rows, _gathered, _samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), (0, 2), (1, 1))),
    failures=(
        Failure(Sample((np.zeros(4, "f4"), (3,), (2,))), ShapeError, "elements apart from 0 on"),
        Failure(Sample((np.zeros(4, "f4"), (3,), (-1,))), ShapeError, "a stride from 0 on"),
    ),
)  # fmt: skip


def _integer(dtype: DType) -> DType:
    """An integer dtype of the same size; of an integer its float, or the other one."""
    return dtype_of(np.dtype(f"{'i' if dtype.kind != 'i' else 'u' if dtype.bits == 8 else 'f'}"
                             f"{dtype.itemsize}"))  # fmt: skip


def _bit_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x in (values((2, 3), dtype), values((3, 2), dtype).T, values((), dtype)):
        yield Sample((x, _integer(dtype)))


_BITCAST = OpInfo(
    OPS["bitcast"], lambda x, dtype: OPS["bitcast"](x, dtype=dtype),
    lambda x, dtype: np.ascontiguousarray(x).view(dtype.numpy).reshape(x.shape),
    _bit_samples, NUMBERS, grad=False, exact=True,
    sized=lambda dtype, n: Sample((values((n, 2), dtype), _integer(dtype))),
    failures=(
        Failure(Sample((np.zeros(2, "f4"), sf.int64)), DTypeError, "of one size"),
        Failure(Sample((np.zeros(2, "?"), sf.int8)), DTypeError, "no bits"),
    ),
)  # fmt: skip

ROWS = (_AS_STRIDED, _BITCAST)
