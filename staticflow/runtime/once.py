"""Locks around what is compiled, and what is made once in a process."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["new_lock", "once"]

T = TypeVar("T")


def new_lock() -> Any:
    """A lock that its holder may take again, since a finalizer or a handler of a signal may compute
    in the midst, and that nobody holds in a forked child."""
    lock: Any = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock


_making = new_lock()


def once(make: Callable[[], T]) -> Callable[[], T]:
    """``make``, called when its value is first asked for and then no more, even if several threads
    ask at a time; `functools.lru_cache` lets each of them make one, and drops all but one, to which
    others may point already."""
    made: list[T] = []

    @functools.wraps(make)
    def get() -> T:
        if not made:
            with _making:
                if not made:
                    made.append(make())
        return made[0]

    return get
