"""The native entry of a compiled program as a Python callable.

CPython calls it as it calls its own builtins; nothing is unpacked or checked in Python. It exists
where `has_known_layout` says that arrays can be read so; elsewhere `decline` stands in for it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.runtime.fastcall_helpers import HELPERS, TEXT
from staticflow.runtime.fastcall_layout import METH_FASTCALL, BoxType, MethodDef, c_symbols
from staticflow.runtime.fastcall_text import Entry, descr_symbol, render_entry
from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.turn import updating

__all__ = ["decline", "native_entry"]


def decline(*args: object) -> None:
    """The entry of a program that has no native one: leaves every call to the portable path."""


class _Owner:
    """The ``__self__`` of an entry. What the code points to lives as long as the function does."""

    __slots__ = ("__weakref__", "bound", "method", "others")

    def __init__(self, bound: Any, method: MethodDef, *others: Any) -> None:
        self.bound, self.method, self.others = bound, method, others


def native_entry(
    entry: Entry,
    box: BoxType,
    program: NativeModule,
    arena: Any,
    constants: Sequence[np.ndarray[Any, Any]],
    variables: Sequence[object],
) -> Callable[..., Any]:
    """The entry of the ``program`` that exports ``run``, as a Python function; see `render_entry`.

    ``arena`` is the cell that keeps the arena between calls, and has its ``address``. ``constants``
    are contiguous arrays, ``variables`` objects of the class that ``box`` describes.
    """
    addresses = [arena.address, *(c.ctypes.data for c in constants), *map(id, variables)]
    bound = (ctypes.c_void_p * len(addresses))(*addresses)
    dtypes = {t.dtype for t in (*entry.params, *entry.outputs)}
    symbols = {
        **c_symbols(),
        **{name: _helpers().address(name) for name in HELPERS},
        **{descr_symbol(d): id(d.numpy) for d in dtypes},
        "box_type": box.type_address,
        "bound": ctypes.addressof(bound),
        "run": program.address("run"),
    }
    module = compile_native(render_entry(entry), ["call"], symbols, quick=True)
    method = MethodDef(b"program", module.address("call"), METH_FASTCALL, None)
    owner = _Owner(bound, method, module, program, arena, tuple(constants), tuple(variables))
    return _new_function(ctypes.byref(method), owner, None)


@functools.lru_cache(maxsize=1)
def _helpers() -> NativeModule:
    return compile_native(TEXT, HELPERS, {**c_symbols(), **updating.symbols()})


def _new_function(*args: Any) -> Callable[..., Any]:
    """CPython's ``PyCFunction_NewEx``."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.POINTER(MethodDef), ctypes.py_object, ctypes.c_void_p
    )
    made: Callable[..., Any] = prototype(("PyCFunction_NewEx", ctypes.pythonapi))(*args)
    return made
