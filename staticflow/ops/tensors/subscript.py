"""``x[key]`` and ``x[key] = value``: ints, slices, ``None``, ``...``, masks and index tensors.

A key is read in two parts, as PyTorch reads it. The *basic* part is a view: slices, then ints (each
takes its dim away), then ``None``. What is left of the key are index tensors and masks, which
select from that view together; where their dims adjoin the dims of the result stand in their place,
else in front. An int is no index tensor (NumPy takes it for one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import (
    DimRangeError,
    DTypeError,
    IndexRangeError,
    ShapeError,
    StaticflowError,
)
from staticflow.graph.called import name_the_function
from staticflow.graph.dims import Dim, Size, same
from staticflow.graph.dtypes import bool_, dtype_of, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.graph.types import MOST_DIMS, Shape
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.axes import flip_op
from staticflow.ops.basics.creation import full, new_full
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.slicing import (
    Bounds,
    as_position,
    bounds,
    from_front,
    select_op,
    slice_op,
)
from staticflow.ops.basics.view import of_size, reshape, reshape_op, same_view, unsqueeze_op
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.foreign import how_to_wrap, is_of_library, kind_of
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.declaring.thread import thread
from staticflow.ops.declaring.tracing import tracing_state
from staticflow.ops.indexing.data_dependent import nonzero
from staticflow.ops.indexing.index_functions import fit, meet_indices, put_at, trim
from staticflow.ops.indexing.index_ops import index_op
from staticflow.ops.indexing.mask_ops import masked_scatter
from staticflow.ops.tensors.symbol_views import Alias, view_of

__all__ = ["get", "put_in_place", "select"]


@dataclass(slots=True)
class _Reading:
    """A key that has been read for a tensor.

    ``slices`` are those that leave something out, by the dim of the tensor, ``taken`` the dims (and
    indices) of ints, ``ones`` the dims of the view that are new. ``tensors`` are index tensors and
    masks by the dim of the view where they stand; a mask stands at the first of its dims.
    """

    slices: dict[int, Bounds] = field(default_factory=dict)
    taken: list[tuple[int, Size]] = field(default_factory=list)
    ones: list[int] = field(default_factory=list)
    tensors: list[tuple[int, Any]] = field(default_factory=list)
    axis: int = 0  # dims of the tensor that were read
    ndim: int = 0  # dims of the view that they make


# -- reading --------------------------------------------------------------------------------------


def _is_tensor(k: Any) -> bool:
    return hasattr(k, "__sf_mode__")


def _is_now(x: Any, k: Any) -> bool:
    """Whether ``k`` has a value now that the program may use as a number."""
    return not (tracing_state.active or x.__sf_mode__.rank or k.__sf_mode__.rank)


_PLAIN = frozenset((slice, type(None), type(Ellipsis), bool, int, Dim))
_NUMBERS = frozenset((bool, int, float))
_WHOLE = slice(None)


def _as_key(x: Any, k: Any) -> Any:
    """A part of a key as a size, a slice, None, ``...``, a bool, or an index tensor or mask."""
    if type(k) in _PLAIN:
        return k
    if isinstance(k, Dim):
        return k.dim
    if isinstance(k, np.bool_):
        return bool(k)
    refuse_masked(k)
    if isinstance(k, list | tuple | range):
        try:
            k = np.asarray(k, dtype=None if len(k) else np.int64)
        except ValueError as error:
            raise IndexRangeError(
                f"indexing by a list that makes no array: {error}, at {format_locs(here())}"
            ) from None
    if isinstance(k, np.ndarray) and k.ndim and k.dtype.kind in "iub":
        return _there(x, k)
    if _is_tensor(k) and k.dtype.kind in "iub":
        if k.ndim == 0 and k.dtype.kind != "b" and _is_now(x, k):
            return as_position(k)
        return _there(x, k)
    at = None if _is_tensor(k) else as_position(k)
    if at is None:
        what = f"a tensor of {k.dtype.name}" if _is_tensor(k) else kind_of(k)
        help = f"; {how_to_wrap(k)}" if is_of_library(k) else ""
        raise (DTypeError if _is_tensor(k) else IndexRangeError)(
            f"indexing by {what}: use ints, slices, None, ..., and masks or tensors of integers"
            f"{help}, at {format_locs(here())}"
        )
    return at


def _there(x: Any, k: Any) -> Any:
    """An index array or tensor, taken to the GPU that ``x`` is on if it is on the CPU."""
    if getattr(x, "__sf_gpu__", None) is None:
        return k
    if isinstance(k, np.ndarray):
        return cast.beside(x, k, dtype=dtype_of(k.dtype))
    return k.to(x.__sf_gpu__) if k.__sf_gpu__ is None else k


_DIMS = {slice: 1, int: 1, Dim: 1, bool: 0, type(None): 0, type(Ellipsis): 0}


def _dims_of(k: Any) -> int:
    """How many dims of the tensor a part of a key speaks of."""
    count = _DIMS.get(type(k))
    if count is None:
        count = k.ndim if _is_mask(k) else 1
    return count


def _is_mask(k: Any) -> bool:
    return isinstance(k, bool) or (hasattr(k, "ndim") and dtype_of(k.dtype) is bool_)


def _keys_of(x: Any, key: Any) -> list[Any]:
    """The parts of a key, which speak of all dims."""
    keys = [_as_key(x, k) for k in (key if isinstance(key, tuple) else (key,))]
    shape = x.shape
    used = sum(map(_dims_of, keys))
    if used > len(shape):
        help = "" if shape else "; its number is .item(), its value as a tensor the tensor itself"
        raise DimRangeError(
            f"indexing: {used} indices for a tensor of {x.ndim} dims{help}, "
            f"at {format_locs(here())}"
        )
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise ShapeError(f"indexing: ... may stand once, at {format_locs(here())}")
    at = dots[0] if dots else len(keys)
    keys[at : at + 1] = [_WHOLE] * (len(shape) - used)
    return keys


def _take_numbers(x: Any, keys: list[Any]) -> tuple[tuple[int, ...], list[Any]]:
    """Take the index tensors of no dims out of a key, and the ints with them if there are any:
    their dims, and they."""
    if not any(_is_number(k) for k in keys):
        return (), []
    dims, numbers, kept = [], [], []
    axis = 0
    for k in keys:
        number = k if _is_number(k) else None
        if type(k) is int and isinstance(at := from_front(k, x.shape[axis], axis), int):
            number = full.beside(x, shape=(), value=at, dtype=int64)
        if number is None:
            kept.append(k)
        else:
            dims.append(axis)
            numbers.append(number)
        axis += _dims_of(k)
    keys[:] = kept
    return tuple(dims), numbers


def _is_number(k: Any) -> bool:
    return _is_tensor(k) and not _is_mask(k) and k.ndim == 0


def _read(x: Any, keys: Sequence[Any]) -> _Reading:
    found = _Reading()
    for k in keys:
        read: Callable[..., None] = _READ.get(type(k), _read_tensor)
        read(found, x.shape, k)
    return found


def _read_new(found: _Reading, shape: Shape, k: bool | None) -> None:
    if k is not None:
        found.tensors.append((found.ndim, np.asarray([k])))
    found.ones.append(found.ndim)
    found.ndim += 1


def _read_slice(found: _Reading, shape: Shape, k: slice) -> None:
    if k is not _WHOLE:
        part = bounds(k, shape[found.axis])
        if part.back or not (same(part.start, 0) and same(part.size, shape[found.axis])):
            found.slices[found.axis] = part
    found.axis += 1
    found.ndim += 1


def _read_place(found: _Reading, shape: Shape, k: Size) -> None:
    found.taken.append((found.axis, from_front(k, shape[found.axis], found.axis)))
    found.axis += 1


def _read_tensor(found: _Reading, shape: Shape, k: Any) -> None:
    count = _dims_of(k)
    if not count:  # a mask of no dims: as a bool
        found.tensors.append((found.ndim, k.reshape(1)))
        _read_new(found, shape, None)
        return
    for i in range(count if _is_mask(k) else 0):
        n = shape[found.axis + i]
        if isinstance(k.shape[i] - n, int) and not same(k.shape[i], n):
            raise IndexRangeError(
                f"indexing: dim {i} of the mask, of shape {list(k.shape)}, meets dim "
                f"{found.axis + i} of size {n}, at {format_locs(here())}"
            )
    found.tensors.append((found.ndim, k))
    found.axis += count
    found.ndim += count


_READ: dict[type, Callable[..., None]] = {
    type(None): _read_new, bool: _read_new, slice: _read_slice, int: _read_place, Dim: _read_place,
}  # fmt: skip


# -- selecting ------------------------------------------------------------------------------------


def _turned_dims(found: _Reading) -> tuple[int, ...]:
    """The dims of the view, which has all elements in the order of ``x``, that are to be turned
    round."""
    if not any(part.back for part in found.slices.values()):
        return ()
    gone = {axis for axis, _ in found.taken}
    axes = (axis for axis in range(found.axis) if axis not in gone)
    of_view = [None if dim in found.ones else next(axes) for dim in range(found.ndim)]
    back = {axis for axis, part in found.slices.items() if part.back}
    return tuple(dim for dim, axis in enumerate(of_view) if axis in back)


def _basic(x: Any, found: _Reading) -> Any:
    """The view that the basic part of a key speaks of, in the order of ``x``."""
    if found.slices:
        whole = (found.slices.get(axis) or Bounds(0, n, 1) for axis, n in enumerate(x.shape))
        start, size, step = zip(*((p.start, p.size, p.step) for p in whole), strict=True)
        x = slice_op(x, start=start, size=size, step=step)
    for axis, at in reversed(found.taken):
        x = select_op(x, dim=axis, index=at)
    if found.ones:
        if x.ndim + len(found.ones) > MOST_DIMS:
            raise ShapeError(
                f"indexing: an array has at most {MOST_DIMS} dims, not {x.ndim + len(found.ones)}"
                f", at {format_locs(here())}"
            )
        x = unsqueeze_op(x, dims=tuple(found.ones))
    for dim, k in found.tensors:
        for i in range(k.ndim if _is_mask(k) else 0):
            x = of_size(x, dim + i, k.shape[i])
    return x


def _indices(tensors: Sequence[tuple[int, Any]]) -> tuple[list[Any], tuple[int, ...]]:
    """Index tensors alone, and their dims: a mask is where it is true."""
    indices: list[Any] = []
    dims: list[int] = []
    for dim, k in tensors:
        found = [k]
        if _is_mask(k):
            found = list(k.nonzero() if isinstance(k, np.ndarray) else nonzero(k, as_tuple=True))
        indices += found
        dims += range(dim, dim + len(found))
    return indices, tuple(dims)


def get(x: Any, key: Any) -> Any:
    """``x[key]``: ints, slices, ``None``, ``...``, masks and index tensors. A view where there are
    no masks and index tensors, and no negative step, which copies as `flip` does.

    >>> import staticflow as sf
    >>> x = sf.arange(6).reshape(2, 3)
    >>> x[:, [2, 0]]
    tensor([[2, 0],
            [5, 3]])
    >>> x[x > 2]
    tensor([3, 4, 5])
    """
    if type(key) is int and x.ndim:  # the usual case
        return select_op(x, dim=0, index=from_front(key, x.shape[0], 0))
    keys = _keys_of(x, key)
    dims, numbers = _take_numbers(x, keys)
    if numbers:
        x = _at_numbers(x, dims, numbers)
    found = _read(x, keys)
    part = _basic(x, found)
    turned = _turned_dims(found)
    if turned:
        part = flip_op(part, dims=turned)
    if not found.tensors:
        return part if part is not x or numbers else same_view(x, reshape_op, shape=x.shape)
    indices, dims = _indices(found.tensors)
    return index_op(part, *meet_indices("indexing", indices), dims=dims)


@by_shape
def select(input: Any, dim: int, index: Any) -> Any:
    """What stands at ``index`` (an int, a size or a 0-d tensor) of ``dim``: a view without it.

    Raises `IndexRangeError` for an index outside ``[-n, n)``.
    """
    at = normalize_dim(dim, input.ndim, "select")
    if not hasattr(index, "__sf_mode__"):
        index = as_size(index)
    return get(input, (*(slice(None),) * at, index))


# -- storing --------------------------------------------------------------------------------------


def put_in_place(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``, broadcast and cast to the dtype of ``x``."""
    try:
        _put(x, _keys_of(x, key), value)
    except StaticflowError as error:
        name_the_function(error, "indexing")
        raise


