"""Pooling, by the definition of each window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opinfo.core import FLOATS, NUMBERS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, int64
from staticflow.nn import functional as F
from staticflow.ops import OPS

__all__ = ["ROWS"]

Place = tuple[int, ...]

_CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 2, 6), {"kernel_size": 2}),
    ((1, 1, 1), {"kernel_size": 1}),
    ((0, 2, 5), {"kernel_size": 2}),
    ((2, 1, 7), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((2, 2, 4, 6), {"kernel_size": 2}),
    ((1, 2, 5, 4), {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}),
    ((1, 1, 6, 5), {"kernel_size": 2, "stride": 3, "ceil_mode": True}),
    ((2, 1, 5, 5), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((1, 1, 3, 4, 3), {"kernel_size": 2, "stride": 1}),
)
_MAX_ONLY = (
    ((1, 2, 8), {"kernel_size": 3, "dilation": 2, "padding": 1, "stride": 1}),
    ((1, 1, 7, 9), {"kernel_size": 2, "dilation": (3, 1), "padding": 1, "stride": (1, 3)}),
)
_AVG_ONLY = (
    ((1, 2, 5), {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
    ((1, 1, 5, 5), {
        "kernel_size": 2, "stride": 3, "padding": 1, "count_include_pad": False, "ceil_mode": True,
    }),
    ((1, 1, 4, 4), {"kernel_size": 3, "stride": 1, "divisor_override": 2, "padding": 1}),
)  # fmt: skip
_ADAPTIVE: tuple[tuple[tuple[int, ...], Any], ...] = (
    ((2, 2, 6), 3), ((1, 2, 7), 3), ((2, 1, 3), 5), ((1, 1, 1), 2), ((0, 2, 4), 3),
    ((2, 1, 5, 4), (3, 2)), ((1, 2, 3, 5), (None, 2)), ((1, 1, 3, 4, 2), (2, 3, 2)),
)  # fmt: skip


def _each(value: Any, rank: int) -> Place:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _count(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    """The rule of PyTorch's documentation: a last window begins inside or in the left padding."""
    exact = (n + 2 * p - d * (k - 1) - 1) / s + 1
    count = math.ceil(exact) if ceil else math.floor(exact)
    return count - 1 if ceil and (count - 1) * s >= n + p else count


def _windows(
    shape: Place, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, **_: Any,
) -> tuple[Place, Callable[[Place], list[list[int]]]]:  # fmt: skip
    """How many windows there are, and the places along each dim that the one at an index has."""
    rank = len(shape)
    kernel = _each(kernel_size, rank)
    steps = kernel if stride is None else _each(stride, rank)
    pads, apart = _each(padding, rank), _each(dilation, rank)
    each = list(zip(shape, kernel, steps, pads, apart, strict=True))

    def places(at: Place) -> list[list[int]]:
        return [
            [i * s - p + o * d for o in range(k)]
            for i, (_, k, s, p, d) in zip(at, each, strict=True)
        ]

    return tuple(_count(*e, ceil_mode) for e in each), places


def _inside(places: list[list[int]], sizes: Place) -> list[Place]:
    kept = [[p for p in row if 0 <= p < n] for row, n in zip(places, sizes, strict=True)]
    return list(itertools.product(*kept))


def _pooled(x: Array, counts: Place, one: Callable[[Array, Place], Any], dtype: Any) -> Array:
    out = np.zeros((*x.shape[:2], *counts), dtype)
    for n, c, *at in np.ndindex(out.shape):
        out[(n, c, *at)] = one(x[n, c], tuple(at))
    return out


def _winner(plane: Array, places: list[Place]) -> Place:
    """The first of the largest, or the last NaN."""
    best = places[0]
    for place in places:
        if plane[place] > plane[best] or plane[place] != plane[place]:
            best = place
    return best


def _number(place: Place, sizes: Place) -> int:
    return int(np.ravel_multi_index(place, sizes))


def _max_pool(x: Array, **kwargs: Any) -> Array:
    sizes = x.shape[2:]
    counts, places = _windows(sizes, **kwargs)
    return _pooled(x, counts, lambda p, at: p[_winner(p, _inside(places(at), sizes))], x.dtype)


def _max_index(x: Array, **kwargs: Any) -> Array:
    sizes = x.shape[2:]
    counts, places = _windows(sizes, **kwargs)
    return _pooled(
        x, counts, lambda p, at: _number(_winner(p, _inside(places(at), sizes)), sizes), np.int64
    )


