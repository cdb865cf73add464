"""Native code of what a vertex keeps: how it is looked whether that was changed meanwhile, and what
`staticflow.eager.vjp_plans.vjp_of` is given of it."""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.fast.classes import Entry, SavedType, State, row_type, saved_type_example
from staticflow.eager.fast.objects import is_memory, is_tensor, tensor_of
from staticflow.native import cpython
from staticflow.native.cpython import NONE, Array, Tuple, int_type, is_array, is_tuple, tuple_type
from staticflow.native.language import Int32, Object, Owned, drop, hold, inline, native, space

__all__ = ["describe_value", "forget", "is_of_many", "is_row", "open_saved"]


@inline
def is_row(things: Object | None) -> TypeGuard[Tuple]:
    """Whether this is a tuple, or a row that native code has made."""
    if things is None:
        return False
    return things.type is tuple_type or things.type is row_type


@native
def open_saved(kept: Tuple) -> Owned[Array | None]:
    """The array of a saved value; null if it was changed, or is none of the host."""
    if cpython.PyTuple_Size(kept) != 3:
        return None
    array = cpython.PyTuple_GetItem(kept, 0)
    memory = cpython.PyTuple_GetItem(kept, 1)
    if not is_array(array) or not is_memory(memory):
        return None
    version = memory.version
    if version is None or not is_same_number(version, cpython.PyTuple_GetItem(kept, 2)):
        return None
    return hold(array)


@native
def keeps_values(args: Tuple, result: Object) -> bool:
    """Whether an entry keeps a value that backward frees."""
    if is_row(result):
        return True
    for i in range(cpython.PyTuple_Size(args)):
        if is_row(cpython.PyTuple_GetItem(args, i)):
            return True
    return False


@native
def forget(entry: Entry, args: Tuple, result: Object, retain: bool, state: State) -> bool:
    """Let an entry forget the values that it keeps, if backward is to free them; whether it did."""
    if retain or not keeps_values(args, result):
        return False
    at = state.last_backward
    last = hold(at if at is not None else NONE)
    entry.args = hold(NONE)
    entry.result = last
    return True


@native
def is_same_number(a: Object, b: Object) -> bool:
    """Whether two ints of at most 64 bits are the same number."""
    if a is b:
        return True
    if a.type is not int_type or b.type is not int_type:
        return False
    overflow = space(Int32, 1)
    number = cpython.PyLong_AsLongLongAndOverflow(a, overflow)
    if overflow[0] != 0:
        return False
    other = cpython.PyLong_AsLongLongAndOverflow(b, overflow)
    return overflow[0] == 0 and number == other


@native
def describe_value(kept: Object, edge: Object) -> Owned[Object | None]:
    """A saved value of a vertex in the form that `staticflow.eager.vjp_plans.vjp_of` takes: a
    tensor that came by an edge, a shape and a dtype, a number, or None for a type that is the
    cotangent's. Null where Python has to look at the value, or with an error set."""
    if is_row(kept):
        array = open_saved(kept)
        if array is None:
            return None
        tensor = load_value(array, kept, edge)
        drop(array)
        return tensor
    if is_saved_type(kept):
        return describe_type(kept)
    return hold(kept)


@inline
def is_saved_type(thing: Object) -> TypeGuard[SavedType]:
    """Whether an object is a `SavedType`."""
    return thing.type is saved_type_example.type


@native
def load_value(array: Array, kept: Tuple, edge: Object) -> Owned[Object | None]:
    """The tensor on an array that was kept: the leaf that an edge leads to if it is that, else a
    new one that is on the tape where it was. Null with an error set."""
    if is_tensor(edge) and edge.data is array:
        return hold(edge)
    out = tensor_of(array)
    if out is None:
        return None
    out.memory = hold(cpython.PyTuple_GetItem(kept, 1))
    out.vertex = hold(edge)
    return out


@native
def describe_type(kept: SavedType) -> Owned[Object | None]:
    """The shape and dtype that are kept of a tensor of the host, as a tuple; null of another, or
    with an error set."""
    shape = kept.shape
    dtype = kept.dtype
    if kept.sf_gpu is not NONE or shape is None or dtype is None or not is_tuple(shape):
        return None
    held = hold(shape)
    held_dtype = hold(dtype)
    both = cpython.PyTuple_New(2)
    if both is None:
        drop(held)
        drop(held_dtype)
        return None
    cpython.PyTuple_SetItem(both, 0, held)
    cpython.PyTuple_SetItem(both, 1, held_dtype)
    return both


@native
def has_fewer(shape: Tuple, most: int) -> bool:
    """Whether a shape has fewer elements than ``most``."""
    overflow = space(Int32, 1)
    count = 1
    for i in range(cpython.PyTuple_Size(shape)):
        size = cpython.PyLong_AsLongLongAndOverflow(cpython.PyTuple_GetItem(shape, i), overflow)
        count = 0 if size == 0 else min(count, most) * min(size, most)
        if count == 0:
            return True
    return count < most


@native
def is_of_many(kept: Object, least: int) -> bool:
    """Whether what is kept of a tensor is its shape, of ``least`` elements or more."""
    if not is_saved_type(kept):
        return False
    shape = kept.shape
    return shape is not None and is_tuple(shape) and not has_fewer(shape, least)
