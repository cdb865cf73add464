"""Native code that programs and the Python that calls them share (`interpreter_lock`), compiled
once in a process; and the addresses of CPython's functions."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from typing import Any

from staticflow.native.layout import Layout
from staticflow.runtime.allocations import MEMORY_OF_PROGRAMS, log_symbols
from staticflow.runtime.interpreter_lock import ask, commit, go, look, stopping
from staticflow.runtime.native import NativeModule, compile_native, native_text
from staticflow.runtime.once import once
from staticflow.runtime.turn import updating

__all__ = ["host", "host_symbols", "memory_symbols", "python_symbols"]

_main_thread = ctypes.c_uint64()


def _note_main_thread() -> None:
    _main_thread.value = threading.main_thread().ident or 0


@once
def host() -> NativeModule:
    """The code, with the addresses of the functions of `interpreter_lock` and of what allocates
    memory for programs."""
    _note_main_thread()
    os.register_at_fork(after_in_child=_note_main_thread)
    functions: list[Callable[..., Any]] = [
        go,
        look,
        ask,
        stopping,
        commit,
        *MEMORY_OF_PROGRAMS.values(),
    ]
    text = native_text(functions, Layout())
    symbols = {
        **python_symbols(text),
        **updating.symbols(),
        **log_symbols(),
        "main_thread": ctypes.addressof(_main_thread),
    }
    return compile_native(text, [fn.__name__ for fn in functions], symbols, quick=True)


def host_symbols() -> dict[str, int]:
    """The addresses of what the native code of programs calls."""
    return {name: host().address(name) for name in ("look", "ask", "commit")} | memory_symbols()


def memory_symbols() -> dict[str, int]:
    """The addresses of what allocates and frees the memory of programs, by the names in C."""
    return {name: host().address(fn.__name__) for name, fn in MEMORY_OF_PROGRAMS.items()}


def python_symbols(text: str) -> dict[str, int]:
    """The addresses of the functions of CPython that an LLVM text declares."""
    names = re.findall(r"^declare .*@(Py(?!Array_)\w+)\(", text, re.MULTILINE)
    return {n: _address_of(getattr(ctypes.pythonapi, n)) for n in names}


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
