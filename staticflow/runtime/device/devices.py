"""The devices of this process by the numbers of their GPUs."""

from __future__ import annotations

from staticflow.runtime.device.cupy_device import CupyDevice
from staticflow.runtime.device.interface import Device

__all__ = ["OPEN", "open_device"]

OPEN: dict[int, Device] = {}
"""Those that a program has asked for."""


def open_device(index: int) -> Device:
    """The device of a GPU that can be used."""
    if index not in OPEN:
        OPEN[index] = CupyDevice(index)
    return OPEN[index]
