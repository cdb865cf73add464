"""Native code by which Python calls ops: functions, methods, and what they hand on."""

from __future__ import annotations

from staticflow.eager.fast.apply import apply
from staticflow.eager.fast.classes import general, op_call
from staticflow.eager.fast.objects import given_count
from staticflow.eager.fast.records import MOST, Op
from staticflow.native.cpython import (
    PyDict_Size,
    PyErr_NoMemory,
    PyLong_AsVoidPtr,
    PyMem_Free,
    PyMem_Malloc,
    PyObject_Vectorcall,
    PyTuple_Size,
    Tuple,
    is_dict,
    is_tuple,
)
from staticflow.native.language import (
    Inside,
    Object,
    Owned,
    Row,
    copy,
    export,
    inline,
    native,
    space,
    trusted,
)

__all__ = ["ENTRIES", "call_op", "call_op_on", "call_reflected", "forward"]


@inline
def op_at(address: Object) -> Inside[Op]:
    """The op whose record lies at an address, an int."""
    return trusted(PyLong_AsVoidPtr(address), Op, "it was made with this address")


@export
def function(
    self: Object, given: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """The function of the op at an address, called with its arguments and its attributes: a tuple
    and a dict; other sequences and mappings, and wrong calls, are for the general path."""
    op = op_at(self)
    if count == 2 and names is None:
        args = given[0]
        attrs = given[1]
        if is_tuple(args) and is_dict(attrs):
            named = attrs if PyDict_Size(attrs) != 0 else None
            return apply(op, args.items, PyTuple_Size(args), named, None)
    return forward(general, op.object, None, given, count, names)


@export
def direct(
    self: Object, objects: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """`call_op` of the op at an address."""
    return call_op(op_at(self), objects, count, names)


@export
def call_op(op: Op, objects: Row[Object], count: int, names: Tuple | None) -> Owned[Object | None]:
    """What an op gives of what a call gives; names, and a wrong number of arguments, are for the op
    itself."""
    if names is None and count == op.arity:
        return apply(op, objects, count, None, None)
    return forward(op_call, op.object, None, objects, count, names)


@export
def call_op_on(
    op: Op, self: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """`call_op` of an object and the arguments of its method."""
    if names is None and count + 1 == op.arity and count < MOST:
        objects = space(Object, MOST)
        objects[0] = self
        copy(objects[1:], args, count)
        return apply(op, objects, count + 1, None, None)
    return forward(op_call, op.object, self, args, count, names)


@export
def call_reflected(
    op: Op, self: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """`call_op` of the operand of an operator's method and then its object."""
    objects = space(Object, 2)
    if count != 1:
        objects[0] = self
        return call_op(op, objects, 1, None)
    objects[0] = args[0]
    objects[1] = self
    return call_op(op, objects, 2, None)


# -- calls that are handed on --------------------------------------------------------------------


@native
def forward(
    callable: Object,
    first: Object | None,
    second: Object | None,
    args: Row[Object],
    count: int,
    names: Tuple | None,
) -> Owned[Object | None]:
    """What a function of Python gives of one or two objects, which may be null, before the
    arguments of a call. Few of these are on the stack, of which there is not much: a caller may
    give millions."""
    given = given_count(count, names)
    if given <= MOST:
        objects = space(Object, MOST + 2)
        return forward_in(objects, callable, first, second, args, count, given, names)
    memory = PyMem_Malloc((given + 2) * 8)
    if memory is None:
        return PyErr_NoMemory()
    result = forward_in(memory, callable, first, second, args, count, given, names)
    PyMem_Free(memory)
    return result


@native
def forward_in(
    objects: Row[Object],
    callable: Object,
    first: Object | None,
    second: Object | None,
    args: Row[Object],
    count: int,
    given: int,
    names: Tuple | None,
) -> Owned[Object | None]:
    """`forward`, in a row with room for the ``given`` arguments and two more."""
    before = 0
    if first is not None:
        objects[0] = first
        before = 1
    if second is not None:
        objects[before] = second
        before += 1
    copy(objects[before:], args, given)
    return PyObject_Vectorcall(callable, objects, count + before, names)


ENTRIES = (function, direct, call_op, call_op_on, call_reflected)
