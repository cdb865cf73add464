"""Views, and slices put into place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import ALL, Array, Failure, OpInfo, Sample, layouts, special, values
from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

__all__ = ["ROWS"]


def _all_layouts(dtype: DType, smooth: bool) -> Iterator[Array]:
    if not smooth:
        yield special(dtype)
    yield from layouts(lambda shape: values(shape, dtype))


# -- reshape --------------------------------------------------------------------------------------


def _reshape_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x in _all_layouts(dtype, smooth):
        yield Sample((x, x.size))
        yield Sample((x, 1, x.size, 1))
        yield Sample((x, (*x.shape[::-1], 1)))
        if x.size:
            yield Sample((x, -1))
            yield Sample((x, [1, -1]))
    yield Sample((values((2, 6), dtype), 3, 4))
    yield Sample((values((2, 3, 4), dtype), 4, -1, 2))
    yield Sample((values((0, 3), dtype), -1, 3))


def _reshaped(x: Array, *shape: Any) -> Array:
    sizes = list(shape[0] if isinstance(shape[0], list | tuple) else shape)
    if -1 in sizes:
        known = 1
        for s in sizes:
            known *= 1 if s == -1 else s
        sizes[sizes.index(-1)] = x.size // known
    return np.ndarray(tuple(sizes), x.dtype, x.tobytes())  # tobytes is in row-major order


def _reversed_shape(x: Any, *shape: Any) -> Any:
    """Sizes that depend on the argument's own stand for what cannot be written as numbers."""
    return sf.reshape(x, *(shape or x.shape[::-1]))


_ZEROS = np.zeros((2, 3), "f4")
_RESHAPE = OpInfo(
    OPS["reshape"], _reversed_shape, lambda x, *s: _reshaped(x, *(s or x.shape[::-1])),
    _reshape_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
    failures=(
        Failure(Sample((_ZEROS, 4)), ShapeError, "6 and 4 differ"),
        Failure(Sample((_ZEROS, -1, -1)), ShapeError, "more than one"),
        Failure(Sample((_ZEROS, 4, -1)), ShapeError, "the elements of f32"),
        Failure(Sample((_ZEROS, -2, 3)), ShapeError, "negative"),
        Failure(Sample((np.zeros((0, 3), "f4"), 0, -1)), ShapeError, "any size"),
    ),
)  # fmt: skip


# -- permute --------------------------------------------------------------------------------------


def _permute_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield Sample((values((2, 3), dtype), 1, 0))
    yield Sample((values((2, 3), dtype), (-1, 0)))
    yield Sample((values((2, 3, 4), dtype), 2, 0, 1))
    yield Sample((values((2, 3, 4), dtype), [1, -1, 0]))
    yield Sample((values((2, 0, 3), dtype), 1, 2, 0))
    yield Sample((values((1, 3), dtype), 1, 0))
    yield Sample((values((3, 2), dtype).T[::-1], 1, 0))


def _permuted(x: Array, *dims: Any) -> Array:
    order = [d % x.ndim for d in (dims[0] if isinstance(dims[0], list | tuple) else dims)]
    out = np.empty([x.shape[d] for d in order], x.dtype)
    for at in np.ndindex(x.shape):
        out[tuple(at[d] for d in order)] = x[at]
    return out


_PERMUTE = OpInfo(
    OPS["permute"], sf.permute, _permuted, _permute_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), 1, 0)),
    failures=(
        Failure(Sample((_ZEROS, 0, 0)), ShapeError, "once"),
        Failure(Sample((_ZEROS, 0)), ShapeError, "once"),
        Failure(Sample((_ZEROS, 0, 2)), ShapeError, "out of range"),
    ),
)  # fmt: skip


# -- expand ---------------------------------------------------------------------------------------


def _expand_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield Sample((values((), dtype), 3))
    yield Sample((values((1,), dtype), 0))
    yield Sample((values((3,), dtype), (2, 3)))
    yield Sample((values((3,), dtype), 2, -1))
    yield Sample((values((3, 1), dtype), 3, 4))
    yield Sample((values((1, 3, 1), dtype), [2, -1, 2]))
    yield Sample((values((2, 1, 3), dtype), 2, 0, 3))
    yield Sample((values((1, 3), dtype).T[::-1], 2, 3, 2))