def _put(x: Any, keys: list[Any], value: Any) -> None:
    dims, numbers = _take_numbers(x, keys)
    if numbers:
        x = _at_numbers(x, dims, numbers)
    found = _read(x, keys)
    part = _basic(x, found)
    if not found.tensors and type(value) in _NUMBERS and not part.__sf_mode__.rank:
        part.copy_(value)
    elif part is not value and not _is_there(part, found, value):
        turned = _turned_dims(found)
        seen = flip_op(part, dims=turned) if turned else part
        new = _store(seen, found.tensors, value)
        if turned:
            new = flip_op(new, dims=turned)
        part._assign(new) if found.tensors or part.__sf_mode__.rank else part.copy_(new)


def _at_numbers(x: Any, dims: tuple[int, ...], numbers: Sequence[Any]) -> Any:
    """The view of what stands where numbers of the graph say, as they are now."""
    numbers = [type(k)(k.node) if hasattr(k, "node") else k for k in numbers]
    part = index_op(x, *numbers, dims=dims)
    if hasattr(part, "_alias"):
        view = view_of(index_op, x, {"dims": dims}, tuple(numbers))
        part._alias = replace(view, recorded=thread.state.recording)
    return part


def _is_there(part: Any, found: _Reading, value: Any) -> bool:
    """Whether ``value`` is that view already, as where ``x[key] += 1`` stores what it has changed
    in place."""
    mine, other = getattr(part, "_alias", None), getattr(value, "_alias", None)
    return not found.tensors and type(mine) is Alias and mine.is_same(other)


