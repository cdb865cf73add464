"""A tensor in another dtype, as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.graph import dtypes as dt
from staticflow.graph.device import kind_name, target
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.ops.basics.arithmetic import cast as cast_op
from staticflow.ops.declaring.by_shape import by_shape

__all__ = [
    "bfloat16", "bool_", "byte", "cast", "char", "double", "float_", "half", "int_", "is_complex",
    "is_floating_point", "is_signed", "long", "short", "to", "type_", "type_as",
]  # fmt: skip


@by_shape
def cast(input: Any, dtype: Any) -> Any:
    """A copy of a tensor in another dtype; floats to integers truncate.

    >>> import staticflow as sf
    >>> cast(sf.tensor([1.5, -1.5]), sf.int64)
    tensor([ 1, -1])
    """
    return cast_op(input, dtype=dtype_of(dtype))


def to(self: Any, *args: Any, **named: Any) -> Any:
    """The tensor in another dtype; itself if it has that dtype.

    ``to(dtype)``, or ``to(other)`` for the dtype of another tensor. A device may be named too, as
    in the eager mode; it says nothing here, since a program runs where it was compiled for.
    """
    _, dtype = target(args, **named)
    return self if dtype is None or dtype is self.dtype else cast_op(self, dtype=dtype)


@by_shape
def type_(self: Any, dtype: Any = None) -> Any:
    """The name of this kind of tensor, such as ``staticflow.FloatTensor``; or the tensor as the
    kind or in the dtype that is named, ``"torch.DoubleTensor"`` as in PyTorch included."""
    if dtype is None:
        device = getattr(self, "device", None)
        return kind_name(self.dtype, device.type if device else "cpu")
    return self.to(dtype)


@by_shape
def type_as(self: Any, other: Any) -> Any:
    """The tensor in the dtype, and on the device, of another."""
    return self.to(other)


def _in(name: str, dtype: DType) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return self.to(dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor in {dtype.name}; itself if it has that dtype."
    return by_shape(method)


bool_, byte, char = _in("bool", dt.bool_), _in("byte", dt.uint8), _in("char", dt.int8)
short, int_, long = _in("short", dt.int16), _in("int", dt.int32), _in("long", dt.int64)
half, bfloat16 = _in("half", dt.float16), _in("bfloat16", dt.bfloat16)
float_, double = _in("float", dt.float32), _in("double", dt.float64)


def is_floating_point(input: Any) -> bool:
    """Whether the dtype is a floating one."""
    floating: bool = input.dtype.is_floating
    return floating


def is_complex(input: Any) -> bool:
    """False: there are no complex tensors."""
    return False


def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers."""
    return bool(input.dtype.is_signed)
