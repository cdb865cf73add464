"""Memory seen otherwise: with other strides, or its bits as another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dtypes import DType, bool_, dtype_of, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.creation import iota, zeros_like
from staticflow.ops.basics.view import ravel
from staticflow.ops.declaring.declare import elementwise, per_arg, strict
from staticflow.ops.declaring.lowering import Index, View
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.indexing.index_functions import index_add

__all__ = ["as_strided", "as_strided_op", "bitcast_op", "view_positions"]

Strides = tuple[int, ...]


def _extent(shape: Shape, stride: Strides) -> Any:
    """How far behind the first element the last one lies."""
    return sum((n - 1) * s for n, s in zip(shape, stride, strict=True))


def _infer(
    facts: Facts, x: TensorType, *, shape: Shape, stride: Strides, offset: int
) -> TensorType:
    for number in (offset, *stride):
        facts.at_least(number, 0, "an offset or stride of a view of memory")
    least = offset + _extent(shape, stride) + 1
    if 0 not in shape:
        what = f"{list(shape)}, {list(stride)} elements apart from {offset} on"
        facts.at_least(x.shape[0], least, f"the memory {x} of {what}")
    return TensorType(x.dtype, shape)


def _reference(xp: Any, x: Any, *, shape: Any, stride: Any, offset: int) -> Any:
    steps = [s * x.itemsize for s in stride]
    return xp.lib.stride_tricks.as_strided(x[offset:], shape, steps)


def _source(
    i: Index, src: Shape, dst: Shape, *, shape: Shape, stride: Strides, offset: int
) -> Index:
    return (sum((at * s for at, s in zip(i, stride, strict=True)), offset),)


def view_positions(x: Any, *, shape: Shape, stride: Strides, offset: int) -> Any:
    """Which elements of memory an as_strided view has, in a vector of int64."""
    total: Any = iota.beside(x, shape=(1,), dim=0, dtype=int64) + offset
    for dim, step in enumerate(stride):
        total = iota.beside(x, shape=shape, dim=dim, dtype=int64) * step + total
    return ravel(total)


as_strided_op = Op(
    name="as_strided",
    doc="The elements of a vector, ``shape`` of them, ``stride`` apart from ``offset`` on.",
    infer=_infer,
    reference=strict(_infer, _reference),
    vjp=per_arg(
        lambda ct, out, x, **at: index_add(zeros_like(x), 0, view_positions(ct, **at), ravel(ct))
    ),
    lowering=View(_source),
    grad_name="AsStridedBackward0",
)


def as_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """A view of the memory of ``input`` in the shape ``size``, whose neighbours along each dim lie
    ``stride`` elements apart, from ``storage_offset`` on (by default where ``input`` begins).

    Raises `ShapeError` where that leaves the memory, `SymbolicError` of a symbol of which it is not
    known that it is row-major, as it is of ``x.contiguous()``.

    >>> import staticflow as sf
    >>> sf.arange(4).as_strided((3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    shape, steps = as_sizes(size), as_sizes(stride)
    if len(shape) != len(steps) or any(s < 0 for s in steps):
        raise ShapeError(
            f"as_strided: takes a stride from 0 on for each dim, not {list(steps)} for "
            f"{list(shape)}, at {format_locs(here())}"
        )
    graph = input.__sf_mode__.rank > 0
    begin = 0 if graph else input.storage_offset()
    offset = begin if storage_offset is None else storage_offset
    if offset < 0:
        raise ShapeError(
            f"as_strided: storage_offset is {offset}; it must be 0 or more, "
            f"at {format_locs(here())}"
        )
    whole = input
    base = getattr(input, "_base", None)
    if base is not None:
        last = offset - begin + _extent(shape, steps)
        inside = offset >= begin and (0 in shape or last < input.numel())
        if not (inside and input.is_contiguous()):
            whole, begin = base, base.storage_offset()
    if graph and not input._is_view and not input._is_row_major:
        raise SymbolicError(
            f"as_strided of a symbolic value ({input.node.type}): how it lies in memory is known "
            "only when the program runs; take it of x.contiguous(), which copies only what does "
            f"not lie in rows, at {format_locs(here())}"
        )
    if not (input._is_row_major if graph else whole.is_contiguous()):
        raise ShapeError(
            f"as_strided: of a view whose memory is not known to lie in one row; take it of the "
            f"whole, or of a .contiguous() copy, at {format_locs(here())}"
        )
    if offset < begin:
        raise ShapeError(
            f"as_strided: storage_offset is {offset}, and the memory of {list(input.shape)} is "
            f"known from {begin} on; take it of the tensor that it is a part of, "
            f"at {format_locs(here())}"
        )
    return as_strided_op(ravel(whole), shape=shape, stride=steps, offset=offset - begin)


# -- bits ---------------------------------------------------------------------------------------


def _bitcast_infer(facts: Facts, x: TensorType, *, dtype: DType) -> TensorType:
    if bool_ in (x.dtype, dtype):
        raise DTypeError("bools have no bits to be seen as another dtype")
    if x.dtype.bits != dtype.bits:
        raise DTypeError(
            f"in a graph the dtypes must be of one size, not {x.dtype.bits} and {dtype.bits} bits"
        )
    return TensorType(dtype, x.shape)


def _bits(xp: Any, x: Any, *, dtype: DType) -> Any:
    _bitcast_infer(Facts(), TensorType(dtype_of(x.dtype), x.shape), dtype=dtype)
    return xp.ascontiguousarray(x).view(dtype.numpy).reshape(x.shape)


bitcast_op = elementwise(
    "bitcast",
    "The bits of each element as another ``dtype`` of the same size; no derivative.",
    _bits,
    lambda k, x, *, dtype: k.bitcast(x, dtype),
    promote="none",
    infer=_bitcast_infer,
    numpy="faster",
)
