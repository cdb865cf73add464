"""What ops that no operator is are in other ops. Each takes what its op takes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.graph.dims import Size, prod, same
from staticflow.graph.dtypes import float64, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Shape
from staticflow.ops import OPS
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.along.order import sort_op, topk_op
from staticflow.ops.along.ranks import kth_of_sorted
from staticflow.ops.basics.arithmetic import cast, clamp, where
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.reduce import longest, narrow_as, sum, widen
from staticflow.ops.basics.slicing import embed_op, select_op
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import reshape, squeeze, unsqueeze
from staticflow.ops.elementwise.maths import isnan
from staticflow.ops.elementwise.pairs import logaddexp
from staticflow.ops.indexing.gather_ops import gather, gather_op, scatter_add
from staticflow.ops.indexing.index_functions import index_add, index_select
from staticflow.ops.loops.scan import scan
from staticflow.ops.matrices.attention import write_out, write_out_back
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.windows.correlate import phases

__all__ = ["COMPOSED"]


def _count(beside: Any, size: Size) -> Any:
    """The numbers from 0 on, ``size`` of them (int64)."""
    return iota.beside(beside, shape=(size,), dim=0, dtype=int64)


def _fill(beside: Any, shape: Shape, value: Any = 0) -> Any:
    return full.beside(beside, shape=shape, value=value, dtype=beside.dtype)


# -- along one dim --------------------------------------------------------------------------------


def _along_last(op: Op) -> Callable[..., Any]:
    """An op along any dim as it is along the last one."""

    def compose(x: Any, *, dim: int, keepdim: bool) -> Any:
        found = op(movedim(x, dim, -1), dim=x.ndim - 1, keepdim=True)
        back = [movedim(y, -1, dim) for y in (found if isinstance(found, tuple) else (found,))]
        kept = [y if keepdim else squeeze(y, dim) for y in back]
        return tuple(kept) if isinstance(found, tuple) else kept[0]

    return compose


def _select(x: Any, *, k: Any, dim: int, largest: bool) -> tuple[Any, Any]:
    """What `topk` gives, in the order in which it lies."""
    places, _ = sort_op(topk_op(x, k=k, dim=dim, largest=largest)[1], dim=dim, descending=False)
    return gather_op(x, places, dim=dim), places


def _rows_without(x: Any, dim: int) -> Shape:
    return (*x.shape[:dim], *x.shape[dim + 1 :])


def _running_extreme(wins: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compose(x: Any, *, dim: int) -> tuple[Any, Any]:
        def step(carry: tuple[Any, Any], row: Any) -> Any:
            (best, position), (value, j) = carry, row
            better = wins(value, best) | (j == 0)
            better = better | isnan(value) if x.dtype.is_floating else better
            now = where(better, value, best), where(better, j, position)
            return now, now

        if any(same(n, 0) for n in x.shape):
            return x, full.beside(x, shape=x.shape, value=0, dtype=int64)
        shape = _rows_without(x, dim)
        start = _fill(x, shape), full.beside(x, shape=shape, value=0, dtype=int64)
        rows = movedim(x, dim, 0), _count(x, x.shape[dim])
        _, (values, places) = scan(step, start, rows)
        return movedim(values, 0, dim), movedim(places, 0, dim)

    return compose


def _logcumsumexp(x: Any, *, dim: int) -> Any:
    def step(total: Any, row: Any) -> Any:
        now = logaddexp(total, row)
        return now, now

    wide = cast(x, dtype=float64)
    _, found = scan(step, _fill(wide, _rows_without(x, dim), -math.inf), movedim(wide, dim, 0))
    return narrow_as(movedim(found, 0, dim), x)


def _shift(x: Any, *, dim: int, fill: Any, reverse: bool) -> Any:
    one = _fill(x, (*x.shape[:dim], 1, *x.shape[dim + 1 :]), fill)
    joined = cat([x, one] if reverse else [one, x], dim)
    return narrow(joined, dim, int(reverse), x.shape[dim])


def _recurrence(b: Any, a: Any, *, dim: int, reverse: bool) -> Any:
    def step(h: Any, row: Any) -> Any:
        now = row[0] + row[1] * h
        return now, now

    wide = [movedim(cast(x, dtype=longest(x.dtype)), dim, 0) for x in (b, a)]
    start = _fill(wide[0], _rows_without(b, dim))
    _, found = scan(step, start, tuple(wide), reverse=reverse)
    return narrow_as(movedim(found, 0, dim), b)


def _product_of_others(x: Any, *, dim: int) -> Any:
    wide = widen(x)
    before, behind = (
        OPS["shift"](OPS["cumprod"](wide, dim=dim, reverse=r), dim=dim, fill=1.0, reverse=r)
        for r in (False, True)
    )
    return narrow_as(before * behind, x)


def _search_sorted(edges: Any, x: Any, *, right: bool) -> Any:
    edges, x = unsqueeze(edges, -2) if edges.ndim > 1 else edges, unsqueeze(x, -1)
    before = ~(x < edges) if right else edges < x
    if x.dtype.is_floating:  # NaN is behind all numbers
        before = isnan(x) | (before & ~isnan(edges)) if right else before | isnan(x) & ~isnan(edges)
    return sum(before, -1)


def _repeated_index(repeats: Any, *, size: Size) -> Any:
    ends = OPS["cumsum"](cast(repeats, dtype=int64), dim=0, reverse=False)
    return _search_sorted(ends, _count(repeats, size), right=True)


# -- views, the other way round -------------------------------------------------------------------


def _put_back(view: Callable[[Any], Any], y: Any, shape: Shape) -> Any:
    """Zeros of ``shape`` with the elements of ``y`` added where ``view`` of such a tensor has them
    from."""
    places = view(reshape(_count(y, prod(shape)), shape))
    flat = index_add(_fill(y, (prod(shape),)), 0, reshape(places, (-1,)), reshape(y, (-1,)))
    return reshape(flat, shape)


def _diag_embed(x: Any, *, shape: Shape, offset: int, dim1: int, dim2: int) -> Any:
    attrs = {"offset": offset, "dim1": dim1, "dim2": dim2}
    return _put_back(lambda at: OPS["diagonal"](at, **attrs), x, shape)


def _fold(x: Any, *, shape: Shape, dim: int, size: int, step: int) -> Any:
    return _put_back(lambda at: OPS["unfold"](at, dim=dim, size=size, step=step), x, shape)


def _unborder(y: Any, *, before: Shape, after: Shape, mode: str) -> Any:
    lead = y.ndim - len(before)
    inner = (n - a - b for n, a, b in zip(y.shape[lead:], before, after, strict=True))
    attrs = {"before": before, "after": after, "mode": mode}
    return _put_back(lambda at: OPS["border"](at, **attrs), y, (*y.shape[:lead], *inner))


def _unpatches(y: Any, *, size: Shape, stride: Any, dilation: Any) -> Any:
    attrs = {"kernel": y.shape[2 : 2 + len(size)], "stride": stride, "dilation": dilation}
    return _put_back(lambda at: OPS["patches"](at, **attrs), y, (*y.shape[:2], *size))


def _place_scatter(y: Any, index: Any, *, size: Shape) -> Any:
    return _put_back(lambda at: OPS["place_gather"](at, index), y, (*y.shape[:2], *size))


def _interleave(*parts: Any, size: Shape, stride: Sequence[int]) -> Any:
    shape, total = (*parts[0].shape[:2], *size), None
    for phase, part in zip(phases(tuple(stride)), parts, strict=True):
        own = embed_op(part, shape=shape, start=(0, 0, *phase), step=(1, 1, *stride))
        total = own if total is None else total + own
    return total


def _correlate_kernel(
    x: Any, y: Any, *, kernel: Shape, stride: Any, dilation: Any, groups: int
) -> Any:
    rank = len(kernel)
    found = OPS["patches"](x, kernel=kernel, stride=stride, dilation=dilation)
    batch, channels, out = x.shape[0], x.shape[1] // groups, y.shape[1] // groups
    positions = found.shape[2 + rank :]
    each, count = channels * prod(kernel), prod(positions)
    windows = movedim(reshape(found, (batch, groups, each, count)), 0, -2)
    given = movedim(reshape(y, (batch, groups, out, count)), 0, -2)
    products = matmul(
        reshape(given, (groups, out, batch * count)),
        movedim(reshape(windows, (groups, each, batch * count)), -1, -2),
    )
    return reshape(products, (groups * out, channels, *kernel))


# -- windows of a given number, and positions between elements -----------------------------------


def _window(beside: Any, count: Size, size: Size) -> tuple[Any, Any]:
    """Whether each of ``count`` windows over ``size`` elements has each of these, (count, size),
    and how many it has, (count, 1)."""
    window, at = unsqueeze(_count(beside, count), 1), _count(beside, size)
    first = window * size // count
    last = (window * size + (size + count - 1)) // count
    return (at >= first) & (at < last), last - first


def _adaptive_avg_pool(x: Any, *, size: Shape) -> Any:
    found = widen(x)
    for dim, count in enumerate(size, 2):
        inside, extent = _window(x, count, x.shape[dim])
        rows = unsqueeze(movedim(found, dim, -1), -2)
        means = sum(where(inside, rows, 0.0), -1) / cast(squeeze(extent, 1), dtype=found.dtype)
        found = movedim(means, -1, dim)
    return narrow_as(found, x)


def _adaptive_spread(y: Any, *, size: Shape) -> Any:
    found = widen(y)
    for dim, n in enumerate(size, 2):
        inside, extent = _window(y, y.shape[dim], n)
        shares = unsqueeze(movedim(found, dim, -1), -1) / cast(extent, dtype=found.dtype)
        found = movedim(sum(where(inside, shares, 0.0), -2), -1, dim)
    return narrow_as(found, y)


def _adaptive_max_index(x: Any, *, size: Shape) -> Any:
    rank, plane = len(size), prod(x.shape[2:])
    inside: Any = None
    for d, (count, n) in enumerate(zip(size, x.shape[2:], strict=True)):
        own, _ = _window(x, count, n)
        ones: list[Size] = [1] * (2 * rank)
        ones[d], ones[rank + d] = count, n
        own = reshape(own, tuple(ones))
        inside = own if inside is None else inside & own
    inside = reshape(inside, (*size, plane))
    values = reshape(x, (*x.shape[:2], *(1,) * rank, plane))
    nan = isnan(values) if x.dtype.is_floating else values != values
    least = -math.inf if x.dtype.is_floating else int(np.iinfo(x.dtype.numpy).min)
    values = where(inside & ~nan, values, least)
    at = _count(x, plane)
    first = amin(where(inside & (values == amax(values, -1, True)), at, plane), -1)
    last_nan = amax(where(inside & nan, at, -1), -1)
    return where(last_nan >= 0, last_nan, first)


def _positions(index: Any, i: int, size: Size) -> Any:
    """The ``i``-th elements that each position reads, (batch, positions)."""
    return clamp(select_op(index, dim=1, index=i), 0, size - 1)


def _resample(x: Any, index: Any, *weights: Any, count: int) -> Any:
    total: Any = None
    for i in range(count):
        at = _positions(index, i, x.shape[2])
        if same(index.shape[0], 1):
            part = index_select(x, 2, select_op(at, dim=0, index=0))
        else:
            shape = (*x.shape[:2], at.shape[1], x.shape[3])
            part = gather(x, 2, expand(unsqueeze(unsqueeze(at, 1), -1), shape))
        part = _weigh(part, weights, i)
        total = part if total is None else total + part
    return total


def _weigh(part: Any, weights: Sequence[Any], i: int) -> Any:
    if not weights:
        return part
    return part * unsqueeze(unsqueeze(select_op(weights[0], dim=1, index=i), 1), -1)


def _unresample(y: Any, index: Any, *weights: Any, count: int, size: Size) -> Any:
    total = _fill(y, (*y.shape[:2], size, y.shape[3]))
    for i in range(count):
        at, part = _positions(index, i, size), _weigh(y, weights, i)
        if same(index.shape[0], 1):
            total = index_add(total, 2, select_op(at, dim=0, index=0), part)
        else:
            places = expand(unsqueeze(unsqueeze(at, 1), -1), y.shape)
            total = scatter_add(total, 2, places, part)
    return total


COMPOSED: dict[Op, Callable[..., Any]] = {
    OPS["adaptive_avg_pool"]: _adaptive_avg_pool,
    OPS["adaptive_max_index"]: _adaptive_max_index,
    OPS["adaptive_spread"]: _adaptive_spread,
    OPS["attend"]: write_out,
    OPS["attend_back"]: write_out_back,
    OPS["correlate_kernel"]: _correlate_kernel,
    OPS["cummax"]: _running_extreme(operator.ge),
    OPS["cummin"]: _running_extreme(operator.le),
    OPS["diag_embed"]: _diag_embed,
    OPS["fold"]: _fold,
    OPS["interleave"]: _interleave,
    OPS["logcumsumexp"]: _logcumsumexp,
    OPS["of_rank"]: kth_of_sorted,
    OPS["place_scatter"]: _place_scatter,
    OPS["product_of_others"]: _product_of_others,
    OPS["recurrence"]: _recurrence,
    OPS["repeated_index"]: _repeated_index,
    OPS["resample"]: _resample,
    OPS["searchsorted"]: _search_sorted,
    OPS["shard"]: lambda x, *, spec: x,
    OPS["shift"]: _shift,
    OPS["top_select"]: _select,
    OPS["unborder"]: _unborder,
    OPS["unpatches"]: _unpatches,
    OPS["unresample"]: _unresample,
    **{OPS[f"{n}_across"]: _along_last(OPS[n]) for n in ("argmax", "argmin", "max_dim", "min_dim")},
}
"""What ops that declare no decomposition are in others; of the rest it is what they declare."""
