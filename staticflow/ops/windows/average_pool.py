"""Means over windows: of one size everywhere, or such that a result of a given size comes out."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import float32, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.arithmetic import cast, maximum, minimum
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.basics.reduce import narrow_as, wide, widen
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import LoopNest, linear
from staticflow.ops.elementwise.variants import div
from staticflow.ops.windows.convolution import convolution_op, convolution_transpose_op
from staticflow.ops.windows.pooling import count_windows
from staticflow.ops.windows.spatial import PerDim, space_out, window

__all__ = ["adaptive_avg_pool_op", "adaptive_spread_op", "avg_pool_op"]


# -- windows of one size ------------------------------------------------------------------------


def _infer(
    facts: Facts, x: TensorType, *, kernel: PerDim, stride: PerDim, padding: PerDim, ceil: bool,
    include_pad: bool, divisor: int | None,
) -> TensorType:  # fmt: skip
    if x.dtype.kind == "b":
        raise DTypeError("not defined for bool; cast to a dtype of numbers")
    if x.ndim != len(kernel) + 2:
        raise ShapeError(f"takes an input of {len(kernel) + 2} dims, not {x}")
    each = zip(x.shape[2:], kernel, stride, padding, strict=True)
    counts = (count_windows(facts, n, k, s, p, 1, ceil) for n, k, s, p in each)
    return TensorType(x.dtype, (*x.shape[:2], *counts))


def _reference(
    xp: Any, x: Any, *, kernel: PerDim, stride: PerDim, padding: PerDim, ceil: bool,
    include_pad: bool, divisor: int | None,
) -> Any:  # fmt: skip
    sizes = x.shape[2:]
    each = zip(sizes, kernel, stride, padding, strict=True)
    counts = tuple(count_windows(Facts(), n, k, s, p, 1, ceil) for n, k, s, p in each)
    source = x.astype(xp.float32) if x.dtype.itemsize == 2 else x
    out = xp.zeros((*x.shape[:2], *counts), source.dtype)
    for at in xp.ndindex(*counts):
        first = [i * s - p for i, s, p in zip(at, stride, padding, strict=True)]
        ends = [min(a + k, n + p) for a, k, n, p in zip(first, kernel, sizes, padding, strict=True)]
        inside = [(max(a, 0), min(b, n)) for a, b, n in zip(first, ends, sizes, strict=True)]
        whole = prod(b - a for a, b in zip(first, ends, strict=True))
        count = divisor or (whole if include_pad else prod(b - a for a, b in inside))
        window = source[(..., *(slice(a, b) for a, b in inside))]
        total = xp.sum(window, axis=tuple(range(2, x.ndim)), dtype=source.dtype)
        mean = total / source.dtype.type(count)
        out[(..., *at)] = mean if source.dtype.kind == "f" else xp.trunc(mean)
    return out.astype(x.dtype, copy=False)


def _ones(beside: Any, kernel: PerDim) -> Any:
    value = 1.0 if beside.dtype.is_floating else 1
    return full.beside(beside, shape=(1, 1, *kernel), value=value, dtype=beside.dtype)


def _reach(counts: Shape, kernel: PerDim, stride: PerDim) -> Shape:
    """The elements from the first to the last that windows touch."""
    return tuple((m - 1) * s + k for m, k, s in zip(counts, kernel, stride, strict=True))


def _divisors(
    beside: Any, sizes: Shape, counts: Shape, *, kernel: PerDim, stride: PerDim, padding: PerDim,
    ceil: bool, include_pad: bool, divisor: int | None,
) -> Any:  # fmt: skip
    """What the sum of each window is divided by, as it broadcasts with the result."""
    if divisor is not None:
        return divisor
    if not ceil and (include_pad or not any(padding)):
        return prod(kernel)
    total: Any = 1
    for axis, (n, m, k, s, p) in enumerate(
        zip(sizes, counts, kernel, stride, padding, strict=True)
    ):
        shape = tuple(m if i == axis else 1 for i in range(len(counts)))
        first = iota.beside(beside, shape=shape, dim=axis, dtype=int64) * s - p
        end = minimum(first + k, n + p)
        if not include_pad:
            first, end = maximum(first, 0), minimum(end, n)
        total = total * cast(end - first, dtype=beside.dtype)
    return total


def _planes(x: Any) -> Any:
    """(N, C, ...) as (N * C, 1, ...)."""
    return reshape(x, (x.shape[0] * x.shape[1], 1, *x.shape[2:]))


def _decompose(x: Any, *, kernel: PerDim, stride: PerDim, padding: PerDim, **more: Any) -> Any:
    source = widen(x)
    attrs = {"kernel": kernel, "stride": stride, "padding": padding, **more}
    shape = _infer(Facts(), TensorType(float32, x.__sf_shape__), **attrs).shape
    one = (1,) * len(kernel)
    around = space_out(source, _reach(shape[2:], kernel, stride), padding, one)
    total = convolution_op(
        _planes(around), _ones(source, kernel), stride=stride, padding=(0,) * len(kernel),
        dilation=one, groups=1,
    )  # fmt: skip
    rounding = None if x.dtype.is_floating else "trunc"
    divisors = _divisors(source, x.shape[2:], shape[2:], **attrs)
    return narrow_as(div(reshape(total, shape), divisors, rounding_mode=rounding), x)


def _vjp(
    ct: Any, out: Any, x: Any, *, kernel: PerDim, stride: PerDim, padding: PerDim, **more: Any
) -> Any:
    source = widen(ct)
    attrs = {"kernel": kernel, "stride": stride, "padding": padding, **more}
    shared = source / _divisors(source, x.shape[2:], ct.shape[2:], **attrs)
    one, around = (1,) * len(kernel), _reach(ct.shape[2:], kernel, stride)
    sums = convolution_transpose_op(
        _planes(shared), _ones(source, kernel), size=around, stride=stride,
        padding=(0,) * len(kernel), dilation=one, groups=1,
    )  # fmt: skip
    start = tuple(-p for p in padding)
    found = space_out(reshape(sums, (*ct.shape[:2], *around)), x.shape[2:], start, one)
    return narrow_as(found, ct)


avg_pool_op = Op(
    name="avg_pool",
    doc="The mean of each window: its sum, zero where x ends, by ``divisor``, or by its elements "
    "with those in the padding (``include_pad``) or without; of integers rounded towards 0.",
    infer=_infer,
    reference=strict(_infer, _reference),
    vjp=per_arg(_vjp),
    decompose=_decompose,
    numpy="slower",
    grad_name="AvgPool2DBackward0",
)


# -- windows for a given size -------------------------------------------------------------------


def _adaptive_infer(facts: Facts, x: TensorType, *, size: Shape) -> TensorType:
    if not x.dtype.is_floating:
        raise DTypeError(f"not defined for {x.dtype.name}; cast to a floating dtype")
    if x.ndim != len(size) + 2:
        raise ShapeError(f"takes numbers of {len(size) + 2} dims, not {x}")
    for n in x.shape[2:]:
        facts.at_least(n, 1, f"the size of {x} along a dim that is cut into windows")
    return TensorType(x.dtype, (*x.shape[:2], *size))


def _wide_array(xp: Any, x: Any) -> Any:
    return x.astype(xp.float32) if x.dtype.itemsize == 2 else x


def _adaptive_reference(xp: Any, x: Any, *, size: Any) -> Any:
    source = _wide_array(xp, x)
    out = xp.zeros((*x.shape[:2], *size), source.dtype)
    for at in xp.ndindex(*size):
        window = source[(..., *_elements(at, x.shape[2:], size))]
        out[(..., *at)] = xp.mean(window, axis=tuple(range(2, x.ndim)))
    return out.astype(x.dtype, copy=False)


def _elements(at: Any, sizes: Any, counts: Any) -> tuple[slice, ...]:
    each = zip(*window(at, sizes, counts), strict=True)
    return tuple(slice(a, a + n) for a, n in each)


def _scatter_reference(xp: Any, y: Any, *, size: Any) -> Any:
    source = _wide_array(xp, y)
    out = xp.zeros((*y.shape[:2], *size), source.dtype)
    for at in xp.ndindex(*y.shape[2:]):
        inside = _elements(at, size, y.shape[2:])
        count = prod(s.stop - s.start for s in inside)
        part = source[(..., *at)] / source.dtype.type(count)
        out[(..., *inside)] += part[(..., *(None,) * len(size))]
    return out.astype(y.dtype, copy=False)


def _adaptive_emit(nest: Any) -> None:
    k, dtype = nest.k, wide(nest.out_type(0).dtype)
    with nest.loops(nest.out_shape(0), "parallel") as (n, c, *at):
        first, extent = window(at, nest.in_shape(0)[2:], nest.out_shape(0)[2:])
        total = k.var(k.const(0.0, dtype))
        with nest.loops(extent, "serial") as inside:
            position = tuple(a + i for a, i in zip(first, inside, strict=True))
            k.accumulate(total, "add", k.cast(nest.load(0, (n, c, *position)), dtype))
        count = k.cast(k.index_value(prod(extent)), dtype)
        nest.store(0, (n, c, *at), k.div(total, count))


def _spread_emit(nest: Any) -> None:
    """Window after window, so that where one lies is worked out once for all its elements."""
    k, out = nest.k, nest.out_type(0)
    shape, counts, dtype = out.shape, nest.in_shape(0)[2:], wide(out.dtype)
    sums = nest.out_name(0) if dtype is out.dtype else nest.scratch(dtype, prod(shape))
    with nest.loops(shape[:2], "parallel") as plane:
        with nest.loops(shape[2:], "parallel") as at:
            k.store(sums, linear((*plane, *at), shape), k.const(0.0, dtype))
        with nest.loops(counts, "serial") as at:  # in order: windows may overlap
            found = window(at, shape[2:], counts)
            first, extent = (tuple(map(nest.name_size, sizes)) for sizes in found)
            count = k.cast(k.index_value(prod(extent)), dtype)
            share = k.div(k.cast(nest.load(0, (*plane, *at)), dtype), count)
            with nest.loops(extent, "serial") as inside:
                position = linear(
                    (*plane, *(a + i for a, i in zip(first, inside, strict=True))), shape
                )
                k.store(sums, position, k.add(k.load(sums, position), share))
        if sums != nest.out_name(0):
            with nest.loops(shape[2:], "parallel") as at:
                index = (*plane, *at)
                nest.store(0, index, k.load(sums, linear(index, shape)))


adaptive_avg_pool_op: Op = Op(
    name="adaptive_avg_pool",
    doc="The means of windows such that the result is of ``size``.",
    infer=_adaptive_infer,
    reference=strict(_adaptive_infer, _adaptive_reference),
    vjp=per_arg(lambda ct, out, x, *, size: adaptive_spread_op(ct, size=x.shape[2:])),
    lowering=LoopNest(_adaptive_emit),
    numpy="slower",
    grad_name="AdaptiveAvgPool2DBackward0",
)

adaptive_spread_op: Op = Op(
    name="adaptive_spread",
    doc="Its transpose: each element shared among those whose mean it would be.",
    infer=_adaptive_infer,
    reference=strict(_adaptive_infer, _scatter_reference),
    vjp=per_arg(lambda ct, out, y, *, size: adaptive_avg_pool_op(ct, size=y.shape[2:])),
    lowering=LoopNest(_spread_emit),
    numpy="slower",
    grad_name="AdaptiveAvgPool2DBackwardBackward0",
)
