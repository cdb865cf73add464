"""What convolution and pooling share: tensors (N, C, ...), with a batch, channels, and space."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, floor_div, same_shape
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import Shape
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.basics.view import squeeze, unsqueeze
from staticflow.ops.declaring.lowering import Index

__all__ = ["PerDim", "add_batch", "per_dim", "remove_batch", "space_out", "window"]

PerDim = tuple[int, ...]
"""An int for each dim of space."""


def per_dim(value: Any, rank: int, least: int, what: str) -> PerDim:
    """``value``, an int or one for each of ``rank`` dims, as a tuple of ints from ``least`` on.

    Raises `ShapeError` that begins with ``what``.
    """
    given = tuple(value) if isinstance(value, list | tuple) else (value,)
    given *= rank if len(given) == 1 else 1
    try:
        steps = tuple(map(operator.index, given))
    except TypeError:
        steps = ()
    if len(steps) != rank or any(step < least for step in steps):
        raise ShapeError(
            f"{what} is {value!r}; it must be an int from {least} on, or {rank} of them, "
            f"at {format_locs(here())}"
        )
    return steps


def add_batch(x: Any, rank: int, name: str) -> tuple[Any, bool]:
    """``x`` as (N, C, ...), with ``rank`` dims of space, and whether it was (C, ...)."""
    if x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: takes an input of {rank + 2} dims (N, C, ...) or {rank + 1} (C, ...), not of "
            f"shape {list(x.shape)}, at {format_locs(here())}"
        )
    return (x, False) if x.ndim == rank + 2 else (unsqueeze(x, 0), True)


def remove_batch(out: Any, alone: bool) -> Any:
    """``out``, computed of a tensor to which `add_batch` gave a batch of 1, without that batch if
    ``alone``; else ``out`` as it is."""
    return squeeze(out, 0) if alone else out


def space_out(y: Any, shape: Shape, start: tuple[Size, ...], stride: PerDim) -> Any:
    """Zeros (N, C, *shape) with ``y`` (N, C, ...) at every ``stride``-th position from ``start``
    on, which may be negative; what would lie outside is left out."""
    first = tuple(dim_max(0, ceil_div(-a, s)) for a, s in zip(start, stride, strict=True))
    begin = tuple(a + i * s for a, i, s in zip(start, first, stride, strict=True))
    sizes = zip(y.shape[2:], first, begin, stride, shape, strict=True)
    count = tuple(dim_min(n - i, ceil_div(m - a, s)) for n, i, a, s, m in sizes)
    nowhere = (0,) * len(shape)
    if not (same_shape(first, nowhere) and same_shape(count, y.shape[2:])):
        one = (1,) * y.ndim
        y = slice_op(y, start=(0, 0, *first), size=(*y.shape[:2], *count), step=one)
    if same_shape(begin, nowhere) and same_shape(count, shape):
        return y
    return embed_op(y, shape=(*y.shape[:2], *shape), start=(0, 0, *begin), step=(1, 1, *stride))


def _bounds(i: Size, size: Size, count: Size) -> tuple[Size, Size]:
    """Where window ``i`` of ``count`` over ``size`` elements begins and ends, as in PyTorch: they
    cover everything and may overlap by one."""
    return floor_div(i * size, count), -floor_div(-(i + 1) * size, count)


def window(at: Sequence[Size], sizes: Shape, counts: Shape) -> tuple[Index, Shape]:
    """Where the window at ``at`` begins, and its sizes, if ``counts`` windows cover ``sizes``
    elements."""
    bounds = [_bounds(i, n, m) for i, n, m in zip(at, sizes, counts, strict=True)]
    return tuple(a for a, _ in bounds), tuple(b - a for a, b in bounds)
