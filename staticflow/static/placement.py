"""The device that a program is compiled for: that of the tensors in it, or the one that is asked
for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from staticflow.eager.device import CPU, find_device
from staticflow.eager.random import GeneratorState
from staticflow.eager.tensor import Tensor
from staticflow.errors import DeviceError
from staticflow.graph.device import device
from staticflow.graph.locs import format_locs, here

__all__ = ["find_place", "may_stand_beside"]


def may_stand_beside(t: Tensor) -> bool:
    """Whether a program on a GPU takes a tensor of the CPU: one without dims, as a learning rate
    or a count of steps is, and the state of a generator. Each call copies them."""
    return t.ndim == 0 or isinstance(t, GeneratorState)


def find_place(tensors: Iterable[Tensor], asked: Any = None) -> device:
    """The one device of ``tensors``, beside which there may be small ones of the CPU, and which is
    the one ``asked`` for, if any is.

    Raises `DeviceError` for tensors of two devices, and for a device that cannot be used.
    """
    wanted = None if asked is None else find_device(asked)
    on_cpu: Tensor | None = None
    found: tuple[Tensor, device] | None = None
    for t in tensors:
        gpu = t.__sf_gpu__
        if gpu is None:
            if on_cpu is None and not may_stand_beside(t):
                on_cpu = t
        elif found is None:
            found = t, gpu
        elif found[1] != gpu:
            _refuse(f"{_name(found[0])} is on {found[1]} and {_name(t)} on {gpu}")
    if found is not None and on_cpu is not None:
        _refuse(f"{_name(found[0])} is on {found[1]} and {_name(on_cpu)} on the CPU")
    have = found[1] if found is not None else CPU if on_cpu is not None else None
    if wanted is not None and have is not None and wanted != have:
        one = found[0] if found is not None else on_cpu
        assert one is not None
        _refuse(f"device is {wanted} and {_name(one)} is on {have}")
    return wanted or have or CPU


def _name(t: Tensor) -> str:
    return f"{t.name or 'a tensor'} of shape {list(t.shape)}"


def _refuse(what: str) -> None:
    raise DeviceError(
        f"compile: {what}; a program runs on one device: move them with .to(device), "
        f"at {format_locs(here())}"
    )
