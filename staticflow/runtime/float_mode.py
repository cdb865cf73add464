"""Subnormal numbers that are zero in the arithmetic of this thread, that of NumPy and Python too.

It is the mode of the processor that a program with ``flush_subnormals`` runs in. Threads that a
library began of its own, as OpenBLAS does for large products, have modes of their own.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from staticflow.codegen.llvm.subnormals import FLUSH_MODES
from staticflow.runtime.native import NativeModule, compile_native

__all__ = ["flushing", "keeping"]


@contextmanager
def flushing() -> Iterator[None]:
    """In the block arithmetic in float32 and float64 takes subnormal numbers for zero, and gives
    zero for them.

    >>> with flushing():
    ...     small = np.float32(1e-40) * np.float32(2)
    >>> bool(small == 0), bool(np.float32(1e-40) * np.float32(2) == 0)
    (True, False)
    """
    _, _, _, bits = _mode()
    with _in_mode(lambda mode: mode | bits):
        yield


@contextmanager
def keeping() -> Iterator[None]:
    """In the block, which is within one of `flushing`, arithmetic is as usual."""
    _, _, _, bits = _mode()
    with _in_mode(lambda mode: mode & ~bits):
        yield


@contextmanager
def _in_mode(change: Callable[[int], int]) -> Iterator[None]:
    _, read, write, _ = _mode()
    before = read()
    try:
        write(change(before))
        yield
    finally:
        write(before)


@cache
def _mode() -> tuple[NativeModule, Callable[[], int], Callable[[int], None], int]:
    """What reads and writes the mode of this thread, and the bits of it that flush; with the module
    that they are in."""
    for dtype in (np.float16, np.float32, np.float64):
        np.finfo(dtype)  # which NumPy computes when it is first asked for
    text, bits = FLUSH_MODES[platform.machine()]
    names = ("float_mode", "set_float_mode")
    module = compile_native(text.replace("define internal", "define"), names, quick=True)
    read, write = map(module.address, names)
    return (
        module,
        ctypes.CFUNCTYPE(ctypes.c_int64)(read),
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(write),
        bits,
    )
