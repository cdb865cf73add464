"""What can be asked of tensors, symbols and dtypes without computing."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import DType, dtype_of, get_default_dtype, promote
from staticflow.graph.locs import format_locs, here
from staticflow.graph.open_size import equals
from staticflow.graph.types import Shape
from staticflow.ops.basics.expand import common_shape
from staticflow.ops.declaring import promote as operands
from staticflow.ops.declaring.sizes import as_shape

__all__ = [
    "FloatLimits", "IntegerLimits", "broadcast_shapes", "can_cast", "finfo", "iinfo", "is_nonzero",
    "is_same_size", "is_tensor", "numel", "promote_types", "result_type",
]  # fmt: skip


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor or a symbol."""
    return hasattr(obj, "__sf_mode__")


def numel(input: Any) -> Size:
    """The number of elements."""
    return prod(input.shape)


def is_same_size(input: Any, other: Any) -> bool:
    """Whether the shapes are the same. Raises `SymbolicError` where only the run can tell."""
    return input.ndim == other.ndim and all(map(equals, input.shape, other.shape))


def is_nonzero(input: Any) -> bool:
    """Whether the one element of ``input`` is not zero."""
    if not equals(numel(input), 1):
        raise ShapeError(
            f"is_nonzero: of a tensor of shape {list(input.shape)}; one element is needed, "
            f"at {format_locs(here())}"
        )
    return bool(input != 0)


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape in which tensors of ``shapes`` (or 1-d ones of these sizes) meet.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = [as_shape(s) for s in shapes]
    return common_shape(given, "broadcast_shapes") if given else ()


# -- dtypes -------------------------------------------------------------------------------------


def promote_types(type1: Any, type2: Any) -> DType:
    """The dtype in which tensors of two dtypes meet.

    >>> promote_types("int32", "float16")
    staticflow.float16
    """
    return promote((dtype_of(type1), dtype_of(type2)))


def result_type(*tensors: Any) -> DType:
    """The dtype in which ``tensors`` (tensors, symbols and numbers, also in one list) meet.

    >>> import staticflow as sf
    >>> result_type(sf.ones(2, dtype="float16"), 2.5)
    staticflow.float16
    """
    several = len(tensors) != 1 or not isinstance(tensors[0], list | tuple)
    return operands.result_type(tensors if several else tensors[0])


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a cast keeps the category: no float becomes an integer, and no number a bool.

    >>> can_cast("float64", "float32"), can_cast("float32", "int64")
    (True, False)
    """
    return dtype_of(from_).category <= dtype_of(to).category


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """What a floating dtype can hold: ``eps`` from 1 to the next number, ``tiny`` the smallest with
    all digits, ``resolution`` of decimal digits, ``dtype`` its name, or in the array API itself."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: Any


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """What an integer dtype can hold."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any = None) -> FloatLimits:
    """The limits of a floating dtype, by default the default one.

    >>> finfo("float32").eps
    1.1920928955078125e-07
    """
    dtype = get_default_dtype() if type is None else dtype_of(type)
    if not dtype.is_floating:
        raise DTypeError(
            f"finfo: {dtype.name} is not floating; use iinfo, at {format_locs(here())}"
        )
    of: Any = ml_dtypes.finfo
    info = of(dtype.numpy)
    tiny = float(info.smallest_normal)
    ends = float(info.eps), float(info.max), float(info.min), tiny, tiny
    return FloatLimits(dtype.bits, *ends, float(info.resolution), dtype.name)


def iinfo(type: Any) -> IntegerLimits:
    """The limits of an integer dtype.

    >>> iinfo("int8").max
    127
    """
    dtype = dtype_of(type)
    if dtype.kind not in "iu":
        raise DTypeError(f"iinfo: {dtype.name} is no integer, at {format_locs(here())}")
    info = np.iinfo(dtype.numpy)
    return IntegerLimits(dtype.bits, int(info.max), int(info.min), dtype.name)
