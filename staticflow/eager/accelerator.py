"""``sf.accelerator``: the GPUs by a name that does not say which kind, as in PyTorch."""

from __future__ import annotations

from staticflow.eager.cuda import device_count, synchronize
from staticflow.eager.device import is_available
from staticflow.graph.device import device

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def current_accelerator() -> device | None:
    """The kind of device that is used beside the CPU, None where there is none."""
    return device("cuda") if is_available() else None
