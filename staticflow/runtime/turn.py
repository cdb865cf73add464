"""Programs that update variables take turns, for two of them may update the same ones.

An update that holds the lock of the interpreter from its first step to its last is alone anyway. So
only one that lets other threads run in the midst takes the lock here; any other just looks whether
someone is at it.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from staticflow.runtime.once import Lock
from staticflow.runtime.sealed import Sealed

__all__ = ["Turn", "updating"]


class Turn(Sealed):
    """A `Lock`, and how often it is held or waited for: native code reads that while it holds the
    lock of the interpreter, under which alone it changes.

    ``with updating, updating.lock`` takes the turn. What is counted twice, as an interrupt came
    between the two, costs the native code a look at the lock, and no more.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self._held = ctypes.c_int64(0)
        os.register_at_fork(after_in_child=functools.partial(setattr, self._held, "value", 0))

    def __enter__(self) -> None:
        self._held.value += 1  # before: as the lock is taken, another thread of Python may run

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._held.value -= 1

    @contextmanager
    def give_way(self) -> Iterator[None]:
        """A block in which other threads may update variables, though this one is in the midst of
        an update: it waits for what they send."""
        if not self.lock._is_owned():
            yield
            return
        held = self.lock._release_save()
        self._held.value -= held[0]
        try:
            yield
        finally:
            self.lock._acquire_restore(held)
            self._held.value += held[0]

    def symbols(self) -> dict[str, int]:
        """The addresses by which native code takes its turn, alive as long as this object."""
        return {
            "turn_acquire": id(self._acquire),
            "turn_release": id(self._release),
            "turn_held": ctypes.addressof(self._held),
        }


updating = Turn()
"""The turns of all programs of the process."""
