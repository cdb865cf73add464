"""The log of what is allocated and freed, and the memory of native programs, which is in it.

Programs allocate their arenas and growing buffers by functions of this module. These look whether
anybody counts (`staticflow.runtime.counting`): where nobody does, an arena costs a jump more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from staticflow.native.language import (
    Atomic,
    Byte,
    Int32,
    Record,
    Row,
    address,
    constant,
    export,
    external,
    native,
)
from staticflow.native.layout import structure
from staticflow.runtime.c_memory import Memory, free, realloc
from staticflow.runtime.once import once

__all__ = [
    "MEMORY_OF_PROGRAMS", "Entry", "Log", "log_record", "log_symbols",
    "note", "note_block",
]  # fmt: skip


class Entry(Record):
    """An allocation, or a free, whose size is negative."""

    address: int
    size: int


class Log(Record, shared=True):
    """What was allocated since counting began: the bytes in use (below 0 where more was freed than
    allocated), the most and the least that were, and the first ``room`` of so many ``entries``."""

    counts: Atomic[Int32]
    held: Atomic[int]
    peak: Atomic[int]
    least: Atomic[int]
    length: Atomic[int]
    room: int
    entries: Row[Entry]


log = constant(Log, "allocations")

# -- of C ----------------------------------------------------------------------------------------


@external(runs=False)
def aligned_alloc(alignment: int, size: int) -> Memory:
    """Memory that begins at a multiple of ``alignment``; null if there is not so much."""
    raise NotImplementedError


@external(runs=False)
def malloc_usable_size(memory: Row[Byte] | None) -> int:
    """The bytes of a block of memory, 0 of null."""
    raise NotImplementedError


# -- the log -------------------------------------------------------------------------------------


@native
def note(at: int, size: int) -> None:
    """Write down that ``size`` bytes at an address are in use, or no more if that is negative."""
    held = log.held.fetch_add(size, "relaxed") + size
    most = log.peak.load("relaxed")
    while held > most and not log.peak.compare_exchange(most, held, "relaxed"):
        most = log.peak.load("relaxed")
    least = log.least.load("relaxed")
    while held < least and not log.least.compare_exchange(least, held, "relaxed"):
        least = log.least.load("relaxed")
    place = log.length.fetch_add(1, "relaxed")
    if place < log.room:
        entry = log.entries[place]
        entry.address = at
        entry.size = size


# -- the memory of programs ----------------------------------------------------------------------


@native
def note_block(memory: Row[Byte] | None, sign: int) -> None:
    """Write down a block, which may be null, as the C library has it, if anybody counts."""
    if memory is not None and log.counts.load("relaxed") != 0:
        note(address(memory), sign * malloc_usable_size(memory))


@export
def program_aligned_alloc(alignment: int, size: int) -> Memory:
    """What `aligned_alloc` gives."""
    memory = aligned_alloc(alignment, size)
    note_block(memory, 1)
    return memory


@export
def program_realloc(memory: Memory, size: int) -> Memory:
    """What `realloc` gives. Where there is no memory, the block that stays is counted no more."""
    note_block(memory, -1)
    moved = realloc(memory, size)
    note_block(moved, 1)
    return moved


@export
def program_free(memory: Memory) -> None:
    """What `free` does."""
    note_block(memory, -1)
    free(memory)


MEMORY_OF_PROGRAMS: Mapping[str, Callable[..., Any]] = {
    "aligned_alloc": program_aligned_alloc, "realloc": program_realloc, "free": program_free,
}  # fmt: skip
"""What stands in native programs for these functions of C."""

# -- as Python has it ----------------------------------------------------------------------------


@once
def log_record() -> Any:
    """The log, which lies where native code looks for it as long as the process lives."""
    return structure(Log)()


def log_symbols() -> dict[str, int]:
    """Where native code finds the log."""
    return {"allocations": ctypes.addressof(log_record())}
