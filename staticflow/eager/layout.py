"""Where the elements of an eager tensor lie in memory, in PyTorch's words."""

from __future__ import annotations

from typing import Any

__all__ = ["data_ptr", "element_size", "is_contiguous", "nbytes", "storage_offset", "stride"]


def stride(x: Any, dim: int | None = None) -> Any:
    """How far apart in memory neighbours along each dim lie, in elements; or along one dim."""
    data = x._data
    strides = tuple(s // data.itemsize for s in data.strides)
    return strides if dim is None else strides[dim]


def storage_offset(x: Any) -> int:
    """Where in its memory the tensor begins, in elements."""
    data = x._data
    whole = data if data.base is None or not hasattr(data.base, "dtype") else data.base
    begin = whole.__array_interface__["data"][0]
    return int(data.__array_interface__["data"][0] - begin) // int(data.itemsize)


def data_ptr(x: Any) -> int:
    """The address of the first element."""
    data = x._data
    if hasattr(data, "__array_interface__"):
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
