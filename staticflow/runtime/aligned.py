"""Large arrays that programs make begin where a line of the cache does.

NumPy's own begin 16 bytes behind, so that every vector that is stored touches two lines, and ``x +
y`` of a million numbers takes half as long again. Such an array is made of memory of ours, and owns
it as others own theirs: it remembers the handler of memory (NEP 49) that it came from.

The handler is not exchanged while an array is made, as NEP 49 has it. That sets a context
variable, in the midst of which CPython 3.11 may collect garbage; where a finalizer then sets one,
too, it goes on in memory that is free.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from staticflow.native import cpython
from staticflow.native.cpython import Array, array_type
from staticflow.native.language import (
    Byte,
    Fixed,
    Int32,
    Object,
    Owned,
    Record,
    Row,
    constant,
    export,
    external,
    hold,
    trust,
    unsigned_less,
)
from staticflow.native.layout import Layout, structure
from staticflow.runtime.block_cache import kept_functions
from staticflow.runtime.native import NativeModule, compile_native, native_text
from staticflow.runtime.object_layout import (
    ALIGNED,
    ARRAYS,
    CONTIGUOUS,
    OWNDATA,
    WRITEABLE,
    c_symbols,
    has_known_layout,
    numpy_table,
)
from staticflow.runtime.once import once

__all__ = [
    "ALIGNED_FROM", "Handler", "aligned_array_address", "aligned_empty", "aligned_handler",
    "default_handler",
]  # fmt: skip

ALIGNED_FROM = 1 << 16
"""Bytes from which on it is worth the place."""

_NAME = b"mem_handler"
_DEFAULT_HANDLER = 306  # in NumPy's table
TRACED = 389047  # numpy.lib.tracemalloc_domain
OF_NEW_ARRAYS = CONTIGUOUS | ALIGNED | WRITEABLE


class Handler(Record):
    """NumPy's ``PyDataMem_Handler``. Each function is given ``context`` first."""

    name: Annotated[Row[Byte], Fixed(127)]
    version: Byte
    context: object
    malloc: Callable[[object, int], Row[Byte] | None]
    calloc: Callable[[object, int, int], Row[Byte] | None]
    realloc: Callable[[object, Row[Byte], int], Row[Byte] | None]
    free: Callable[[object, Row[Byte], int], None]


handler = constant(Handler, "handler")
capsule = constant(Object, "capsule")


@external(runs=False)
def PyTraceMalloc_Track(domain: Int32, memory: Row[Byte], size: int) -> Int32:
    """Let `tracemalloc` know of memory."""
    raise NotImplementedError


@export
def aligned_array(ndim: Int32, sizes: Row[int], descr: Object, size: int) -> Owned[Array | None]:
    """An array of so many dims and bytes, in memory of the handler if it is large; null with an
    error set."""
    if unsigned_less(size, ALIGNED_FROM):
        return cpython.PyArray_Empty(ndim, sizes, hold(descr), 0)
    context = handler.context
    given = handler.malloc(context, size)
    if given is None:  # NumPy says what it has no memory for
        return cpython.PyArray_Empty(ndim, sizes, hold(descr), 0)
    memory = trust(given, Row[Byte], "nobody else knows it")
    made = cpython.PyArray_NewFromDescr(
        array_type, hold(descr), ndim, sizes, None, memory, OF_NEW_ARRAYS, None
    )
    if made is None:
        handler.free(context, memory, size)
        return None
    made.mem_handler = hold(capsule)
    made.flags |= OWNDATA
    PyTraceMalloc_Track(TRACED, memory, size)
    return made


def aligned_empty(shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """``np.empty``, in such memory."""
    dtype = np.dtype(dtype)
    bytes_ = math.prod(shape) * dtype.itemsize
    if not ALIGNED_FROM <= bytes_ < 1 << 62 or min(shape) < 0 or not has_known_layout():
        return np.empty(shape, dtype)
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    made: np.ndarray[Any, Any] = _make()(len(shape), ctypes.addressof(sizes), dtype, bytes_)
    return made


@once
def _make() -> Any:
    kinds = ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int64
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)
    return make(aligned_array_address())


def aligned_array_address() -> int:
    """The address of `aligned_array`, which is compiled for this."""
    return _module().address(aligned_array.__name__)


def default_handler() -> int:
    """The address of the handler of NumPy's own memory."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    capsule = ctypes.c_void_p.from_address(numpy_table()[_DEFAULT_HANDLER]).value
    return int(pointer(capsule, _NAME))


@once
def aligned_handler() -> int:
    """The address of the handler of arrays that begin where a line of the cache does. It is never
    freed: an array may outlive everything."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    size = ctypes.sizeof(structure(Handler))
    own: int = libc.malloc(ctypes.c_size_t(size))
    ctypes.memmove(own, default_handler(), size)
    record = structure(Handler).from_address(own)
    record.name[:] = b"lines of the cache".ljust(len(record.name), b"\0")
    if hasattr(libc, "memalign"):
        record.context = None
        record.malloc, record.calloc, record.realloc, record.free = kept_functions()
    return own


@once
def _module() -> NativeModule:
    """The code. The capsule of its handler is never freed, nor is that."""
    kinds = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    new_capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, *kinds)(("PyCapsule_New", ctypes.pythonapi))
    own = aligned_handler()
    text = native_text([aligned_array], Layout(ARRAYS))
    symbols = {"handler": own, "capsule": new_capsule(own, _NAME, None), **c_symbols(text)}
    return compile_native(text, [aligned_array.__name__], symbols)
