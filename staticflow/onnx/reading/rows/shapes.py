"""Shapes, views, tensors joined, split, and filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange, eye
from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim, closed_size, is_provably_ge, prod
from staticflow.graph.dtypes import dtype_of, float32
from staticflow.graph.locs import format_locs, here
from staticflow.graph.open_size import open_shape
from staticflow.nn import functional as F
from staticflow.onnx.reading.arrays import Array
from staticflow.onnx.reading.rows.elementwise import dtype_wanted
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.values import Known, integers, one, read, shape_array
from staticflow.ops.basics.arithmetic import eq
from staticflow.ops.basics.axes import flip, permute
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.expand import broadcast_tensors, broadcast_to
from staticflow.ops.basics.joining import cat, tile
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.basics.view import is_one_at_most, of_size, reshape, squeeze, unsqueeze
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.matrices.triangle import tril, triu

__all__ = ["SHAPES", "axis_of"]


def axis_of(axis: int, ndim: int) -> int:
    """An axis as a number from 0 on.

    Raises `ShapeError` for one that is not there.
    """
    if not -ndim <= axis < max(ndim, 1):
        raise ShapeError(
            f"axis {axis} is none of the {ndim} dims of the tensor, at {format_locs(here())}"
        )
    return axis % ndim if ndim else 0


def _sizes_of(x: Any) -> tuple[Any, ...]:
    return tuple(x.array.shape if isinstance(x, Known) else x.shape)


def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Known:
    return Known(shape_array(_sizes_of(x)[start:end]))


def _size(x: Any) -> Known:
    sizes = prod(map(closed_size, _sizes_of(x)))
    found = np.empty((), object)
    found[()] = open_shape((sizes,))[0]
    return Known(found if isinstance(sizes, Dim) else found.astype(np.int64))


def _reshape(x: Any, *, shape: Sequence[Any], allowzero: int = 0) -> Any:
    own = tuple(x.shape)
    sizes = list(shape)
    for i, n in enumerate(sizes):
        if type(n) is int and n == 0 and not allowzero:
            if i >= len(own):
                raise ShapeError(
                    f"the shape {sizes} keeps dim {i}, which {list(own)} does not have, at "
                    f"{format_locs(here())}"
                )
            sizes[i] = own[i]
    return reshape(x, tuple(sizes))


def _flatten(x: Any, *, axis: int = 1) -> Any:
    axis = axis if axis == x.ndim else axis_of(axis, x.ndim)
    first, last = (
        open_shape((prod(map(closed_size, part)),))[0] for part in (x.shape[:axis], x.shape[axis:])
    )
    return reshape(x, (first, last))


def _squeeze(x: Any, *, axes: Any = None) -> Any:
    if axes is None:
        for i, size in enumerate(x.shape):
            if isinstance(size, Dim) and not is_provably_ge(closed_size(size), 2):
                raise ShapeError(
                    "a Squeeze without axes takes away every dim of size 1, and of "
                    f"{list(x.shape)} dim {i} may be one: what is left cannot be told; write the "
                    f"axes into the model, or call it with known sizes, at {format_locs(here())}"
                )
        return squeeze(x)
    dims = integers(axes, "axes")
    for d in dims:
        at = axis_of(d, x.ndim)
        size = x.shape[at]
        if type(size) is int and size != 1:
            raise ShapeError(
                f"dim {d} of {list(x.shape)} is taken away, and has not size 1, at "
                f"{format_locs(here())}"
            )
        x = of_size(x, at, 1)
    return squeeze(x, tuple(dims)) if dims else x


def _unsqueeze(x: Any, *, axes: Any) -> Any:
    dims = integers(axes, "axes")
    ndim = x.ndim + len(dims)
    where = sorted(axis_of(d, ndim) for d in dims)
    if len(set(where)) < len(where):
        raise ShapeError(f"axes {dims} name one dim twice, at {format_locs(here())}")
    for d in where:
        x = unsqueeze(x, d)
    return x


def _transpose(x: Any, *, perm: Sequence[int] | None = None) -> Any:
    return permute(x, tuple(range(x.ndim))[::-1] if perm is None else tuple(perm))


def _expand(x: Any, *, shape: Sequence[Any]) -> Any:
    sizes = tuple(shape)
    # a size that is 0 or 1, as that of a first row is, leaves what is expanded its own
    if not any(hasattr(n, "dtype") or (isinstance(n, Dim) and is_one_at_most(n)) for n in sizes):
        ones = (1,) * (len(sizes) - x.ndim)
        given, own = (1,) * (x.ndim - len(sizes)) + sizes, ones + tuple(x.shape)
        sizes = tuple(_wider(n, m) for n, m in zip(own, given, strict=True))
        return broadcast_to(x, sizes)
    return broadcast_tensors(x, full(sizes, 0, dtype=x.dtype))[0]


def _wider(own: Any, given: Any) -> Any:
    return own if type(given) is int and given == 1 else given


def _concat(*xs: Any, axis: int) -> Any:
    return cat(list(xs), axis_of(axis, xs[0].ndim))


def _split(
    x: Any, *, axis: int = 0, split: Sequence[Any] | None = None, num_outputs: int | None = None,
    outputs: int,
) -> Any:  # fmt: skip
    axis = axis_of(axis, x.ndim)
    size = x.shape[axis]
    count = num_outputs or outputs
    if split is None:
        part = -(-size // count)
        split = [part] * (count - 1)
        split.append(size - part * (count - 1))
    starts, at = [], 0
    for n in split:
        starts.append(at)
        at = at + n
    x = require_equal(x, at, size, f"parts of sizes {list(split)} are all of dim {axis}")
    return tuple(part_of(x, axis, a, n) for a, n in zip(starts, split, strict=True))


_FAR = 1 << 40


def _slice(x: Any, *, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    starts, ends = _several(starts), _several(ends)
    dims = range(len(starts)) if axes is None else integers(axes, "axes")
    strides = [1] * len(starts) if steps is None else integers(steps, "steps")
    if not len(starts) == len(ends) == len(dims) == len(strides):
        raise ShapeError(
            f"{len(starts)} starts, {len(ends)} ends, {len(dims)} axes and {len(strides)} steps "
            f"must be equally many, at {format_locs(here())}"
        )
    key: list[Any] = [slice(None)] * x.ndim
    back: list[int] = []
    for start, end, dim, step in zip(starts, ends, dims, strides, strict=True):
        dim = axis_of(dim, x.ndim)
        size = x.shape[dim]
        if step == 0:
            raise ShapeError(f"the step along dim {dim} is 0, at {format_locs(here())}")
        if step < 0:  # of the elements in opposite order, from the other end
            back.append(dim)
            start, end = _mirror(start, size), _mirror(end, size)
        key[dim] = slice(_bound(start), _bound(end), abs(step))
    if back:
        x = flip(x, tuple(back))
    return x[tuple(key)]


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _mirror(bound: Any, size: Any) -> Any:
    """A bound of a slice, counted from the other end."""
    if type(bound) is not int:
        return size - 1 - bound
    if bound >= 0:
        found = size - 1 - bound
        if type(found) is int:
            return max(found, 0)
        return 0 if bound >= _FAR else found
    found = -1 - bound
    return None if found >= _FAR else found


def _bound(bound: Any) -> Any:
    if type(bound) is int and abs(bound) >= _FAR:
        return None if bound > 0 else -_FAR
    return bound


def _pad(
    x: Any, *, pads: Sequence[Any] = (), mode: str = "constant", constant_value: Any = None,
    value: Any = None, axes: Any = None,
) -> Any:  # fmt: skip
    dims = range(x.ndim) if axes is None else [axis_of(a, x.ndim) for a in integers(axes, "axes")]
    if len(pads) != 2 * len(dims):
        raise ShapeError(
            f"{len(pads)} numbers of elements to pad {len(dims)} dims by; there must be two for "
            f"each, at {format_locs(here())}"
        )
    each = dict(zip(dims, zip(pads, pads[len(dims) :], strict=False), strict=True))
    if mode == "constant":
        fill = (
            0
            if constant_value is None and value is None
            else one(constant_value if value is None else value)
        )
        flat = [n for d in reversed(range(x.ndim)) for n in each.get(d, (0, 0))]
        return F.pad(x, flat, value=fill)
    names = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    if mode not in names:
        raise ShapeError(f"the mode of padding {mode!r} is not known, at {format_locs(here())}")
    for dim, (before, after) in each.items():
        if not (type(before) is int and type(after) is int and before == after == 0):
            x = _pad_dim(x, dim, before, after, names[mode])
    return x


def _pad_dim(x: Any, dim: int, before: Any, after: Any, mode: str) -> Any:
    """One dim padded by its own elements, and cut where a number is negative."""
    before, after = integers([before, after], "the numbers of elements to pad by")
    size = x.shape[dim]
    low, high = -min(before, 0), -min(after, 0)
    if low or high:
        x = part_of(x, dim, low, size - low - high)
    count = (max(before, 0), max(after, 0))
    moved = [d for d in range(x.ndim) if d != dim] + [dim]
    rows = permute(x, moved)
    shape = rows.shape
    flat = reshape(rows, (-1, 1, shape[-1]))
    found = F.pad(flat, count, mode=mode)
    found = reshape(found, (*shape[:-1], found.shape[-1]))
    return permute(found, [moved.index(d) for d in range(x.ndim)])


def _tile(x: Any, *, repeats: Sequence[Any]) -> Any:
    return tile(x, tuple(repeats))


def _constant_of_shape(*, input: Any, value: Array | None = None) -> Any:
    fill: Any = np.zeros((), np.float32) if value is None else value.reshape(-1)[0]
    dtype = float32 if value is None else dtype_of(value.dtype)
    return full(tuple(_several(input)), fill.item(), dtype=dtype)


def _eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    wanted = x.dtype if dtype is None else dtype_wanted(dtype)
    if k == 0:
        return eye(rows, columns, dtype=wanted)

    down = unsqueeze(arange(rows), 1)
    return cast(eq(down + k, arange(columns)), wanted)


def _trilu(x: Any, *, k: Any = 0, upper: int = 1) -> Any:
    return (triu if upper else tril)(x, integers(one(k), "the diagonal")[0])


def _range(*, start: Any, limit: Any, delta: Any) -> Any:
    return arange(*(one(read(v)) for v in (start, limit, delta)), dtype=start.dtype)


def _space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    if mode not in ("DCR", "CRD"):
        raise ShapeError(f"the mode {mode!r} is neither DCR nor CRD, at {format_locs(here())}")
    if mode == "DCR":
        parts = permute(reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = permute(reshape(x, (n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(parts, (n, c // (b * b), h * b, w * b))


def _depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    parts = reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return reshape(permute(parts, order), (n, c * b * b, h // b, w // b))


SHAPES: Mapping[str, Row] = {
    "Concat": row(_concat, since=4),
    "ConstantOfShape": row(_constant_of_shape, static="input"),
    "DepthToSpace": row(_space),
    "Expand": row(_expand, static="shape"),
    "EyeLike": row(_eye_like),
    "Flatten": row(_flatten),
    "Pad": row(_pad, static="pads axes constant_value", since=2),
    "Range": row(_range, ignored="stash_type", whole=True),
    "Reshape": row(_reshape, static="shape", ignored="consumed_inputs"),
    "Shape": row(_shape, whole=True),
    "Size": row(_size, whole=True),
    "Slice": row(_slice, static="starts ends axes steps"),
    "SpaceToDepth": row(_depth),
    "Split": row(_split, static="split"),
    "Squeeze": row(_squeeze, static="axes"),
    "Tile": row(_tile, static="repeats", since=6),
    "Transpose": row(_transpose),
    "Trilu": row(_trilu, static="k"),
    "Unsqueeze": row(_unsqueeze, static="axes"),
}
"""Rows by operator."""
