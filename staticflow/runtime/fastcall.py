"""The native entry of a compiled program as a Python callable.

CPython calls it as it calls its own builtins; nothing is unpacked or checked in Python. It exists
where `has_known_layout` says that arrays can be read so; elsewhere `decline` stands in for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from staticflow.config import Config, config
from staticflow.native.layout import Layout, structure
from staticflow.runtime.aligned import aligned_array_address
from staticflow.runtime.fastcall_call import Output, Program, call_boxed, call_program
from staticflow.runtime.fastcall_checks import Spec
from staticflow.runtime.fastcall_helpers import MEASURING, plain_array
from staticflow.runtime.host import host, memory_symbols
from staticflow.runtime.native import NativeModule, compile_native, load_native, native_text
from staticflow.runtime.object_layout import (
    ALIGNED,
    ARRAYS,
    CONTIGUOUS,
    METH_FASTCALL,
    METH_KEYWORDS,
    WRITEABLE,
    BoxType,
    MethodDef,
    box_type,
    c_symbols,
)
from staticflow.runtime.once import once
from staticflow.runtime.program_code import EntryCode, OutputFacts, ParamFacts
from staticflow.runtime.sealed import Sealed

__all__ = ["NativeEntry", "builtin_function", "decline", "method_descriptor", "shared_code"]


def decline(*args: object) -> None:
    """The entry of a program that has no native one: leaves every call to the portable path."""


class NativeEntry(Sealed):
    """The entry of a program as Python functions: ``fast``, and those that `boxing` makes."""

    def __init__(
        self,
        code: EntryCode,
        box: BoxType,
        program: NativeModule,
        arena: Any,
        variables: Sequence[object],
    ) -> None:
        """``program`` exports ``run``; ``arena`` is the cell that keeps the arena between calls,
        and has its ``address``. ``variables`` are objects of the class that ``box`` describes."""
        constants = code.constants
        tables = (
            *_specs(code.params),
            _outputs(code.outputs),
            _words(c.ctypes.data for c in constants),
            _words(map(id, variables)),
        )
        specs, _, outputs, places, boxes = map(ctypes.addressof, tables)
        self._record = structure(Program)(
            run=program.address("run"), state=arena.address, specs=specs,
            inputs=len(code.params) - len(variables), params=len(code.params),
            updated=sum(p.is_updated for p in code.params), variables=boxes,
            box_class=box.type_address, slot=box.slot_offset, constants=places,
            constant_count=len(constants), outputs=outputs, output_count=len(code.outputs),
            has_late=any(o.is_late for o in code.outputs), numbers=code.numbers,
            traffic=code.traffic,
        )  # fmt: skip
        self._module = _load_entry(code.object.data, self._record)
        self._record.measure = self._module.address("measure")
        self._record.measure_late = self._module.address("measure_late")
        kept = (self._record, tables, self._module, program, arena, constants)
        self.fast = _function(self._module.address("call"), METH_FASTCALL, *kept, tuple(variables))
        """Gives arrays; see `fastcall_call`."""

    def boxing(self, portable: Callable[..., Any], example: object) -> Callable[..., Any]:
        """The entry of a program of one output that gives it in an object like ``example``, which
        is one of the class of boxes, and leaves to ``portable`` what it does not do."""
        self._record.portable, self._record.example = id(portable), id(example)
        self._record.box_size = type(example).__basicsize__
        flags = METH_FASTCALL | METH_KEYWORDS
        return _function(self._module.address("boxed"), flags, self.fast, portable, example)


def _words(addresses: Iterable[int]) -> Any:
    words = [*addresses]
    return (ctypes.c_void_p * len(words))(*words)


def _specs(params: Sequence[ParamFacts]) -> tuple[Any, Any]:
    """What the params have to be, and behind it the sizes that it points to."""
    order = sorted(range(len(params)), key=lambda i: (not params[i].is_updated, i))
    positions = {i: position for position, i in enumerate(order)}
    known = [size for p in params for size in p.sizes]
    sizes = (ctypes.c_int64 * len(known))(*known)
    specs = (structure(Spec) * len(params))()
    at = ctypes.addressof(sizes)
    for i, p in enumerate(params):
        flags = ALIGNED | (CONTIGUOUS if p.is_row_major else 0)
        flags |= WRITEABLE if p.is_updated else 0
        specs[i] = structure(Spec)(
            descr=id(p.dtype.numpy), sizes=at, item_size=p.dtype.itemsize, position=positions[i],
            ndim=len(p.sizes), flags=flags,
        )  # fmt: skip
        at += len(p.sizes) * ctypes.sizeof(ctypes.c_int64)
    return specs, sizes


def _outputs(outputs: Sequence[OutputFacts]) -> Any:
    small = shared_code().address(plain_array.__name__)
    rows = [
        structure(Output)(
            make=aligned_array_address() if o.may_be_large else small, descr=id(o.dtype.numpy),
            at=o.at, ndim=o.ndim, is_late=o.is_late,
        )
        for o in outputs
    ]  # fmt: skip
    return (structure(Output) * len(rows))(*rows)


def _load_entry(object_bytes: bytes, record: Any) -> NativeModule:
    symbols = {
        **{fn.__name__: shared_code().address(fn.__name__) for fn in _CALLED},
        "program": ctypes.addressof(record),
    }
    return load_native(object_bytes, ["call", "boxed", "measure", "measure_late"], symbols)


_CALLED = (call_program, call_boxed, *MEASURING)


@once
def shared_code() -> NativeModule:
    """What the entries of all programs call."""
    switch = box_type(Config, "check_nan")
    assert switch is not None  # as whoever has a box knows
    functions = (*_CALLED, plain_array)
    text = native_text(functions, Layout(ARRAYS))
    names = [fn.__name__ for fn in functions]
    symbols = {
        **c_symbols(text),
        "free": memory_symbols()["free"],
        "check_nan": id(config) + switch.slot_offset,
        "go": host().address("go"),
    }
    return compile_native(text, names, symbols)


def builtin_function(address: int, name: str, data: int) -> Callable[..., Any]:
    """A function of Python that is native code, of a module that lives as long as the process, and
    is given a number."""
    method = _Method(address, METH_FASTCALL | METH_KEYWORDS, name)
    _keep_for_ever(method.kept)
    return _new_function(method.address, data, None)


def method_descriptor(
    cls: type, address: int, name: str, arguments: Sequence[str], doc: str, *kept: Any
) -> Any:
    """A method of a class that is native code, with what its ``arguments`` are called; it lives for
    ever, and so do ``kept``."""
    method = _Method(address, METH_FASTCALL | METH_KEYWORDS, name, arguments, doc)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
    descriptor = prototype(("PyDescr_NewMethod", ctypes.pythonapi))(cls, method.address)
    _keep_for_ever((*method.kept, *kept))
    return descriptor


def _keep_for_ever(things: tuple[Any, ...]) -> None:
    """Keep what functions and methods point to that are freed after every module."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(things))


