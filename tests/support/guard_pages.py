"""Memory that ends, or begins, at a page that may not be touched: reading past it ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

__all__ = ["guarded_bytes"]

_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def guarded_bytes(count: int, at_end: bool) -> tuple[np.ndarray, np.ndarray]:
    """``count`` bytes whose last one, or first one, lies beside such a page, and the others of their
    pages, all 0xFF."""
    page = mmap.PAGESIZE
    inner = -(-max(count, 1) // page) * page
    whole = np.frombuffer(mmap.mmap(-1, inner + 2 * page), np.uint8)
    for side in (0, page + inner):
        if _protect(whole.ctypes.data + side, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    usable = whole[page : page + inner]
    usable[:] = 0xFF
    cut = inner - count if at_end else count
    return (usable[cut:], usable[:cut]) if at_end else (usable[:cut], usable[cut:])
