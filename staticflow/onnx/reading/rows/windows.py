"""Convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.dims import ceil_div, closed_size, dim_max, prod
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.open_size import open_shape
from staticflow.nn import functional as F
from staticflow.onnx.reading.rows.resizing import RESIZING
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.values import integers
from staticflow.ops.along.extremes import amax
from staticflow.ops.basics.arithmetic import mul
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.reduce import mean, sum
from staticflow.ops.basics.view import reshape
from staticflow.ops.elementwise.maths import abs, pow
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.scatter_ops import scatter
from staticflow.ops.windows.convolution import convolution_op, convolution_transpose_op
from staticflow.ops.windows.pooling import max_pool_index_op, max_pool_op
from staticflow.ops.windows.spatial import space_out

__all__ = ["WINDOWS", "convolve", "dims_of_space", "per_dim"]

Steps = tuple[int, ...]
Pads = tuple[tuple[Any, ...], tuple[Any, ...]]
"""How many elements lie before, and how many behind, in each dim of space."""


def per_dim(value: Sequence[int] | None, rank: int, default: int, what: str) -> Steps:
    """A number for each dim of space."""
    found = (default,) * rank if value is None else tuple(value)
    if len(found) != rank or min(found, default=1) < min(default, 1):
        raise ShapeError(
            f"{what} are {list(found)}; there must be {rank}, each {min(default, 1)} at least, at "
            f"{format_locs(here())}"
        )
    return found


def dims_of_space(x: Any) -> int:
    """How many dims behind batch and channels ``x`` has.

    Raises `ShapeError` where there is none.
    """
    rank = x.ndim - 2
    if rank < 1:
        raise ShapeError(
            f"takes (N, C, ...) with a dim of space at least, not {list(x.shape)}, at "
            f"{format_locs(here())}"
        )
    return int(rank)


def _pads(
    sizes: Sequence[Any], kernel: Sequence[Any], strides: Steps, dilations: Steps,
    pads: Sequence[int] | None, auto_pad: str,
) -> Pads:  # fmt: skip
    """The padding that is said, or that keeps sizes."""
    rank = len(strides)
    if auto_pad in ("NOTSET", "VALID", ""):
        given = [0] * 2 * rank if pads is None or auto_pad == "VALID" else list(pads)
        if len(given) != 2 * rank or min(given, default=0) < 0:
            raise ShapeError(
                f"the pads are {given}; there must be {2 * rank}, each 0 at least, at "
                f"{format_locs(here())}"
            )
        return tuple(given[:rank]), tuple(given[rank:])
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ShapeError(f"auto_pad is {auto_pad!r}, which is not known, at {format_locs(here())}")
    before, behind = [], []
    for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        n = closed_size(n)
        whole = dim_max(0, (ceil_div(n, s) - 1) * s + (k - 1) * d + 1 - n)
        less = whole // 2
        more = whole - less
        before.append(less if auto_pad == "SAME_UPPER" else more)
        behind.append(more if auto_pad == "SAME_UPPER" else less)
    return open_shape(tuple(before)), open_shape(tuple(behind))


def _widen(x: Any, pads: Pads, value: Any = 0) -> Any:
    """``x`` with elements of ``value`` around its dims of space."""
    if all(type(p) is int and p == 0 for side in pads for p in side):
        return x
    if value == 0:
        shape = tuple(n + a + b for n, a, b in zip(x.shape[2:], *pads, strict=True))
        return space_out(x, shape, pads[0], (1,) * len(shape))
    flat = [n for a, b in reversed(list(zip(*pads, strict=True))) for n in (a, b)]
    return F.pad(x, flat, value=value)


def _symmetric(pads: Pads) -> Steps | None:
    """The padding where both sides have the same, of known sizes."""
    before, behind = pads
    same = all(
        type(a) is int and type(b) is int and a == b for a, b in zip(before, behind, strict=True)
    )
    return tuple(before) if same else None


def convolve(
    x: Any, w: Any, bias: Any = None, *, kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None, group: int = 1, auto_pad: str = "NOTSET",
) -> Any:  # fmt: skip
    """A convolution of (N, C, ...) with (O, C / group, ...), with the attributes of Conv."""
    rank = dims_of_space(x)
    stride = per_dim(strides, rank, 1, "the strides")
    dilation = per_dim(dilations, rank, 1, "the dilations")
    around = _pads(x.shape[2:], w.shape[2:], stride, dilation, pads, auto_pad)
    padding = _symmetric(around)
    if padding is None:
        x, padding = _widen(x, around), (0,) * rank
    given = (x, w) if bias is None else (x, w, bias)
    return convolution_op(*given, stride=stride, padding=padding, dilation=dilation, groups=group)


def _conv_transpose(
    x: Any, w: Any, bias: Any = None, *, kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None, output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None, group: int = 1, auto_pad: str = "NOTSET",
) -> Any:  # fmt: skip
    rank = dims_of_space(x)
    stride = per_dim(strides, rank, 1, "the strides")
    dilation = per_dim(dilations, rank, 1, "the dilations")
    more = per_dim(output_padding, rank, 0, "the output_padding")
    each = list(zip(x.shape[2:], w.shape[2:], stride, dilation, more, strict=True))
    whole = [s * (n - 1) + (k - 1) * d + 1 for n, k, s, d, _ in each]
    if output_shape is not None or auto_pad.startswith("SAME"):
        wanted = (
            [n * s for n, _, s, _, _ in each] if output_shape is None
            else list(output_shape)[-rank:]
        )  # fmt: skip
        before = []
        for n, size, extra in zip(whole, wanted, more, strict=True):
            rest = n + extra - size
            before.append(rest // 2 if auto_pad == "SAME_UPPER" else rest - rest // 2)
    else:
        around = _pads((), (), stride, dilation, pads, auto_pad)
        before = list(around[0])
        wanted = [n + extra - a - b for n, extra, a, b in zip(whole, more, *around, strict=True)]
    given = (x, w) if bias is None else (x, w, bias)
    out = convolution_transpose_op(
        *given, size=tuple(map(closed_size, whole)), stride=stride, padding=(0,) * rank,
        dilation=dilation, groups=group,
    )  # fmt: skip
    return _part(out, before, wanted, bias)


def _part(out: Any, before: Sequence[Any], sizes: Sequence[Any], bias: Any) -> Any:
    """The elements from ``before`` on; what lies outside is the bias alone."""
    if all(
        type(b) is int and b == 0 and n == m
        for b, n, m in zip(before, sizes, out.shape[2:], strict=True)
    ):
        return out
    beyond = [
        b < 0 or b + n > m if type(b + n - m) is int else False
        for b, n, m in zip(before, sizes, out.shape[2:], strict=True)
    ]
    if any(beyond) and bias is not None:
        flat = reshape(bias, (1, -1) + (1,) * len(sizes))
        return add(_part(sub(out, flat), before, sizes, None), flat)
    return space_out(out, tuple(sizes), tuple(-b for b in before), (1,) * len(sizes))


# -- pooling ---------------------------------------------------------------------------------------


def _windows(
    x: Any, kernel_shape: Sequence[int], strides: Sequence[int] | None,
    dilations: Sequence[int] | None, pads: Sequence[int] | None, auto_pad: str, ceil: int,
) -> tuple[Steps, Steps, Steps, Pads, Pads]:  # fmt: skip
    """The kernel, strides and dilations of windows, what is padded, and that with as many elements
    more at the end as a last window hangs over."""
    rank = dims_of_space(x)
    kernel = per_dim(kernel_shape, rank, 1, "the sizes of the kernel")
    stride = per_dim(strides, rank, 1, "the strides")
    dilation = per_dim(dilations, rank, 1, "the dilations")
    around = _pads(x.shape[2:], kernel, stride, dilation, pads, auto_pad)
    if not ceil:
        return kernel, stride, dilation, around, around
    ends = []
    for n, k, s, d, a, b in zip(x.shape[2:], kernel, stride, dilation, *around, strict=True):
        n, a, b = closed_size(n), closed_size(a), closed_size(b)
        reach = (k - 1) * d + 1
        count = ceil_div(n + a + b - reach, s) + 1
        if isinstance(count, int) and isinstance(n, int) and (count - 1) * s >= n + a:
            count -= 1
        ends.append(dim_max(b, (count - 1) * s + reach - n - a))
    return kernel, stride, dilation, around, (around[0], open_shape(tuple(ends)))


def _lowest(dtype: Any) -> Any:
    if dtype.is_floating:
        return -math.inf
    return 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))


def _max_pool(
    x: Any, *, kernel_shape: Sequence[int], strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, storage_order: int = 0, outputs: int,
) -> Any:  # fmt: skip
    kernel, stride, dilation, _, around = _windows(
        x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    padding = _symmetric(around)
    own = tuple(x.shape)
    wide = x
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if padding is None or any(2 * p > r for p, r in zip(padding, reach, strict=True)):
        wide, padding = _widen(x, around, _lowest(x.dtype)), (0,) * len(kernel)
    attrs = {
        "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil": False,
    }  # fmt: skip
    found = max_pool_op(wide, **attrs)
    if outputs == 1:
        return found
    index = max_pool_index_op(wide, **attrs)
    return found, _global_index(index, own, tuple(wide.shape), around, wide is x, storage_order)


def _global_index(
    index: Any, own: Sequence[Any], wide: Sequence[Any], around: Pads, same: bool, order: int
) -> Any:
    """Places in the whole tensor, of places in each plane as it was padded."""
    rank = len(own) - 2
    parts, rest = [], index
    for size in reversed(wide[2:]):
        parts.append(rest % size)
        rest = rest // size
    parts.reverse()
    if not same:
        parts = [sub(p, a) for p, a in zip(parts, around[0], strict=True)]
    dims = list(range(rank))
    flat: Any = None
    for d in reversed(dims) if order else dims:
        flat = parts[d] if flat is None else add(mul(flat, own[2 + d]), parts[d])
    plane = prod(map(closed_size, own[2:]))
    planes = _planes(own, plane, rank)
    return add(flat, planes)


def _planes(own: Sequence[Any], plane: Any, rank: int) -> Any:
    """Where the plane of each batch and channel begins."""
    (size,) = open_shape((plane,))
    (count,) = open_shape((closed_size(own[0]) * closed_size(own[1]),))
    return reshape(mul(arange(count), size), (own[0], own[1], *(1,) * rank))


def _sum_windows(x: Any, kernel: Steps, stride: Steps, dilation: Steps) -> Any:
    """The sum of each window of (N, C, ...)."""
    n, c = x.shape[:2]
    planes = reshape(x, (-1, 1, *x.shape[2:]))
    ones = full((1, 1, *kernel), 1, dtype=x.dtype)
    found = convolution_op(
        planes, ones, stride=stride, padding=(0,) * len(kernel), dilation=dilation, groups=1
    )
    return reshape(found, (n, c, *found.shape[2:]))


def _average_pool(
    x: Any, *, kernel_shape: Sequence[int], strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
) -> Any:  # fmt: skip
    kernel, stride, dilation, inner, around = _windows(
        x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    total = _sum_windows(_widen(x, around), kernel, stride, dilation)
    one = full((1, 1, *x.shape[2:]), 1, dtype=x.dtype)
    if count_include_pad:
        more = tuple(n + a + b for n, a, b in zip(x.shape[2:], *inner, strict=True))
        one = full((1, 1, *more), 1, dtype=x.dtype)
        rest: Pads = (
            (0,) * len(kernel),
            tuple(b - a for a, b in zip(inner[1], around[1], strict=True)),
        )
    else:
        rest = around
    count = _sum_windows(_widen(one, rest), kernel, stride, dilation)
    return div(total, count)


def _lp_pool(
    x: Any, *, kernel_shape: Sequence[int], strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, p: int = 2,
) -> Any:  # fmt: skip
    kernel, stride, dilation, _, around = _windows(
        x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
    )
    powers = pow(abs(_widen(x, around)), p)
    return pow(_sum_windows(powers, kernel, stride, dilation), 1 / p)


def _of_space(x: Any) -> tuple[int, ...]:
    return tuple(range(2, dims_of_space(x) + 2))


def _max_unpool(
    x: Any, index: Any, *, output_shape: Any = None, kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    rank = dims_of_space(x)
    stride = per_dim(strides, rank, 1, "the strides")
    (before, behind) = _pads((), (), stride, (1,) * rank, pads, "NOTSET")
    sizes = [
        (n - 1) * s + k - a - b
        for n, s, k, a, b in zip(x.shape[2:], stride, kernel_shape, before, behind, strict=True)
    ]
    shape = (*x.shape[:2], *sizes)
    total = open_shape((prod(map(closed_size, shape)),))[0]
    empty = full((total,), 0, dtype=x.dtype)
    found = scatter(empty, 0, reshape(cast(index, int64), (-1,)), reshape(x, (-1,)))
    found = reshape(found, shape)
    if output_shape is None:
        return found
    return space_out(found, tuple(output_shape)[2:], (0,) * rank, (1,) * rank)


def _col2im(
    x: Any, *, image_shape: Any, block_shape: Any, dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, strides: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    block = tuple(integers(block_shape, "the shape of the blocks"))
    rank = len(block)
    stride = per_dim(strides, rank, 1, "the strides")
    dilation = per_dim(dilations, rank, 1, "the dilations")
    before, behind = _pads((), (), stride, dilation, pads, "NOTSET")
    sizes = tuple(image_shape)
    counts = tuple(
        (n + a + b - (k - 1) * d - 1) // s + 1
        for n, a, b, k, d, s in zip(sizes, before, behind, block, dilation, stride, strict=True)
    )
    count = math.prod(block)
    parts = reshape(x, (x.shape[0], -1, count, *counts))
    total: Any = None
    for i in range(count):
        offset, rest = [], i
        for k in reversed(block):
            offset.append(rest % k)
            rest //= k
        start = tuple(o * d - a for o, d, a in zip(reversed(offset), dilation, before, strict=True))
        own = space_out(parts[:, :, i], sizes, start, stride)
        total = own if total is None else add(total, own)
    return total


def _grid_sample(
    x: Any, grid: Any, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Any:
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return F.grid_sample(x, grid, names.get(mode, mode), padding_mode, bool(align_corners))


def _global_lp(x: Any, *, p: int = 2) -> Any:
    return pow(sum(pow(abs(x), p), _of_space(x), True), 1 / p)


WINDOWS: Mapping[str, Row] = {
    **RESIZING,
    "AveragePool": row(_average_pool),
    "Col2Im": row(_col2im, static="image_shape block_shape"),
    "Conv": row(convolve),
    "ConvTranspose": row(_conv_transpose),
    "GlobalAveragePool": row(lambda x: mean(x, _of_space(x), True)),
    "GlobalLpPool": row(_global_lp, since=2),
    "GlobalMaxPool": row(lambda x: amax(x, _of_space(x), True)),
    "GridSample": row(_grid_sample),
    "LpPool": row(_lp_pool, since=2),
    "MaxPool": row(_max_pool),
    "MaxUnpool": row(_max_unpool, static="output_shape"),
}
"""Rows by operator."""
