"""Sums over windows, without padding: what convolutions and their gradients are made of.

The ops are made by decompositions, after the last differentiation, so they have no vjp.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dims import Size
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declaring.lowering import Correlate, CorrelateKernel, LoopNest

__all__ = [
    "correlate_kernel_op",
    "correlate_op",
    "count_positions",
    "interleave_op",
    "phases",
    "span",
    "windows",
]  # fmt: skip

PerDim = tuple[int, ...]


def span(kernel: Size, dilation: int) -> Size:
    """Elements from the first to the last that a window touches."""
    return (kernel - 1) * dilation + 1


def count_positions(
    facts: Facts, size: Size, kernel: Size, step: int, dilation: int, what: str, least: int = 1
) -> Size:
    """How many windows fit along a dim; ``least`` at least must."""
    reach = span(kernel, dilation)
    needed = reach + (least - 1) * step
    facts.at_least(size, needed, f"the room for a window of {reach} in {what}")
    return (size - reach) // step + 1


def windows(xp: Any, x: Any, kernel: Shape, stride: PerDim, dilation: PerDim) -> Any:
    """The view ``[n, c, *position, *offset]`` of ``x`` (n, c, *sizes)."""
    rank = len(kernel)
    sizes = x.shape[-rank:]
    counts = tuple(
        (n - span(k, d)) // s + 1
        for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    )
    own = x.strides[-rank:]
    steps = tuple(b * s for b, s in zip(own, stride, strict=True))
    offsets = tuple(b * d for b, d in zip(own, dilation, strict=True))
    return xp.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:-rank], *counts, *kernel),
        (*x.strides[:-rank], *steps, *offsets),
    )


def _same_dtype(a: TensorType, b: TensorType) -> None:
    if a.dtype is not b.dtype or a.dtype.kind == "b":
        raise DTypeError(f"takes two tensors of one dtype of numbers, not {a} and {b}")


def _infer(
    facts: Facts, x: TensorType, w: TensorType, *, stride: PerDim, dilation: PerDim, groups: int
) -> TensorType:  # fmt: skip
    _same_dtype(x, w)
    taken = f"those that the weight {w} takes in {groups} groups"
    facts.equal(x.shape[1], w.shape[1] * groups, f"the channels of {x} and {taken}")
    counts = (
        count_positions(facts, n, k, s, d, str(x), least=0)
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    )
    return TensorType(x.dtype, (x.shape[0], w.shape[0], *counts))


def _reference(xp: Any, x: Any, w: Any, *, stride: Any, dilation: Any, groups: int) -> Any:
    rank = len(stride)
    found = windows(xp, x, w.shape[2:], stride, dilation)
    over = ((1, *range(-rank, 0)), tuple(range(1, 2 + rank)))
    per, out = w.shape[1], w.shape[0] // groups
    parts = [
        xp.tensordot(found[:, g * per : (g + 1) * per], w[g * out : (g + 1) * out], axes=over)
        for g in range(groups)
    ]
    return xp.ascontiguousarray(xp.moveaxis(xp.concatenate(parts, axis=-1), -1, 1))


correlate_op = Op(
    name="correlate",
    doc="``out[n, o, p] = sum_{c, k} x[n, c, p * stride + k * dilation] * w[o, c, k]``, in "
    "``groups`` of channels.",
    infer=_infer,
    reference=_reference,
    vjp=None,
    lowering=Correlate(),
)


def _kernel_infer(
    facts: Facts, x: TensorType, y: TensorType, *, kernel: Shape, stride: PerDim, dilation: PerDim,
    groups: int,
) -> TensorType:  # fmt: skip
    _same_dtype(x, y)
    for size, what in ((x.shape[1], x), (y.shape[1], y)):
        alike = f"the channels of {what}, in {groups} groups of one size"
        facts.equal(size // groups * groups, size, alike)
    facts.equal(x.shape[0], y.shape[0], f"the rows of {x} and of {y}")
    for n, p, k, s, d in zip(x.shape[2:], y.shape[2:], kernel, stride, dilation, strict=True):
        count = count_positions(facts, n, k, s, d, str(x))
        facts.equal(count, p, f"the windows in {x} and the elements of {y}")
    return TensorType(x.dtype, (y.shape[1], x.shape[1] // groups, *kernel))


_MOST_AT_ONCE = 1 << 11
"""Products that a library of matrices may add up in one float: of more, of one sign, it loses a
digit and more."""


def _kernel_reference(
    xp: Any, x: Any, y: Any, *, kernel: Any, stride: Any, dilation: Any, groups: int
) -> Any:
    rank = len(stride)
    found = windows(xp, x, kernel, stride, dilation)
    over = (0, *range(2, 2 + rank))
    per, out = x.shape[1] // groups, y.shape[1] // groups
    images = max(1, _MOST_AT_ONCE // max(1, math.prod(y.shape[2:])))

    def products(first: int) -> Any:
        """Those of some images, by groups."""
        a, b = (part[first : first + images] for part in (y, found))
        pairs = [(a[:, g * out :][:, :out], b[:, g * per :][:, :per]) for g in range(groups)]
        return xp.concatenate([xp.tensordot(*pair, axes=(over, over)) for pair in pairs])

    total, *others = map(products, range(0, max(1, x.shape[0]), images))
    if not others:
        return total
    wide = xp.float64 if total.dtype == xp.float32 else total.dtype
    return sum(others, total.astype(wide)).astype(total.dtype)


correlate_kernel_op = Op(
    name="correlate_kernel",
    doc="``out[o, c, k] = sum_{n, p} y[n, o, p] * x[n, c, p * stride + k * dilation]``: the kernel "
    "whose correlation with ``x`` has the most in common with ``y``.",
    infer=_kernel_infer,
    reference=_kernel_reference,
    vjp=None,
    lowering=CorrelateKernel(),
)


def _interleave_infer(facts: Facts, *parts: TensorType, size: Shape, stride: PerDim) -> TensorType:
    for at, part in zip(phases(stride), parts, strict=True):
        for n, m, s, i in zip(size, part.shape[2:], stride, at, strict=True):
            behind = f"those that lie {list(at)} behind"
            facts.equal(m, (n - i + s - 1) // s, f"the elements of {part} and {behind}")
    return TensorType(parts[0].dtype, (*parts[0].shape[:2], *size))


def phases(stride: PerDim) -> list[PerDim]:
    """The positions below ``stride``, in order."""
    return list(itertools.product(*map(range, stride)))


def _interleave_reference(xp: Any, *parts: Any, size: Any, stride: Any) -> Any:
    out = xp.empty((*parts[0].shape[:2], *size), parts[0].dtype)
    for at, part in zip(phases(stride), parts, strict=True):
        out[(..., *(slice(i, None, s) for i, s in zip(at, stride, strict=True)))] = part
    return out


def _interleave_emit(nest: Any) -> None:
    stride: PerDim = nest.attrs["stride"]
    for i, phase in enumerate(phases(stride)):
        with nest.loops(nest.in_shape(i), "parallel") as (n, c, *at):
            position = tuple(a * s + p for a, s, p in zip(at, stride, phase, strict=True))
            nest.store(0, (n, c, *position), nest.load(i, (n, c, *at)))


interleave_op = Op(
    name="interleave",
    doc="``out[n, c, p * stride + i] = part_i[n, c, p]`` of ``size``, with a part for each ``i`` "
    "below ``stride``.",
    infer=_interleave_infer,
    reference=_interleave_reference,
    vjp=None,
    lowering=LoopNest(_interleave_emit),
)
