"""Rules of convolutions and pooling: rows among the images, or in groups of channels."""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import Dim, Size
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import new_zeros
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.batching.row import Row, merge, split
from staticflow.ops.loops.scan import scan

__all__ = ["convolution_rule", "kernel_rule", "planes", "resample_rule"]


def planes(row: Row) -> Any:
    """The rows among the images of a batch, argument by argument."""
    images = row.node.tensor_type.shape[0]
    return split(row.op(*map(merge, row.wholes), **row.attrs), row.size, images)


def resample_rule(row: Row) -> Any:
    """The rows among the images; positions that are the same for all images stay so."""
    images = row.node.tensor_type.shape[0]
    others = row.args[1:]
    if not row.only(0) or any(a.tensor_type.shape[0] != 1 for a in row.node.args[1:]):
        others = [_of_each_image(row, i, images) for i in range(1, len(row.values))]
    return split(row.op(merge(row.whole(0)), *others, **row.attrs), row.size, images)


def _of_each_image(row: Row, position: int, images: Size) -> Any:
    shape = row.node.args[position].tensor_type.shape
    return merge(expand_op(row.whole(position), shape=(row.size, images, *shape[1:])))


def _in_channels(x: Any) -> Any:
    """(B, N, C, ...) as (N, B * C, ...)."""
    return merge(movedim(x, 0, 1), 1)


def _one_by_one(row: Row) -> Any:
    """The convolution of each row by itself: the groups of one of all rows would be a size that
    only a call can tell, and groups are a number."""

    def convolve(carry: Any, operands: Any) -> tuple[Any, Any]:
        return carry, row.op(*operands, **row.attrs)

    return scan(convolve, (), tuple(row.wholes))[1]


def _group_attrs(row: Row, size: int) -> dict[str, Any]:
    """The attributes of ``size`` convolutions in one, which has as many times the groups."""
    return {**row.attrs, "groups": row.attrs["groups"] * size}


def convolution_rule(row: Row) -> Any:
    """The rows among the images where the weight is the same for all, else groups of channels."""
    images, channels = row.node.tensor_type.shape[:2]
    if row.only(0):
        x = merge(row.args[0])
        return split(row.op(x, *row.args[1:], **row.attrs), row.size, images)
    if isinstance(row.size, Dim):
        return _one_by_one(row)
    if row.size == 0:
        return new_zeros(row.args[0], 0, *row.node.tensor_type.shape)
    x, *others = row.wholes
    out = row.op(_in_channels(x), *map(merge, others), **_group_attrs(row, row.size))
    return movedim(split(out, row.size, channels, 1), 1, 0)


def kernel_rule(row: Row) -> Any:
    """The gradient by the weight of each row, in groups of channels."""
    if isinstance(row.size, Dim):
        return _one_by_one(row)
    if row.size == 0:
        return new_zeros(row.args[0], 0, *row.node.tensor_type.shape)
    out = row.op(*map(_in_channels, row.wholes), **_group_attrs(row, row.size))
    return split(out, row.size, row.node.tensor_type.shape[0])
