"""What makers say of devices, for plans of machines that are not here."""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.data_classes import dataclass

__all__ = ["DEVICES", "Device"]


@dataclass(frozen=True, slots=True)
class Device:
    """What the data sheet of a device says: operations a second on float32 without tensor cores,
    bytes a second of its memory, bytes that this holds, and bytes that the device sends to the
    others of its machine in a second, which is half of what is said to go both ways. No data sheet
    says how long a message takes."""

    name: str
    flops_per_second: float
    bytes_per_second: float
    memory: float
    sent_per_second: float


DEVICES: Mapping[str, Device] = {
    "A100": Device("NVIDIA A100 80GB SXM", 19.5e12, 2.039e12, 80e9, 300e9),
    "H100": Device("NVIDIA H100 SXM", 67e12, 3.35e12, 80e9, 450e9),
    "H200": Device("NVIDIA H200 SXM", 67e12, 4.8e12, 141e9, 450e9),
}
"""Devices by the name that ``plan-cluster --device`` takes."""
