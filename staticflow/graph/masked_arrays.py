"""NumPy's masked arrays, whose masks no tensor keeps."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here

__all__ = ["has_masked_elements", "is_masked_array", "refuse_masked"]


def is_masked_array(data: Any) -> bool:
    """Whether ``data`` is a masked array; there is none where ``numpy.ma``, which takes a tenth of
    the time to import staticflow, is not imported."""
    return "numpy.ma" in sys.modules and isinstance(data, np.ma.MaskedArray)


def has_masked_elements(data: Any) -> bool:
    """Whether ``data`` is a masked array of which an element is masked."""
    return is_masked_array(data) and bool(np.ma.is_masked(data))


def refuse_masked(data: Any) -> None:
    """Raise `DTypeError` for a masked array of which an element is masked, also one in a list."""
    if type(data) is np.ndarray:
        return
    if isinstance(data, list | tuple):
        masked = "numpy.ma" in sys.modules
        if masked and any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, data))):
            for part in data:
                refuse_masked(part)
    elif has_masked_elements(data):
        raise DTypeError(
            f"a masked array of shape {list(data.shape)} has masked elements, and a tensor has no "
            "mask; give array.filled(value), or array.compressed() without them, "
            f"at {format_locs(here())}"
        )
