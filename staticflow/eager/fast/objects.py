"""What native code of the eager side knows of Python's objects and of arrays."""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.fast.classes import (
    Memory,
    Tensor,
    View,
    memory_example,
    tensor_example,
    tensor_type,
    view_example,
)
from staticflow.eager.fast.records import NO_DTYPE, KnownOp, Operand
from staticflow.graph.dtypes import DTYPES
from staticflow.native import cpython
from staticflow.native.cpython import NONE, Array, Tuple
from staticflow.native.language import (
    Inside,
    Object,
    Owned,
    Row,
    constant,
    drop,
    external,
    hold,
    inline,
    native,
    offset_of,
    size_of,
    trust,
)
from staticflow.runtime.new_objects import like

__all__ = [
    "bit_of", "count_elements", "dtype_of", "has_flag", "is_memory", "is_tensor", "is_there",
    "is_view", "lies_alike", "new_row", "operand_array", "operand_tensor", "pair", "same_shape",
    "tensor_of", "tensors_of", "triple", "tuple_of_one",
]  # fmt: skip

COUNT = len(DTYPES)


# -- what slots hold -----------------------------------------------------------------------------


@inline
def is_there(value: Object | None) -> TypeGuard[Object]:
    """Whether a slot holds something: neither None nor null, which it is when it was deleted."""
    return (value is not None) & (value is not NONE)


@inline
def is_tensor(thing: Object | None) -> TypeGuard[Tensor]:
    """Whether an object is a tensor; false for null."""
    if thing is None:
        return False
    return thing.type is tensor_type or cpython.PyType_IsSubtype(thing.type, tensor_type) != 0


@inline
def is_memory(thing: Object) -> TypeGuard[Memory]:
    """Whether an object is a `Memory`."""
    return thing.type is memory_example.type


@inline
def is_view(thing: Object) -> TypeGuard[View]:
    """Whether an object is a `View`."""
    return thing.type is view_example.type


# -- new objects ---------------------------------------------------------------------------------


@external(symbol="row")
def new_row(length: int) -> Owned[Tuple | None]:
    """A tuple of nothing yet that the garbage collector does not know; null with an error set."""
    raise NotImplementedError


@native
def pair(x: Owned[Object], y: Owned[Object]) -> Owned[Tuple | None]:
    """A row of two objects; null with an error set. Nothing in it leads to a tensor, so that the
    garbage collector need not know of it."""
    things = new_row(2)
    if things is None:
        drop(x)
        drop(y)
        return None
    cpython.PyTuple_SetItem(things, 0, x)
    cpython.PyTuple_SetItem(things, 1, y)
    return things


@native
def lies_alike(a: Array, b: Array) -> bool:
    """Whether two arrays have the same sizes and strides."""
    if not same_shape(a, b):
        return False
    steps = a.strides
    others = b.strides
    for i in range(a.ndim):
        if steps[i] != others[i]:
            return False
    return True


@native
def two(x: Owned[Object], y: Owned[Object]) -> Owned[Tuple | None]:
    """A tuple of two objects; null with an error set."""
    things = cpython.PyTuple_New(2)
    if things is None:
        drop(x)
        drop(y)
        return None
    cpython.PyTuple_SetItem(things, 0, x)
    cpython.PyTuple_SetItem(things, 1, y)
    return things


@native
def triple(
    x: Owned[Object | None], y: Owned[Object | None], z: Owned[Object | None]
) -> Owned[Tuple | None]:
    """A row of three objects, as `pair` makes it of two; null if one of them is null, or with an
    error set."""
    if x is not None and y is not None and z is not None:
        things = new_row(3)
        if things is not None:
            cpython.PyTuple_SetItem(things, 0, x)
            cpython.PyTuple_SetItem(things, 1, y)
            cpython.PyTuple_SetItem(things, 2, z)
            return things
    drop(x)
    drop(y)
    drop(z)
    return None


@inline
def tensor_of(array: Array) -> Owned[Tensor | None]:
    """A new tensor that holds an array; null with an error set."""
    new = like(tensor_example, size_of(Tensor), offset_of(Tensor, "weakref"))
    if new is not None:
        new.data = hold(array)
    return new


@native
def tuple_of_one(array: Array) -> Owned[Tuple | None]:
    """A tuple of a new tensor that holds an array; null with an error set."""
    tensor = tensor_of(array)
    if tensor is None:
        return None
    row = cpython.PyTuple_New(1)
    if row is None:
        drop(tensor)
        return None
    cpython.PyTuple_SetItem(row, 0, tensor)
    return row


@native
def tensors_of(data: Tuple, count: int) -> Owned[Tuple | None]:
    """The first arrays of a tuple as tensors; null if they are not all arrays, or with an error
    set. The garbage collector knows the new tuple only when it is full; the empty one is
    everybody's."""
    tensors = cpython.PyTuple_New(count)
    if tensors is None or count == 0:
        return tensors
    cpython.PyObject_GC_UnTrack(tensors)
    for i in range(count):
        array = data.items[i]
        tensor = tensor_of(array) if cpython.is_array(array) else None
        if tensor is None:
            drop(tensors)
            return None
        cpython.PyTuple_SetItem(tensors, i, tensor)
    cpython.PyObject_GC_Track(tensors)
    return tensors


# -- operands ------------------------------------------------------------------------------------


@inline
def has_flag(op: KnownOp, flag: int) -> bool:
    """Whether a flag of an op is set."""
    return op.flags & flag != 0


@inline
def operand_tensor(operand: Operand) -> Inside[Tensor]:
    """The tensor of an operand that was opened."""
    return trust(operand.object, Tensor, "only what is a tensor is opened")


@inline
def operand_array(operand: Operand) -> Inside[Array]:
    """The array of an operand that was opened."""
    return trust(operand.array, Array, "what is opened holds the array of its tensor")


# -- arrays --------------------------------------------------------------------------------------

descrs = constant(Row[Object], "descrs")


@inline
def dtype_of(array: Array) -> int:
    """The index of an array's dtype among all dtypes, `NO_DTYPE` if it is none of ours."""
    descr = array.descr
    for i in range(COUNT):
        if descrs[i] is descr:
            return i
    return NO_DTYPE


@inline
def bit_of(array: Array) -> int:
    """The index of an array's dtype as a bit; 0 if it is none of ours."""
    index = dtype_of(array)
    return 1 << index if index != NO_DTYPE else 0


@native
def count_elements(array: Array) -> int:
    """How many elements an array has."""
    sizes = array.dims
    count = 1
    for i in range(array.ndim):
        count *= sizes[i]
    return count


@native
def same_shape(a: Array, b: Array) -> bool:
    """Whether two arrays have the same sizes."""
    ndim = a.ndim
    if ndim != b.ndim:
        return False
    sizes = a.dims
    others = b.dims
    for i in range(ndim):
        if sizes[i] != others[i]:
            return False
    return True
