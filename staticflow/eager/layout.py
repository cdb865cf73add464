"""Where the elements of an eager tensor lie in memory, in PyTorch's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

import numpy as np

from staticflow.eager.in_place import refuse_in_trace
from staticflow.eager.memory import note_exchange
from staticflow.errors import AutogradError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.declaring.sizes import as_shape, sizes_of
from staticflow.ops.declaring.thread import thread
from staticflow.ops.indexing.memory_views import bitcast_op

__all__ = [
    "apply_", "bits_as", "data_ptr", "element_size", "is_contiguous", "map_", "nbytes", "own",
    "protect", "resize_", "resize_as_", "set_", "storage_offset", "stride",
]  # fmt: skip


def stride(x: Any, dim: int | None = None) -> Any:
    """How far apart in memory neighbours along each dim lie, in elements; or along one dim."""
    data = x._data
    strides = tuple(s // data.itemsize for s in data.strides)
    return strides if dim is None else strides[dim]


def storage_offset(x: Any) -> int:
    """Where in its memory the tensor begins, in elements."""
    data = x._data
    whole = data if type(data.base) is not type(data) else data.base
    return (_address(data) - _address(whole)) // int(data.itemsize)


def data_ptr(x: Any) -> int:
    """The address of the first element."""
    return _address(x._data)


def _address(data: Any) -> int:
    if isinstance(data, np.ndarray):
        return int(data.__array_interface__["data"][0])
    return int(data.data.ptr)  # on a GPU


def element_size(x: Any) -> int:
    """The bytes that an element takes."""
    return int(x._data.itemsize)


def nbytes(x: Any) -> int:
    """The bytes that the elements take."""
    return int(x._data.nbytes)


def is_contiguous(x: Any) -> bool:
    """Whether the elements lie in memory one behind the other, in row-major order."""
    return bool(x._data.flags.c_contiguous)


# -- changes of memory ----------------------------------------------------------------------------


def bits_as(x: Any, dtype: DType) -> Any:
    """A tensor without history that reads the memory of ``x`` as another dtype."""
    if thread.state.tracing:
        return bitcast_op(x, dtype=dtype)
    ratio, rest = divmod(x.dtype.bits, dtype.bits)
    try:
        data = x._data.view(dtype.numpy) if x.ndim or (ratio, rest) == (1, 0) else None
    except ValueError:
        data = None
    if data is None:
        raise ShapeError(
            f"view: {x.dtype.name}{list(x.shape)} with strides {list(x.stride())} cannot be seen "
            f"as {dtype.name}: the last dim must be in one row and its bytes divide evenly, "
            f"at {format_locs(here())}"
        )
    out = x._wrap(data)
    out._memory = x._own_memory()
    return out


def _without_history(x: Any, what: str) -> None:
    refuse_in_trace(what)
    if x.requires_grad:
        raise AutogradError(
            f"{what} of a tensor that requires a gradient would be lost to it; call it on "
            f".detach(), at {format_locs(here())}"
        )


def protect(x: Any) -> Any:
    """The view ``x``, through which nothing can be changed from now on; a symbol as it is."""
    data = getattr(x, "_data", None)
    if type(data) is np.ndarray:
        data.flags.writeable = False
    return x


def own(tensors: list[Any]) -> list[Any]:
    """The ``tensors``, which the caller has in this list alone, and copies of those whose memory
    somebody else may have, too: a user, a view, the tape."""
    holders = _holders(tensors)
    return [
        x if count == _ALONE and x._view is None and x._data.base is None else x.clone()
        for x, count in zip(tensors, holders, strict=True)
    ]


def _holders(tensors: Sequence[Any]) -> list[tuple[int, int]]:
    """How many references there are to each tensor, and to its array."""
    return [(getrefcount(x), getrefcount(x._data)) for x in tensors]


_ALONE = _holders([SimpleNamespace(_data=np.empty(1))])[0]
"""What this Python counts for a tensor in one list."""


@refuses_foreign
def resize_(x: Any, *sizes: Any) -> Any:
    """Give ``x`` another shape: its elements in row-major order, fewer of them, or further ones of
    0, for which the memory moves."""
    _without_history(x, "resize_")
    shape = as_shape(sizes_of(sizes))
    count = prod(shape)
    flat = x._data.reshape(-1)
    if count > flat.size:
        grown = np.zeros(count, flat.dtype)
        grown[: flat.size] = flat
        flat = grown
    x._data = flat[:count].reshape(shape)
    note_exchange()
    x._bump()
    return x


def resize_as_(x: Any, other: Any) -> Any:
    """`resize_` to the shape of ``other``."""
    return resize_(x, other.shape)


def set_(x: Any, source: Any) -> Any:
    """Let ``x`` be on the memory of ``source``, in its shape and dtype."""
    x.data = source
    return x


def apply_(x: Any, callable: Callable[[Any], Any]) -> Any:
    """Put ``callable(element)``, a function of Python numbers, in the place of each element."""
    _without_history(x, "apply_")
    return _from_python(x, [callable(v) for v in x._data.reshape(-1).tolist()])


def map_(x: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Put ``callable(element, other)`` of the elements of both in the place of each element."""
    _without_history(x, "map_")
    other = np.broadcast_to(tensor._data, x.shape).reshape(-1).tolist()
    pairs = zip(x._data.reshape(-1).tolist(), other, strict=True)
    return _from_python(x, [callable(a, b) for a, b in pairs])


def _from_python(x: Any, values: Sequence[Any]) -> Any:
    return x.copy_(x._wrap(np.asarray(values, x._data.dtype).reshape(x.shape)))
