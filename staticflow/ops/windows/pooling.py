"""Maxima over windows, and what picks and spreads elements by their position in a plane.

A *plane* is what (N, C, ...) has for each n and c; positions in it are numbered in row-major order,
as PyTorch's ``return_indices`` does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, prod
from staticflow.graph.dtypes import int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declaring.array_modules import combine_at
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import Index, LoopNest, linear
from staticflow.ops.windows.correlate import span, windows
from staticflow.ops.windows.spatial import PerDim, window

__all__ = [
    "adaptive_max_index_op",
    "count_windows",
    "max_pool_index_op",
    "max_pool_op",
    "place_gather_op",
    "place_scatter_op",
]  # fmt: skip


def count_windows(
    facts: Facts, size: Size, kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> Size:
    """How many windows there are along a dim. With ``ceil`` the last may hang over the end, but it
    begins inside, or in the padding before."""
    for number, least in ((kernel, 1), (stride, 1), (padding, 0), (dilation, 1)):
        if number < least:
            raise ShapeError(f"a window of {kernel} has {number} where {least} is the least")
    reach, more = span(kernel, dilation), stride - 1 if ceil else 0
    if 2 * padding > reach:
        raise ShapeError(f"padding {padding} is more than half of a window of {reach}")
    whole = size + 2 * padding + more
    facts.at_least(whole, reach, f"the room for a window of {reach} in {size} elements")
    count = (whole - reach) // stride + 1
    return dim_min(count, ceil_div(size + padding, stride)) if ceil else count


# -- maxima -------------------------------------------------------------------------------------


def _shape(
    facts: Facts, x: TensorType, *, kernel: PerDim, stride: PerDim, padding: PerDim,
    dilation: PerDim, ceil: bool,
) -> Shape:  # fmt: skip
    if x.dtype.kind == "b":
        raise DTypeError("not defined for bool")
    if x.ndim != len(kernel) + 2:
        raise ShapeError(f"takes an input of {len(kernel) + 2} dims, not {x}")
    each = zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    return (*x.shape[:2], *(count_windows(facts, n, k, s, p, d, ceil) for n, k, s, p, d in each))


def _max_infer(facts: Facts, x: TensorType, **attrs: Any) -> TensorType:
    return TensorType(x.dtype, _shape(facts, x, **attrs))


def _index_infer(facts: Facts, x: TensorType, **attrs: Any) -> TensorType:
    return TensorType(int64, _shape(facts, x, **attrs))


def _lowest(dtype: np.dtype[Any]) -> Any:
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


def _find_windows(
    xp: Any,
    x: Any,
    *,
    kernel: PerDim,
    stride: PerDim,
    padding: PerDim,
    dilation: PerDim,
    ceil: bool,
) -> tuple[Any, Any]:
    """The elements of every window, along one last dim, and where each is in its plane; -1 where
    the window is outside."""
    rank, sizes = len(kernel), x.shape[2:]
    counts = _shape(
        Facts(), TensorType(int64, x.shape), kernel=kernel, stride=stride, padding=padding,
        dilation=dilation, ceil=ceil,
    )[2:]  # fmt: skip
    ends = [
        max((m - 1) * s + span(k, d) - n - p, 0)
        for m, s, k, d, n, p in zip(counts, stride, kernel, dilation, sizes, padding, strict=True)
    ]
    around = tuple(zip(padding, ends, strict=True))
    values = xp.pad(x, ((0, 0), (0, 0), *around), constant_values=_lowest(x.dtype))
    numbers = xp.arange(prod(sizes)).reshape((1, 1, *sizes))
    positions = xp.pad(numbers, ((0, 0), (0, 0), *around), constant_values=-1)
    cut = (slice(None), slice(None), *map(slice, counts))
    found = [windows(xp, a, kernel, stride, dilation)[cut] for a in (values, positions)]
    values, positions = (f.reshape((*f.shape[: 2 + rank], prod(kernel))) for f in found)
    return values, positions


def _max_reference(xp: Any, x: Any, **attrs: Any) -> Any:
    return xp.max(_find_windows(xp, x, **attrs)[0], axis=-1)


def _index_reference(xp: Any, x: Any, **attrs: Any) -> Any:
    values, positions = _find_windows(xp, x, **attrs)
    wins = (values == xp.max(values, axis=-1, keepdims=True)) & (positions >= 0)
    first = xp.argmax(wins, axis=-1)
    nans = values != values
    last = values.shape[-1] - 1 - xp.argmax(nans[..., ::-1], axis=-1)
    chosen = xp.where(xp.any(nans, axis=-1), last, first)[..., None]
    positions = xp.broadcast_to(positions, values.shape)
    return xp.take_along_axis(positions, chosen, axis=-1)[..., 0].astype(xp.int64)


def _source(nest: Any) -> Callable[[Index], Any]:
    """What loads an element of a plane with its padding: of the input itself if there is none, else
    of a copy with the lowest of numbers around it."""
    attrs, dtype = nest.attrs, nest.in_type(0).dtype
    if not any(attrs["padding"]) and not attrs["ceil"]:
        return lambda index: nest.load(0, index)
    k, shape, counts = nest.k, nest.in_shape(0), nest.out_shape(0)[2:]
    windows_ = zip(counts, attrs["kernel"], attrs["stride"], attrs["dilation"], strict=True)
    reach = tuple((m - 1) * s + span(n, d) for m, n, s, d in windows_)
    inside = tuple(
        dim_min(n, r - p) for n, r, p in zip(shape[2:], reach, attrs["padding"], strict=True)
    )
    around = (*shape[:2], *reach)
    copy = nest.scratch(dtype, prod(around))
    with nest.loops(around, "parallel") as index:
        k.store(copy, linear(index, around), k.const(_lowest(dtype.numpy), dtype))
    with nest.loops((*shape[:2], *inside), "parallel") as (n, c, *at):
        position = (a + p for a, p in zip(at, attrs["padding"], strict=True))
        k.store(copy, linear((n, c, *position), around), nest.load(0, (n, c, *at)))
    return lambda index: k.load(copy, linear(index, around))


def _offsets(nest: Any, at: Index) -> Iterator[Index]:
    """Where, in the padded plane, the elements of the window at ``at`` are."""
    attrs = nest.attrs
    for offset in itertools.product(*map(range, attrs["kernel"])):
        each = zip(at, offset, attrs["stride"], attrs["dilation"], strict=True)
        yield tuple(p * s + o * d for p, o, s, d in each)


def _number(nest: Any, position: Index) -> Any:
    """The number in the plane of a position in the padded plane. In the padding before it, that of
    the first element that the window has inside, so that the lowest of numbers is found there."""
    k, total = nest.k, None
    attrs, sizes = nest.attrs, nest.in_shape(0)[2:]
    if not any(attrs["padding"]):
        return k.index_value(linear(position, sizes))
    for i, n, p, d in zip(position, sizes, attrs["padding"], attrs["dilation"], strict=True):
        at = i - p
        value = k.index_value(at if d == 1 else dim_max(at, at % d))
        value = k.apply("max", value, 0) if p > 0 and d == 1 else value
        total = value if total is None else k.add(k.mul(total, k.index_value(n)), value)
    return total


def _max_emit(nest: Any) -> None:
    load = _source(nest)
    with nest.loops(nest.out_shape(0), "parallel") as (n, c, *at):
        best = None
        for position in _offsets(nest, at):
            value = load((n, c, *position))
            best = value if best is None else nest.k.apply("max", best, value)
        nest.store(0, (n, c, *at), best)


def _index_emit(nest: Any) -> None:
    """The first of equal maxima; of several NaN the last, as in PyTorch."""
    k, load = nest.k, _source(nest)
    with nest.loops(nest.out_shape(0), "parallel") as (n, c, *at):
        best = where = None
        for position in _offsets(nest, at):
            value, number = load((n, c, *position)), _number(nest, position)
            if best is None:
                best, where = value, number
                continue
            better = _beats(k, value, best)
            best, where = k.select(better, value, best), k.select(better, number, where)
        nest.store(0, (n, c, *at), where)


def _beats(k: Any, value: Any, best: Any) -> Any:
    """Whether an element takes the place of the best so far: if it is larger, or NaN."""
    better = k.compare("gt", value, best)
    if value.dtype.is_floating:
        better = k.apply("or", better, k.compare("ne", value, value))
    return better


def _max_vjp(ct: Any, out: Any, x: Any, **attrs: Any) -> Any:
    return place_scatter_op(ct, max_pool_index_op(x, **attrs), size=x.shape[2:])


max_pool_op: Op = Op(
    name="max_pool",
    doc="The largest element in each window; NaN if there is one.",
    infer=_max_infer,
    reference=strict(_max_infer, _max_reference),
    vjp=per_arg(_max_vjp),
    lowering=LoopNest(_max_emit),
    piecewise_linear=True,
    numpy="slower",
    grad_name="MaxPool2DWithIndicesBackward0",
)

max_pool_index_op: Op = Op(
    name="max_pool_index",
    doc="Where in its plane the largest element in each window is, the first if there are several; "
    "the last NaN if there is one.",
    infer=_index_infer,
    reference=strict(_index_infer, _index_reference),
    vjp=None,
    lowering=LoopNest(_index_emit),
    numpy="slower",
)


# -- maxima over windows for a given size -------------------------------------------------------


def _adaptive_infer(facts: Facts, x: TensorType, *, size: Shape) -> TensorType:
    if x.dtype.kind == "b" or x.ndim != len(size) + 2:
        raise ShapeError(f"takes numbers of {len(size) + 2} dims, not {x}")
    for n in x.shape[2:]:
        facts.at_least(n, 1, f"the size of {x} along a dim that is cut into windows")
    return TensorType(int64, (*x.shape[:2], *size))


def _adaptive_reference(xp: Any, x: Any, *, size: Any) -> Any:
    out = xp.zeros((*x.shape[:2], *size), xp.int64)
    numbers = xp.arange(prod(x.shape[2:])).reshape(x.shape[2:])
    for at in xp.ndindex(*size):
        first, extent = window(at, x.shape[2:], size)
        inside = tuple(slice(a, a + n) for a, n in zip(first, extent, strict=True))
        values = _flat(x[(..., *inside)])
        nans = values != values
        last = values.shape[-1] - 1 - xp.argmax(nans[..., ::-1], axis=-1)
        chosen = xp.where(xp.any(nans, axis=-1), last, xp.argmax(values, axis=-1))
        out[(..., *at)] = numbers[inside].reshape(-1)[chosen]
    return out


def _adaptive_emit(nest: Any) -> None:
    k, sizes = nest.k, nest.in_shape(0)[2:]
    with nest.loops(nest.out_shape(0), "parallel") as (n, c, *at):
        first, extent = window(at, sizes, nest.out_shape(0)[2:])
        best = k.var(nest.load(0, (n, c, *first)))
        where = k.var(k.index_value(linear(first, sizes)))
        with nest.loops(extent, "serial") as inside:
            position = tuple(a + i for a, i in zip(first, inside, strict=True))
            value = nest.load(0, (n, c, *position))
            better = _beats(k, value, best)
            k.set(where, k.select(better, k.index_value(linear(position, sizes)), where))
            k.set(best, k.select(better, value, best))
        nest.store(0, (n, c, *at), where)


adaptive_max_index_op: Op = Op(
    name="adaptive_max_index",
    doc="Where in its plane the largest element is, for windows such that the result is of "
    "``size``.",
    infer=_adaptive_infer,
    reference=strict(_adaptive_infer, _adaptive_reference),
    vjp=None,
    lowering=LoopNest(_adaptive_emit),
    numpy="slower",
)


# -- elements by their position --------------------------------------------------------------------


def _positions_fit(facts: Facts, x: TensorType, index: TensorType) -> None:
    if index.dtype is not int64:
        raise DTypeError(f"the positions are {index.dtype}; they must be int64")
    if x.ndim != index.ndim:
        raise ShapeError(f"{x} and the positions {index} must have as many dims")
    for a, b in zip(x.shape[:2], index.shape[:2], strict=True):
        facts.equal(a, b, f"the first two sizes of {x} and of the positions {index}")


def _gather_infer(facts: Facts, x: TensorType, index: TensorType) -> TensorType:
    _positions_fit(facts, x, index)
    return TensorType(x.dtype, index.shape)


def _flat(x: Any) -> Any:
    return x.reshape((*x.shape[:2], prod(x.shape[2:])))


def _gather_reference(xp: Any, x: Any, index: Any) -> Any:
    return xp.take_along_axis(_flat(x), _flat(index), axis=2).reshape(index.shape)


def _position(nest: Any, at: Index, rank: int) -> Index:
    """The index that is named at ``at``: of the plane, and the number in it as a last index."""
    return (*at[:2], *(0,) * (rank - 1), nest.k.bind(nest.load(1, at), "at"))


def _gather_emit(nest: Any) -> None:
    rank = len(nest.in_shape(0)) - 2
    with nest.loops(nest.out_shape(0), "parallel") as at:
        nest.store(0, at, nest.load(0, _position(nest, at, rank)))


place_gather_op: Op = Op(
    name="place_gather",
    doc="The elements of ``x`` (N, C, ...) at the positions ``index`` (N, C, ...) of each plane; "
    "they are not checked.",
    infer=_gather_infer,
    reference=strict(_gather_infer, _gather_reference),
    vjp=per_arg(lambda ct, out, x, index: place_scatter_op(ct, index, size=x.shape[2:]), None),
    lowering=LoopNest(_gather_emit),
    piecewise_linear=True,
    numpy="slower",
    grad_name="MaxPool2DWithIndicesBackward0",
)


def _scatter_infer(facts: Facts, y: TensorType, index: TensorType, *, size: Shape) -> TensorType:
    _positions_fit(facts, y, index)
    for a, b in zip(y.shape[2:], index.shape[2:], strict=True):
        facts.equal(a, b, f"the sizes of {y} and of the positions {index}")
    return TensorType(y.dtype, (*y.shape[:2], *size))


def _scatter_reference(xp: Any, y: Any, index: Any, *, size: Any) -> Any:
    out = xp.zeros((y.shape[0], y.shape[1], prod(size)), y.dtype)
    n, c = (a[..., None] for a in xp.indices(y.shape[:2]))
    combine_at(xp, "add", out, (n, c, _flat(index)), _flat(y))
    return out.reshape((*y.shape[:2], *size))


def _scatter_emit(nest: Any) -> None:
    k, shape = nest.k, nest.out_shape(0)
    zero = k.const(0, nest.out_type(0).dtype)
    with nest.loops(shape[:2], "parallel") as plane:
        with nest.loops(shape[2:], "parallel") as at:
            nest.store(0, (*plane, *at), zero)
        with nest.loops(nest.in_shape(0)[2:], "serial") as at:  # in order: positions may repeat
            position = _position(nest, (*plane, *at), len(shape) - 2)
            added = k.add(nest.load_out(0, position), nest.load(0, (*plane, *at)))
            nest.store(0, position, added)


place_scatter_op: Op = Op(
    name="place_scatter",
    doc="Zeros (N, C, *size) with ``y`` added at the positions ``index`` of each plane; they are "
    "not checked.",
    infer=_scatter_infer,
    reference=strict(_scatter_infer, _scatter_reference),
    vjp=per_arg(lambda ct, out, y, index, *, size: place_gather_op(ct, index), None),
    lowering=LoopNest(_scatter_emit),
    piecewise_linear=True,
    numpy="slower",
    grad_name="MaxPool2DWithIndicesBackwardBackward0",
)
