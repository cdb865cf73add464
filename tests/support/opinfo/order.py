"""Elements by their order: chosen along a dim, sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import (
    ALL,
    NUMBERS,
    Array,
    Failure,
    OpInfo,
    Sample,
    layouts,
    special,
    values,
)
from opinfo.reduce import along_a_dim, of_something, reduced
from staticflow.errors import ShapeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

__all__ = ["ROWS"]


def along(choose: Callable[..., list[int]]) -> Callable[..., tuple[Array, Array]]:
    """The expectation of an op that chooses elements along a dim, by a function from the list of
    them to the list of their positions."""

    def expect(x: Array, dim: int = -1, keepdim: bool = True, **kwargs: Any) -> tuple[Array, Array]:
        rows = np.moveaxis(x, dim, -1) if x.ndim else x.reshape(1)
        groups = [choose(rows[at].tolist(), **kwargs) for at in np.ndindex(rows.shape[:-1])]
        places = np.array(groups, np.int64).reshape(
            *rows.shape[:-1], len(choose([0.0] * rows.shape[-1], **kwargs))
        )
        found = np.take_along_axis(rows, places, -1)
        both = [np.moveaxis(a, -1, dim) if x.ndim else a.reshape(()) for a in (found, places)]
        if not keepdim and x.ndim:
            both = [a.squeeze(dim) for a in both]
        return both[0], both[1]

    return expect


def _first(pick: Callable[..., Any]) -> Callable[[list[Any]], list[int]]:
    def choose(group: list[Any]) -> list[int]:
        nans = [i for i, v in enumerate(group) if v != v]
        return [nans[0] if nans else group.index(pick(group))]

    return choose


def _with_dim(nonempty: bool, **kwargs: Any) -> Callable[[DType, bool], Iterator[Sample]]:
    """Distinct values where it must be smooth."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for x in layouts(lambda shape: values(shape, dtype, -9, 9)):
            if smooth and 0 in x.strides:
                continue
            for dim in range(-x.ndim, x.ndim) if x.ndim else (0, -1):
                if not nonempty or not x.ndim or x.shape[dim]:
                    yield Sample((x, dim), kwargs)
        if not smooth:
            grid = np.stack([special(dtype), special(dtype)[::-1]])
            yield Sample((grid, 0), kwargs)
            yield Sample((grid, 1), kwargs)

    return samples


def _chosen(name: str, pick: Callable[..., Any], across: bool = False) -> OpInfo:
    """The row of ``max`` or ``min`` along a dim, or of what they are ``across`` rows."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for keepdim in (False, True):
            found = _with_dim(nonempty=True, keepdim=keepdim)(dtype, smooth)
            yield from (s for s in found if s.args[0].ndim or not across)

    def expect(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        return along(_first(pick))(x, dim, keepdim)

    outside = Failure(Sample((np.zeros((2, 3), "f4"), 2)), ShapeError, "out of range")
    nothing = Failure(Sample((np.zeros((3, 0), "f4"), 1)), ShapeError, "of nothing")
    op = OPS[f"{name}_dim_across" if across else f"{name}_dim"]
    return OpInfo(
        op, along_a_dim(op) if across else getattr(sf, name), expect, samples, ALL, grad=True,
        exact=True, sized=lambda dtype, n: Sample((values((n, 3), dtype), 1)),
        failures=(nothing,) if across else (outside, nothing),
    )  # fmt: skip


def _sorted(group: list[Any], descending: bool = False) -> list[int]:
    """Python's sort is stable; NaN is above all."""
    keys = [(v != v, 0 if v != v else v) for v in group]
    places = range(len(group))
    if descending:
        return sorted(places, key=lambda i: (-keys[i][0], -keys[i][1]))
    return sorted(places, key=keys.__getitem__)


def _best(group: list[Any], k: int, largest: bool = True) -> list[int]:
    return _sorted(group, largest)[:k]


