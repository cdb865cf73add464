"""Whole slices by index tensors, and elements put where index tensors say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import ALL, NUMBERS, Array, Failure, OpInfo, Sample, accumulating, values, wrap
from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dtypes import DTYPES, DType, int64
from staticflow.ops import OPS

__all__ = ["ROWS"]

_X = np.zeros((3, 4), "f4")


def indices(shape: tuple[int, ...], size: int, low: int = 0, seed: int = 0) -> Array:
    """Places in a dim of ``size``."""
    return values(shape, int64, low, max(size - 1, 0), seed)


def distinct(count: int, size: int) -> Array:
    """Places in a dim of ``size``, none twice."""
    return np.random.default_rng(count).permutation(size)[:count]


def _i(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


# -- index ----------------------------------------------------------------------------------------

# shape, the key: index tensors stand as arrays, slices as they are
_KEYS: tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...] = (
    ((3,), (_i(2, 0, 0),)), ((3,), (_i(-1, -3),)), ((3,), (np.array(1),)), ((3, 4), (_i(1), _i(2))),
    ((3, 4), (indices((2, 2), 3),)), ((3, 4), (slice(None), _i(3, -4, 1))), ((3, 4), (_i(0, 2), _i(1, -1))),
    ((3, 4), (indices((2, 1), 3), indices((3,), 4))), ((2, 3, 4), (_i(1, 0), slice(None), _i(3, 3))),
    ((2, 3, 4), (slice(None), _i(2, 0), _i(3, 1))), ((2, 3, 4), (slice(None), _i(2, 0, 1))),
    ((3, 0), (_i(1, 1),)), ((3, 4), (np.zeros((0,), np.int64),)), ((3, 4), (np.zeros((2, 0), np.int64), _i(1))),
    ((2, 3, 4), (np.array(1), slice(None), np.array(-1))), ((0, 2), (slice(None), _i(1, 0))),
)  # fmt: skip


def _parts(key: tuple[Any, ...]) -> tuple[list[Array], tuple[int, ...]]:
    named = [(d, k) for d, k in enumerate(key) if isinstance(k, np.ndarray)]
    return [k for _, k in named], tuple(d for d, _ in named)


def _index(x: Any, found: list[Any], dims: tuple[int, ...] = (0,)) -> Any:
    return OPS["index"](x, *found, dims=dims)


def _indexed(x: Array, found: list[Array], dims: tuple[int, ...] = (0,)) -> Array:
    """Element by element, by what the frame says: the batch where the dims adjoin, else in front."""
    batch = np.broadcast_shapes(*(i.shape for i in found))
    rest = [d for d in range(x.ndim) if d not in dims]
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    shape = [x.shape[d] for d in rest]
    shape[at:at] = batch
    wide = [np.broadcast_to(i, batch) for i in found]
    out = np.empty(shape, x.dtype)
    for place in np.ndindex(*shape):
        inner = iter((*place[:at], *place[at + len(batch) :]))
        named = {d: int(i[place[at : at + len(batch)]]) for d, i in zip(dims, wide, strict=True)}
        out[place] = x[tuple(named[d] if d in named else next(inner) for d in range(x.ndim))]
    return out


def _index_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, key in _KEYS:
        found, dims = _parts(key)
        yield Sample((values(shape, dtype), found), {"dims": dims})
    for kind in (np.int32, np.uint8, np.int8):
        yield Sample((values((3, 2), dtype), [_i(2, 0).astype(kind)]))
    yield Sample((values((3, 4), dtype).T, [indices((4, 2), 3).T]), {"dims": (1,)})


def _outside(value: int, least: int = -3) -> Failure:
    return Failure(
        Sample((_X, [_i(0, value)])), IndexRangeError,
        f"index {value}, at [1], is outside dim 0 of size 3; it must be from {least} to 2", eager=True,
    )  # fmt: skip


_INDEX = OpInfo(
    OPS["index"], _index, _indexed, _index_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((3, n), dtype), [indices((n, 2), 3, -3)])),
    failures=(
        _outside(3), _outside(-4), _outside(2**40),
        Failure(Sample((_X, [np.zeros(2, "f4")])), DTypeError, "integer dtype"),
        Failure(Sample((_X, [_i(0, 1), _i(0, 1, 2)]), {"dims": (0, 1)}), ShapeError, "2 and 3 differ"),
    ),
)  # fmt: skip


# -- along one dim --------------------------------------------------------------------------------


def _select_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, dim, index in (
        ((3,), 0, _i(2, 0, 0)), ((3, 4), 1, _i(3)), ((2, 3, 4), -2, _i(1, 1, 2, 0)), ((3, 0), 0, _i(1)),
        ((3,), 0, _i()), ((), 0, _i(0)), ((3, 2), 0, np.array(2)),
    ):  # fmt: skip
        yield Sample((values(shape, dtype), dim, index))
    yield Sample((values((3, 4), dtype).T, 0, np.array([3, 1], np.int32)))


def _rows_of(x: Array, dim: int, index: Array) -> Array:
    if x.ndim == 0:
        return np.array(x)
    return (
        np.stack([np.take(x, int(i), dim) for i in index.ravel()], dim)
        if index.size
        else np.take(x, index, dim)
    )


_INDEX_SELECT = OpInfo(
    OPS["index_select"], sf.index_select, _rows_of, _select_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), 1, indices((n,), 3))),
    failures=(
        Failure(Sample((_X, 1, _i(0, 4))), IndexRangeError, "index 4, at [1], is outside dim 1", eager=True),
        Failure(Sample((_X, 0, _i(-1))), IndexRangeError, "from 0 to 2", eager=True),
        Failure(Sample((_X, 0, np.zeros((1, 2), "i8"))), ShapeError, "vector"),
        Failure(Sample((_X, 2, _i(0))), ShapeError, "out of range"),
    ),
)  # fmt: skip


def _take_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield Sample((values((2, 3), dtype), indices((2, 2), 6, -6)))
    yield Sample((values((), dtype), _i(0, -1)))
    yield Sample((values((3, 2), dtype).T, np.array(4)))
    yield Sample((values((3,), dtype), _i()))


_TAKE = OpInfo(
    OPS["take"], sf.take, np.take, _take_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((3, n), dtype), indices((n,), 3, -3))),
    failures=(Failure(Sample((_X, _i(12))), IndexRangeError, "from -12 to 11", eager=True),),
)  # fmt: skip


def _embedding_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield Sample((values((4, 3), dtype), indices((5,), 4)))
    yield Sample((values((4, 3), dtype), indices((2, 3), 4)))
    yield Sample((values((4, 3), dtype), np.array(1)))
    yield Sample((values((4, 0), dtype), _i(3)))
    if dtype.is_floating and not smooth:  # no gradient there, unlike what differences say
        yield Sample((values((4, 3), dtype), _i(0, 1, 1), -3))


_EMBEDDING = OpInfo(
    OPS["embedding"], sf.embedding, lambda w, i, p=None: np.take(w, i, 0), _embedding_samples, ALL, grad=True,
    exact=True,
    sized=lambda dtype, n: Sample((values((3, n), dtype), indices((n, 2), 3))),
    failures=(
        Failure(Sample((_X, _i(3))), IndexRangeError, "index 3", eager=True),
        Failure(Sample((_X[0], _i(0))), ShapeError, "matrix"),
        Failure(Sample((_X, _i(0), 3)), IndexRangeError, "index 3"),
    ),
)  # fmt: skip


# -- putting back ---------------------------------------------------------------------------------


def _added(a: Any, b: Any, dtype: DType) -> Any:
    return a + b if dtype.is_floating else wrap(int(a) + int(b), dtype)


def _put(
    x: Any, found: list[Any], src: Any, dims: tuple[int, ...] = (0,), accumulate: bool = False
) -> Any:
    return OPS["index_put"](x, src, *found, dims=dims, accumulate=accumulate)


def _was_put(
    x: Array, found: list[Array], src: Array, dims: tuple[int, ...] = (0,), accumulate: bool = False
) -> Array:
    dtype = next(d for d in DTYPES if d.numpy == x.dtype)
    places = _indexed(np.arange(x.size).reshape(x.shape), found, dims)
    out = np.array(x).ravel()
    for at in np.ndindex(src.shape):
        to = int(places[at])
        out[to] = _added(out[to], src[at], dtype) if accumulate else src[at]
    return out.reshape(x.shape)


def _put_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, key in _KEYS:
        found, dims = _parts(key)
        x = values(shape, dtype)
        src = values(_indexed(x, found, dims).shape, dtype, seed=1)
        places = _indexed(np.arange(x.size).reshape(shape), found, dims)
        if dtype is not sf.bool_:
            yield Sample((x, found, src), {"dims": dims, "accumulate": True})
        if not smooth or len(set(places.ravel().tolist())) == places.size:
            yield Sample((x, found, src), {"dims": dims})


_SRC = np.zeros((2, 4), "f4")
_INDEX_PUT = OpInfo(
    OPS["index_put"], _put, _was_put, _put_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample(
        (values((n, 3), dtype), [indices((4,), 3)], values((n, 4), dtype, seed=1)), {"dims": (1,), "accumulate": True}
    ),
    failures=(
        Failure(Sample((_X, [_i(0, 3)], _SRC)), IndexRangeError, "index 3, at [1], is outside dim 0", eager=True),
        Failure(Sample((_X, [_i(0, 1)], _SRC.astype("f8"))), DTypeError, "the values are f64"),
        Failure(Sample((_X, [_i(0, 1)], _SRC[:, :1])), ShapeError, "1 and 4 differ"),
        Failure(Sample((_X, [_i(0, 1)], _SRC[0])), ShapeError, "has the shape [2, 4]"),
    ),
)  # fmt: skip


def _rows(name: str, accumulate: bool) -> OpInfo:
    """`index_add` and `index_copy`."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for shape, dim, index in (
            ((3,), 0, _i(2, 0)), ((3, 4), 1, _i(3)), ((2, 3, 4), -2, _i(1, 2, 0)), ((3, 0), 0, _i(1)),
            ((3,), 0, _i()), ((3, 2), 0, np.array(2)), ((3, 4), 0, _i(1, 1)),
        ):  # fmt: skip
            if smooth and not accumulate and len(set(index.ravel().tolist())) < index.size:
                continue
            src = list(shape)
            src[dim] = index.size
            yield Sample((values(shape, dtype), dim, index, values(tuple(src), dtype, seed=1)))

    def expect(x: Array, dim: int, index: Array, src: Array) -> Array:
        wide = accumulating(x) if accumulate else x
        out = _was_put(
            wide, [index.reshape(-1)], src.astype(wide.dtype), (dim % x.ndim,), accumulate
        )
        return out.astype(x.dtype)

    return OpInfo(
        OPS[name], getattr(sf, name), expect, samples, NUMBERS if accumulate else ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample(
            (values((3, n), dtype), 0, distinct(2, 3), values((2, n), dtype, seed=1))
        ),
        failures=(
            Failure(Sample((_X, 0, _i(0, -1), _SRC)), IndexRangeError, "index -1, at [1]", eager=True),
            Failure(Sample((_X, 0, _i(0, 1, 2), _SRC)), ShapeError, "2 and 3 differ"),
        ),
    )  # fmt: skip


