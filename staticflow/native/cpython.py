"""What native functions use of CPython and NumPy: objects, and functions of C by their own names.

A function that may end in Python code, or collect garbage, runs Python. What a function gives that
is not owned is good until Python runs.
"""

from __future__ import annotations

from typing import Annotated, TypeGuard

from staticflow.native.language import (
    Byte,
    Fixed,
    Int32,
    Object,
    Owned,
    Record,
    Row,
    Type,
    constant,
    external,
    inline,
)

__all__ = [
    "ELLIPSIS", "FALSE", "NONE", "TRUE", "Array", "Code", "Dict", "Frame", "List",
    "OverflowError_", "PyArray_CopyInto", "PyArray_Empty", "PyArray_NewCopy",
    "PyArray_NewFromDescr", "PyArray_SetBaseObject", "PyBytes_FromStringAndSize", "PyContext_Enter",
    "PyContext_Exit", "PyDict_DelItem", "PyDict_GetItem", "PyDict_GetItemWithError",
    "PyDict_SetItem", "PyDict_Size", "PyErr_CheckSignals", "PyErr_Clear", "PyErr_ExceptionMatches",
    "PyErr_NoMemory", "PyErr_Occurred", "PyErr_SetObject", "PyEval_GetFrame", "PyFloat_AsDouble",
    "PyFrame_GetBack", "PyFrame_GetCode", "PyFrame_GetLasti", "PyIter_Next", "PyList_GetItem",
    "PyList_Size", "PyLong_AsLongLongAndOverflow", "PyLong_AsVoidPtr", "PyLong_FromLongLong",
    "PyMem_Free", "PyMem_Malloc", "PyNumber_Add", "PyObject_CallObject", "PyObject_GC_Track",
    "PyObject_GC_UnTrack", "PyObject_GetAttr", "PyObject_Vectorcall", "PyObject_VectorcallDict",
    "PyObject_VectorcallMethod", "PySequence_Tuple", "PySet_Add", "PySet_Contains", "PySet_Discard",
    "PySet_Size", "PyThreadState_Get", "PyThreadState_GetID", "PyTuple_GetItem", "PyTuple_New",
    "PyTuple_SetItem", "PyTuple_Size", "PyType_IsSubtype", "Slice", "Thread", "Tuple", "TypeError_",
    "array_type", "bool_type", "dict_type", "float_type", "int_type", "is_array", "is_dict",
    "is_list", "is_tuple", "list_type", "memcmp", "slice_type", "str_type", "tuple_type",
    "wmemset",
]  # fmt: skip


class Array(Object):
    """An array of NumPy."""

    data: Row[Byte]
    ndim: Int32
    dims: Row[int]
    strides: Row[int]
    base: Object | None
    descr: Object
    flags: Int32
    mem_handler: Object | None


class Tuple(Object):
    """A tuple, which its items lie in."""

    items: Annotated[Row[Object], Fixed(0)]


class Dict(Object):
    """A dict."""


class Thread(Record):
    """A thread, as the interpreter knows it."""


class List(Object):
    """A list."""


class Slice(Object):
    """A slice."""

    start: Object
    stop: Object
    step: Object


class Code(Object):
    """The code of a function of Python."""


class Frame(Object):
    """A function of Python that is running."""


NONE = constant(Object, "_Py_NoneStruct")
TRUE = constant(Object, "_Py_TrueStruct")
FALSE = constant(Object, "_Py_FalseStruct")
ELLIPSIS = constant(Object, "_Py_EllipsisObject")
OverflowError_ = constant(Object, "OverflowError")
TypeError_ = constant(Object, "TypeError")
array_type = constant(Type, "PyArray_Type")
bool_type = constant(Type, "PyBool_Type")
float_type = constant(Type, "PyFloat_Type")
int_type = constant(Type, "PyLong_Type")
list_type = constant(Type, "PyList_Type")
slice_type = constant(Type, "PySlice_Type")
str_type = constant(Type, "PyUnicode_Type")
dict_type = constant(Type, "PyDict_Type")
tuple_type = constant(Type, "PyTuple_Type")


@inline
def is_array(thing: Object) -> TypeGuard[Array]:
    """Whether an object is an array of `numpy.ndarray` itself."""
    return thing.type is array_type


@inline
def is_list(thing: Object) -> TypeGuard[List]:
    """Whether an object is a list, of the very class."""
    return thing.type is list_type


@inline
def is_tuple(thing: Object) -> TypeGuard[Tuple]:
    """Whether an object is a tuple, of the very class."""
    return thing.type is tuple_type


@inline
def is_dict(thing: Object) -> TypeGuard[Dict]:
    """Whether an object is a dict, of the very class."""
    return thing.type is dict_type


# -- objects -------------------------------------------------------------------------------------


