"""A test mode in which every array that is made, and every arena of a program, lies beside pages that
may not be touched: a kernel that reads or writes outside its results or its own memory ends the
process. It is for a process of its own, and stays on."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from staticflow.native.layout import structure
from staticflow.ops.declaring.thread import State, thread
from staticflow.runtime import aligned, native
from staticflow.runtime.object_layout import numpy_table

__all__ = ["guard_memory"]

sys.path.append(str(Path(__file__).parents[1] / "codegen" / "cuda"))
from emulator import compiler

_SOURCE = Path(__file__).with_name("guarded_memory.cpp")
_SET_HANDLER = 304  # PyDataMem_SetHandler, in NumPy's table
_kept: list[Any] = []  # what NumPy and programs have addresses of


def guard_memory() -> None:
    """Guard all memory from now on. It must be called before anything is compiled or computed, and
    the process must end by `os._exit`: what is freed as the interpreter ends outlives the allocator.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "guarded_memory.so")
        flags = ["-std=c++17", "-O2", "-shared", "-fPIC"]
        subprocess.run([*compiler(), *flags, "-o", str(library), str(_SOURCE)], check=True)
        loaded = ctypes.CDLL(str(library))
    _guard_programs(loaded)
    _guard_arrays(loaded)
    _kept.append(loaded)


def _address(loaded: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
    assert found is not None
    return found


def _guard_arrays(loaded: ctypes.CDLL) -> None:
    """What NumPy makes arrays of, in every context, and what large arrays of ours are made of."""
    functions = {n: _address(loaded, f"numpy_{n}") for n in ("malloc", "calloc", "realloc", "free")}
    aligned.kept_functions = lambda: tuple(functions.values())
    handler = structure(aligned.Handler)(version=1, **functions)
    handler.name[:7] = b"guarded"
    python = ctypes.pythonapi
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )(("PyCapsule_New", python))  # fmt: skip
    capsule = make(ctypes.addressof(handler), aligned._NAME, None)
    _kept.extend((handler, capsule))
    taken = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
    exchange = taken(numpy_table()[_SET_HANDLER])
    exchange(capsule)
    renew = State.renew

    def renew_guarded(self: State) -> None:
        """Another context, in which NumPy takes its memory from here, too."""
        renew(self)
        self.context.run(exchange, capsule)

    State.renew = renew_guarded
    thread.state.renew()


def _guard_programs(loaded: ctypes.CDLL) -> None:
    """What the text of a program calls for memory."""
    given = {n: _address(loaded, f"guarded_{n}") for n in ("aligned_alloc", "realloc", "free")}
    load = native.load_native

    def load_guarded(
        object_bytes: bytes,
        exports: Iterable[str],
        symbols: Mapping[str, int] | None = None,
        text: str | Callable[[], str] = "",
    ) -> native.NativeModule:
        text = text if isinstance(text, str) else text()
        if "declare void @free(ptr)" in text and "@memalign" not in text:
            symbols = {**(symbols or {}), **given}
        return load(object_bytes, exports, symbols, text)

    native.load_native = load_guarded
