"""Large arrays that programs make begin where a line of the cache does.

NumPy's own begin 16 bytes behind, so that every vector that is stored touches two lines, and ``x +
y`` of a million numbers takes half as long again. The allocator of NumPy is exchanged while such an
array is made (NEP 49); each array remembers which one it came from.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.runtime.block_cache import kept_functions
from staticflow.runtime.object_layout import numpy_table
from staticflow.runtime.once import once

__all__ = ["ALIGNED_FROM", "aligned_empty", "aligned_symbols"]

ALIGNED_FROM = 1 << 16
"""Bytes from which on it is worth the exchange, a fifth of a microsecond."""

_NAME = b"mem_handler"
_SET_HANDLER, _DEFAULT_HANDLER = 304, 306  # in NumPy's table


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
    exchange, handler = _exchange()
    before = exchange(handler)
    try:
        return np.empty(shape, dtype)
    finally:
        exchange(before)


@once
def _exchange() -> tuple[Any, Any]:
    """NumPy's function that exchanges handlers, and the capsule of ours."""
    symbols = aligned_symbols()
    taken = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
    capsule = ctypes.cast(symbols["aligned_handler"], ctypes.py_object).value
    return taken(symbols["set_handler"]), capsule


@once
def aligned_symbols() -> dict[str, int]:
    """What the native entry needs to make such arrays: NumPy's function that exchanges handlers,
    and a handler, NumPy's own but for its ``malloc`` and ``free``, which are those of
    `block_cache`. Neither the handler nor its capsule is ever freed: an array may outlive
    everything.
    """
    table = numpy_table()
    python = ctypes.pythonapi
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", python)
    )
    capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", python)
    )
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    default = ctypes.c_void_p.from_address(table[_DEFAULT_HANDLER]).value
    own = libc.malloc(ctypes.c_size_t(ctypes.sizeof(_Handler)))
    ctypes.memmove(own, pointer(default, _NAME), ctypes.sizeof(_Handler))
    handler = _Handler.from_address(own)
    handler.name = b"lines of the cache"
    if hasattr(libc, "memalign"):
        own_functions = handler.malloc, handler.free
        handler.malloc, handler.free = kept_functions()

        def leave() -> None:
            """Arrays that the interpreter frees as it ends outlive the native code."""
            handler.malloc, handler.free = own_functions

        atexit.register(leave)
    return {
        "set_handler": table[_SET_HANDLER],
        "aligned_handler": capsule(own, _NAME, None),
    }
