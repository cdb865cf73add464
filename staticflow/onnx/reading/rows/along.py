"""Reductions, and what goes along one dim: running values, order, softmax, norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.eager.creation import full
from staticflow.errors import ShapeError
from staticflow.graph.dtypes import DType, bool_, float32, float64, int64, uint8
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.shapes import axis_of
from staticflow.onnx.reading.values import integers, one
from staticflow.ops.along.cumulative import cumprod, cumsum
from staticflow.ops.along.extremes import amax, amin, argmax, argmin
from staticflow.ops.along.multiplication import prod
from staticflow.ops.along.order import topk
from staticflow.ops.along.softmax import log_softmax, logsumexp, softmax
from staticflow.ops.basics.arithmetic import mul
from staticflow.ops.basics.axes import flip
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.reduce import all, any, mean, sum
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.basics.view import reshape
from staticflow.ops.elementwise.maths import abs, log, rsqrt, sqrt, square
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.statistics.moments import var

__all__ = ["ALONG"]


def _dims(x: Any, axes: Any, noop: int) -> tuple[int, ...]:
    """The dims that are reduced; none given are all, or none."""
    given = [] if axes is None else integers(axes, "axes")
    if not given:
        return () if noop else tuple(range(x.ndim))
    return tuple(axis_of(a, x.ndim) for a in given)


def _reduction(reduce: Callable[[Any, tuple[int, ...], bool], Any], empty: Any = None) -> Row:
    """A row of a reduction; ``empty`` is what it gives of no dims, the operand where None."""

    def run(x: Any, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        dims = _dims(x, axes, noop_with_empty_axes)
        if not dims:
            return x if empty is None else empty(x)
        return reduce(x, dims, bool(keepdims))

    return row(run, static="axes")


def _sum(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    return cast(sum(x, dims, keep), x.dtype)


def _mean(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    if x.dtype.is_floating:
        return mean(x, dims, keep)
    count = math.prod(x.shape[d] for d in dims)
    return cast(div(sum(x, dims, keep), count, rounding_mode="trunc"), x.dtype)


def _prod(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    found = x
    for d in sorted(dims, reverse=True):
        found = prod(found, d, keep)
    return cast(found, x.dtype)


def _extreme(reduce: Any, of_bools: Any, low: bool) -> Callable[..., Any]:
    def run(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
        if x.dtype is bool_:
            return of_bools(x, dims, keep)
        if all_known_empty(x, dims):
            return full(_shape_of(x, dims, keep), _least(x.dtype, low), dtype=x.dtype)
        return reduce(x, dims, keep)

    return run


def all_known_empty(x: Any, dims: tuple[int, ...]) -> bool:
    """Whether what is reduced is nothing, whatever the sizes are."""
    return 0 in [x.shape[d] for d in dims if type(x.shape[d]) is int]


def _shape_of(x: Any, dims: tuple[int, ...], keep: bool) -> tuple[Any, ...]:
    return tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims)


def _least(dtype: DType, low: bool) -> Any:
    """What the extreme of nothing is."""
    if dtype.is_floating:
        return -math.inf if low else math.inf
    if dtype is uint8:
        return 0 if low else 255
    most = 1 << (dtype.bits - 1)
    return -most if low else most - 1


def _wide(x: Any) -> Any:
    return x if x.dtype.is_floating else cast(x, float32 if x.dtype is not int64 else float64)


def _l2(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    if all_known_empty(x, dims):
        return _sum(x, dims, keep)
    return cast(sqrt(sum(square(_wide(x)), dims, keep)), x.dtype)


def _log_sum(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    return cast(log(_wide(sum(x, dims, keep))), x.dtype)


def _log_sum_exp(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    if all_known_empty(x, dims):
        return full(_shape_of(x, dims, keep), -math.inf, dtype=x.dtype)
    return cast(logsumexp(_wide(x), dims, keep), x.dtype)


def _arg(function: Any) -> Row:
    def run(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        axis = axis_of(axis, x.ndim)
        if not select_last_index:
            return function(x, axis, bool(keepdims))
        found = function(flip(x, (axis,)), axis, bool(keepdims))
        return sub(x.shape[axis] - 1, found)

    return row(run)


def _running(function: Any, start: int) -> Row:
    def run(x: Any, *, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
        dim = axis_of(integers(one(axis), "the axis")[0], x.ndim)
        x = flip(x, (dim,)) if reverse else x
        if exclusive:
            shape = list(x.shape)
            count = shape[dim]
            shape[dim] = 1
            first = full(tuple(shape), start, dtype=x.dtype)
            x = part_of(cat([first, x], dim), dim, 0, count)
        found = cast(function(x, dim), x.dtype)
        return flip(found, (dim,)) if reverse else found

    return row(run, static="axis")


def _old_softmax(function: Any) -> Row:
    """Softmax as it was: over all dims from ``axis`` on."""

    def run(x: Any, *, axis: int = 1) -> Any:
        axis = axis_of(axis, x.ndim)
        flat = reshape(x, (math.prod(x.shape[:axis]), -1))
        return reshape(function(flat, 1), tuple(x.shape))

    return row(run)


def _hardmax(x: Any, *, axis: int = -1) -> Any:
    axis = axis_of(axis, x.ndim)
    hit = F.one_hot(argmax(x, axis), x.shape[axis])
    return cast(hit.movedim(-1, axis), x.dtype)


def _old_hardmax(x: Any, *, axis: int = 1) -> Any:
    axis = axis_of(axis, x.ndim)
    flat = reshape(x, (math.prod(x.shape[:axis]), -1))
    return reshape(_hardmax(flat), tuple(x.shape))


def _top(
    x: Any, *, K: Any = None, k: Any = None, axis: int = -1, largest: int = 1, sorted: int = 1
) -> Any:
    count = one(k if K is None else K)
    found = topk(x, count, axis_of(axis, x.ndim), bool(largest), bool(sorted))
    return found.values, found.indices


def _lp_norm(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    axis = axis_of(axis, x.ndim)
    if p == 1:
        length = sum(abs(x), axis, True)
    elif p == 2:
        length = sqrt(sum(square(x), axis, True))
    else:
        raise ShapeError(f"the norm of order {p} is neither 1 nor 2, at {format_locs(here())}")
    zero = length == 0
    safe = where(zero, full((), 1, dtype=x.dtype), length)
    return where(zero, zeros_like(x), div(x, safe))


# -- norms -----------------------------------------------------------------------------------------


def _channels(x: Any, *values: Any) -> list[Any]:
    """Values for each channel, (C,), beside x of (N, C, ...)."""
    return [reshape(v, (1, -1) + (1,) * (x.ndim - 2)) for v in values]


def _batch_norm(
    x: Any, scale: Any, bias: Any, mean_in: Any, var_in: Any, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0, outputs: int,
) -> Any:  # fmt: skip
    if not training_mode:
        if outputs > 1:
            raise ShapeError(
                "running values are given in training alone (training_mode=1), at "
                f"{format_locs(here())}"
            )
        m, v, s, b = _channels(x, mean_in, var_in, scale, bias)
        dtype = x.dtype
        factor = rsqrt(add(v, epsilon))
        return cast(add(mul(mul(sub(x, m), factor), s), b), dtype)
    dims = (0, *range(2, x.ndim))
    m = mean(x, dims)
    v = var(x, dims, correction=0)
    wide_m, wide_v, s, b = _channels(x, m, v, scale, bias)
    y = add(mul(mul(sub(x, wide_m), rsqrt(add(wide_v, epsilon))), s), b)
    keep = [
        cast(add(mul(old, momentum), mul(new, 1 - momentum)), old.dtype)
        for old, new in ((mean_in, m), (var_in, v))
    ]
    return (cast(y, x.dtype), *keep)[:outputs]


def _instance_norm(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def _group_norm(
    x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


def _layer_norm(
    x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1, outputs: int,
) -> Any:  # fmt: skip
    axis = axis_of(axis, x.ndim)
    shape = tuple(x.shape[axis:])
    dims = tuple(range(axis, x.ndim))
    wide = cast(x, float32) if x.dtype.bits == 16 else x
    if outputs == 1 and tuple(scale.shape) == shape and x.dtype.bits > 16:
        return F.layer_norm(x, shape, scale, bias, epsilon)
    centre = mean(wide, dims, True)
    away = sub(wide, centre)
    factor = rsqrt(add(mean(square(away), dims, True), epsilon))
    y = mul(cast(mul(away, factor), x.dtype), scale)
    y = y if bias is None else add(y, bias)
    return (y, centre, factor)[:outputs]


def _rms_norm(
    x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    axis = axis_of(axis, x.ndim)
    dims = tuple(range(axis, x.ndim))
    wide = cast(x, float32) if x.dtype.bits == 16 else x
    factor = rsqrt(add(mean(square(wide), dims, True), epsilon))
    return mul(cast(mul(wide, factor), scale.dtype), scale)


def _lrn(x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    count = x.shape[1]
    squares = F.pad(square(x), [0, 0] * (x.ndim - 2) + [low, high])
    total = part_of(squares, 1, 0, count)
    for i in range(1, size):
        total = add(total, part_of(squares, 1, i, count))
    return div(x, add(mul(total, alpha / size), bias) ** beta)


def _mean_variance(x: Any, *, axes: Sequence[int] = (0, 2, 3)) -> Any:
    dims = tuple(axis_of(a, x.ndim) for a in axes)
    away = sub(x, mean(x, dims, True))
    return div(away, add(sqrt(mean(square(away), dims, True)), 1e-9))


ALONG: Mapping[str, Row] = {
    "ArgMax": _arg(argmax),
    "ArgMin": _arg(argmin),
    "BatchNormalization": row(_batch_norm, fixed="mean_in var_in", since=7, ignored="is_test"),
    "CumProd": _running(cumprod, 1),
    "CumSum": _running(cumsum, 0),
    "GroupNormalization": row(_group_norm, since=21),
    "Hardmax": row(_hardmax, since=13),
    "Hardmax before 13": row(_old_hardmax),
    "InstanceNormalization": row(_instance_norm, ignored="consumed_inputs"),
    "LRN": row(_lrn),
    "LayerNormalization": row(_layer_norm),
    "LogSoftmax": row(lambda x, *, axis=-1: log_softmax(x, axis), since=13),
    "LogSoftmax before 13": _old_softmax(log_softmax),
    "LpNormalization": row(_lp_norm),
    "MeanVarianceNormalization": row(_mean_variance),
    "RMSNormalization": row(_rms_norm),
    "ReduceL1": _reduction(lambda x, dims, keep: _sum(abs(x), dims, keep), abs),
    "ReduceL2": _reduction(_l2, abs),
    "ReduceLogSum": _reduction(_log_sum, log),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(_extreme(amax, any, True)),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(_extreme(amin, all, False)),
    "ReduceProd": _reduction(_prod),
    "ReduceSum": _reduction(_sum),
    "ReduceSumSquare": _reduction(lambda x, dims, keep: _sum(square(x), dims, keep), square),
    "Softmax": row(lambda x, *, axis=-1: softmax(x, axis), since=13),
    "Softmax before 13": _old_softmax(softmax),
    "TopK": row(_top, static="K k"),
}
"""Rows by operator."""
