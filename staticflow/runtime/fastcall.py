"""The native entry of a compiled program as a Python callable.

CPython calls it as it calls its own builtins; nothing is unpacked or checked in Python. It exists
where `has_known_layout` says that arrays can be read so; elsewhere `decline` stands in for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.config import Config, config
from staticflow.native.types import Layout, fields_of
from staticflow.runtime.aligned import aligned_symbols
from staticflow.runtime.fastcall_helpers import HELPERS, Box
from staticflow.runtime.fastcall_text import Entry, descr_symbol, render_entry
from staticflow.runtime.host import host
from staticflow.runtime.native import NativeModule, compile_native, native_text
from staticflow.runtime.object_layout import (
    ARRAYS,
    METH_FASTCALL,
    METH_KEYWORDS,
    BoxType,
    MethodDef,
    box_type,
    c_symbols,
)
from staticflow.runtime.once import once
from staticflow.runtime.sealed import Sealed

__all__ = ["NativeEntry", "builtin_function", "decline", "method_descriptor"]


def decline(*args: object) -> None:
    """The entry of a program that has no native one: leaves every call to the portable path."""


class _Owner(Sealed):
    """The ``__self__`` of an entry. What the code points to lives as long as the function does."""

    __slots__ = ("__weakref__", "method", "others")

    def __init__(self, method: MethodDef, *others: Any) -> None:
        self.method, self.others = method, others


class NativeEntry(Sealed):
    """The entry of a program as Python functions: ``fast``, and those that `boxing` makes."""

    def __init__(
        self,
        entry: Entry,
        box: BoxType,
        program: NativeModule,
        arena: Any,
        constants: Sequence[np.ndarray[Any, Any]],
        variables: Sequence[object],
    ) -> None:
        """``program`` exports ``run``; ``arena`` is the cell that keeps the arena between calls,
        and has its ``address``. ``constants`` are contiguous arrays, ``variables`` objects of the
        class that ``box`` describes."""
        addresses = [arena.address, *(c.ctypes.data for c in constants), *map(id, variables)]
        self._bound = (ctypes.c_void_p * (len(addresses) + _BOX))(*addresses)
        self._slot = box.slot_offset
        self._module = _compiled(entry, box, program, self._bound)
        kept = (self._bound, self._module, program, arena, tuple(constants), tuple(variables))
        self.fast = _function(self._module.address("call"), METH_FASTCALL, *kept)
        """Gives arrays; see `render_entry`."""

    def boxing(self, portable: Callable[..., Any], example: object) -> Callable[..., Any]:
        """The entry of a program of one output that gives it in an object like ``example``, which
        is one of the class of boxes, and leaves to ``portable`` what it does not do."""
        size = type(example).__basicsize__
        self._bound[-_BOX:] = [id(portable), id(example), size, self._slot]
        flags = METH_FASTCALL | METH_KEYWORDS
        return _function(self._module.address("boxed"), flags, self.fast, portable, example)


_BOX = len(fields_of(Box))  # words


def _compiled(entry: Entry, box: BoxType, program: NativeModule, bound: Any) -> NativeModule:
    dtypes = {t.dtype for t in (*entry.params, *entry.outputs)}
    text = render_entry(entry)
    symbols = {
        **c_symbols(text),
        **{fn.__name__: _helpers().address(fn.__name__) for fn in HELPERS},
        **{descr_symbol(d): id(d.numpy) for d in dtypes},
        "box_type": box.type_address,
        "bound": ctypes.addressof(bound),
        "go": host().address("go"),
        "run": program.address("run"),
    }
    return compile_native(text, ["call", "boxed"], symbols, quick=True)


@once
def _helpers() -> NativeModule:
    switch = box_type(Config, "check_nan")
    assert switch is not None  # as whoever has a box knows
    text = native_text(HELPERS, Layout(ARRAYS))
    symbols = {"check_nan": id(config) + switch.slot_offset, **aligned_symbols()}
    names = [fn.__name__ for fn in HELPERS]
    return compile_native(text, names, {**c_symbols(text), **symbols})


def builtin_function(address: int, name: str, data: int) -> Callable[..., Any]:
    """A function of Python that is native code, of a module that lives as long as the process, and
    is given a number."""
    method = _method(address, METH_FASTCALL | METH_KEYWORDS, name)
    _for_ever.append(_Owner(method))
    return _new_function(ctypes.byref(method), data, None)


def method_descriptor(
    cls: type, address: int, name: str, arguments: Sequence[str], doc: str, *kept: Any
) -> Any:
    """A method of a class that is native code, with what its ``arguments`` are called; it lives for
    ever, and so do ``kept``."""
    method = _method(address, METH_FASTCALL | METH_KEYWORDS, name, arguments, doc)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.POINTER(MethodDef))
    descriptor = prototype(("PyDescr_NewMethod", ctypes.pythonapi))(cls, ctypes.byref(method))
    _for_ever.append(_Owner(method, *kept))
    return descriptor


_for_ever: list[_Owner] = []


def _method(
    address: int, flags: int, name: str = "program", arguments: Sequence[str] = (), doc: str = ""
) -> MethodDef:
    """CPython's record of a function; it reads the signature from the first line of the text."""
    text = f"{name}({', '.join(arguments)})\n--\n\n{doc}" if doc else ""
    return MethodDef(name.encode(), address, flags, text.encode() or None)


def _function(address: int, flags: int, *kept: Any) -> Callable[..., Any]:
    method = _method(address, flags)
    return _new_function(ctypes.byref(method), _Owner(method, *kept), None)


def _new_function(*args: Any) -> Callable[..., Any]:
    """CPython's ``PyCFunction_NewEx``."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.POINTER(MethodDef), ctypes.py_object, ctypes.c_void_p
    )
    made: Callable[..., Any] = prototype(("PyCFunction_NewEx", ctypes.pythonapi))(*args)
    return made