class _Method:
    """CPython's record of a function; it reads the signature from the first line of the text.

    ``kept`` is what must live as long as the function, for which a tuple does: CPython reads the
    record as it frees the function, and the collector, which clears what is in a cycle in any
    order, clears no tuple and knows of no array (of ctypes' structures it frees the memory)."""

    def __init__(
        self, address: int, flags: int, name: str, arguments: Sequence[str] = (), doc: str = ""
    ) -> None:
        text = f"{name}({', '.join(arguments)})\n--\n\n{doc}" if doc else ""
        texts = name.encode(), text.encode() or None
        record = bytes(MethodDef(texts[0], address, flags, texts[1]))
        array = np.frombuffer(record, np.uint8).copy()
        self.address = array.ctypes.data
        self.kept = (array, *texts)


def _function(address: int, flags: int, *kept: Any) -> Callable[..., Any]:
    """A function whose ``__self__`` is what its code points to, which lives as long as it does."""
    method = _Method(address, flags, "program")
    return _new_function(method.address, (*method.kept, *kept), None)


def _new_function(*args: Any) -> Callable[..., Any]:
    """CPython's ``PyCFunction_NewEx``."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
    )
    made: Callable[..., Any] = prototype(("PyCFunction_NewEx", ctypes.pythonapi))(*args)
    return made
