"""The memory of tensors that have no sizes and no values yet, as those of lazy layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here

__all__ = ["NoValues", "refuse_no_values"]


class NoValues(np.ndarray[Any, Any]):
    """The memory of a tensor whose sizes are not known yet: it has a dtype, and a device on which
    it will be."""

    device_to_be: Any


def refuse_no_values(what: str, arrays: Iterable[Any]) -> None:
    """Raise `ShapeError` if one of the ``arrays`` that ``what`` works on has no values."""
    if NoValues in map(type, arrays):
        raise ShapeError(
            f"{what}: this is a parameter or buffer of a lazy layer, which has no sizes and no "
            "values before the first call of the layer; call it before, on an input of the usual "
            f"sizes, at {format_locs(here())}"
        )
