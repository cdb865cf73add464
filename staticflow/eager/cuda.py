"""``sf.cuda``: what one asks of the GPUs. Without cupy or without a driver nothing here raises but
what needs a GPU."""

from __future__ import annotations

from typing import Any

from staticflow.eager.device import cupy_module, is_available, namespace
from staticflow.eager.legacy import TensorKind
from staticflow.eager.random import manual_seed as manual_seed_of_all
from staticflow.errors import DeviceError
from staticflow.graph.device import device
from staticflow.graph.dtypes import bool_, float16, float32, float64, int32, int64
from staticflow.graph.locs import format_locs, here

__all__ = [
    "BoolTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
    "current_device", "device_count", "get_device_name", "is_available", "manual_seed",
    "manual_seed_all", "synchronize",
]  # fmt: skip

HalfTensor, FloatTensor, DoubleTensor, BoolTensor, IntTensor, LongTensor = (
    TensorKind(d, device("cuda")) for d in (float16, float32, float64, bool_, int32, int64)
)


def device_count() -> int:
    """How many GPUs there are; 0 without cupy or without a driver."""
    cupy = cupy_module()
    return int(cupy.cuda.runtime.getDeviceCount()) if cupy and is_available() else 0


def current_device() -> int:
    """The number of the GPU that is used where none is named."""
    return int(_cuda().Device().id)


def get_device_name(device: Any = None) -> str:
    """What a GPU, the current one unless given by its number or as ``"cuda:1"``, calls itself."""
    number = _number_of(device)
    number = current_device() if number is None else number
    name = _cuda().runtime.getDeviceProperties(number)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def manual_seed(seed: int) -> None:
    """Seed the default generator, which draws for all devices: `sf.manual_seed`."""
    manual_seed_of_all(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the default generator, which draws for all devices: `sf.manual_seed`."""
    manual_seed_of_all(seed)


def synchronize(device: Any = None) -> None:
    """Wait until a GPU, the current one unless given by its number or as ``"cuda:1"``, has done
    what it was given."""
    _cuda().Device(_number_of(device)).synchronize()


def _number_of(gpu: Any) -> int | None:
    """The number of a GPU; None where none is named."""
    if gpu is None:
        return None
    found = device(gpu)
    if found.type != "cuda":
        raise DeviceError(f"{found} is no GPU; give its number, at {format_locs(here())}")
    return found.index


def _cuda() -> Any:
    return namespace(device("cuda")).cuda
