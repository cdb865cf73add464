"""The memory that large arrays leave, kept for those that come after.

The system clears pages as they are first touched, which takes as long as to add two arrays, and
takes the largest blocks back as soon as they are freed. So a few of the blocks that were freed last
are kept, and an array of the same size gets the latest of them. All of it is native functions for
the handler of NumPy's memory (`aligned`); whoever finds them at work, which is possible only where
NumPy does not hold the interpreter's lock, asks the system.
"""

from __future__ import annotations

import ctypes

from staticflow.native.language import (
    Atomic,
    Int32,
    Record,
    address,
    export,
    external,
    native,
    take,
    unsigned_less,
    variable,
    variables,
)
from staticflow.native.layout import Layout
from staticflow.runtime.c_memory import Memory, free, realloc
from staticflow.runtime.native import NativeModule, compile_native, native_text
from staticflow.runtime.once import once

__all__ = ["HUGE_FROM", "KEPT_FROM", "MOST_KEPT", "kept_functions", "read_kept_bytes"]

KEPT_FROM = 1 << 16
"""Bytes of the smallest blocks that are kept. The C library gives the system all of its free memory
beyond 128 KiB back that nothing stands behind: of two arrays of 400,000 bytes each that are made
and freed again and again, every page is cleared each time, half a millisecond of it."""

MOST_KEPT = 1 << 28
"""Bytes that are kept at most."""

BLOCKS = 64  # that are kept; a power of two
LINE = 64  # bytes of a line of the cache
HUGE_FROM = 1 << 22
"""Bytes from which on Linux is asked for pages of two megabytes, as NumPy does for its own."""
PAGE, HUGE_PAGES = 4096, 14  # of Linux; the advice MADV_HUGEPAGE


class Block(Record):
    """A block that is kept; null and 0 where there is none."""

    memory: Memory
    size: int


class Ring(Record):
    """Whether somebody is at the blocks, where the next one goes, and the bytes of all."""

    busy: Atomic[Int32]
    next: int
    total: int


ring = variable(Ring, "ring")
blocks = variables(Block, "blocks", BLOCKS)


# -- of C ----------------------------------------------------------------------------------------


@external(runs=False)
def memalign(alignment: int, size: int) -> Memory:
    """Memory that begins at a multiple of ``alignment``; null if there is not so much."""
    raise NotImplementedError


@external(runs=False)
def calloc(count: int, size: int) -> Memory:
    """Memory of zeros; null if there is not so much."""
    raise NotImplementedError


@external(runs=False)
def madvise(start: int, size: int, advice: Int32) -> Int32:
    """Tell the system what pages are for."""
    raise NotImplementedError


# -- the ring ------------------------------------------------------------------------------------


@native
def enter() -> bool:
    """Whether one is alone with the blocks until `leave`."""
    return ring.busy.compare_exchange(0, 1, "acquire")


@native
def leave() -> None:
    """Let others come to the blocks."""
    ring.busy.store(0, "release")


@native
def take_out(block: Block) -> Memory:
    """The memory of a block, which is kept no more; null if there is none."""
    ring.total -= block.size
    block.size = 0
    return take(block.memory)


@native
def find(size: int) -> Memory:
    """The memory of the latest block of so many bytes; null if there is none."""
    for back in range(1, BLOCKS + 1):
        block = blocks[ring.next - back & BLOCKS - 1]
        if block.size == size:
            return take_out(block)
    return None


@native
def put_in(memory: Memory, size: int) -> None:
    """Keep memory in the place of the oldest block, and give back what is too much."""
    block = blocks[ring.next & BLOCKS - 1]
    ring.next += 1
    free(take_out(block))
    block.memory = memory
    block.size = size
    ring.total += size
    oldest = ring.next
    while ring.total > MOST_KEPT:
        free(take_out(blocks[oldest & BLOCKS - 1]))
        oldest += 1


# -- the functions of the handler ----------------------------------------------------------------


@export
def kept_malloc(context: object, size: int) -> Memory:
    """Memory of so many bytes; null if there is not so much."""
    if not unsigned_less(size, KEPT_FROM) and enter():
        memory = find(size)
        leave()
        if memory is not None:
            return memory
    return new_memory(size)


@native
def new_memory(size: int) -> Memory:
    """Memory from the C library, of large pages if it is large."""
    memory = memalign(LINE, size)
    if memory is not None and not unsigned_less(size, HUGE_FROM):
        start = address(memory)
        page = start + PAGE - 1 & -PAGE
        madvise(page, size - (page - start), HUGE_PAGES)
    return memory


@export
def kept_calloc(context: object, count: int, size: int) -> Memory:
    """Memory of zeros; null if there is not so much."""
    return calloc(count, size)


@export
def kept_realloc(context: object, memory: Memory, size: int) -> Memory:
    """Memory of another size with what was in it; null, with nothing done, if there is not so
    much."""
    return realloc(memory, size)


@export
def kept_free(context: object, memory: Memory, size: int) -> None:
    """Keep memory of so many bytes, or give it back."""
    if unsigned_less(size, KEPT_FROM) or unsigned_less(MOST_KEPT, size) or not enter():
        free(memory)
        return
    put_in(memory, size)
    leave()


@export
def kept_bytes() -> int:
    """How much is kept now."""
    return ring.total


FUNCTIONS = (kept_malloc, kept_calloc, kept_realloc, kept_free)

# -- as Python has them --------------------------------------------------------------------------


def kept_functions() -> tuple[int, int, int, int]:
    """The addresses of ``malloc``, ``calloc``, ``realloc`` and ``free`` as the handler of NumPy's
    memory has them: all four are of one kind of memory, the C library's. They stay, since arrays
    are freed until the interpreter has ended."""
    _module().stay()
    malloc, calloc, realloc, free = (_module().address(fn.__name__) for fn in FUNCTIONS)
    return malloc, calloc, realloc, free


def read_kept_bytes() -> int:
    """How much is kept now, in bytes."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(_module().address("kept_bytes"))())


@once
def _module() -> NativeModule:
    libc = ctypes.CDLL(None)
    names = ("memalign", "calloc", "realloc", "free", "madvise")
    symbols = {name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value for name in names}
    functions = (*FUNCTIONS, kept_bytes)
    exports = [fn.__name__ for fn in functions]
    text = native_text(functions, Layout())
    return compile_native(text, exports, {n: a for n, a in symbols.items() if a}, quick=True)
