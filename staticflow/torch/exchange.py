"""Tensors of PyTorch as ours and back, on one memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.graph.library_arrays import array_of
from staticflow.graph.locs import format_locs, here

__all__ = ["array_from_torch", "dtype_from_torch", "tensor_from_torch", "tensor_to_torch"]


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


def tensor_from_torch(tensor: Any) -> Tensor:
    """A tensor on the memory of PyTorch's ``tensor``, without its history."""
    dtype_from_torch(tensor.dtype)
    return Tensor._wrap(array_of(tensor, "torch"))


def tensor_to_torch(library: Any, tensor: Tensor) -> Any:
    """A tensor of PyTorch on the memory of ``tensor``, without its history; of what PyTorch cannot
    share, as memory with negative strides or that is read-only, a copy."""
    data = tensor._data
    if any(s < 0 for s in data.strides) or not data.flags.writeable:
        data = data.copy()
    if data.dtype == ml_dtypes.bfloat16:
        return library.from_numpy(data.view(np.int16)).view(library.bfloat16)
    return library.from_numpy(data)