@external()
def PyObject_GetAttr(thing: Object, name: Object) -> Owned[Object | None]:
    """An attribute; null with an error set."""
    raise NotImplementedError


@external()
def PyObject_Vectorcall(
    function: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """What a function of Python gives; null with an error set."""
    raise NotImplementedError


@external()
def PyObject_VectorcallDict(
    function: Object, args: Row[Object], count: int, names: Object | None
) -> Owned[Object | None]:
    """What a function of Python gives of arguments and a dict of more; null with an error set."""
    raise NotImplementedError


@external()
def PyObject_CallObject(function: Object, args: Tuple) -> Owned[Object | None]:
    """What a function of Python gives of the elements of a tuple; null with an error set."""
    raise NotImplementedError


@external()
def PyObject_VectorcallMethod(
    name: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """What a method gives, of the first of ``args``; null with an error set."""
    raise NotImplementedError


@external()
def PyNumber_Add(a: Object, b: Object) -> Owned[Object | None]:
    """A sum; null with an error set."""
    raise NotImplementedError


@external()
def PyIter_Next(iterator: Object) -> Owned[Object | None]:
    """The next element; null at the end, or with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyType_IsSubtype(cls: Type, base: Type) -> Int32:
    """Whether a class is another or is derived from it, 1 or 0."""
    raise NotImplementedError


@external(runs=False)
def PyObject_GC_Track(thing: Object) -> None:
    """Let the collector of garbage know of an object."""
    raise NotImplementedError


@external(runs=False)
def PyObject_GC_UnTrack(thing: Object) -> None:
    """Hide an object from the collector of garbage."""
    raise NotImplementedError


@external()
def PyContext_Enter(context: Object) -> Int32:
    """Let a context be that of the thread; below 0 with an error set."""
    raise NotImplementedError


@external()
def PyContext_Exit(context: Object) -> Int32:
    """Leave a context; below 0 with an error set."""
    raise NotImplementedError


# -- memory and errors ---------------------------------------------------------------------------


@external(runs=False)
def PyMem_Malloc(size: int) -> Owned[Row[Object] | None]:
    """Memory for objects, of so many bytes; null, with no error set, if there is not so much."""
    raise NotImplementedError


@external(runs=False)
def PyMem_Free(memory: Owned[Row[Object]]) -> None:
    """Give up memory."""
    raise NotImplementedError


@external()
def PyErr_NoMemory() -> Owned[Object | None]:
    """Null, with a `MemoryError` set."""
    raise NotImplementedError


@external(runs=False)
def PyErr_Occurred() -> Object | None:
    """The class of the error that is set; null if none is."""
    raise NotImplementedError


@external(runs=False)
def PyErr_ExceptionMatches(kind: Object) -> Int32:
    """Whether the error that is set is of a class or of a derived one, 1 or 0."""
    raise NotImplementedError


@external()
def PyErr_Clear() -> None:
    """Let no error be set."""
    raise NotImplementedError


@external()
def PyErr_CheckSignals() -> Int32:
    """Run what waits for a signal, as for Ctrl-C; below 0 with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyErr_SetObject(kind: Object, value: Object) -> None:
    """Set an error of a class."""
    raise NotImplementedError


# -- numbers and bytes ---------------------------------------------------------------------------


@external(runs=False)
def PyLong_FromLongLong(number: int) -> Owned[Object | None]:
    """An int; null with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyLong_AsLongLongAndOverflow(number: Object, overflow: Row[Int32]) -> int:
    """The value of an int; -1, and ``overflow`` is not 0, if it has more than 64 bits."""
    raise NotImplementedError


@external(runs=False)
def PyLong_AsVoidPtr(number: Object) -> object:
    """The address that an int is."""
    raise NotImplementedError


@external(runs=False)
def PyFloat_AsDouble(number: Object) -> float:
    """The value of a float."""
    raise NotImplementedError


@external(runs=False)
def PyBytes_FromStringAndSize(words: Row[int], size: int) -> Owned[Object | None]:
    """A ``bytes`` of so many bytes; null with an error set."""
    raise NotImplementedError


@external(runs=False)
def memcmp(a: Row[int], b: Row[int], size: int) -> Int32:
    """Compare so many bytes: 0 if they are the same."""
    raise NotImplementedError


@external(runs=False)
def wmemset(at: Row[Int32], word: Int32, count: int) -> Row[Int32]:
    """Write a word of 32 bits so many times."""
    raise NotImplementedError


# -- tuples, lists, dicts ------------------------------------------------------------------------


@external()
def PyTuple_New(length: int) -> Owned[Tuple | None]:
    """A tuple of nothing yet; null with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyTuple_Size(row: Tuple) -> int:
    """How many elements a tuple has."""
    raise NotImplementedError


@external(runs=False)
def PyTuple_GetItem(row: Tuple, index: int) -> Object:
    """An element, which is there."""
    raise NotImplementedError


@external(runs=False)
def PyTuple_SetItem(row: Tuple, index: int, item: Owned[Object]) -> Int32:
    """Fill in an empty element of a new tuple."""
    raise NotImplementedError


@external()
def PyList_New(length: int) -> Owned[List | None]:
    """A list of nothing yet; null with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyList_SetItem(row: List, index: int, item: Owned[Object]) -> Int32:
    """Fill in an empty element of a new list."""
    raise NotImplementedError


@external(runs=False)
def PyList_Size(row: List) -> int:
    """How many elements a list has."""
    raise NotImplementedError


@external(runs=False)
def PyList_GetItem(row: List, index: int) -> Object:
    """An element, which is there."""
    raise NotImplementedError


@external()
def PySequence_Tuple(things: Object) -> Owned[Tuple | None]:
    """The elements of a sequence, or the keys of a dict, as a tuple; null with an error set."""
    raise NotImplementedError


@external()
def PyDict_New() -> Owned[Dict | None]:
    """An empty dict; null with an error set."""
    raise NotImplementedError


@external()
def PyDict_GetItemWithError(table: Dict, key: Object) -> Object | None:
    """What a dict has of a key; null if it has none, or with an error set."""
    raise NotImplementedError


@external()
def PyDict_SetItem(table: Dict, key: Object, value: Object) -> Int32:
    """Let a dict have a value of a key; below 0 with an error set."""
    raise NotImplementedError


@external()
def PySet_Contains(things: Object, thing: Object) -> Int32:
    """Whether a set has an element, 1 or 0; below 0 with an error set."""
    raise NotImplementedError


@external()
def PySet_Add(things: Object, thing: Object) -> Int32:
    """Put an element into a set; below 0 with an error set."""
    raise NotImplementedError


@external()
def PySet_Discard(things: Object, thing: Object) -> Int32:
    """Take an element out of a set, 1 if it was there or 0; below 0 with an error set."""
    raise NotImplementedError


@external(runs=False)
def PySet_Size(things: Object) -> int:
    """How many elements a set has."""
    raise NotImplementedError


@external()
def PyDict_DelItem(table: Dict, key: Object) -> Int32:
    """Let a dict no longer have a key; below 0 with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyDict_Size(words: Dict) -> int:
    """How many keys a dict has."""
    raise NotImplementedError


@external(runs=False)
def PyDict_GetItem(table: Object, cls: Type) -> Object | None:
    """What a dict of classes, which are compared by identity, has of one; null if it has none."""
    raise NotImplementedError


# -- threads -------------------------------------------------------------------------------------


@external(runs=False)
def PyThreadState_Get() -> Thread:
    """The thread that runs."""
    raise NotImplementedError


@external(runs=False)
def PyThreadState_GetID(thread: Thread) -> int:
    """The number of a thread, which no other ever has."""
    raise NotImplementedError


# -- frames --------------------------------------------------------------------------------------


@external()
def PyEval_GetFrame() -> Frame | None:
    """The innermost function of Python that is running; null if there is none."""
    raise NotImplementedError


@external(runs=False)
def PyFrame_GetCode(frame: Frame) -> Owned[Code]:
    """The code that a frame runs."""
    raise NotImplementedError


@external()
def PyFrame_GetBack(frame: Frame) -> Owned[Frame | None]:
    """The function that called one; null if there is none."""
    raise NotImplementedError


@external(runs=False)
def PyFrame_GetLasti(frame: Frame) -> Int32:
    """The instruction that a frame is at."""
    raise NotImplementedError


# -- arrays --------------------------------------------------------------------------------------


@external()
def PyArray_CopyInto(array: Array, source: Array) -> Int32:
    """Copy the elements of an array that is broadcast; below 0 with an error set."""
    raise NotImplementedError


@external()
def PyArray_Empty(
    ndim: Int32, sizes: Row[int], descr: Owned[Object], is_fortran: Int32
) -> Owned[Array | None]:
    """A new array, which holds anything; null with an error set."""
    raise NotImplementedError


@external()
def PyArray_NewCopy(array: Array, order: Int32) -> Owned[Array | None]:
    """A copy in C order, 0; null with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyArray_NewFromDescr(
    cls: Type,
    descr: Owned[Object],
    ndim: Int32,
    dims: Row[int],
    strides: Row[int] | None,
    data: Row[Byte],
    flags: Int32,
    like: Object | None,
) -> Owned[Array | None]:
    """An array on memory of somebody else, of `numpy.ndarray` itself, of which nothing runs; null
    with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyArray_SetBaseObject(array: Array, base: Owned[Object]) -> Int32:
    """Let a new array hold what its memory belongs to; below 0 with an error set."""
    raise NotImplementedError
