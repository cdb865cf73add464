"""Arrays made of what users give as data."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from staticflow.eager.no_values import refuse_no_values
from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dtypes import BY_PYTHON, DType, dtype_of, get_default_dtype, promote
from staticflow.graph.library_arrays import array_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.foreign import is_of_library
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["array_from"]


def array_from(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """A copy of ``data``, which are numbers, nested lists of them, an array or a tensor, of which
    Python's floats become the default dtype.

    Raises `DTypeError` for what is no number, `ShapeError` for rows of several lengths.
    """
    refuse_masked(data)
    _refuse_symbols(data)
    convert = thread.state.run  # numbers too large for a dtype are infinite in it
    wanted = None if dtype is None else dtype_of(dtype).numpy
    if isinstance(data, eager.tensor):
        data = data._data
        refuse_no_values("tensor", (data,))
    if isinstance(data, np.ndarray | np.generic):
        given: np.ndarray[Any, Any] = convert(np.array, data, wanted or dtype_of(data.dtype).numpy)
        return given
    if isinstance(data, list | tuple):
        data = [d.cpu()._data if isinstance(d, eager.tensor) else d for d in data]
    elif is_of_library(data):
        data = array_of(data, "tensor")
        given = convert(np.array, data, wanted or dtype_of(data.dtype).numpy)
        return given
    try:
        array: np.ndarray[Any, Any] = convert(np.array, data, wanted)
    except (OverflowError, ValueError) as error:
        uneven = _uneven(data) if "inhomogeneous" in str(error) else ""
        if uneven:
            raise ShapeError(
                f"tensor: {uneven}; all entries of a list must be of one shape: pad them, or keep "
                f"a list of tensors, at {format_locs(here())}"
            ) from None
        raise DTypeError(f"tensor: {error}, at {format_locs(here())}") from None
    if array.dtype.kind in "OSU":
        raise DTypeError(
            f"tensor: {reprlib.repr(data)} is not made of numbers; give numbers, nested "
            f"lists of them, an array or a tensor, at {format_locs(here())}"
        )
    if wanted is None and array.dtype == np.float64:
        array = convert(np.asarray, array, _floating_of(data).numpy)
    dtype_of(array.dtype)
    return array


def _uneven(data: Any, path: str = "data") -> str:
    """Which two entries of a list of nested lists and arrays have not one shape, in words; nothing
    if all have.

    >>> _uneven([[[1, 2]], [[1], 3]])
    'data[1][0] has shape [1] and data[1][1] []'
    """
    if not isinstance(data, list | tuple):
        return ""
    for i, entry in enumerate(data):
        inside = _uneven(entry, f"{path}[{i}]")
        if inside:
            return inside
        first, this = _shape(data[0]), _shape(entry)
        if this != first:
            return f"{path}[0] has shape {first} and {path}[{i}] {this}"
    return ""


def _shape(data: Any) -> list[int]:
    """The shape of an entry whose own entries are alike."""
    if not isinstance(data, list | tuple):
        return list(getattr(data, "shape", ()))
    return [len(data), *(_shape(data[0]) if data else [])]


def _refuse_symbols(data: Any) -> None:
    """Raise `SymbolicError` for a symbol, or one in a list, whose values only the run can tell."""
    among = isinstance(data, list | tuple)
    if any(isinstance(d, Symbol) for d in (data if among else (data,))):
        how = "sf.stack of them all" if among else "the symbol itself, or a clone of it"
        raise SymbolicError(
            "tensor: takes values, and those of a symbol are known only when the program runs; "
            f"take {how}, at {format_locs(here())}"
        )


def _dtypes_in(data: Any) -> set[DType]:
    """The dtypes of what is in nested lists; Python's floats have the default one."""
    if not isinstance(data, list | tuple):
        own = getattr(data, "dtype", None)
        return {BY_PYTHON.get(type(data), get_default_dtype()) if own is None else dtype_of(own)}
    kinds = set(map(type, data))
    if kinds.issubset(BY_PYTHON):
        return {BY_PYTHON[kind] for kind in kinds}
    return set().union(*map(_dtypes_in, data))


def _floating_of(data: Any) -> DType:
    """The dtype of nested lists in which NumPy finds float64, as it does beside integers, too."""
    dtypes = _dtypes_in(data)
    dtype = promote(dtypes) if dtypes else get_default_dtype()
    if not dtype.is_floating:
        raise DTypeError(f"tensor: an integer that int64 cannot hold, at {format_locs(here())}")
    return dtype