def _expanded(x: Array, *shape: Any) -> Array:
    sizes = list(shape[0] if isinstance(shape[0], list | tuple) else shape)
    extra = len(sizes) - x.ndim
    sizes = [x.shape[i - extra] if s == -1 else s for i, s in enumerate(sizes)]
    out = np.empty(sizes, x.dtype)
    for at in np.ndindex(out.shape):
        out[at] = x[tuple(0 if n == 1 else j for j, n in zip(at[extra:], x.shape, strict=True))]
    return out


_EXPAND = OpInfo(
    OPS["expand"], sf.expand, _expanded, _expand_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 1), dtype), 2, -1, 3)),
    failures=(
        Failure(Sample((_ZEROS, 2, 4)), ShapeError, "3 and 4 differ"),
        Failure(Sample((_ZEROS, 3)), ShapeError, "more dims"),
        Failure(Sample((_ZEROS, -1, 2, 3)), ShapeError, "-1"),
    ),
)  # fmt: skip


# -- slice and embed ------------------------------------------------------------------------------

_KEYS: tuple[Any, ...] = (
    0, -1, slice(1, None), slice(None, -1), slice(None, None, 2), slice(1, 100), slice(2, 1),
    slice(-100, 2), (slice(None), 1), (slice(None), slice(0, 3, 2)), (Ellipsis, 0), (None, 1),
    (1, None, slice(0, 1)), (slice(1, 1),), (np.int64(1),), (-2, -1),
)  # fmt: skip


def _slice_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for key in _KEYS:
        yield Sample((values((3, 4), dtype),), {"key": key})
    yield Sample((values((4, 3), dtype).T[::-1, ::-1],), {"key": (slice(0, 2), slice(1, None, 2))})
    yield Sample((values((5,), dtype),), {"key": slice(1, None, 3)})
    yield Sample((values((2, 0, 3), dtype),), {"key": (1, slice(None), slice(0, 2))})
    yield Sample((values((1,), dtype),), {"key": (0, None)})


def _items(x: Array, key: Any) -> Array:
    """Indexing by Python's own lists: what slices mean there is what they mean everywhere."""
    keys = list(key) if isinstance(key, tuple) else [key]
    used = sum(k is not None and k is not Ellipsis for k in keys)
    at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
    keys[at : at + 1] = [slice(None)] * (x.ndim - used)
    shape: list[int] = []
    places: list[list[int]] = []
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        there = list(range(x.shape[len(places)]))[k]
        if isinstance(there, list):
            shape.append(len(there))
        places.append(there if isinstance(there, list) else [there])
    picked = [
        x[tuple(p[i] for p, i in zip(places, at, strict=True))]
        for at in np.ndindex(*map(len, places))
    ]
    return np.array(picked, x.dtype).reshape(shape)


_X34 = np.zeros((3, 4), "f4")


def _key(key: Any, error: type[Exception], says: str, **more: Any) -> Failure:
    return Failure(Sample((_X34,), {"key": key}), error, says, **more)


_SLICE = OpInfo(
    OPS["slice"], lambda x, key: x[key], _items, _slice_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"key": (slice(0, 4, 2), slice(1, None))}),
    failures=(
        _key(3, IndexRangeError, "index 3"),
        _key(-4, IndexRangeError, "index -4"),
        _key((0, 4), IndexRangeError, "dim 1"),
        _key((0, 0, 0), ShapeError, "2 dims"),
        _key(slice(None, None, 0), ShapeError, "positive"),
        _key("a", IndexRangeError, "indexing by 'a'"),
        _key((Ellipsis, Ellipsis), ShapeError, "once"),
        _key(1.0, IndexRangeError, "indexing by float"),
    ),
)  # fmt: skip


def _embed(x: Any, shape: Any, start: Any, step: Any) -> Any:
    return OPS["embed"](x, shape=shape, start=start, step=step)


