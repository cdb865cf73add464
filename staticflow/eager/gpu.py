"""Eager operations on a GPU: references with cupy as their array module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.device import CPU, array_device, move, namespace
from staticflow.errors import DeviceError
from staticflow.graph.op import Op

__all__ = ["as_array", "is_writeable", "run", "shares_memory"]


def run(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """What ``op`` gives of arrays of which one at least is on a GPU. A 0-d array of the CPU may
    stand beside them, as in PyTorch; any other mixture is a `DeviceError`."""
    devices = [array_device(a) if hasattr(a, "dtype") else None for a in arrays]
    found = {p for p, a in zip(devices, arrays, strict=True) if p and (p != CPU or a.ndim)}
    if len(found) > 1:
        raise DeviceError(
            f"the operands are on different devices, {' and '.join(sorted(map(str, found)))}; "
            "bring them to one with .to(device)"
        )
    (gpu,) = found
    xp = namespace(gpu)
    with xp.cuda.Device(gpu.index):
        there = [move(a, gpu) if p else a for a, p in zip(arrays, devices, strict=True)]
        return op.reference(xp, *there, **attrs)


def as_array(data: Any) -> Any:
    """An array, on whichever device, also where a function of NumPy gave a scalar."""
    return data if hasattr(data, "__dlpack__") else np.asarray(data)


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two arrays of one device may share memory."""
    return bool(namespace(array_device(a)).may_share_memory(a, b))


def is_writeable(array: Any) -> bool:
    """Whether the elements may be changed; on a GPU always."""
    return bool(getattr(array.flags, "writeable", True))
