"""Arrays in other shapes and orders, joined and taken apart, by the names of the array API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.array_api.dtypes import result_type
from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics import axes as dims
from staticflow.ops.basics import joining, splitting, view
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.expand import broadcast_tensors, broadcast_to
from staticflow.ops.declaring.declare import normalize_dims
from staticflow.ops.indexing import roll_repeat
from staticflow.ops.tensors.queries import broadcast_shapes

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip",
    "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """The arrays, each in the shape in which all meet."""
    return tuple(broadcast_tensors(*arrays)) if arrays else ()


def _of_one_dtype(arrays: Any) -> list[Any]:
    """Arrays in the dtype in which all meet."""
    arrays = list(arrays)
    dtype = result_type(*arrays)
    return [a if a.dtype is dtype else cast(a, dtype=dtype) for a in arrays]


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """The arrays joined along ``axis``; with None the elements of all in one row."""
    parts = _of_one_dtype(arrays)
    if axis is None:
        return joining.cat([view.ravel(part) for part in parts])
    return joining.cat(parts, axis)


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new dim ``axis``."""
    return joining.stack(_of_one_dtype(arrays), axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of ``x`` along ``axis``, without that dim."""
    return tuple(splitting.unbind(x, axis))


def expand_dims(x: Any, /, axis: int | Sequence[int]) -> Any:
    """``x`` with a dim of size 1 more at ``axis``, or at each position in a tuple."""
    return view.unsqueeze(x, axis)


def squeeze(x: Any, /, axis: int | Sequence[int]) -> Any:
    """``x`` without the dims ``axis``. Raises `ShapeError` where one of them has not the size 1."""
    gone = normalize_dims(axis, x.ndim, "squeeze")
    for dim in gone:
        if x.shape[dim] != 1:
            raise ShapeError(
                f"squeeze: dim {dim} of shape {list(x.shape)} has not the size 1; name those that "
                f"have, at {format_locs(here())}"
            )
    return view.squeeze(x, gone)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """The elements of ``x`` in another shape, where one size may be -1 and follows from the rest;
    on the memory of ``x`` where that is possible. With ``copy=True`` it never is, with
    ``copy=False`` a copy raises `ShapeError`."""
    if copy is False:
        return view.view(x, shape)
    out = view.reshape(x, shape)
    return out.clone() if copy else out


def flip(x: Any, /, *, axis: int | Sequence[int] | None = None) -> Any:
    """The elements in opposite order along ``axis``, or along all dims."""
    return dims.flip(x, normalize_dims(axis, x.ndim, "flip"))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """``x`` with the dims ``source`` at the positions ``destination``."""
    return movedim(x, source, destination)


def permute_dims(x: Any, /, axes: Sequence[int]) -> Any:
    """``x`` with its dims in the order ``axes``."""
    return dims.permute(x, axes)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each slice of ``x`` along ``axis``, or each element, ``repeats`` times: a number, or an array
    with one for each."""
    return roll_repeat.repeat_interleave(x, repeats, axis)


def roll(x: Any, /, shift: Any, *, axis: int | Sequence[int] | None = None) -> Any:
    """The elements moved on by ``shift`` along ``axis``, or along all in their order; those that
    leave come in at the other end."""
    if axis is not None and isinstance(shift, int) and not isinstance(axis, int):
        shift = (shift,) * len(axis)
    elif isinstance(axis, int) and not isinstance(shift, int):
        axis = (axis,) * len(shift)
    return roll_repeat.roll(x, shift, axis)


def tile(x: Any, repetitions: Sequence[int], /) -> Any:
    """``x`` side by side, as often along each dim as ``repetitions`` says."""
    return joining.tile(x, tuple(repetitions))
