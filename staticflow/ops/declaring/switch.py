"""Switches: arguments that are True or False, and are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.foreign import kind_of

__all__ = ["as_bool"]


def as_bool(what: str, value: Any) -> bool:
    """``value``, a bool or an integer, as a bool, before anything is set to it.

    Raises `DTypeError`, which calls the argument ``what``, for any other value, also where Python
    would find it true: what a thread or a module is in must not depend on an array.

    >>> as_bool("set_grad_enabled: 'mode'", 1)
    True
    """
    if isinstance(value, bool | int | np.bool_):
        return bool(value)
    raise DTypeError(
        f"{what} must be bool, not {kind_of(value)}, at {format_locs(here())}", value, "bool"
    )