# -- scatter --------------------------------------------------------------------------------------


def _scatter_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, dim, at in (
        ((3,), 0, (2,)), ((1,), 0, (1,)), ((3, 4), 0, (2, 4)), ((3, 4), -1, (3, 2)), ((2, 3, 4), 1, (2, 3, 1)),
        ((3, 0), 0, (3, 0)), ((), 0, ()),
    ):  # fmt: skip
        size = shape[dim] if shape else 1
        if at:
            rest = [n for d, n in enumerate(at) if d != dim % len(at)]
            lines = [distinct(at[dim], size) for _ in np.ndindex(*rest)]
            index = np.moveaxis(np.array(lines, np.int64).reshape(*rest, at[dim]), -1, dim)
        else:
            index = np.array(0)
        yield Sample((values(shape, dtype), dim, index, values(at, dtype, seed=1)))
    if not smooth:
        yield Sample((values((3,), dtype), 0, _i(1, 1, 0), values((5,), dtype, seed=1)))


def _scattered(combine: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def expect(x: Array, dim: int, index: Array, src: Array, *_: Any) -> Array:
        dtype = next(d for d in DTYPES if d.numpy == x.dtype)
        out = np.array(x)
        for at in np.ndindex(index.shape):
            place = list(at)
            if at:
                place[dim] = int(index[at])
            value = combine(out[tuple(place)], src[at])
            out[tuple(place)] = value if dtype.is_floating else wrap(int(value), dtype)
        return out

    return expect


_BAD = (
    Failure(Sample((_X, 0, np.full((1, 1), 3), np.zeros((1, 1), "f4"))), IndexRangeError, "dim 0", eager=True),
    Failure(Sample((_X, 0, np.zeros((1, 5), "i8"), np.zeros((1, 5), "f4"))), ShapeError, "dim 1"),
    Failure(Sample((_X, 0, np.zeros((1, 1), "i8"), np.zeros((1, 1), "f8"))), DTypeError, "source"),
)  # fmt: skip

_SCATTER = OpInfo(
    OPS["scatter"], sf.scatter, _scattered(lambda a, b: b), _scatter_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample(
        (values((3, n), dtype), 0, np.zeros((1, n), "i8"), values((1, n), dtype, seed=1))
    ),
    failures=_BAD,
)  # fmt: skip

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "prod": lambda a, b: a * b if isinstance(a, np.floating) or a.dtype.kind not in "iu" else int(a) * int(b),
    "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def _reduce_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for reduce in _COMBINE:
        for sample in _scatter_samples(dtype, smooth):
            x, dim, index, src = sample.args
            if dtype.is_floating:  # away from ties
                src = np.asarray(src.astype("f8") + 0.3).astype(src.dtype)
            yield Sample((x, dim, index, src, reduce))
        repeated = _i(1, 1, 0)
        for sources in (3, 5):
            src = values((sources,), dtype, seed=2)
            yield Sample((values((3,), dtype), 0, repeated, src, reduce))


_SCATTER_REDUCE = OpInfo(
    OPS["scatter_reduce"], sf.scatter_reduce,
    lambda x, dim, index, src, reduce: _scattered(_COMBINE[reduce])(x, dim, index, src),
    _reduce_samples, NUMBERS, grad=True, exact=True,
    sized=lambda dtype, n: Sample(
        (values((3, n), dtype), 0, indices((2, n), 3), values((2, n), dtype, seed=1), "prod")
    ),
    failures=(
        *(Failure(Sample((*f.sample.args, "amax")), f.error, f.says, f.eager) for f in _BAD),
        Failure(Sample((_X, 0, np.zeros((1, 1), "i8"), _X, "median")), ShapeError, "median"),
    ),
)  # fmt: skip


# -- masks ----------------------------------------------------------------------------------------


def _masks(shape: tuple[int, ...]) -> Array:
    return values(shape, sf.bool_, seed=7)


def _fill_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, mask in (
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((2, 3), (2, 1)),
        ((), ()),
        ((0, 3), (3,)),
        ((3,), (2, 3)),
    ):
        yield Sample((values(shape, dtype), _masks(mask), values((), dtype, seed=1)))
    yield Sample((values((3,), dtype), _masks((3,)), 1))


_MASKED_FILL = OpInfo(
    OPS["masked_fill"], sf.masked_fill, lambda x, mask, v: np.where(mask, np.asarray(v, x.dtype), x), _fill_samples,
    ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype), _masks((n, 1)), values((), dtype, seed=1))),
    failures=(
        Failure(Sample((_X, np.zeros((3, 4), "i8"), 0.0)), DTypeError, "must be bool"),
        Failure(Sample((_X, np.zeros((3, 3), "?"), 0.0)), ShapeError, "3 and 4 differ"),
        Failure(Sample((_X, np.zeros((3, 4), "?"), np.zeros(4, "f4"))), ShapeError, "0-d"),
    ),
)  # fmt: skip


