"""Python's numbers as elements of a dtype: PyTorch's two rules, for both modes.

What meets a tensor in arithmetic wraps around (`wrap`), as the arithmetic of integers does; what
is stored must fit (`fitting`). ``what`` is the operation, for the messages.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import format_locs, here

__all__ = ["Number", "fitting", "unwrap_integer", "wrap"]

Number = bool | int | float


def unwrap_integer(value: Any) -> Any:
    """An integer of NumPy's as Python's, and whatever else as it is.

    >>> unwrap_integer(np.int64(3)), unwrap_integer(True), unwrap_integer(0.5)
    (3, True, 0.5)
    """
    return int(value) if isinstance(value, np.integer) else value


@cache
def _range(dtype: DType) -> tuple[int, int]:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def wrap(value: int, dtype: DType, what: str) -> int:
    """``value`` modulo 2**bits of the integer ``dtype``. Raises `DTypeError` for what 64 bits
    cannot hold.

    >>> from staticflow.graph.dtypes import int8, uint8
    >>> wrap(300, uint8, "add"), wrap(200, int8, "add")
    (44, -56)
    """
    if not -(2**63) <= value < 2**64:
        raise DTypeError(
            f"{what}: the number {value} has more than 64 bits; use a float, "
            f"at {format_locs(here())}"
        )
    low, _ = _range(dtype)
    return (value - low) % (1 << dtype.bits) + low


def fitting(value: Number, dtype: DType, what: str) -> Number:
    """``value`` as an element of ``dtype``: floats are cut to integers, and -1 is the largest
    number without a sign. Raises `DTypeError` for what an integer dtype cannot hold.

    >>> from staticflow.graph.dtypes import uint8
    >>> fitting(1.5, uint8, "full"), fitting(-1, uint8, "full")
    (1, 255)
    """
    if dtype.kind == "b":
        return bool(value)
    try:
        if dtype.is_floating:
            return float(value)
        low, high = _range(dtype)
        whole = int(value)
        if (low or -high) <= whole <= high:
            return whole if whole >= low else wrap(whole, dtype, what)
    except (OverflowError, ValueError):  # 10**400 as a float; infinity or NaN as an integer
        pass
    raise DTypeError(
        f"{what}: the number {value} does not fit {dtype.name}; use a wider dtype, "
        f"at {format_locs(here())}"
    )
