"""Views, and what puts tensors together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import ALL, Array, Failure, OpInfo, Sample, layouts, special, values
from staticflow.errors import IndexRangeError, ShapeError
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
        Failure(Sample((_ZEROS, 4)), ShapeError, "as many elements"),
        Failure(Sample((_ZEROS, -1, -1)), ShapeError, "more than one"),
        Failure(Sample((_ZEROS, 4, -1)), ShapeError, "as many elements"),
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
        _key(slice(None, None, -1), ShapeError, "positive"),
        _key(slice(None, None, 0), ShapeError, "positive"),
        _key("a", ShapeError, "indexing by str"),
        _key(True, ShapeError, "indexing by bool"),
        _key((Ellipsis, Ellipsis), ShapeError, "once"),
        _key(1.0, ShapeError, "indexing by float"),
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
    return Failure(Sample((np.zeros(3, "f4"),), kwargs), ShapeError, "reaches")


_EMBED = OpInfo(
    OPS["embed"],
    lambda x, **k: _embed(x, **(k or {"shape": (x.shape[0] + 2, 3), "start": (1, 0), "step": (1, 1)})),
    lambda x, **k: _embedded(x, **(k or {"shape": (len(x) + 2, 3), "start": (1, 0), "step": (1, 1)})),
    _embed_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
    failures=(_beyond(2, 1), _beyond(0, 2)),
)  # fmt: skip


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

ROWS = (_RESHAPE, _PERMUTE, _EXPAND, _SLICE, _EMBED, _CAT)
