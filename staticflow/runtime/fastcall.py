"""The native entry of a compiled program as a Python callable.

CPython calls it as it calls its own builtins; nothing is unpacked or checked in Python. It exists
where `has_known_layout` says that arrays can be read so; elsewhere `decline` stands in for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.runtime.fastcall_layout import METH_FASTCALL, BoxType, MethodDef, c_symbols
from staticflow.runtime.fastcall_text import Entry, descr_symbol, render_entry
from staticflow.runtime.native import NativeModule

__all__ = ["EXPORT", "NativeEntry", "decline"]

EXPORT = "call"
"""The name of the entry in the module."""


def decline(*args: object) -> None:
    """The entry of a program that has no native one: leaves every call to the portable path."""


class NativeEntry:
    """The text of an entry, what it points to, and the callable that is made of it.

    ``arena`` is the cell that keeps the arena between calls, and has its ``address``. ``constants``
    are contiguous arrays, ``variables`` objects of the class that ``box`` describes.
    """

    def __init__(
        self,
        entry: Entry,
        box: BoxType,
        arena: Any,
        constants: Sequence[np.ndarray[Any, Any]],
        variables: Sequence[object],
    ) -> None:
        self.text = render_entry(entry)
        addresses = [arena.address, *(c.ctypes.data for c in constants), *map(id, variables)]
        self._bound = (ctypes.c_void_p * len(addresses))(*addresses)
        self._owners = (arena, tuple(constants), tuple(variables))
        dtypes = {t.dtype for t in (*entry.params, *entry.outputs)}
        self.symbols = {
            **c_symbols(),
            **{descr_symbol(d): id(d.numpy) for d in dtypes},
            "box_type": box.type_address,
            "bound": ctypes.addressof(self._bound),
        }
        """The addresses that the text leaves open, by name."""

    def callable(self, module: NativeModule) -> Callable[..., Any]:
        """The entry in ``module``, which was compiled from the text, as a Python function. Its
        ``__self__`` is this object, so all that the code points to lives as long as the function.
        """
        self._module = module
        self._method = MethodDef(b"program", module.address(EXPORT), METH_FASTCALL, None)
        return _new_function(ctypes.byref(self._method), self, None)


def _new_function(*args: Any) -> Callable[..., Any]:
    """CPython's ``PyCFunction_NewEx``."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.POINTER(MethodDef), ctypes.py_object, ctypes.c_void_p
    )
    made: Callable[..., Any] = prototype(("PyCFunction_NewEx", ctypes.pythonapi))(*args)
    return made
