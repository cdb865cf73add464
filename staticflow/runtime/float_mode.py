"""Subnormal numbers that are zero in the arithmetic of this thread, that of NumPy and Python too.

It is the mode of the processor that a program with ``flush_subnormals`` runs in. Threads that a
library began of its own, as OpenBLAS does for large products, have modes of their own.

A function runs in a mode by native code that calls it and puts back what was: no line of Python
stands between the two, so nothing that ends the function early, as Ctrl-C may anywhere, leaves the
mode behind.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np

from staticflow.codegen.llvm.subnormals import FLUSH_MODES
from staticflow.runtime.native import NativeModule, compile_native

__all__ = ["run_flushing", "run_keeping"]

T = TypeVar("T")


def run_flushing(function: Callable[[], T]) -> T:
    """What ``function()`` gives, in which arithmetic in float32 and float64 takes subnormal numbers
    for zero, and gives zero for them.

    >>> bool(run_flushing(lambda: np.float32(1e-40) * np.float32(2)) == 0)
    True
    >>> bool(np.float32(1e-40) * np.float32(2) == 0)
    False
    """
    _, call, bits = _caller()
    found: T = call(function, bits, -1)
    return found


def run_keeping(function: Callable[[], T]) -> T:
    """What ``function()`` gives, in which arithmetic is as usual, within one that `run_flushing`
    runs."""
    _, call, bits = _caller()
    found: T = call(function, 0, ~bits)
    return found


_CALL = """
declare ptr @PyObject_CallObject(ptr, ptr)

define ptr @call_in_mode(ptr %function, i64 %on, i64 %left) {
  %before = call i64 @float_mode()
  %some = and i64 %before, %left
  %own = or i64 %some, %on
  call void @set_float_mode(i64 %own)
  %result = call ptr @PyObject_CallObject(ptr %function, ptr null)
  call void @set_float_mode(i64 %before)
  ret ptr %result
}
"""


@cache
def _caller() -> tuple[NativeModule, Callable[[Any, int, int], Any], int]:
    """What calls a function in this thread's mode with some bits set and only some others left, and
    the bits that flush; with the module that it is in."""
    for dtype in (np.float16, np.float32, np.float64):
        np.finfo(dtype)  # which NumPy computes when it is first asked for
    text, bits = FLUSH_MODES[platform.machine()]
    name = "PyObject_CallObject"
    python = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert python is not None
    module = compile_native(text + _CALL, ("call_in_mode",), {name: python}, quick=True)
    word, thing = ctypes.c_int64, ctypes.py_object
    call = ctypes.PYFUNCTYPE(thing, thing, word, word)(module.address("call_in_mode"))
    return module, call, bits
