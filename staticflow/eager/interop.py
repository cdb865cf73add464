"""Eager tensors and the rest of Python: NumPy, DLPack, copies, pickles.

These are methods of `Tensor`, bound in its class.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from staticflow.eager.device import find_device, move
from staticflow.errors import ArgumentError, AutogradError, DeviceError, DTypeError
from staticflow.graph.dtypes import bfloat16
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.thread import thread

__all__ = [
    "array", "cuda_array_interface", "deep_copy", "dlpack", "dlpack_device", "numpy", "reduce",
    "shallow_copy",
]  # fmt: skip

Array = np.ndarray[Any, Any]


def numpy(self: Any, *, force: bool = False) -> Array:
    """The values as a NumPy array on the same memory: a change of one is seen in the other. Inside
    a trace, which has no effect, the array is read-only.

    Raises `AutogradError` if the tensor requires a gradient and `DeviceError` if it is on a GPU;
    ``force=True`` means ``self.detach().cpu().numpy()``.
    """
    if force:
        self = self.detach().cpu()
    elif self.requires_grad:
        raise AutogradError(
            "numpy() of a tensor that requires a gradient: a change of the array would not be "
            f"recorded; call .detach().numpy(), at {format_locs(here())}"
        )
    if self.device.type != "cpu":
        raise DeviceError(
            f"numpy() of a tensor on {self.device}: NumPy cannot see that memory; call .cpu() "
            f"first, which copies, at {format_locs(here())}"
        )
    state = thread.state
    state.note_values(self)
    data: Array = self._data
    if state.tracing:
        data = data.view()
        data.flags.writeable = False
    return data


def array(self: Any, dtype: Any = None, copy: bool | None = None) -> Array:
    """What ``np.asarray`` takes: as `numpy`, in another dtype if asked."""
    data = self.numpy()
    try:
        return np.array(data, dtype=data.dtype if dtype is None else dtype, copy=copy)
    except (TypeError, ValueError) as error:
        kind = DTypeError if isinstance(error, TypeError) else ArgumentError
        raise kind(f"an array of a tensor: {error}, at {format_locs(here())}") from error


def no_mask(self: Any) -> np.ndarray[Any, Any]:
    """The mask of a tensor beside a masked array, which computes with the values: none of its
    elements is masked. Raises `AutogradError` where `array` does."""
    return np.zeros(array(self).shape, np.bool_)


def dlpack(
    self: Any,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The memory of the tensor for another library, by the DLPack protocol; read-only inside a
    trace, which has no effect.

    Raises `BufferError` for what the protocol cannot say: a history, bfloat16 on the CPU, negative
    strides, read-only memory where the other side knows only versions before 1.0.
    """
    if self.requires_grad:
        raise BufferError(
            "a tensor that requires a gradient has a history that DLPack cannot carry; export its "
            f".detach(), at {format_locs(here())}"
        )
    if self.dtype is bfloat16 and self.is_cpu:
        raise BufferError(
            "NumPy has no DLPack form of bfloat16; export .float(), or the bits: "
            f".numpy().view('uint16'), at {format_locs(here())}"
        )
    if any(s < 0 for s in self.stride()):
        raise BufferError(
            f"the strides {self.stride()} are negative in part, which other libraries cannot take; "
            f"export its .clone(), at {format_locs(here())}"
        )
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    state = thread.state
    state.note_values(self)
    data = self._data
    if state.tracing:
        data = data.view()
        data.flags.writeable = False
    try:
        return data.__dlpack__(**{k: v for k, v in options.items() if v is not None})
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise BufferError(f"__dlpack__: {error}, at {format_locs(here())}") from error


def cuda_array_interface(self: Any) -> dict[str, Any]:
    """The memory of a tensor on a GPU for Numba, PyCUDA and others, by version 3 of the protocol.

    Raises `AttributeError` on the CPU, so that ``hasattr`` tells, and `AutogradError` for a tensor
    that requires a gradient, whose history would be lost.
    """
    if self.is_cpu:
        raise AttributeError(
            "__cuda_array_interface__: the tensor is on the CPU; call .cuda() first, which copies"
        )
    if self.requires_grad:
        raise AutogradError(
            "__cuda_array_interface__ of a tensor that requires a gradient: a change of the memory "
            f"would not be recorded; use its .detach(), at {format_locs(here())}"
        )
    thread.state.note_values(self)
    return dict(self._data.__cuda_array_interface__)


def dlpack_device(self: Any) -> tuple[int, int]:
    """The kind and number of the device, as DLPack counts them."""
    kind, index = self._data.__dlpack_device__()
    return int(kind), int(index)


# -- copies ---------------------------------------------------------------------------------------


def shallow_copy(self: Any) -> Any:
    """Another leaf on the same memory, as ``copy.copy`` makes it."""
    return _rebuild(type(self), self._data, self.requires_grad, self.name)


def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
    """A leaf with memory and a gradient of its own, as ``copy.deepcopy`` makes it."""
    if not self.is_leaf:
        raise AutogradError(
            "only leaves can be copied deeply, since the copy of a tensor with a history would "
            f"have a history of its own; copy its .detach(), at {format_locs(here())}"
        )
    out = _rebuild(type(self), self._data.copy(), self.requires_grad, self.name)
    memo[id(self)] = out
    out.grad = copy.deepcopy(self.grad, memo)
    return out


def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
    """What a pickle holds: the class, the values, whether it requires a gradient, its name. The
    history and ``grad`` are not part of it, as in PyTorch."""
    values = self.detach().cpu().numpy()
    return _rebuild, (type(self), values, self.requires_grad, self.name, str(self.device))


def _rebuild(
    kind: type, data: Any, requires_grad: bool, name: str | None, device: str | None = None
) -> Any:
    out: Any = object.__new__(kind)
    out._start(data if device is None else move(data, find_device(device)))
    out.name = name
    return out._require(requires_grad)