def _kth(group: list[Any], k: int) -> list[int]:
    return [_sorted(group)[k - 1]]


def _middle(group: list[Any]) -> list[int]:
    nans = [i for i, v in enumerate(group) if v != v]
    return nans[:1] or [_sorted(group)[(len(group) - 1) // 2]]


def _sort_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for descending in (False, True):
        yield from _with_dim(nonempty=False, descending=descending)(dtype, smooth)
        if not smooth:  # many equal elements, and rows of more than a few merges
            yield Sample((values((2, 37), dtype, -2, 2).round(), 1), {"descending": descending})
            yield Sample((values((70, 3), dtype, -2, 2).round(), 0), {"descending": descending})


def _topk_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for largest in (False, True):
        for sample in _with_dim(nonempty=True)(dtype, smooth):
            x, dim = sample.args
            for k in {0, 1, x.shape[dim] if x.ndim else 1}:
                if k or x.ndim:
                    yield Sample((x, k, dim), {"largest": largest})


def _top_few(x: Any, k: int, dim: int = -1, largest: bool = True) -> Any:
    return OPS["top_few"](x, k=k, dim=dim % x.ndim, largest=largest)


def _few_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for sample in _topk_samples(dtype, smooth):
        x, k, _ = sample.args
        if x.ndim and 0 < k <= 16:
            yield sample
    if not smooth:  # equal elements come in the order that they are in
        for k, dim in ((1, 0), (5, 1), (16, 1)):
            yield Sample((values((20, 37), dtype, -2, 2).round(), k, dim))


def _top_select(x: Any, k: int, dim: int = -1, largest: bool = True) -> Any:
    return OPS["top_select"](x, k=k, dim=dim % x.ndim, largest=largest)


def _select_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield from (s for s in _topk_samples(dtype, smooth) if s.args[0].ndim)
    if not smooth:  # of equal elements the first ones
        for k, dim, largest in ((0, 1, True), (1, 0, True), (5, 1, False), (17, 1, True)):
            x = values((20, 37), dtype, -2, 2).round()
            yield Sample((x, k, dim), {"largest": largest})


def _selected(group: list[Any], k: int, largest: bool = True) -> list[int]:
    return sorted(_best(group, k, largest=largest))


def _of_rank(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return OPS["of_rank"](x, k=k, dim=dim % x.ndim, keepdim=keepdim)


def _rank_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield from (s for s in _kth_samples(dtype, smooth) if s.args[0].ndim)
    if not smooth:
        for k in (1, 9, 37):
            yield Sample((values((3, 37), dtype, -2, 2).round(), k, 1))


def _kth_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for keepdim in (False, True):
        for sample in _with_dim(nonempty=True, keepdim=keepdim)(dtype, smooth):
            x, dim = sample.args
            n = x.shape[dim] if x.ndim else 1
            for k in {1, (n + 1) // 2, n}:
                yield Sample((x, k, dim), sample.kwargs)


def _median_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for keepdim in (False, True):
        yield from _with_dim(nonempty=True, keepdim=keepdim)(dtype, smooth)


def _with_k(choose: Callable[..., list[int]]) -> Callable[..., tuple[Array, Array]]:
    def expect(x: Array, k: int, dim: int = -1, keepdim: bool = True, **kwargs: Any) -> Any:
        return along(lambda group: choose(group, k, **kwargs))(x, dim, keepdim)

    return expect


def _search(edges: Array, x: Array, right: bool = False) -> Array:
    rows = np.broadcast_to(edges, (*x.shape[:-1], edges.shape[-1])) if x.ndim else edges
    out = np.empty(x.shape, np.int64)
    for at in np.ndindex(x.shape):
        row = rows[at[:-1]] if x.ndim else rows
        keys = [(v != v, 0 if v != v else v) for v in row.tolist()]
        value = x[at].item()
        key = (value != value, 0 if value != value else value)
        out[at] = sum(e < key or (right and e == key) for e in keys)
    return out


def _search_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for right in (False, True):
        for n in (0, 1, 5, 8):
            edges = np.sort(values((n,), dtype, -3, 3))
            for shape in ((), (0,), (4,), (2, 3)):
                yield Sample((edges, values(shape, dtype, -4, 4)), {"right": right})
            yield Sample((edges, edges), {"right": right})
        rows = np.sort(values((2, 5), dtype, -3, 3), axis=1)
        yield Sample((rows, values((2, 4), dtype, -4, 4)), {"right": right})
        ordered = special(dtype)[_sorted(special(dtype).tolist())]
        yield Sample((ordered, special(dtype)), {"right": right})


def _median_expect(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return along(_middle)(x, dim, keepdim)


def _kth_expect(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _with_k(_kth)(x, k, dim, keepdim)


def _median(group: list[Any]) -> Any:
    return group[_middle(group)[0]]


def _whole(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for sample in _with_dim(nonempty=False)(dtype, smooth):
        if sample.args[0].size:
            yield Sample(sample.args[:1])


_OUTSIDE = Failure(Sample((np.zeros((2, 3), "f4"), 2)), ShapeError, "out of range")
_FLAT = np.zeros((2, 3), "f4")

ROWS = (
    *(_chosen(name, pick, across) for name, pick in (("max", max), ("min", min)) for across in (False, True)),
    OpInfo(
        OPS["sort"], sf.sort, along(_sorted), _sort_samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((3, n), dtype),)), failures=(_OUTSIDE,),
    ),
    OpInfo(
        OPS["top_few"], _top_few, _with_k(_best), _few_samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), 2)),
    ),
    OpInfo(
        OPS["top_select"], _top_select, _with_k(_selected), _select_samples, ALL, grad=True,
        exact=True, sized=lambda dtype, n: Sample((values((n, 3), dtype), 2)),
    ),
    OpInfo(
        OPS["of_rank"], _of_rank, _kth_expect, _rank_samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), 2)),
    ),
    OpInfo(
        OPS["topk"], sf.topk, _with_k(_best), _topk_samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), 2)),
        failures=(
            Failure(Sample((_FLAT, 4)), ShapeError, "k is 4"),
            Failure(Sample((_FLAT, -1)), ShapeError, "k: -1 is too small"),
            Failure(Sample((_FLAT, 1, 2)), ShapeError, "out of range"),
        ),
    ),
    OpInfo(
        OPS["kthvalue"], sf.kthvalue, _kth_expect, _kth_samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), 2)),
        failures=(
            Failure(Sample((_FLAT, 0)), ShapeError, "0 is too small; it must be at least 1"),
            Failure(Sample((_FLAT, 4)), ShapeError, "k is 4"),
        ),
    ),
    OpInfo(
        OPS["median_dim"], sf.median, _median_expect, _median_samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), 1)),
        failures=(_OUTSIDE, Failure(Sample((np.zeros((3, 0), "f4"), 1)), ShapeError, "of nothing")),
    ),
    OpInfo(
        OPS["median"], of_something(sf.median), of_something(reduced(_median)), _whole, ALL,
        grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), values((1, 3), dtype, seed=1))),
    ),
    OpInfo(
        OPS["searchsorted"], sf.searchsorted, _search, _search_samples, NUMBERS, grad=False,
        exact=True,
        sized=lambda dtype, n: Sample((np.sort(values((n,), dtype)), values((3, n), dtype))),
        failures=(
            Failure(Sample((np.float32(1) * np.ones(()), np.ones(3, "f4"))), ShapeError, "0-d"),
            Failure(Sample((np.ones((2, 3), "f4"), np.ones(3, "f4"))), ShapeError, "differ in their dims"),
            Failure(Sample((np.ones((2, 3), "f4"), np.ones((3, 3), "f4"))), ShapeError, "the sizes of the sorted"),
        ),
    ),
)  # fmt: skip
