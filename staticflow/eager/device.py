"""Where eager tensors live: NumPy arrays on the CPU, cupy arrays on a GPU.

cupy is looked for when it is first asked for, and staticflow does without it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from staticflow.errors import DeviceError
from staticflow.graph.device import device, device_of, target
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import per_arg

__all__ = [
    "CPU", "array_device", "as_array", "cpu", "cuda", "cupy_module", "find_device",
    "get_device", "gpu_of", "is_array_of", "is_available", "is_cpu", "is_cuda", "is_writeable",
    "memory_of", "move", "namespace", "run_on_gpu", "shares_memory", "to", "why_unavailable",
]  # fmt: skip

CPU = device("cpu")


_HOW_TO_INSTALL = 'pip install "staticflow[cuda13x]" (or cuda12x)'


def cupy_module() -> ModuleType | None:
    """cupy, or None where it is not installed or cannot be imported."""
    try:
        return importlib.import_module("cupy")
    except ImportError:
        return None


def is_available() -> bool:
    """Whether there is cupy, and a GPU that it can use. Never raises."""
    cupy = cupy_module()
    try:
        return cupy is not None and bool(cupy.is_available())
    except Exception:  # a broken driver raises what it likes
        return False


def why_unavailable() -> str:
    """Why there is no GPU to use, and what to do; empty where there is one."""
    if is_available():
        return ""
    try:
        runtime = importlib.import_module("cupy").cuda.runtime
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return f"cupy is not installed; {_HOW_TO_INSTALL}"
        return f"cupy cannot be imported ({error}); {_HOW_TO_INSTALL}"
    except ImportError as error:  # whose text may have many lines
        first = str(error).strip().partition("\n")[0]
        return f"cupy cannot be imported ({first}); {_HOW_TO_INSTALL}"
    try:
        driver, wanted = int(runtime.driverGetVersion()), int(runtime.runtimeGetVersion())
    except Exception as error:
        return f"the NVIDIA driver does not answer ({error}); nvidia-smi says what it finds"
    if not driver:
        return "there is no NVIDIA driver; install one, and see with nvidia-smi that it runs"
    if driver // 1000 < wanted // 1000:
        return (
            f"the NVIDIA driver is for CUDA {_version(driver)} and cupy for {_version(wanted)}; "
            f"install a newer driver, or the cupy of CUDA {driver // 1000}"
        )
    return "the NVIDIA driver finds no GPU; nvidia-smi lists those that there are"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def namespace(where: device) -> Any:
    """The array module of a device: NumPy or cupy. Raises `DeviceError` if it is not there."""
    if where.type == "cpu":
        return np
    why = why_unavailable()
    if why:
        raise DeviceError(f"{where}: {why}, at {format_locs(here())}")
    return cupy_module()


def array_device(array: Any) -> device:
    """Where an array is."""
    return CPU if isinstance(array, np.ndarray) else device("cuda", int(array.device.id))


def find_device(wanted: Any) -> device:
    """The very device that ``wanted`` names (None: the CPU): one of the GPUs, not just any."""
    if wanted is None:
        return CPU
    named = device_of(wanted)
    xp = namespace(named)
    if named.type == "cpu":
        return CPU
    if named.index is None:
        return device("cuda", int(xp.cuda.Device().id))
    count = int(xp.cuda.runtime.getDeviceCount())
    if named.index >= count:
        raise DeviceError(f"{named}: there are {count} GPUs, at {format_locs(here())}")
    return named


def move(array: Any, to: device) -> Any:
    """The array on another device; itself if it is there."""
    if array_device(array) == to:
        return array
    if to.type == "cpu":
        return namespace(array_device(array)).asnumpy(array)
    xp = namespace(to)
    with xp.cuda.Device(to.index), memory_of(to):
        return xp.asarray(array)


@contextmanager
def memory_of(gpu: device) -> Iterator[None]:
    """Inside, too little memory of a GPU is a `MemoryError` that says how much was asked for and
    how much is free."""
    try:
        yield
    except MemoryError as error:
        asked = re.search(r"allocating ([\d,]+) bytes", str(error))
        if asked is None:
            raise
        xp = namespace(gpu)
        free, whole = xp.cuda.Device(gpu.index).mem_info
        free += xp.get_default_memory_pool().free_bytes()
        raise MemoryError(
            f"{gpu}: {asked[1]} bytes are asked for, and {free:,} of {whole:,} are free; let go "
            f"of tensors that are no longer needed, or take fewer rows, at {format_locs(here())}"
        ) from None


def run_on_gpu(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """What ``op`` gives of arrays of which one at least is on a GPU. A 0-d array of the CPU may
    stand beside them, as in PyTorch; any other mixture is a `DeviceError`."""
    devices = [array_device(a) if hasattr(a, "dtype") else None for a in arrays]
    found = {p for p, a in zip(devices, arrays, strict=True) if p and (p != CPU or a.ndim)}
    if len(found) > 1:
        raise DeviceError(
            f"the operands are on different devices, {' and '.join(sorted(map(str, found)))}; "
            "bring them to one with .to(device)"
        )
    (gpu,) = found
    xp = namespace(gpu)
    with xp.cuda.Device(gpu.index), memory_of(gpu):
        there = [move(a, gpu) if p else a for a, p in zip(arrays, devices, strict=True)]
        return op.reference(xp, *there, **attrs)


def is_array_of(value: Any, where: device) -> bool:
    """Whether a value is an array of the GPU ``where``, as a tensor there has one."""
    return isinstance(value, namespace(where).ndarray) and array_device(value) == where


def as_array(data: Any) -> Any:
    """An array, on whichever device, also where a function of NumPy gave a scalar."""
    return data if hasattr(data, "__dlpack__") else np.asarray(data)


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two arrays of one device may share memory."""
    return bool(namespace(array_device(a)).may_share_memory(a, b))