def _store(part: Any, tensors: Sequence[tuple[int, Any]], value: Any) -> Any:
    """What the view ``part`` becomes where the rest of a key stores ``value`` in it."""
    value = value.to(part.dtype) if _is_tensor(value) else _value_like(part, value)
    if value.ndim == 0:  # is a number, wherever it lies
        value = _there(part, value)
    if not tensors:
        return fit(value, part.shape)
    if len(tensors) == 1 and _is_mask(tensors[0][1]):
        return _put_masked(part, *tensors[0], value)
    indices, dims = _indices(tensors)
    return put_at(part, indices, dims, value)


def _value_like(x: Any, value: Any) -> Any:
    """A number or array in the mode and dtype of ``x``."""
    if isinstance(value, list | tuple | np.ndarray | np.generic):
        refuse_masked(value)
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ShapeError(
                f"the value is a list that makes no array: {error}, at {format_locs(here())}"
            ) from None
        return cast.beside(x, array, dtype=x.dtype)
    if hasattr(value, "__dlpack__"):
        raise DTypeError(
            f"x[...] = value: the value is {kind_of(value)}; {how_to_wrap(value)}, "
            f"at {format_locs(here())}"
        )
    return new_full(x, (), value)


def _put_masked(x: Any, dim: int, mask: Any, value: Any) -> Any:
    """``x`` with ``value`` where ``mask``, which spans dims from ``dim`` on, is true."""
    given, mask = mask, mask if _is_tensor(mask) else cast.beside(x, mask, dtype=bool_)
    behind = x.ndim - dim - mask.ndim
    shaped = mask.reshape((*mask.shape, *(1,) * behind))
    value = trim(value, dim + 1 + behind)
    if value.ndim <= behind or same(value.shape[value.ndim - behind - 1], 1):
        # one value, or one slice, for every place
        lead = value.shape[: max(value.ndim - behind - 1, 0)]
        rest = value.shape[max(value.ndim - behind, 0) :]
        return where(shaped, reshape(value, (*lead, *(1,) * mask.ndim, *rest)), x)
    if dim == 0 and value.ndim == behind + 1:
        source = expand(value, (value.shape[0], *x.shape[mask.ndim :]))
        return masked_scatter(x, shaped, source)
    found, dims = _indices([(dim, given)])
    return put_at(x, found, dims, value)
