"""The garbage collector of Python, put off while something is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["take_for_old", "without_collection"]

_OF_PYTHON = 1000
"""CPython 3.12 has frozen 375 objects itself as it begins; a program that freezes has all that
there are by then, 5,000 at least."""


@contextmanager
def without_collection() -> Iterator[None]:
    """The collector waits, as a context or around a function, unless it was off already: graphs,
    kernels and syntax trees are many objects and hardly any of them garbage, so that it would go
    through everything that was imported again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def take_for_old() -> None:
    """Let all objects there are count as old, without going through them: the collector looks at
    old ones seldom. Nothing happens where a program has frozen objects of its own."""
    if gc.get_freeze_count() < _OF_PYTHON:
        gc.freeze()
        gc.unfreeze()
