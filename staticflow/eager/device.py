"""Where eager tensors live: NumPy arrays on the CPU, cupy arrays on a GPU.

cupy is looked for when it is first asked for, and staticflow does without it.
"""

from __future__ import annotations

import importlib
import re
import sys
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
    "get_device", "gpu_of", "is_array_of", "is_available", "is_cpu", "is_cuda", "is_page_locked",
    "is_pinned", "is_writeable", "memory_of", "move", "namespace", "pin_memory", "run_on_gpu",
    "shares_memory", "to", "why_unavailable",
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


def move(array: Any, to: device, *, blocking: bool = True) -> Any:
    """The array on another device; itself if it is there. One that is not ``blocking`` may be on
    its way still, if the memory of the host is pinned: nobody may write to its source, and what is
    to be on the host may not be read, before the GPU has been waited for."""
    if array_device(array) == to:
        return array
    if to.type == "cpu":
        return _fetch(array, blocking)
    xp = namespace(to)
    with xp.cuda.Device(to.index), memory_of(to):
        if not is_page_locked(array):
            return xp.asarray(array)
        found = xp.empty(array.shape, array.dtype)
        found.set(np.asarray(array, order="C"))
        _wait_or_hold(xp, array, blocking)
        return found


def _fetch(array: Any, blocking: bool) -> Any:
    """An array of a GPU on the host."""
    gpu = array_device(array)
    xp = namespace(gpu)
    if blocking:
        return xp.asnumpy(array)
    with xp.cuda.Device(gpu.index):
        found = importlib.import_module("cupyx").empty_pinned(array.shape, array.dtype)
        array.get(out=found, blocking=False)
        _wait_or_hold(xp, found, blocking)
        return found


_on_the_way: list[tuple[Any, Any]] = []
"""Pinned memory that a GPU reads or writes by itself, and the events behind which that is done:
until then nobody else may get it."""


def _wait_or_hold(xp: Any, memory: Any, blocking: bool) -> None:
    """Wait for the current stream, or see to it that the memory is there until that is done."""
    _on_the_way[:] = [(event, held) for event, held in _on_the_way if not event.done]
    if blocking:
        xp.cuda.get_current_stream().synchronize()
        return
    event = xp.cuda.Event(disable_timing=True)
    event.record()
    _on_the_way.append((event, memory))


def is_page_locked(array: Any) -> bool:
    """Whether an array of the host lies in pinned memory of cupy's, which a GPU copies from and to
    while the host goes on."""
    cupy = sys.modules.get("cupy")
    while isinstance(array, np.ndarray):
        array = array.base
    if isinstance(array, memoryview):
        array = array.obj
    return cupy is not None and isinstance(array, cupy.cuda.PinnedMemoryPointer)


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
    infer=lambda facts, x, *, source, target, blocking: x,
    reference=lambda xp, x, *, source, target, blocking: move(x, target, blocking=blocking),
    vjp=per_arg(
        lambda ct, out, x, *, source, target, blocking: _transfer(
            ct, source=target, target=source, blocking=True
        )
    ),
    grad_name="ToCopyBackward0",
)
"""Eager only, and so not among the ops of the table: a graph has no device of its own."""


@by_shape
def to(self: Any, *args: Any, copy: bool = False, non_blocking: bool = False, **named: Any) -> Any:
    """The tensor in another dtype or on another device, on the tape; itself if it is so already.

    ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(other)``, which takes both from
    another tensor. ``copy`` makes a copy in any case.

    With ``non_blocking`` the host does not wait for a copy between `pin_memory` and a GPU, and what
    is brought to the CPU is in such memory. Until ``sf.cuda.synchronize()`` nobody may write to
    the one and read the other. Operations on the GPU come behind the copy by themselves.
    """
    device, dtype = target(args, **named)
    out = self
    if device is not None and (wanted := find_device(device)) != self.device:
        out = _transfer(out, source=self.device, target=wanted, blocking=not non_blocking)
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
    ``non_blocking`` is that of `to`.

    Raises `DeviceError` where there is no GPU; ``sf.cuda.is_available()`` asks.
    """
    return self.to("cuda" if device is None else device, non_blocking=non_blocking)


_pin: Op = Op(
    name="pin_memory",
    doc="The tensor in pinned memory of the host.",
    infer=lambda facts, x: x,
    reference=lambda xp, x: _page_locked_copy(x),
    vjp=per_arg(lambda ct, out, x: ct),
    grad_name="PinMemoryBackward0",
)
"""Eager only, as `to`."""


def _page_locked_copy(array: Any) -> Any:
    found = importlib.import_module("cupyx").empty_pinned(array.shape, array.dtype)
    found[...] = array
    return found


@by_shape
def pin_memory(self: Any) -> Any:
    """The tensor in page-locked memory of the host, which ``.cuda(non_blocking=True)`` copies from
    while the host goes on; itself if it is there.

    Raises `DeviceError` where there is no GPU, and for a tensor on one.

    >>> import staticflow as sf
    >>> x = sf.ones(3).pin_memory() if sf.cuda.is_available() else sf.ones(3)
    >>> x.is_pinned() == sf.cuda.is_available()
    True
    """
    if not is_cpu(self):
        raise DeviceError(
            f"pin_memory: the tensor is on {self.device}, and memory of the CPU alone is pinned, "
            f"at {format_locs(here())}"
        )
    namespace(device("cuda"))  # which says what is missing
    return self if is_page_locked(self._data) else _pin(self)


def is_pinned(self: Any) -> bool:
    """Whether the tensor is in page-locked memory of the host."""
    return is_page_locked(self._data)