def _embed_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x, shape, start, step in (
        ((3,), (5,), (1,), (1,)), ((3,), (7,), (1,), (2,)), ((2, 2), (4, 5), (1, 0), (1, 4)),
        ((0,), (3,), (2,), (1,)), ((1,), (1,), (0,), (1,)), ((), (), (), ()), ((0, 2), (0, 3), (0, 1), (1, 1)),
    ):  # fmt: skip
        yield Sample((values(x, dtype),), {"shape": shape, "start": start, "step": step})


def _embedded(x: Array, shape: Any, start: Any, step: Any) -> Array:
    out = np.zeros(shape, x.dtype)
    for at in np.ndindex(x.shape):
        out[tuple(a + i * s for a, i, s in zip(start, at, step, strict=True))] = x[at]
    return out


def _beyond(start: int, step: int) -> Failure:
    kwargs = {"shape": (4,), "start": (start,), "step": (step,)}
    return Failure(Sample((np.zeros(3, "f4"),), kwargs), ShapeError, "is too small")


_EMBED = OpInfo(
    OPS["embed"],
    lambda x, **k: _embed(x, **(k or {"shape": (x.shape[0] + 2, 3), "start": (1, 0), "step": (1, 1)})),
    lambda x, **k: _embedded(x, **(k or {"shape": (len(x) + 2, 3), "start": (1, 0), "step": (1, 1)})),
    _embed_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
    failures=(_beyond(2, 1), _beyond(0, 2)),
)  # fmt: skip


# -- select and slice_scatter ---------------------------------------------------------------------


def _select_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, dim, index in (
        ((3,), 0, 0), ((3,), -1, -1), ((2, 3), 1, 2), ((2, 3, 4), -2, -3), ((1, 0), 0, 0),
    ):  # fmt: skip
        yield Sample((values(shape, dtype), dim, index))
    yield Sample((values((4, 3), dtype).T[::-1], 0, 1))


_SELECT = OpInfo(
    OPS["select"], sf.select, lambda x, dim, index: _items(x, (slice(None),) * (dim % x.ndim) + (index,)),
    _select_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), 1, -1)),
    failures=(
        Failure(Sample((_X34, 1, 4)), IndexRangeError, "index 4"),
        Failure(Sample((_X34, 0, -4)), IndexRangeError, "dim 0"),
        Failure(Sample((_X34, 2, 0)), ShapeError, "out of range"),
        Failure(Sample((_X34, 0, 1.5)), DTypeError, "'index' must be an integer, not float"),
    ),
)  # fmt: skip


def _slice_scatter_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x, src, kwargs in (
        ((4,), (2,), {"start": 1, "end": 3}), ((5,), (3,), {"step": 2}), ((3,), (0,), {"start": 3}),
        ((2, 4), (2, 1), {"dim": 1, "start": -2, "end": -1}), ((2, 3), (2, 3), {}), ((0, 2), (0, 2), {}),
    ):  # fmt: skip
        yield Sample((values(x, dtype), values(src, dtype, seed=1)), kwargs)
    yield Sample((values((4, 3), dtype).T, values((2, 8), dtype)[:, ::2]), {"start": 1})


def _slice_scattered(
    x: Array, src: Array, dim: int = 0, start: int = 0, end: int | None = None, step: int = 1
) -> Array:
    out = np.array(x)
    places = range(x.shape[dim])[start:end:step]
    for at in np.ndindex(src.shape):
        out[(*at[:dim], places[at[dim]], *at[dim + 1 :])] = src[at]
    return out


_SLICE_SCATTER = OpInfo(
    OPS["slice_scatter"], sf.slice_scatter, _slice_scattered, _slice_scatter_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((4, n), dtype), values((1, n), dtype, seed=1)), {"start": 1, "end": 2}),
    failures=(
        Failure(Sample((_X34, np.zeros((2, 4), "f4"))), ShapeError, "shape [2, 4], and [3, 4] is needed"),
    ),
)  # fmt: skip


# -- dims of size 1, dims in another order, elements in another order ---------------------------------


def _squeeze_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield Sample((values((1,), dtype),))
    yield Sample((values((1, 3, 1), dtype),))
    yield Sample((values((1, 3, 1), dtype), 0))
    yield Sample((values((1, 3, 1), dtype), (0, -1)))
    yield Sample((values((3, 1, 2), dtype).T, (0, 1)))
    yield Sample((values((0, 1), dtype), 1))