def _avg_pool(
    x: Array, count_include_pad: bool = True, divisor_override: int | None = None, **kwargs: Any
) -> Array:
    sizes = x.shape[2:]
    counts, places = _windows(sizes, **kwargs)
    pads = _each(kwargs.get("padding", 0), len(sizes))

    def one(plane: Array, at: Place) -> float:
        found = places(at)
        inside = _inside(found, sizes)
        padded = [[p for p in r if p < n + q] for r, n, q in zip(found, sizes, pads, strict=True)]
        whole = math.prod(map(len, padded))
        count = divisor_override or (whole if count_include_pad else len(inside))
        return sum(float(plane[p]) for p in inside) / count

    return _pooled(x, counts, one, np.float64).astype(x.dtype)


def _adaptive_places(sizes: Place, counts: Place, at: Place) -> list[Place]:
    ranges = (
        range(i * n // m, math.ceil((i + 1) * n / m))
        for i, n, m in zip(at, sizes, counts, strict=True)
    )
    return list(itertools.product(*ranges))


def _asked(x: Array, output_size: Any) -> Place:
    rank = x.ndim - 2
    given = output_size if isinstance(output_size, tuple) else (output_size,) * rank
    return tuple(n if m is None else m for n, m in zip(x.shape[2:], given, strict=True))


def _adaptive_avg(x: Array, output_size: Any) -> Array:
    sizes, counts = x.shape[2:], _asked(x, output_size)

    def one(plane: Array, at: Place) -> float:
        return float(np.mean([float(plane[p]) for p in _adaptive_places(sizes, counts, at)]))

    return _pooled(x, counts, one, np.float64).astype(x.dtype)


def _adaptive_spread(y: Array, size: Place) -> Array:
    out = np.zeros((*y.shape[:2], *size))
    for n, c, *at in np.ndindex(y.shape):
        places = _adaptive_places(size, y.shape[2:], tuple(at))
        for place in places:
            out[(n, c, *place)] += float(y[(n, c, *at)]) / len(places)
    return out.astype(y.dtype)


def _adaptive_index(x: Array, size: Place) -> Array:
    sizes = x.shape[2:]
    return _pooled(
        x, size,
        lambda p, at: _number(_winner(p, _adaptive_places(sizes, size, at)), sizes), np.int64,
    )  # fmt: skip


def _distinct(shape: Place, dtype: DType) -> Array:
    """No two elements alike: away from the kinks of a maximum."""
    count = math.prod(shape)
    order = np.random.default_rng(count).permutation(count)
    return (order.reshape(shape) % 100 - 40).astype(dtype.numpy)


def _max_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, kwargs in (*_CASES, *_MAX_ONLY):
        yield Sample((_distinct(shape, dtype),), kwargs)
    if not smooth:
        x = values((2, 2, 9, 33), dtype, -1, 1)
        yield Sample((x,), {"kernel_size": 3, "stride": 2})
        yield Sample((x[:, :, ::-2, ::2],), {"kernel_size": 2, "padding": 1})
        if dtype.is_floating:
            x[0, 0, 3, 3:6] = np.nan
            x[1, :, 4:9] = -np.inf
            x[1, 1, 0, 0] = np.inf
            yield Sample((x,), {"kernel_size": 2, "padding": 1})


def _avg_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    cases = (*_CASES, *_AVG_ONLY)
    for shape, kwargs in cases if dtype.bits > 16 else cases[5::3]:  # computed as others
        yield Sample((values(shape, dtype, 0.5),), kwargs)
    if not smooth:
        x = values((2, 2, 9, 33), dtype, 0.5)
        yield Sample((x[:, :, ::-2, ::2],), {"kernel_size": 3, "stride": 2})
        x[0, 0, 3, 3] = np.nan
        x[1, 1, 4, 9] = np.inf
        yield Sample((x,), {"kernel_size": 2, "padding": 1})


def _adaptive_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, size in _ADAPTIVE:
        yield Sample((values(shape, dtype, 0.5), size))


def _spread_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, size in _ADAPTIVE:
        counts = _asked(np.empty(shape), size)
        yield Sample((values((*shape[:2], *counts), dtype, 0.5),), {"size": shape[2:]})


def _index_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, size in _ADAPTIVE:
        yield Sample((_distinct(shape, dtype),), {"size": _asked(np.empty(shape), size)})
    if dtype.is_floating and not smooth:
        x = values((1, 2, 5, 6), dtype)
        x[0, 0, 1:3, 2] = np.nan
        x[0, 1] = -np.inf
        yield Sample((x,), {"size": (3, 4)})


_PLACES = (((2, 2, 6), (3,)), ((1, 2, 3, 4), (2, 5)), ((0, 2, 4), (3,)), ((1, 1, 2, 2), (1, 1)))


def _gather_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, counts in _PLACES:
        index = values((*shape[:2], *counts), int64, 0, math.prod(shape[2:]) - 1)
        yield Sample((values(shape, dtype), index))


def _scatter_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, counts in _PLACES:
        index = values((*shape[:2], *counts), int64, 0, math.prod(shape[2:]) - 1)
        y = values((*shape[:2], *counts), dtype, 0.5, 2, seed=1)
        yield Sample((y, index), {"size": shape[2:]})


def _gathered(x: Array, index: Array) -> Array:
    out = np.empty(index.shape, x.dtype)
    for n, c, *at in np.ndindex(index.shape):
        out[(n, c, *at)] = x[n, c].reshape(-1)[index[(n, c, *at)]]
    return out


def _scattered(y: Array, index: Array, size: Place) -> Array:
    out = np.zeros((*y.shape[:2], *size), y.dtype)
    for n, c, *at in np.ndindex(y.shape):
        place = (n, c, *np.unravel_index(index[(n, c, *at)], size))
        out[place] += y[(n, c, *at)]
    return out


def _by_rank(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(F, f"{name}{x.ndim - 2}d")(x, *args, **kwargs)


def _index_of(x: Any, **kwargs: Any) -> Any:
    return _by_rank("max_pool")(x, **kwargs, return_indices=True)[1]


def _refused(error: type[Exception], says: str, dtype: str = "f4", **kwargs: Any) -> Failure:
    return Failure(Sample((np.zeros((1, 2, 5), dtype),), kwargs), error, says)


_FAILURES = (
    _refused(ShapeError, "more than half", kernel_size=2, padding=2),
    _refused(ShapeError, "5 is too small; it must be at least 6", kernel_size=6),
    _refused(ShapeError, "kernel_size is 0", kernel_size=0),
    _refused(ShapeError, "stride is 0", kernel_size=2, stride=0),
)

_WINDOWED = {"kernel_size": 2, "stride": 1, "padding": 1}

ROWS = (
    OpInfo(
        OPS["max_pool"], _by_rank("max_pool"), _max_pool, _max_samples, NUMBERS, grad=True,
        exact=True, failures=(*_FAILURES, _refused(DTypeError, "bool", "?", kernel_size=2)),
        sized=lambda dtype, n: Sample((_distinct((n, 2, 5, 4), dtype),), _WINDOWED),
    ),
    OpInfo(
        OPS["max_pool_index"], _index_of, _max_index, _max_samples, NUMBERS, grad=False,
        exact=True, failures=_FAILURES,
        sized=lambda dtype, n: Sample((_distinct((n, 2, 5, 4), dtype),), _WINDOWED),
    ),
    OpInfo(
        OPS["avg_pool"], _by_rank("avg_pool"), _avg_pool, _avg_samples, FLOATS, grad=True,
        zeros=False, failures=(*_FAILURES, _refused(DTypeError, "bool", "?", kernel_size=2)),
        sized=lambda dtype, n: Sample((values((n, 2, 5, 4), dtype, 0.5),), _WINDOWED),
    ),
    OpInfo(
        OPS["adaptive_avg_pool"], _by_rank("adaptive_avg_pool"), _adaptive_avg, _adaptive_samples,
        FLOATS, grad=True, zeros=False,
        failures=(Failure(Sample((np.zeros((1, 2, 5), "f4"), -1)), ShapeError, "output_size is -1"),),
        sized=lambda dtype, n: Sample((values((n, 2, 5, 4), dtype, 0.5), (3, 2))),
    ),
    OpInfo(
        OPS["adaptive_spread"], OPS["adaptive_spread"], _adaptive_spread, _spread_samples, FLOATS,
        grad=True, zeros=False,
        sized=lambda dtype, n: Sample((values((n, 2, 3, 2), dtype, 0.5),), {"size": (5, 4)}),
    ),
    OpInfo(
        OPS["adaptive_max_index"], OPS["adaptive_max_index"], _adaptive_index, _index_samples,
        NUMBERS, grad=False, exact=True,
        sized=lambda dtype, n: Sample((_distinct((n, 2, 5, 4), dtype),), {"size": (3, 2)}),
    ),
    OpInfo(
        OPS["place_gather"], OPS["place_gather"], _gathered, _gather_samples, NUMBERS, grad=True,
        exact=True,
        sized=lambda dtype, n: Sample(
            (values((n, 2, 5), dtype), values((n, 2, 3), int64, 0, 4)),
        ),
        failures=(
            Failure(
                Sample((np.zeros((1, 2, 5), "f4"), np.zeros((1, 2, 3), "i4"))), DTypeError, "int64"
            ),
        ),
    ),
    OpInfo(
        OPS["place_scatter"], OPS["place_scatter"], _scattered, _scatter_samples, NUMBERS,
        grad=True, zeros=False,
        sized=lambda dtype, n: Sample(
            (values((n, 2, 3), dtype), values((n, 2, 3), int64, 0, 4)), {"size": (5,)},
        ),
    ),
)  # fmt: skip
