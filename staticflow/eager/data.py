"""Arrays made of what users give as data."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from staticflow.eager.mode import EAGER
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import dtype_of, get_default_dtype
from staticflow.graph.locs import format_locs, here

__all__ = ["array_from"]


def array_from(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """A copy of ``data``, which are numbers, nested lists of them, an array or a tensor, of which
    Python's floats become the default dtype.

    Raises `DTypeError` for what is no number, `ShapeError` for rows of several lengths.
    """
    wanted = None if dtype is None else dtype_of(dtype).numpy
    if isinstance(data, EAGER.tensor):
        data = data._data
    if isinstance(data, np.ndarray | np.generic):
        return np.array(data, dtype=wanted or dtype_of(data.dtype).numpy)
    if isinstance(data, list | tuple):
        data = [d._data if isinstance(d, EAGER.tensor) else d for d in data]
    try:
        array = np.array(data, dtype=wanted)
    except (OverflowError, ValueError) as error:
        kind = ShapeError if "inhomogeneous" in str(error) else DTypeError
        raise kind(f"tensor: {error}, at {format_locs(here())}") from None
    if array.dtype.kind in "OSU":
        raise DTypeError(
            f"tensor: {reprlib.repr(data)} is not made of numbers; give numbers, nested "
            f"lists of them, an array or a tensor, at {format_locs(here())}"
        )
    if wanted is None and array.dtype == np.float64 and not _is_numpy_inside(data):
        array = array.astype(get_default_dtype().numpy)
    dtype_of(array.dtype)
    return array


def _is_numpy_inside(data: Any) -> bool:
    """Whether nested lists hold NumPy's numbers, which have a dtype; Python's have none."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return isinstance(data, np.ndarray | np.generic)
