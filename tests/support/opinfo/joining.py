"""What puts tensors together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import staticflow as sf
from opinfo.core import ALL, Array, Failure, OpInfo, Sample, special, values
from staticflow.errors import IndexRangeError, ShapeError
from staticflow.graph.dtypes import DType, int64
from staticflow.ops import OPS

__all__ = ["ROWS"]

_ZEROS = np.zeros((2, 3), "f4")


# -- cat ------------------------------------------------------------------------------------------


def _cat_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    def several(*shapes: tuple[int, ...]) -> list[Array]:
        return [values(s, dtype, seed=i) for i, s in enumerate(shapes)]

    yield Sample((several((3,)),))
    yield Sample((several((2,), (0,), (3,)),))
    yield Sample((several((2, 3), (1, 3)),))
    yield Sample((several((2, 3), (2, 1), (2, 2)),), {"dim": 1})
    yield Sample((several((2, 3), (2, 1)),), {"dim": -1})
    yield Sample((several((0, 3), (0, 2)),), {"dim": 1})
    yield Sample(([values((3, 2), dtype).T, values((2, 4), dtype)[:, ::-2]],), {"dim": 1})
    if not smooth:
        yield Sample(([special(dtype), special(dtype)],))


def _joined(xs: list[Array], dim: int = 0) -> Array:
    shape = list(xs[0].shape)
    dim %= len(shape)
    shape[dim] = sum(x.shape[dim] for x in xs)
    out = np.empty(shape, xs[0].dtype)
    offset = 0
    for x in xs:
        for at in np.ndindex(x.shape):
            out[(*at[:dim], at[dim] + offset, *at[dim + 1 :])] = x[at]
        offset += x.shape[dim]
    return out


_CAT = OpInfo(
    OPS["cat"], sf.cat, _joined, _cat_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample(([values((n, 3), dtype), values((2, 3), dtype), values((n, 3), dtype, seed=1)],)),
    failures=(
        Failure(Sample(([_ZEROS, np.zeros((2, 2), "f4")],)), ShapeError, "3 and 2 differ"),
        Failure(Sample(([_ZEROS, np.zeros(2, "f4")],)), ShapeError, "dims"),
        Failure(Sample(([np.zeros((), "f4")] * 2,)), ShapeError, "0-d"),
        Failure(Sample(([_ZEROS],), {"dim": 2}), ShapeError, "out of range"),
        Failure(Sample(([],)), ShapeError, "at least one", eager=True),
    ),
)  # fmt: skip


# -- stack ----------------------------------------------------------------------------------------


def _stack_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, count, dim in (
        ((), 3, 0), ((3,), 2, 0), ((3,), 2, -1), ((2, 3), 1, 1), ((0, 2), 2, 2), ((2, 3), 3, -3),
    ):  # fmt: skip
        yield Sample(([values(shape, dtype, seed=i) for i in range(count)], dim))
    yield Sample(([values((3, 2), dtype).T, values((2, 6), dtype)[:, ::2]], 1))


def _stacked(xs: list[Array], dim: int = 0) -> Array:
    out = np.empty((len(xs), *xs[0].shape), xs[0].dtype)
    for i, x in enumerate(xs):
        out[i] = x
    return np.moveaxis(out, 0, dim)


_STACK = OpInfo(
    OPS["stack"], sf.stack, _stacked, _stack_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample(([values((n, 3), dtype), values((n, 3), dtype, seed=1)], 1)),
    failures=(
        Failure(Sample(([_ZEROS, np.zeros((2, 2), "f4")],)), ShapeError, "3 and 2 differ"),
        Failure(Sample(([_ZEROS, np.zeros(2, "f4")],)), ShapeError, "dims"),
        Failure(Sample(([_ZEROS], 3)), ShapeError, "out of range"),
        Failure(Sample(([],)), ShapeError, "at least one", eager=True),
    ),
)  # fmt: skip


# -- repeat and roll ------------------------------------------------------------------------------


def _repeat_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, sizes in (
        ((), (2,)), ((3,), (2,)), ((3,), (2, 1)), ((2, 3), (1, 2)), ((2, 3), (2, 1, 2)), ((2, 3), (0, 1)),
        ((0, 2), (2, 2)), ((), ()),
    ):  # fmt: skip
        yield Sample((values(shape, dtype), sizes))
    yield Sample((values((3, 2), dtype).T, 2, 2))


_REPEAT = OpInfo(
    OPS["repeat"], lambda x, *s: x.repeat(*s),
    lambda x, *s: np.tile(x, s[0] if isinstance(s[0], tuple) else s), _repeat_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), 2, 2)),
    failures=(
        Failure(Sample((_ZEROS, 2)), ShapeError, "fewer"),
        Failure(Sample((_ZEROS, 1, -1)), ShapeError, "negative"),
    ),
)  # fmt: skip


def _roll_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, shifts, dims in (
        ((4,), 1, 0), ((4,), -1, 0), ((4,), 9, 0), ((2, 3), 1, None), ((2, 3), (1, -1), (0, 1)), ((0,), 1, 0),
        ((0, 2), 3, 0), ((3, 1), 2, -1),
    ):  # fmt: skip
        yield Sample((values(shape, dtype), shifts, dims))
    yield Sample((values((3, 4), dtype).T, 1, 0))


_ROLL = OpInfo(
    OPS["roll"], sf.roll, np.roll, _roll_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), (-2, 4), (0, 1))),
    failures=(
        Failure(Sample((_ZEROS, (1, 2))), ShapeError, "want their dims"),
        Failure(Sample((_ZEROS, (1, 2), 0)), ShapeError, "2 shifts for 1 dims"),
        Failure(Sample((_ZEROS, 1, 2)), ShapeError, "out of range"),
    ),
)  # fmt: skip


# -- repeat_interleave ----------------------------------------------------------------------------


def _interleaved(repeats: Array, size: int) -> Array:
    return np.array([i for i, r in enumerate(repeats) for _ in range(int(r))], np.int64)


def _interleave_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for repeats in ([2, 0, 3], [], [0], [1, 1]):
        yield Sample((np.array(repeats, dtype.numpy),), {"size": sum(repeats)})


_INTERLEAVE = OpInfo(
    OPS["repeated_index"], lambda r, size=None: OPS["repeated_index"](r, size=r.shape[0] if size is None else size),
    lambda r, size=0: _interleaved(r, size), _interleave_samples, (int64, sf.int32), grad=False, exact=True,
    sized=lambda dtype, n: Sample((np.ones(n, dtype.numpy),)),
    failures=(
        Failure(Sample((_ZEROS,), {"size": 2}), ShapeError, "vector of integers"),
        Failure(Sample((np.ones(3, "i8"),), {"size": 2}), IndexRangeError, "3 in all", eager=True),
    ),
)  # fmt: skip

ROWS = (_CAT, _STACK, _REPEAT, _ROLL, _INTERLEAVE)
