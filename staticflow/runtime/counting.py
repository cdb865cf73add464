"""The memory of all arrays and programs of this process, counted as it is allocated and freed.

While `count_allocations` is on, the handlers of NumPy's memory (NEP 49), NumPy's own and that of
`aligned`, call functions of this module, which call those that were there; so each array is
counted, in bytes, whoever makes it. Off, arrays cost nothing more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.errors import ProfileError
from staticflow.graph.locs import format_locs, here
from staticflow.native.language import Record, address, export
from staticflow.native.layout import Layout, structure
from staticflow.runtime.aligned import Handler, aligned_handler, default_handler
from staticflow.runtime.allocations import (
    Entry,
    Log,
    log_record,
    log_symbols,
    note,
    note_block,
)
from staticflow.runtime.c_memory import Memory
from staticflow.runtime.native import compile_native, native_text
from staticflow.runtime.once import once

__all__ = ["MOST_ENTRIES", "Allocations", "count_allocations"]

MOST_ENTRIES = 1 << 20
"""Allocations and frees that are written down one by one."""


class Functions(Record):
    """What a handler of NumPy's memory calls, and with what."""

    context: object
    malloc: Callable[[object, int], Memory]
    calloc: Callable[[object, int, int], Memory]
    realloc: Callable[[object, Memory, int], Memory]
    free: Callable[[object, Memory, int], None]


@export
def counted_malloc(own: Functions, size: int) -> Memory:
    """Memory from the handler's own function."""
    memory = own.malloc(own.context, size)
    if memory is not None:
        note(address(memory), size)
    return memory


@export
def counted_calloc(own: Functions, count: int, size: int) -> Memory:
    """Memory of zeros from the handler's own function."""
    memory = own.calloc(own.context, count, size)
    if memory is not None:
        note(address(memory), count * size)
    return memory


@export
def counted_realloc(own: Functions, memory: Memory, size: int) -> Memory:
    """Memory of another size from the handler's own function. NumPy does not say how much it was:
    that is counted as the C library has it, a few bytes more."""
    note_block(memory, -1)
    moved = own.realloc(own.context, memory, size)
    if moved is not None:
        note(address(moved), size)
    return moved


@export
def counted_free(own: Functions, memory: Memory, size: int) -> None:
    """Give memory back by the handler's own function."""
    if memory is not None:
        note(address(memory), -size)
    own.free(own.context, memory, size)


_COUNTING = (counted_malloc, counted_calloc, counted_realloc, counted_free)

# -- as Python has it ----------------------------------------------------------------------------


class Allocations:
    """What was allocated since counting began, in bytes; it is read while counting is on, and stays
    as it was at the end."""

    def __init__(self, record: Any, rows: Any) -> None:
        self._record, self._rows = record, rows

    @property
    def in_use(self) -> int:
        """The bytes in use, beyond those that were in use as counting began."""
        return int(self._record.held)

    @property
    def peak(self) -> int:
        """The most bytes that were in use, beyond those that were as counting began."""
        return int(self._record.peak)

    @property
    def least(self) -> int:
        """The fewest bytes that were in use, beyond those that were as counting began: below 0
        where some of these were freed."""
        return int(self._record.least)

    @property
    def count(self) -> int:
        """How many allocations and frees there were."""
        return int(self._record.length)

    def sizes(self) -> np.ndarray[Any, Any]:
        """The sizes of the entries alone, int64."""
        words = np.frombuffer(self._rows, np.int64).reshape(-1, 2)
        return words[: self.count, 1].copy()

    def entries(self) -> list[tuple[int, int]]:
        """The address and the size of each allocation, and of each free, whose size is negative.
        Of more than `MOST_ENTRIES` the first."""
        return [(row.address, row.size) for row in self._rows[: self.count]]


@contextmanager
def count_allocations() -> Iterator[Allocations]:
    """Count the memory of all arrays and programs of this process, whatever the thread, in a block.

    One block can count at a time: raises `ProfileError` in another. What NumPy allocates through a
    handler of memory that the user has set is not counted.

    >>> import numpy as np
    >>> with count_allocations() as found:
    ...     large = np.empty(1000)
    ...     del large
    >>> found.peak, found.in_use, found.entries()[0][1]
    (8000, 0, 8000)
    """
    record = log_record()
    if record.counts:
        raise ProfileError(
            "memory is counted already, by a profile or another measurement that has not ended; "
            f"end that first, at {format_locs(here())}"
        )
    rows = (structure(Entry) * MOST_ENTRIES)()  # of zeros, which take no memory as yet
    record.held = record.peak = record.least = record.length = 0
    record.entries, record.room = ctypes.addressof(rows), MOST_ENTRIES
    own = structure(Log)()
    found = Allocations(record, rows)
    handlers = _handlers()
    try:
        record.counts = 1
        for handler, _, counting in handlers:
            handler.malloc, handler.calloc, handler.realloc, handler.free = counting
        yield found
    finally:
        for handler, functions, _ in handlers:
            handler.malloc, handler.calloc = functions.malloc, functions.calloc
            handler.realloc, handler.free = functions.realloc, functions.free
        record.counts = 0
        ctypes.memmove(ctypes.byref(own), ctypes.byref(record), ctypes.sizeof(own))
        found._record = own
        record.room = 0


@once
def _handlers() -> list[tuple[Any, Any, Sequence[int]]]:
    """The handlers of NumPy's memory, each with its own functions and those that count.

    The context of a handler comes to be what its own functions are; these take no notice of it.
    """
    text = native_text(_COUNTING, Layout())
    names = [fn.__name__ for fn in _COUNTING]
    module = compile_native(text, names, log_symbols(), quick=True)
    module.stay()
    counting = [module.address(name) for name in names]
    found: list[tuple[Any, Any, Sequence[int]]] = []
    for at in (default_handler(), aligned_handler()):
        handler = structure(Handler).from_address(at)
        functions = structure(Functions)(
            handler.context, handler.malloc, handler.calloc, handler.realloc, handler.free
        )
        handler.context = ctypes.addressof(functions)
        found.append((handler, functions, counting))
    return found