def is_writeable(array: Any) -> bool:
    """Whether the elements may be changed; on a GPU always."""
    return bool(getattr(array.flags, "writeable", True))


_transfer: Op = Op(
    name="to",
    doc="The tensor on another device.",
    infer=lambda facts, x, *, source, target: x,
    reference=lambda xp, x, *, source, target: move(x, target),
    vjp=per_arg(lambda ct, out, x, *, source, target: _transfer(ct, source=target, target=source)),
    grad_name="ToCopyBackward0",
)
"""Eager only, and so not among the ops of the table: a graph has no device of its own."""


@by_shape
def to(self: Any, *args: Any, copy: bool = False, non_blocking: bool = False, **named: Any) -> Any:
    """The tensor in another dtype or on another device, on the tape; itself if it is so already.

    ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(other)``, which takes both from
    another tensor. ``copy`` makes a copy in any case; ``non_blocking`` changes nothing.
    """
    device, dtype = target(args, **named)
    out = self
    if device is not None and (wanted := find_device(device)) != self.device:
        out = _transfer(out, source=self.device, target=wanted)
    if dtype is not None and dtype is not self.dtype:
        out = cast(out, dtype=dtype)
    return out.clone() if copy and out is self else out


def is_cuda(self: Any) -> bool:
    """Whether the tensor is on a GPU."""
    return not isinstance(self._data, np.ndarray)


def is_cpu(self: Any) -> bool:
    """Whether the tensor is in the memory of the CPU."""
    return isinstance(self._data, np.ndarray)


def get_device(self: Any) -> int:
    """The number of the GPU that the tensor is on, -1 on the CPU."""
    gpu = gpu_of(self)
    return -1 if gpu is None else gpu.index or 0


def gpu_of(self: Any) -> device | None:
    """The GPU that the tensor is on, None on the CPU: for what is made beside it."""
    return None if isinstance(self._data, np.ndarray) else array_device(self._data)


@by_shape
def cpu(self: Any) -> Any:
    """The tensor on the CPU; itself if it is there."""
    return self.to(CPU)


def cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """The tensor on a GPU, the current one unless ``device`` names another; itself if it is there.

    Raises `DeviceError` where there is no GPU; ``sf.cuda.is_available()`` asks.
    """
    return self.to("cuda" if device is None else device)
