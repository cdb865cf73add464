"""Elements chosen by tensors of indices and by masks, and put at such places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.dims import closed_size, prod
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.open_size import open_shape
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.shapes import axis_of
from staticflow.onnx.reading.values import one
from staticflow.ops.along.order import argsort
from staticflow.ops.along.sets import unique
from staticflow.ops.basics.arithmetic import eq, lt, mul, remainder
from staticflow.ops.basics.axes import movedim, permute, transpose
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.expand import broadcast_to
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.elementwise.variants import add, sub
from staticflow.ops.indexing.data_dependent import nonzero, where
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.indexing.index_functions import index_select
from staticflow.ops.indexing.mask_put import index_put
from staticflow.ops.indexing.scatter_ops import scatter, scatter_reduce

__all__ = ["INDEXING", "reverse_rows"]

_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _from_front(index: Any, size: Any) -> Any:
    """Indices as int64 from 0 on; negative ones count from the end."""
    index = cast(index, int64)
    return where(lt(index, 0), add(index, size), index)


def _reduction(name: str) -> str | None:
    """What elements are combined by, None where they are put."""
    if name != "none" and name not in _REDUCE:
        raise ShapeError(
            f"the reduction {name!r} is none of none, {', '.join(_REDUCE)}, at "
            f"{format_locs(here())}"
        )
    return _REDUCE.get(name)


def _gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    axis = axis_of(axis, x.ndim)
    return x[(*[slice(None)] * axis, cast(indices, int64))]


def _gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    axis = axis_of(axis, x.ndim)
    return gather(x, axis, _from_front(indices, x.shape[axis]))


def _columns(indices: Any) -> list[Any]:
    """The indices of each dim, which the last dim of a tensor of indices goes over."""
    count = indices.shape[-1]
    if not isinstance(count, int):
        raise ShapeError(
            "how many dims indices are for must be known, and is not in "
            f"{list(indices.shape)}, at {format_locs(here())}"
        )
    return [cast(indices[..., i], int64) for i in range(count)]


def _gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    columns = _columns(indices)
    batch = []
    for d in range(batch_dims):
        shape = [1] * (indices.ndim - 1)
        shape[d] = x.shape[d]
        batch.append(reshape(arange(x.shape[d]), tuple(shape)))
    return x[tuple([*batch, *columns])]


def _scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none"
) -> Any:
    axis = axis_of(axis, x.ndim)
    at = _from_front(indices, x.shape[axis])
    how = _reduction(reduction)
    return (
        scatter(x, axis, at, updates) if how is None else scatter_reduce(x, axis, at, updates, how)
    )


def _scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    how = _reduction(reduction)
    columns = _columns(indices)
    if how in (None, "sum"):
        return index_put(x, tuple(columns), updates, accumulate=how == "sum")
    shape = tuple(x.shape)
    count = len(columns)
    flat: Any = 0
    for column, size in zip(columns, shape, strict=False):
        flat = add(mul(flat, size) if not isinstance(flat, int) else 0, _from_front(column, size))
    rest = open_shape((prod(map(closed_size, shape[count:])),))[0]
    rows = open_shape((prod(map(closed_size, shape[:count])),))[0]
    src = reshape(updates, (-1, rest))
    at = broadcast_to(reshape(flat, (-1, 1)), tuple(src.shape))
    assert how is not None
    return reshape(scatter_reduce(reshape(x, (rows, rest)), 0, at, src, how), shape)


def _one_hot(indices: Any, values: Any, *, depth: Any, axis: int = -1) -> Any:
    size = one(depth)
    size = int(size) if isinstance(size, float) else size
    axis = axis_of(axis, indices.ndim + 1)
    places = _from_front(indices, size)
    hit = eq(unsqueeze(places, -1), arange(size))
    return where(movedim(hit, -1, axis), values[1], values[0])


def _compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    places = reshape(nonzero(condition), (-1,))
    if axis is None:
        return index_select(reshape(x, (-1,)), 0, places)
    return index_select(x, axis_of(axis, x.ndim), places)


def _unique(x: Any, *, axis: int | None = None, sorted: int = 1, outputs: int) -> Any:
    dim = None if axis is None else axis_of(axis, x.ndim)
    values, inverse, counts = unique(x, return_inverse=True, return_counts=True, dim=dim)
    inverse = reshape(inverse, (-1,))
    number, many = inverse.shape[0], counts.shape[0]
    first = scatter_reduce(full((many,), number, dtype=int64), 0, inverse, arange(number), "amin")
    if not sorted:
        order = argsort(first)
        rank = scatter(zeros_like(order), 0, order, arange(many))
        values = index_select(values, dim or 0, order)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return (values, first, inverse, counts)[:outputs]


def reverse_rows(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """Sequences whose first elements, as many as their lengths say, stand in opposite order."""
    order = [batch_axis, time_axis, *(d for d in range(x.ndim) if d not in (batch_axis, time_axis))]
    rows = permute(x, order)
    time = arange(rows.shape[1])
    ends = unsqueeze(cast(lengths, int64), 1)
    at = where(lt(time, ends), sub(sub(ends, 1), time), time)
    found = rows[unsqueeze(arange(rows.shape[0]), 1), at]
    return permute(found, [order.index(d) for d in range(x.ndim)])


def _non_zero(x: Any) -> Any:
    return transpose(nonzero(x), 0, 1)


def _tensor_scatter(
    past: Any, update: Any, *, write_indices: Any = None, axis: int = -2, mode: str = "linear"
) -> Any:
    axis = axis_of(axis, past.ndim)
    length = update.shape[axis]
    at = unsqueeze(arange(length), 0)
    if write_indices is not None:
        at = add(unsqueeze(cast(write_indices, int64), 1), at)
    if mode == "circular":
        at = remainder(at, past.shape[axis])
    shape: list[Any] = [1] * past.ndim
    shape[0], shape[axis] = at.shape
    return scatter(past, axis, broadcast_to(reshape(at, tuple(shape)), tuple(update.shape)), update)


INDEXING: Mapping[str, Row] = {
    "Compress": row(_compress),
    "Gather": row(_gather),
    "GatherElements": row(_gather_elements),
    "GatherND": row(_gather_nd),
    "NonZero": row(_non_zero),
    "OneHot": row(_one_hot, static="depth"),
    "ReverseSequence": row(reverse_rows),
    "Scatter": row(_scatter_elements),
    "ScatterElements": row(_scatter_elements),
    "ScatterND": row(_scatter_nd),
    "TensorScatter": row(_tensor_scatter),
    "Unique": row(_unique),
}
"""Rows by operator."""