def _squeezed(x: Array, dim: Any = None) -> Array:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    gone = {d % x.ndim for d in dims if x.shape[d] == 1}
    return _reshaped(x, [n for i, n in enumerate(x.shape) if i not in gone])


_SQUEEZE = OpInfo(
    OPS["squeeze"], sf.squeeze, _squeezed, _squeeze_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 1, 3), dtype), 1)),
    failures=(
        Failure(Sample((_ZEROS, 2)), ShapeError, "out of range"),
        Failure(Sample((_ZEROS, (0, 0))), ShapeError, "twice"),
    ),
)  # fmt: skip


def _unsqueeze_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for dim in (0, 1, -1):
        yield Sample((values((3,), dtype), dim))
        yield Sample((values((2, 3), dtype).T, dim))
    yield Sample((values((), dtype), 0))
    yield Sample((values((0, 2), dtype), -3))


_UNSQUEEZE = OpInfo(
    OPS["unsqueeze"], sf.unsqueeze,
    lambda x, dim: _reshaped(x, np.insert(x.shape, dim % (x.ndim + 1), 1).astype(int).tolist()),
    _unsqueeze_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), 1)),
    failures=(Failure(Sample((_ZEROS, 3)), ShapeError, "out of range"),),
)  # fmt: skip


def _transpose_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield Sample((values((2, 3), dtype), 0, 1))
    yield Sample((values((2, 3, 4), dtype), 0, -1))
    yield Sample((values((2, 0, 4), dtype), -2, -1))
    yield Sample((values((4, 3), dtype)[::2].T, 1, 0))


def _transposed(x: Array, a: int, b: int) -> Array:
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return _permuted(x, order)


_TRANSPOSE = OpInfo(
    OPS["transpose"], sf.transpose, _transposed, _transpose_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), 0, 1)),
    failures=(Failure(Sample((_ZEROS, 0, 2)), ShapeError, "out of range"),),
)  # fmt: skip

_T = OpInfo(
    OPS["t"], sf.t, lambda x: _permuted(x, [1, 0]),
    lambda dtype, smooth: map(
        lambda x: Sample((x,)),
        (values((2, 3), dtype), values((0, 3), dtype), values((4, 6), dtype)[::3, ::2]),
    ),
    ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
    failures=(Failure(Sample((np.zeros((1, 2, 3), "f4"),)), ShapeError, "at most 2"),),
)  # fmt: skip


def _flip_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield Sample((values((3,), dtype), 0))
    yield Sample((values((2, 3), dtype), (0, 1)))
    yield Sample((values((2, 3), dtype), -1))
    yield Sample((values((2, 3, 4), dtype).T, [0, -1]))
    yield Sample((values((0, 3), dtype), (0,)))
    yield Sample((values((2, 3), dtype), ()))


def _flipped(x: Array, dims: Any) -> Array:
    named = {d % x.ndim for d in ((dims,) if isinstance(dims, int) else dims)}
    out = np.empty_like(x)
    for at in np.ndindex(x.shape):
        out[at] = x[
            tuple(
                n - 1 - i if d in named else i
                for d, (i, n) in enumerate(zip(at, x.shape, strict=True))
            )
        ]
    return out


_FLIP = OpInfo(
    OPS["flip"], sf.flip, _flipped, _flip_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), (0, 1))),
    failures=(Failure(Sample((_ZEROS, 2)), ShapeError, "out of range"),),
)  # fmt: skip

_CONTIGUOUS = OpInfo(
    OPS["contiguous"], OPS["contiguous"], np.array,
    lambda dtype, smooth: (Sample((x,)) for x in _all_layouts(dtype, smooth)),
    ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
)  # fmt: skip

ROWS = (
    _RESHAPE, _PERMUTE, _EXPAND, _SLICE, _EMBED, _SELECT, _SLICE_SCATTER, _SQUEEZE, _UNSQUEEZE, _TRANSPOSE,
    _T, _FLIP, _CONTIGUOUS,
)  # fmt: skip
