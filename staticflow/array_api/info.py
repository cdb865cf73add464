"""What the namespace says of itself: its devices, dtypes and limits."""

from __future__ import annotations

from typing import Any

from staticflow.array_api.dtypes import KINDS, isdtype
from staticflow.eager.accelerator import device_count
from staticflow.eager.device import find_device
from staticflow.graph.device import device as Device
from staticflow.graph.dtypes import DTYPES, DType, bfloat16, float16, get_default_dtype, int64

__all__ = ["Info", "__array_namespace_info__"]

_BEYOND = (float16, bfloat16)
"""Dtypes that are not of the standard."""


class Info:
    """What `__array_namespace_info__` gives."""

    def capabilities(self) -> dict[str, Any]:
        """What shapes may follow from values, and how many dims an array has at most."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device of arrays that are made without another."""
        return Device("cpu")

    def devices(self) -> tuple[Device, ...]:
        """The devices that arrays can be on."""
        return Device("cpu"), *(Device("cuda", i) for i in range(device_count()))

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of arrays that are made without another. There is none for "complex floating",
        as no dtype is complex."""
        find_device(device)
        return {"real floating": get_default_dtype(), "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of the standard that there are, by name; with ``kind`` those of one of its
        kinds, or of a tuple of them."""
        find_device(device)
        kinds = tuple(KINDS) if kind is None else kind
        return {d.name: d for d in DTYPES if d not in _BEYOND and isdtype(d, kinds)}


def __array_namespace_info__() -> Info:
    """An object that says what devices and dtypes there are.

    >>> __array_namespace_info__().default_dtypes()["integral"]
    staticflow.int64
    """
    return Info()
