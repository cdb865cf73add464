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
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.runtime.block_cache import kept_functions
from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.object_layout import (
    ALIGNED,
    CONTIGUOUS,
    FLAGS,
    MEM_HANDLER,
    OWNDATA,
    WRITEABLE,
    c_symbols,
    has_known_layout,
    numpy_table,
)
from staticflow.runtime.once import once

__all__ = ["ALIGNED_FROM", "aligned_empty", "aligned_symbols"]

ALIGNED_FROM = 1 << 16
"""Bytes from which on it is worth the place."""

_NAME = b"mem_handler"
_DEFAULT_HANDLER = 306  # in NumPy's table
_TRACED = 389047  # numpy.lib.tracemalloc_domain


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``. Each function is given ``context`` first."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


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
    return make(_module().address("aligned_array"))


def aligned_symbols() -> dict[str, int]:
    """The address of ``aligned_array``, which makes such an array of a number of sizes, of a descr
    and of so many bytes; null with an error set if it cannot be had."""
    return {"aligned_array": _module().address("aligned_array")}


@once
def _module() -> NativeModule:
    """The code. Neither its handler nor the capsule of that is ever freed: an array may outlive
    everything."""
    python = ctypes.pythonapi
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", python)
    )
    capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", python)
    )
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    default = ctypes.c_void_p.from_address(numpy_table()[_DEFAULT_HANDLER]).value
    own = libc.malloc(ctypes.c_size_t(ctypes.sizeof(_Handler)))
    ctypes.memmove(own, pointer(default, _NAME), ctypes.sizeof(_Handler))
    handler = _Handler.from_address(own)
    handler.name = b"lines of the cache"
    if hasattr(libc, "memalign"):
        handler.context = None
        handler.malloc, handler.calloc, handler.realloc, handler.free = kept_functions()
    symbols = {"handler": own, "capsule": capsule(own, _NAME, None), **c_symbols(_TEXT)}
    return compile_native(_TEXT, ["aligned_array"], symbols)


_TEXT = f"""
@PyArray_Type = external global i8
@handler = external global i8
@capsule = external global i8
declare void @Py_IncRef(ptr)
declare ptr @PyArray_Empty(i32, ptr, ptr, i32)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @PyTraceMalloc_Track(i32, ptr, i64)

define internal ptr @of_handler(i64 %offset) alwaysinline {{
  %at = getelementptr i8, ptr @handler, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}}

define ptr @aligned_array(i32 %ndim, ptr %sizes, ptr %descr, i64 %bytes) {{
entry:
  call void @Py_IncRef(ptr %descr)  ; which either takes over
  %context = call ptr @of_handler(i64 {_Handler.context.offset})
  %malloc = call ptr @of_handler(i64 {_Handler.malloc.offset})
  %memory = call ptr %malloc(ptr %context, i64 %bytes)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %plain, label %wrap
plain:  ; NumPy says what it has no memory for
  %other = call ptr @PyArray_Empty(i32 %ndim, ptr %sizes, ptr %descr, i32 0)
  ret ptr %other
wrap:
  %new = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %ndim, ptr %sizes,
                                        ptr null, ptr %memory,
                                        i32 {CONTIGUOUS | ALIGNED | WRITEABLE}, ptr null)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %free, label %own
free:
  %release = call ptr @of_handler(i64 {_Handler.free.offset})
  call void %release(ptr %context, ptr %memory, i64 %bytes)
  ret ptr null
own:
  call void @Py_IncRef(ptr @capsule)
  %handler.at = getelementptr i8, ptr %new, i64 {MEM_HANDLER}
  store ptr @capsule, ptr %handler.at
  %flags.at = getelementptr i8, ptr %new, i64 {FLAGS}
  %flags = load i32, ptr %flags.at
  %owned = or i32 %flags, {OWNDATA}
  store i32 %owned, ptr %flags.at
  call i32 @PyTraceMalloc_Track(i32 {_TRACED}, ptr %memory, i64 %bytes)
  ret ptr %new
}}
"""
