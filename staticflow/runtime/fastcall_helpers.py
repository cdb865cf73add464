"""What calls of all programs share, as native code: arrays and tuples are made, it is looked at how
arrays lie, and said what a call gives."""

from __future__ import annotations

from staticflow.codegen.statuses import INTERRUPTED
from staticflow.native import cpython
from staticflow.native.cpython import NONE, Array, Tuple
from staticflow.native.language import (
    Byte,
    Int32,
    Object,
    Owned,
    Row,
    copy,
    export,
    external,
    hold,
    native,
)
from staticflow.runtime.interpreter_lock import BUSY
from staticflow.runtime.object_layout import CONTIGUOUS

__all__ = ["MEASURING", "array_from", "hidden_tuple", "outcome", "plain_array", "show_tuple"]


@external(runs=False)
def free(memory: object) -> None:
    """Give memory of the C library back, which may be null."""
    raise NotImplementedError


# -- arrays --------------------------------------------------------------------------------------


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
def plain_array(ndim: Int32, sizes: Row[int], descr: Object, size: int) -> Owned[Array | None]:
    """An array as NumPy makes it, of so many dims; null with an error set."""
    return cpython.PyArray_Empty(ndim, sizes, hold(descr), 0)


@native
def array_from(
    array: Owned[Array | None], memory: Row[Byte] | None, size: int
) -> Owned[Array | None]:
    """An array with the bytes that lie in memory that a program gave away, which is freed."""
    if array is not None and memory is not None:
        copy(array.data, memory, size)
    free(memory)
    return array


# -- objects -------------------------------------------------------------------------------------


@native
def hidden_tuple(count: int) -> Owned[Tuple | None]:
    """A tuple of nothing yet, which nobody finds until it is shown; null with an error set. The
    empty one is everybody's."""
    made = cpython.PyTuple_New(count)
    if made is not None and count != 0:
        cpython.PyObject_GC_UnTrack(made)
    return made


@native
def show_tuple(made: Tuple, count: int) -> None:
    """Let the collector of garbage know of a tuple that was hidden."""
    if count != 0:
        cpython.PyObject_GC_Track(made)


# -- results -------------------------------------------------------------------------------------


@native
def outcome(status: int) -> Owned[Object | None]:
    """What a call gives whose status is not 0."""
    if status == BUSY:
        return hold(NONE)
    if status == INTERRUPTED:
        return None
    return cpython.PyLong_FromLongLong(status)


MEASURING = (stride_along, is_apart)
"""The functions that the code of each program calls."""
