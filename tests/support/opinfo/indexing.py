"""Selection by values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import ALL, NUMBERS, Array, Failure, OpInfo, Sample, accumulating, values, wrap
from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dtypes import DTYPES, DType, int64
from staticflow.ops import OPS

__all__ = ["ROWS"]

_CASES = (  # shape, dim, shape of the index
    ((3,), 0, (5,)), ((3,), -1, (0,)), ((1,), 0, (2,)), ((3, 4), 0, (2, 4)), ((3, 4), 1, (3, 6)),
    ((3, 4), -2, (1, 2)), ((3, 0), 0, (3, 0)), ((2, 3, 4), 1, (2, 5, 4)), ((), 0, ()), ((0, 2), 0, (0, 2)),
)  # fmt: skip


def _index(shape: tuple[int, ...], size: int, dtype: Any = np.int64) -> Array:
    return values(shape, int64, 0, max(size - 1, 0)).astype(dtype)


def _size(shape: tuple[int, ...], dim: int) -> int:
    return shape[dim] if shape else 1


def _gather_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, dim, at in _CASES:
        yield Sample((values(shape, dtype), dim, _index(at, _size(shape, dim))))
    for kind in (np.int32, np.uint8, np.int8):
        yield Sample((values((3, 2), dtype), 0, _index((2, 2), 3, kind)))
    yield Sample((values((3, 4), dtype).T, 0, _index((2, 4), 3).T))


def _place(index: Array, at: tuple[int, ...], dim: int) -> tuple[int, ...]:
    if not at:
        return ()
    dim %= len(at)
    return (*at[:dim], int(index[at]), *at[dim + 1 :])


def _gathered(x: Array, dim: int, index: Array) -> Array:
    out = np.empty(index.shape, x.dtype)
    for at in np.ndindex(index.shape):
        out[at] = x[_place(index, at, dim)]
    return out


_X = np.zeros((3, 4), "f4")


def _outside(value: int, *src: Array) -> Failure:
    index = np.zeros((3, 4), "i8")
    index[1, 2] = value
    return Failure(
        Sample((_X, 1, index, *src)), IndexRangeError, f"index {value}, at [1, 2]", eager=True
    )


def _unfit(*src: Array) -> tuple[Failure, ...]:
    def given(index: Array, error: type[Exception], says: str, dim: int = 0) -> Failure:
        return Failure(Sample((_X, dim, index, *src)), error, says)

    return (
        given(np.zeros((3, 4), "f4"), DTypeError, "integer dtype"),
        given(np.zeros(3, "i8"), ShapeError, "as many dims"),
        given(np.zeros((3, 5), "i8"), ShapeError, "dim 1"),
        given(np.zeros((4, 4), "i8"), ShapeError, "dim 0", dim=1),
        given(np.zeros((3, 4), "i8"), ShapeError, "out of range", dim=2),
    )


_GATHER = OpInfo(
    OPS["gather"], sf.gather, _gathered, _gather_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((3, n), dtype), 0, _index((2, n), 3))),
    failures=(
        _outside(4), _outside(-1), _outside(2**40), *_unfit(),
        # a size of 1 does not stretch here
        Failure(Sample((np.zeros((1, 4), "f4"), 1, np.zeros((2, 4), "i8"))), ShapeError, "dim 0"),
    ),
)  # fmt: skip


def _scatter_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, dim, at in _CASES:
        index = _index(at, _size(shape, dim))
        yield Sample((values(shape, dtype), dim, index, values(at, dtype, seed=1)))
    yield Sample((values((3,), dtype), 0, np.zeros(4, "i4"), values((4,), dtype)))
    yield Sample((values((3,), dtype), 0, _index((2,), 3), values((5,), dtype)))  # a longer source
    yield Sample((values((3, 4), dtype).T, 1, _index((3, 4), 3).T, values((3, 4), dtype).T[::-1]))


def _scattered(x: Array, dim: int, index: Array, src: Array) -> Array:
    dtype = next(d for d in DTYPES if d.numpy == x.dtype)
    out = accumulating(x)
    for at in np.ndindex(index.shape):
        place = _place(index, at, dim)
        if dtype.is_floating:
            out[place] = out[place] + src[at].astype(out.dtype)
        else:
            out[place] = wrap(int(out[place]) + int(src[at]), dtype)
    return out.astype(x.dtype)


_SRC = np.zeros((3, 4), "f4")
_SCATTER = OpInfo(
    OPS["scatter_add"], sf.scatter_add, _scattered, _scatter_samples, NUMBERS, grad=True, exact=True,
    sized=lambda dtype, n: Sample(
        (values((3, n), dtype), 0, _index((4, n), 3), values((4, n), dtype))
    ),
    failures=(
        _outside(4, _SRC), _outside(-1, _SRC), *_unfit(_SRC),
        Failure(Sample((_X, 1, np.zeros((3, 4), "i8"), _SRC.astype("f8"))), DTypeError, "source"),
        Failure(Sample((_X, 1, np.zeros((3, 4), "i8"), np.zeros((3, 1), "f4"))), ShapeError, "dim 1"),
        Failure(Sample((_X, 1, np.zeros((3, 4), "i8"), np.zeros(4, "f4"))), ShapeError, "dims"),
    ),
)  # fmt: skip

ROWS = (_GATHER, _SCATTER)
