"""Where CPython and NumPy keep what native code reads of an array, and the functions it calls.

Offsets are in bytes, from the address of the object, as 64-bit CPython and NumPy 2 have them.
`has_known_layout` reads arrays of known content through them before anyone relies on them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.native.cpython import Array, Slice, Tuple
from staticflow.native.language import Object
from staticflow.native.language import Type as NativeType
from staticflow.runtime.host import python_symbols

__all__ = [
    "ALIGNED", "ALLOC", "ARRAYS", "BASE", "CONTIGUOUS", "DATA", "DEALLOC", "DESCR", "DIMS",
    "FLAGS", "FORTRAN", "FREE", "HEAD", "MEM_HANDLER", "METH_FASTCALL", "METH_KEYWORDS", "NDIM",
    "OWNDATA", "STRIDES", "TYPE", "WRITEABLE", "BoxType", "MethodDef", "box_type", "c_symbols",
    "has_known_layout", "numpy_symbols", "numpy_table", "python_types",
]  # fmt: skip

TYPE = 8  # PyObject.ob_type
HEAD = 16  # sizeof(PyObject); there a slice has start, stop and step
DATA, NDIM, DIMS, STRIDES, BASE, DESCR, FLAGS = 16, 24, 32, 40, 48, 56, 64  # PyArrayObject_fields
MEM_HANDLER = 88  # the last of these
DEALLOC, ALLOC, FREE = 48, 304, 320  # PyTypeObject.tp_dealloc, tp_alloc, tp_free
ARRAYS: Mapping[type, Mapping[str, int]] = {
    Object: {"type": TYPE},
    NativeType: {"alloc": ALLOC},
    Array: {
        "data": DATA, "ndim": NDIM, "dims": DIMS, "strides": STRIDES, "base": BASE, "descr": DESCR,
        "flags": FLAGS, "mem_handler": MEM_HANDLER,
    },
    Slice: {"start": HEAD, "stop": HEAD + 8, "step": HEAD + 16},
    Tuple: {"items": tuple.__basicsize__},
}  # fmt: skip
"""Where the fields of these classes lie, in bytes, for the functions of `staticflow.native`."""

CONTIGUOUS, FORTRAN, OWNDATA = 0x1, 0x2, 0x4  # NPY_ARRAY_*; contiguous in the order of C
ALIGNED, WRITEABLE = 0x100, 0x400
METH_FASTCALL, METH_KEYWORDS = 0x80, 0x2
_NUMPY = {
    "PyArray_CopyInto": 50, "PyArray_NewCopy": 85, "PyArray_NewFromDescr": 94,
    "PyArray_Empty": 184, "PyArray_SetBaseObject": 282,
}  # fmt: skip
"""Places in `numpy_table`."""

_GET_HANDLER = 305  # likewise, of ``PyDataMem_GetHandler``


class MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``. A builtin function points to the one it was made from."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@dataclass(frozen=True, slots=True)
class BoxType:
    """A class whose instances (and those of its subclasses) hold an array: the address of the
    class, and the offset of the slot."""

    type_address: int
    slot_offset: int


@functools.lru_cache
def box_type(cls: type[Any], slot: str) -> BoxType | None:
    """Where instances of ``cls`` keep what is assigned to ``slot``; None if that cannot be told.

    Found by assigning to the slot of a bare instance, and looking for it.
    """
    if not has_known_layout():
        return None
    instance, mark = object.__new__(cls), object()
    setattr(instance, slot, mark)
    offsets = range(HEAD, cls.__basicsize__, ctypes.sizeof(ctypes.c_void_p))
    found = [o for o in offsets if _word(instance, o) == id(mark)]
    return BoxType(id(cls), found[0]) if len(found) == 1 else None


@functools.lru_cache(maxsize=1)
def has_known_layout() -> bool:
    """Whether arrays and calls in this process are laid out as this module says."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or ctypes.sizeof(ctypes.c_size_t) != 8:
        return False
    read_only = np.zeros((5, 1, 2), np.float32)
    read_only.flags.writeable = False
    misaligned = np.zeros(33, np.uint8)[1:].view(np.float64)
    transposed = np.ones((4, 6), np.int64).T
    samples = (np.array(1.5), np.ones((3, 7), np.int8), transposed, misaligned, read_only)
    bounds = slice(samples, transposed, read_only)
    in_slice = tuple(_word(bounds, HEAD + 8 * i) for i in range(3))
    return (
        in_slice == (id(samples), id(transposed), id(read_only))
        and _word(samples, tuple.__basicsize__) == id(samples[0])
        and all(map(_reads_right, samples))
        and _frees_right()
        and _allocates_right()
        and _word(np.empty(3), MEM_HANDLER) == id(_handler())
    )