def _masked_scatter_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, mask in (((5,), (5,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((0,), (0,)), ((), ())):
        yield Sample((values(shape, dtype), _masks(mask), values((7,), dtype, seed=1)))
    yield Sample((values((3, 2), dtype).T, _masks((2, 3)), values((3, 2), dtype, seed=1)))


def _mask_scattered(x: Array, mask: Array, src: Array) -> Array:
    out = np.array(x)
    rest = iter(src.ravel())
    for at in np.ndindex(x.shape):
        if np.broadcast_to(mask, x.shape)[at]:
            out[at] = next(rest)
    return out


_MASKED_SCATTER = OpInfo(
    OPS["masked_scatter"], sf.masked_scatter, _mask_scattered, _masked_scatter_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 2), dtype), _masks((n, 2)), values((n, 3), dtype, seed=1))),
    failures=(
        Failure(Sample((_X, np.ones((3, 4), "?"), np.zeros(3, "f4"))), IndexRangeError, "12 positions", eager=True),
        Failure(Sample((_X, np.ones((3, 4), "f4"), _X)), DTypeError, "must be bool"),
        Failure(Sample((_X, np.ones((3, 4), "?"), _X.astype("f8"))), DTypeError, "source"),
    ),
)  # fmt: skip


def _masked_take_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in ((5,), (2, 3), (0,), ()):
        mask = _masks(shape)
        yield Sample((values(shape, dtype), mask), {"size": int(mask.sum()) + 2})


def _compressed(x: Array, mask: Array, size: int | None = None) -> Array:
    out = np.zeros(x.size if size is None else size, x.dtype)
    out[: int(mask.sum())] = x[mask]
    return out


_MASKED_TAKE = OpInfo(
    OPS["masked_take"],
    lambda x, mask, size=None: OPS["masked_take"](x, mask, size=x.numel() if size is None else size),
    _compressed, _masked_take_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 2), dtype), _masks((n, 2)))),
    failures=(Failure(Sample((_X, _X), {"size": 2}), DTypeError, "must be bool"),),
)  # fmt: skip

ROWS = (
    _INDEX, _INDEX_SELECT, _TAKE, _EMBEDDING, _INDEX_PUT, _rows("index_add", True), _rows("index_copy", False),
    _SCATTER, _SCATTER_REDUCE, _MASKED_FILL, _MASKED_SCATTER, _MASKED_TAKE,
)  # fmt: skip
