"""NumPy's masked arrays, whose masks no tensor keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here

__all__ = ["refuse_masked"]


def refuse_masked(data: Any) -> None:
    """Raise `DTypeError` for a masked array of which an element is masked, also one in a list."""
    if type(data) is np.ndarray:
        return
    if isinstance(data, list | tuple):
        if any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, data))):
            for part in data:
                refuse_masked(part)
    elif isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        raise DTypeError(
            f"a masked array of shape {list(data.shape)} has masked elements, and a tensor has no "
            "mask; give array.filled(value), or array.compressed() without them, "
            f"at {format_locs(here())}"
        )
