"""The names of devices, and what `to` and `type` of a tensor may be given."""

from __future__ import annotations

from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import DeviceError, DTypeError
from staticflow.graph.dtypes import DTYPES, DType, dtype_of, is_dtype_name
from staticflow.graph.locs import format_locs, here

__all__ = ["device", "device_of", "kind_name", "target"]


_DEVICE_TYPES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True, init=False)
class device:
    """Where tensors are: ``sf.device("cpu")``, ``sf.device("cuda:1")``, ``sf.device("cuda", 1)``.

    Without an index it is the first of its kind; a number alone is that of a GPU. Raises
    `DeviceError` for any other kind.

    >>> device("cuda:0")
    device(type='cuda', index=0)
    """

    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: int | None = None) -> None:
        if isinstance(type, int):
            index, type = type, "cuda"
        if isinstance(type, device):
            index = type.index
            type = type.type
        kind, colon, number = str(type).partition(":")
        if kind not in _DEVICE_TYPES or (colon and not number.isdecimal()):
            raise DeviceError(
                f"{type!r} is no device; use 'cpu', 'cuda' or 'cuda:1', at {format_locs(here())}"
            )
        if not hasattr(index, "__index__") and index is not None:
            raise DeviceError(
                f"the index of a device is an integer, not {index!r}, at {format_locs(here())}"
            )
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", int(number) if colon else index)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"


_Device = device  # arguments are named `device`, too


def device_of(x: Any) -> device:
    """The device that ``x`` names: a device, a string, or the number of a GPU."""
    return device(x)


_KIND_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double",
}  # fmt: skip


def kind_name(dtype: DType, device_type: str = "cpu") -> str:
    """The old name of a kind: ``staticflow.FloatTensor``, ``staticflow.cuda.IntTensor``."""
    prefix = "staticflow." if device_type == "cpu" else f"staticflow.{device_type}."
    return f"{prefix}{_KIND_NAMES[dtype.name]}Tensor"


_KINDS = {
    library + kind_name(d, t).removeprefix("staticflow"): (device(t), d)
    for d in DTYPES
    for t in _DEVICE_TYPES
    for library in ("staticflow", "torch")
}


def target(
    args: tuple[Any, ...], device: Any = None, dtype: Any = None
) -> tuple[device | None, DType | None]:
    """The device and dtype that ``args`` name, None where they do not: a dtype, a device, both, the
    name of a kind, also as PyTorch's (``"torch.DoubleTensor"``), or something that has them (a
    tensor).

    >>> target(("cuda", "float64"))
    (device(type='cuda'), staticflow.float64)
    """
    for arg in args:
        if isinstance(arg, str) and arg in _KINDS:
            device, dtype = _KINDS[arg]
        elif isinstance(arg, int | _Device) or (
            isinstance(arg, str) and arg.partition(":")[0] in _DEVICE_TYPES
        ):
            device = arg
        elif hasattr(arg, "dtype") and not isinstance(arg, type):  # a tensor, not np.float32
            device, dtype = getattr(arg, "device", None), arg.dtype
        elif isinstance(arg, str) and not is_dtype_name(arg):
            raise DTypeError(
                f"{arg!r} names neither a device nor a dtype; devices are 'cpu', 'cuda', 'cuda:0', "
                f"'cuda:1' and so on, dtypes {', '.join(d.name for d in DTYPES)}, "
                f"at {format_locs(here())}"
            )
        elif arg is not None:
            dtype = arg
    return (
        None if device is None else device_of(device),
        None if dtype is None else dtype_of(dtype),
    )
