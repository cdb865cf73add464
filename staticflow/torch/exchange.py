"""Tensors of PyTorch as ours and back, on one memory."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.graph.library_arrays import array_of
from staticflow.graph.locs import format_locs, here

__all__ = [
    "ArraysFromTorch", "array_from_torch", "dtype_from_torch", "tensor_from_torch",
    "tensor_to_torch",
]  # fmt: skip


def dtype_from_torch(dtype: Any) -> DType:
    """The dtype of that name. Raises `DTypeError` for one that is not here, such as complex64."""
    name = str(dtype).removeprefix("torch.")
    try:
        return dtype_of(name)
    except (TypeError, ValueError):
        raise DTypeError(
            f"torch: {dtype} is no dtype of staticflow; convert the tensor first, "
            f"at {format_locs(here())}"
        ) from None


def array_from_torch(tensor: Any) -> Any:
    """An array on the memory of PyTorch's ``tensor``, whose dtype is known to be here."""
    if tensor.dtype.itemsize == 2:  # of which NumPy does not know bfloat16
        return array_of(tensor, "torch")
    return tensor.detach().numpy()


class _Kept(NamedTuple):
    """A parameter, where its elements lie, and the array there."""

    parameter: weakref.ref[Any]
    address: int
    array: Any


class ArraysFromTorch:
    """Arrays on the memory of the tensors that a program is called with, one call after the other:
    that of a parameter which lies where it lay is the one of the call before. It is dropped with
    the parameter. A call is with tensors of the dtypes and strides of the first one."""

    __slots__ = ("_kept", "_parameter")

    def __init__(self, library: Any, count: int) -> None:
        self._parameter = library.nn.Parameter
        self._kept: list[_Kept | None] = [None] * count

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """The arrays of ``tensors``."""
        arrays = []
        for i, tensor in enumerate(tensors):
            if type(tensor) is not self._parameter:
                arrays.append(array_from_torch(tensor))
                continue
            kept = self._kept[i]
            if kept is None or kept.address != tensor.data_ptr() or kept.parameter() is not tensor:
                kept = self._keep(i, tensor)
            arrays.append(kept.array)
        return arrays

    def _keep(self, at: int, parameter: Any) -> _Kept:
        places = self._kept

        def drop(dead: weakref.ref[Any]) -> None:
            kept = places[at]
            if kept is not None and kept.parameter is dead:
                places[at] = None

        reference = weakref.ref(parameter, drop)
        kept = _Kept(reference, parameter.data_ptr(), array_from_torch(parameter))
        places[at] = kept
        return kept


def tensor_from_torch(tensor: Any) -> Tensor:
    """A tensor on the memory of PyTorch's ``tensor``, without its history."""
    dtype_from_torch(tensor.dtype)
    return Tensor._wrap(array_of(tensor, "torch"))


def tensor_to_torch(library: Any, tensor: Tensor) -> Any:
    """A tensor of PyTorch on the memory of ``tensor``, without its history; of what PyTorch cannot
    share, as memory with negative strides or that is read-only, a copy."""
    data = tensor._data
    if data.flags.carray and data.dtype.itemsize != 2:
        return library.from_numpy(data)
    if any(s < 0 for s in data.strides) or not data.flags.writeable:
        data = data.copy()
    if data.dtype == ml_dtypes.bfloat16:
        return library.from_numpy(data.view(np.int16)).view(library.bfloat16)
    return library.from_numpy(data)
