"""What programs from PyTorch's first years use: ``Variable``, and kinds of tensors such as
``FloatTensor``."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.creation import empty
from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError
from staticflow.graph.device import device, kind_name
from staticflow.graph.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)  # fmt: skip
from staticflow.graph.locs import format_locs, here

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "TensorKind", "Variable",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorKind:
    """A dtype on a kind of device: ``sf.FloatTensor``. ``x.type(sf.DoubleTensor)`` casts,
    ``isinstance(x, sf.FloatTensor)`` asks, and calling it makes a tensor of data or of sizes."""

    dtype: DType
    device: device

    def __call__(self, *args: Any, **named: Any) -> Tensor:
        """A tensor with the data of a list, array or tensor; or one of the given sizes."""
        if named:
            raise DTypeError(
                f"{self}: takes data or sizes, and no argument {', '.join(map(repr, named))}; "
                f"sf.tensor and sf.empty take more, at {format_locs(here())}"
            )
        if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray | Tensor):
            made: Tensor = Tensor._copy_of(args[0], self.dtype).to(self.device)
        else:
            made = empty(*args or (0,), dtype=self.dtype, device=self.device)
        return made

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype is self.dtype and x.device.type == self.device.type

    def __str__(self) -> str:
        return kind_name(self.dtype, self.device.type)

    __repr__ = __str__


BoolTensor, ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor = (
    TensorKind(d, device("cpu")) for d in (bool_, uint8, int8, int16, int32, int64)
)
HalfTensor, BFloat16Tensor, FloatTensor, DoubleTensor = (
    TensorKind(d, device("cpu")) for d in (float16, bfloat16, float32, float64)
)


def Variable(data: Any, requires_grad: bool = False) -> Tensor:
    """The tensor ``data`` without its history, on the same memory. A `Tensor` is all that a
    ``Variable`` ever was; the name is kept for programs of its time.

    Raises `TypeError` for anything but a tensor.
    """
    if not isinstance(data, Tensor):
        raise DTypeError(
            f"Variable: data has to be a tensor, but got {type(data).__name__}, "
            f"at {format_locs(here())}"
        )
    return data.detach().requires_grad_(requires_grad)
