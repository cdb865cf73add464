"""Arrays of the host on their way to a device and back: copied to memory that the device reads by
itself, all in one copy, while the host goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.runtime.device.interface import Device

__all__ = ["Staging"]

_ALIGNED = 64
_SIDES = 2
"""Calls whose arrays can be on their way at once: the host waits for the one before those."""


@dataclass(slots=True)
class _Side:
    """Memory of the host, the arrays in it, and the event behind the last copy from or to it."""

    memory: np.ndarray[Any, Any]
    views: Mapping[int, np.ndarray[Any, Any]]
    event: Any


class Staging:
    """Places on a ``device``, one behind the other, for the params that are arrays of the host; of
    those that are ``updated`` the values come back."""

    def __init__(
        self, device: Device, arrays: Mapping[int, np.ndarray[Any, Any]], updated: frozenset[int]
    ) -> None:
        self._device = device
        self._events: list[Any] = []
        self._starts: dict[int, int] = {}
        self._returned = 0
        end = 0
        for i in sorted(arrays, key=lambda i: (i not in updated, i)):
            self._starts[i] = end
            end += -(-arrays[i].nbytes // _ALIGNED) * _ALIGNED
            self._returned = end if i in updated else self._returned
        self.bytes = end
        """The bytes on the device."""
        self._updated = updated & arrays.keys()
        self._place = device.empty([max(end, 1)], np.dtype(np.uint8))
        self._base = device.address(self._place)
        self._sides = [self._make_side(arrays, end) for _ in range(_SIDES)]
        self._back = self._make_side({i: arrays[i] for i in self._updated}, self._returned)
        self._turn = 0

    def _make_side(self, arrays: Mapping[int, np.ndarray[Any, Any]], bytes_: int) -> _Side:
        memory = self._device.pinned_memory(bytes_)
        views = {
            i: memory[self._starts[i] :][: a.nbytes].view(a.dtype).reshape(a.shape)
            for i, a in arrays.items()
        }
        return _Side(memory, views, None)

    def __contains__(self, number: object) -> bool:
        return number in self._starts

    def address(self, number: int) -> int:
        """Where the array of a param lies on the device."""
        return self._base + self._starts[number]

    def send(self, arrays: Sequence[Any]) -> None:
        """Copy those of the ``arrays`` that are the host's to their places; they may be changed at
        once."""
        mine = [i for i in self._starts if isinstance(arrays[i], np.ndarray)]
        if not mine or not self.bytes:
            return
        self._turn = (self._turn + 1) % _SIDES
        side = self._sides[self._turn]
        if side.event is not None:
            self._device.wait(side.event)
        for i in mine:
            side.views[i][...] = arrays[i]
        self._device.send(self._base, side.memory)
        self._record(side)

    def fetch(self) -> None:
        """Ask for what is updated."""
        if self._returned:
            self._device.fetch(self._back.memory, self._base)
            self._record(self._back)

    def _record(self, side: _Side) -> None:
        side.event = self._device.record()
        self._events = [s.event for s in (*self._sides, self._back) if s.event is not None]

    def write_back(self, arrays: Sequence[Any]) -> None:
        """Write what was asked for to the updated of the ``arrays``, once it is there."""
        if not self._returned:
            return
        self._device.wait(self._back.event)
        for i in self._updated:
            arrays[i][...] = self._back.views[i]

    def __del__(self) -> None:
        # the memory of the host may be somebody else's at once
        for event in self._events:
            self._device.wait(event)