def _word(instance: object, offset: int) -> int:
    return ctypes.c_size_t.from_address(id(instance) + offset).value


def _reads_right(array: np.ndarray[Any, Any]) -> bool:
    if (
        type(array).__basicsize__ < MEM_HANDLER + ctypes.sizeof(ctypes.c_void_p)
        or _word(array, TYPE) != id(type(array))
        or _word(array, DATA) != array.__array_interface__["data"][0]
        or ctypes.c_int.from_address(id(array) + NDIM).value != array.ndim
        or _word(array, BASE) != (0 if array.base is None else id(array.base))
        or _word(array, DESCR) != id(array.dtype)
    ):
        return False
    flags = ctypes.c_int.from_address(id(array) + FLAGS).value
    expected = (
        (CONTIGUOUS, array.flags.c_contiguous),
        (FORTRAN, array.flags.f_contiguous),
        (OWNDATA, array.flags.owndata),
        (ALIGNED, array.flags.aligned),
        (WRITEABLE, array.flags.writeable),
    )
    rows = [
        tuple((ctypes.c_int64 * array.ndim).from_address(_word(array, at))) if array.ndim else ()
        for at in (DIMS, STRIDES)
    ]
    return rows == [array.shape, array.strides] and all(
        bool(flags & mask) == is_set for mask, is_set in expected
    )


def _frees_right() -> bool:
    """Whether classes have what makes and frees their instances where this module says."""
    slot_of = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_int)(
        ("PyType_GetSlot", ctypes.pythonapi)
    )
    numbers = {DEALLOC: 52, ALLOC: 47, FREE: 74}  # of the stable ABI
    return all(_word(BoxType, at) == slot_of(BoxType, n) for at, n in numbers.items())


def _handler() -> object:
    """The capsule of the handler that NumPy takes memory from."""
    return ctypes.PYFUNCTYPE(ctypes.py_object)(numpy_table()[_GET_HANDLER])()


def _allocates_right() -> bool:
    try:
        functions = numpy_symbols()
    except (ImportError, AttributeError, ValueError):
        return False
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int
    )(functions["PyArray_Empty"])
    dtype = np.dtype(np.float32)
    sizes = (ctypes.c_int64 * 2)(2, 3)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # which the call takes over
    made = make(2, ctypes.addressof(sizes), dtype, 0)
    right = type(made) is np.ndarray and made.shape == (2, 3) and made.dtype is dtype
    return bool(right) and _views_right(made, functions)


def _views_right(array: np.ndarray[Any, Any], functions: dict[str, int]) -> bool:
    """Whether the last column of ``array``, f32[2, 3], is made as a view of it."""
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p,
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
    )(functions["PyArray_NewFromDescr"])  # fmt: skip
    own = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(
        functions["PyArray_SetBaseObject"]
    )
    size, stride = ctypes.c_int64(2), ctypes.c_int64(12)
    for taken_over in (array.dtype, array):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(taken_over))
    column = make(
        np.ndarray, array.dtype, 1, ctypes.addressof(size), ctypes.addressof(stride),
        _word(array, DATA) + 8, WRITEABLE, None,
    )  # fmt: skip
    copy = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(
        functions["PyArray_CopyInto"]
    )
    array[:, 2] = 3, 5
    right = own(column, array) == 0 and column.base is array and column.tolist() == [3, 5]
    return right and copy(column, np.array(7, array.dtype)) == 0 and array[1, 2] == 7


@functools.lru_cache(maxsize=1)
def numpy_table() -> Any:
    """The addresses that NumPy lends to other extensions, by their numbers."""
    capsule = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))
    return ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))


def c_symbols(text: str) -> dict[str, int]:
    """The addresses of what an LLVM text may use of CPython and NumPy, by their names in C."""
    types = {name: id(thing) for name, thing in python_types().items()}
    return python_symbols(text) | numpy_symbols() | types


def numpy_symbols() -> dict[str, int]:
    """The addresses of what native code uses of NumPy, by their names in C."""
    table = numpy_table()
    return {name: table[place] for name, place in _NUMPY.items()}


def python_types() -> dict[str, Any]:
    """Objects that native code knows by their names in C."""
    return {
        "PyArray_Type": np.ndarray, "PyFloat_Type": float, "PyLong_Type": int, "PyBool_Type": bool,
        "PyTuple_Type": tuple, "PyDict_Type": dict, "PyList_Type": list, "PySlice_Type": slice,
        "PyUnicode_Type": str, "_Py_EllipsisObject": ...,
        "OverflowError": OverflowError, "TypeError": TypeError,
        "_Py_NoneStruct": None, "_Py_TrueStruct": True, "_Py_FalseStruct": False,
    }  # fmt: skip
