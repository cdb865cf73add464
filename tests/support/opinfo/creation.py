"""Values that follow from sizes alone. The array of a sample only lends its shape and dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opinfo.core import ALL, NUMBERS, Array, OpInfo, Sample, values
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

__all__ = ["ROWS"]

_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (3,), (2, 3), (2, 0, 3))


def _full(x: Any, value: Any) -> Any:
    return OPS["full"].beside(x, shape=x.shape, value=value, dtype=x.dtype)


def _full_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    fills: dict[str, tuple[Any, ...]] = {"b": (True, False), "f": (1.5, float("inf"), -0.0)}
    for fill in fills.get(dtype.kind, (0, 7)):
        for shape in _SHAPES:
            yield Sample((values(shape, dtype),), {"value": fill})


def _filled(x: Array, value: Any) -> Array:
    return np.array([value] * x.size, x.dtype).reshape(x.shape)


_FULL = OpInfo(
    OPS["full"], _full, _filled, _full_samples, ALL, grad=False, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"value": dtype.numpy.type(1).item()}),
)  # fmt: skip


def _iota(x: Any, dim: int) -> Any:
    return OPS["iota"].beside(x, shape=x.shape, dim=dim, dtype=x.dtype)


def _iota_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in _SHAPES[1:]:
        for dim in range(len(shape)):
            yield Sample((values(shape, dtype),), {"dim": dim})


def _counted(x: Array, dim: int) -> Array:
    out = np.empty(x.shape, x.dtype)
    for at in np.ndindex(x.shape):
        out[at] = at[dim]
    return out


_IOTA = OpInfo(
    OPS["iota"], _iota, _counted, _iota_samples, NUMBERS, grad=False, exact=True,
    sized=lambda dtype, n: Sample((values((3, n), dtype),), {"dim": 1}),
)  # fmt: skip


def _size(x: Any, dim: int) -> Any:
    return OPS["size"].beside(x, size=x.shape[dim], dtype=x.dtype)


_SIZE = OpInfo(
    OPS["size"], _size, lambda x, dim: np.array(x.shape[dim], x.dtype),
    lambda dtype, smooth: (Sample((values(s, dtype),), {"dim": -1}) for s in _SHAPES[1:]),
    NUMBERS, grad=False, exact=True,
    sized=lambda dtype, n: Sample((values((3, n), dtype),), {"dim": 1}),
)  # fmt: skip

ROWS = (_FULL, _IOTA, _SIZE)
