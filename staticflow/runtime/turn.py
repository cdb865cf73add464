"""Programs that update variables take turns, for two of them may update the same ones.

An update that holds the lock of the interpreter from its first step to its last is alone anyway. So
only one that lets other threads run in the midst takes the lock here; any other just looks whether
someone is at it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from staticflow.runtime.sealed import Sealed

__all__ = ["Turn", "updating"]


class Turn(Sealed):
    """A lock whose holder may take it again (a finaliser or a handler of a signal may call a
    program too), and how often it is held or waited for: native code reads that while it holds the
    lock of the interpreter, under which alone it changes."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        lock = self._lock
        self._acquire, self._release = lock.acquire, lock.release
        self._held = ctypes.c_int64(0)
        os.register_at_fork(after_in_child=functools.partial(self._start_anew, lock))

    def _start_anew(self, lock: Any) -> None:
        """In a forked child nobody holds the lock, whoever held it in the parent."""
        lock._at_fork_reinit()
        self._held.value = 0

    def __enter__(self) -> None:
        self._held.value += 1  # before: as the lock is taken, another thread of Python may run
        try:
            self._acquire()
        except BaseException:
            self._held.value -= 1
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._held.value -= 1
        self._release()

    @contextmanager
    def give_way(self) -> Iterator[None]:
        """A block in which other threads may update variables, though this one is in the midst of
        an update: it waits for what they send."""
        if not self._lock._is_owned():
            yield
            return
        held = self._lock._release_save()
        self._held.value -= held[0]
        try:
            yield
        finally:
            self._lock._acquire_restore(held)
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
