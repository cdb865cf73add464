"""What the native entries of all programs share: native code that is compiled once in a process.

It checks what a call is given (`staticflow.runtime.fastcall_checks`), makes arrays, and says what a
call gives. What only the program knows (which sizes must be equal, what to allocate, how long it
takes) is in its own text.
"""

from __future__ import annotations

from collections.abc import Callable

from staticflow.codegen.kernel import INTERRUPTED
from staticflow.native.cpython import (
    FALSE,
    NONE,
    Array,
    PyArray_Empty,
    PyLong_FromLongLong,
    PyObject_GC_Track,
    PyObject_GC_UnTrack,
    PyObject_Vectorcall,
    PyTuple_New,
    Tuple,
    is_array,
)
from staticflow.native.language import (
    Byte,
    Int32,
    Object,
    Owned,
    Record,
    Row,
    constant,
    copy,
    drop,
    drop_row,
    elsewhere,
    export,
    external,
    hold,
    native,
    trusted,
    unsigned_less,
)
from staticflow.runtime import aligned
from staticflow.runtime.aligned import ALIGNED_FROM
from staticflow.runtime.fastcall_checks import CHECKS
from staticflow.runtime.interpreter_lock import BUSY
from staticflow.runtime.new_objects import like
from staticflow.runtime.object_layout import CONTIGUOUS

__all__ = ["HELPERS", "Box"]

aligned_array = elsewhere(aligned.aligned_array)


@external(runs=False)
def free(memory: object) -> None:
    """Give memory of the C library back, which may be null."""
    raise NotImplementedError


# -- arrays --------------------------------------------------------------------------------------


@export
def data_of(array: Array) -> Row[Byte]:
    """Where the elements of an array lie."""
    return array.data


@export
def size_along(array: Array, axis: int) -> int:
    """The size of an array along an axis."""
    return array.dims[axis]


@export
def stride_along(array: Array, axis: int, item_size: int) -> int:
    """How far apart neighbours along an axis lie, in elements of so many bytes; -1 if that is no
    number of them."""
    stride = array.strides[axis]
    count = stride // item_size
    return count if count * item_size == stride else -1


@export
def is_apart(array: Array) -> bool:
    """Whether an array is not row-major."""
    return array.flags & CONTIGUOUS == 0


@export
def new_array(ndim: Int32, sizes: Row[int], descr: Object, size: int) -> Owned[Array | None]:
    """An array of so many dims and bytes; null with an error set."""
    if unsigned_less(size, ALIGNED_FROM):
        return PyArray_Empty(ndim, sizes, hold(descr), 0)
    return aligned_array(ndim, sizes, descr, size)


@export
def array_from(
    ndim: Int32, sizes: Row[int], descr: Object, memory: Row[Byte] | None, size: int
) -> Owned[Array | None]:
    """An array of what lies in memory that a program gave away, which is freed; null with an error
    set."""
    array = new_array(ndim, sizes, descr, size)
    if array is not None and memory is not None:
        copy(array.data, memory, size)
    free(memory)
    return array


# -- objects -------------------------------------------------------------------------------------


@export
def hidden_tuple(count: int) -> Owned[Tuple | None]:
    """A tuple of nothing yet, which nobody finds until it is shown; null with an error set. The
    empty one is everybody's."""
    made = PyTuple_New(count)
    if made is not None and count != 0:
        PyObject_GC_UnTrack(made)
    return made


@export
def show_tuple(made: Tuple, count: int) -> None:
    """Let the collector of garbage know of a tuple that was hidden."""
    if count != 0:
        PyObject_GC_Track(made)


@export
def hold_each(objects: Row[Owned[Object]], count: int) -> None:
    """Let a row of objects own them."""
    for i in range(count):
        objects[i] = hold(objects[i])


@export
def drop_each(objects: Owned[Row[Owned[Object]]], count: int) -> None:
    """Drop the objects that a row owns."""
    drop_row(objects, count)


# -- results -------------------------------------------------------------------------------------


@export
def outcome(status: int) -> Owned[Object | None]:
    """What a call gives whose status is not 0."""
    if status == BUSY:
        return hold(NONE)
    if status == INTERRUPTED:
        return None
    return PyLong_FromLongLong(status)


class Box(Record):
    """What is done with the array that an entry gives, and with calls that it leaves (names,
    arguments to convert, errors): the callable for those; an object for the array to come in one
    like it; the size of such an object, and the offset of the array in it."""

    portable: Object
    example: Object
    size: int
    slot: int


class Switch(Record, shared=True):
    """Where a bool of the configuration is."""

    value: Object


check_nan = constant(Switch, "check_nan")


@export
def boxed_call(
    call: Callable[[Object | None, Row[Object], int], Owned[Object | None]],
    box: Box,
    args: Row[Object],
    count: int,
    names: Tuple | None,
) -> Owned[Object | None]:
    """What a program gives, in a new box."""
    if check_nan.value is FALSE and names is None:
        result = call(None, args, count)
        if result is None:
            return None
        if is_array(result):
            return put_into_box(box, result)
        drop(result)
    return PyObject_Vectorcall(box.portable, args, count, names)


@native
def put_into_box(box: Box, array: Owned[Array]) -> Owned[Object | None]:
    """A new box of an array; null with an error set."""
    made = like(box.example, box.size, box.slot)
    if made is None:
        drop(array)
        return None
    slots = trusted(made, Row[Owned[Object | None]], "an object is its words")
    slots[box.slot >> 3] = array
    return made


HELPERS = (
    *CHECKS, hold_each, drop_each, size_along, stride_along, is_apart, data_of, new_array,
    array_from, outcome, boxed_call, hidden_tuple, show_tuple,
)  # fmt: skip
