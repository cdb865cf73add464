"""The windows of images as a view, and images that windows are added up to: what `unfold` and
`fold` are made of, and each other's transpose."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import Index, LoopNest, View
from staticflow.ops.windows.correlate import count_positions, windows
from staticflow.ops.windows.spatial import PerDim

__all__ = ["patches_op", "unpatches_op"]


def _position(offset: Index, at: Index, stride: PerDim, dilation: PerDim) -> Index:
    """Where the element at ``offset`` of the window ``at`` is."""
    each = zip(offset, at, stride, dilation, strict=True)
    return tuple(i * s + o * d for o, i, s, d in each)


def _infer(
    facts: Facts, x: TensorType, *, kernel: Shape, stride: PerDim, dilation: PerDim
) -> TensorType:
    each = zip(x.shape[2:], kernel, stride, dilation, strict=True)
    counts = (count_positions(facts, n, k, s, d, str(x)) for n, k, s, d in each)
    return TensorType(x.dtype, (*x.shape[:2], *kernel, *counts))


def _reference(xp: Any, x: Any, *, kernel: Any, stride: Any, dilation: Any) -> Any:
    rank = len(kernel)
    found = windows(xp, x, kernel, stride, dilation)
    return xp.moveaxis(found, range(2 + rank, 2 + 2 * rank), range(2, 2 + rank))


def _source(i: Index, src: Shape, dst: Shape, *, kernel: Any, stride: Any, dilation: Any) -> Index:
    rank = len(kernel)
    return (*i[:2], *_position(i[2 : 2 + rank], i[2 + rank :], stride, dilation))


patches_op: Op = Op(
    name="patches",
    doc="The windows of ``x`` (N, C, *sizes): (N, C, *kernel, *windows).",
    infer=_infer,
    reference=strict(_infer, _reference),
    vjp=per_arg(
        lambda ct, out, x, *, kernel, stride, dilation: unpatches_op(
            ct, size=x.shape[2:], stride=stride, dilation=dilation
        )
    ),
    lowering=View(_source),
    grad_name="Im2ColBackward0",
)


def _add_infer(
    facts: Facts, y: TensorType, *, size: Shape, stride: PerDim, dilation: PerDim
) -> TensorType:
    if y.dtype.kind == "b":
        raise DTypeError("not defined for bool")
    x, rank = TensorType(y.dtype, (*y.shape[:2], *size)), len(size)
    kernel = y.shape[2 : 2 + rank]
    whole = _infer(facts, x, kernel=kernel, stride=stride, dilation=dilation)
    for n, m in zip(y.shape[2 + rank :], whole.shape[2 + rank :], strict=True):
        facts.equal(n, m, f"the sizes of {y} and of the windows of {x}")
    return x


def _add_reference(xp: Any, y: Any, *, size: Any, stride: Any, dilation: Any) -> Any:
    out, rank = xp.zeros((*y.shape[:2], *size), y.dtype), len(size)
    counts = y.shape[2 + rank :]
    for offset in xp.ndindex(*y.shape[2 : 2 + rank]):
        each = zip(offset, counts, stride, dilation, strict=True)
        positions = (slice(o * d, o * d + n * s, s) for o, n, s, d in each)
        out[(..., *positions)] += y[(slice(None), slice(None), *offset)]
    return out


def _add_emit(nest: Any) -> None:
    """Row after row of one element of all windows, which do not overlap."""
    k, out, rank = nest.k, nest.out_shape(0), len(nest.attrs["size"])
    kernel, counts = nest.in_shape(0)[2 : 2 + rank], nest.in_shape(0)[2 + rank :]
    stride, dilation = nest.attrs["stride"], nest.attrs["dilation"]
    zero = k.const(0, nest.out_type(0).dtype)
    with nest.loops(out[:2], "parallel") as plane:
        with nest.loops(out[2:], "parallel") as at:
            nest.store(0, (*plane, *at), zero)
        with (
            nest.loops((*kernel, *counts[:-1]), "serial") as outer,
            nest.loops(counts[-1:], "parallel") as last,
        ):
            offset, at = outer[:rank], (*outer[rank:], *last)
            position = (*plane, *_position(offset, at, stride, dilation))
            value = nest.load(0, (*plane, *offset, *at))
            nest.store(0, position, k.add(nest.load_out(0, position), value))


unpatches_op: Op = Op(
    name="unpatches",
    doc="Zeros (N, C, *size) with windows (N, C, *kernel, *windows) added where they lie.",
    infer=_add_infer,
    reference=strict(_add_infer, _add_reference),
    vjp=per_arg(
        lambda ct, out, y, *, size, stride, dilation: patches_op(
            ct, kernel=y.shape[2 : 2 + len(size)], stride=stride, dilation=dilation
        )
    ),
    lowering=LoopNest(_add_emit),
    numpy="slower",
    grad_name="Col2ImBackward0",
)
