"""The garbage collector of Python, put off while something is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collection"]


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
