"""Native code that calls functions of Python, and hands calls on to them."""

from __future__ import annotations

from staticflow.eager.fast.classes import no_attrs, operand_errors
from staticflow.eager.fast.records import MOST, KnownOp
from staticflow.native import cpython
from staticflow.native.cpython import Tuple
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    copy,
    drop,
    hold,
    inline,
    native,
    space,
)

__all__ = ["call_python", "clear_error", "forward", "given_count"]


# -- the general path ----------------------------------------------------------------------------


@native
def call_python(
    function: Object,
    op: KnownOp,
    objects: Row[Object],
    count: int,
    attrs: Object | None,
    data: Object | None,
) -> Owned[Object | None]:
    """What a function of Python gives of an op, the objects as a tuple, the attributes, and what
    was computed, if anything was; null with an error set."""
    args = cpython.PyTuple_New(count)
    if args is None:
        return None
    for i in range(count):
        cpython.PyTuple_SetItem(args, i, hold(objects[i]))
    result = call_on_tuple(function, op, args, attrs, data)
    drop(args)
    return result


@inline
def call_on_tuple(
    function: Object, op: KnownOp, args: Tuple, attrs: Object | None, data: Object | None
) -> Owned[Object | None]:
    """`call_python`, of objects in a tuple."""
    given = space(Object, 4)
    given[0] = op.object
    given[1] = args
    given[2] = attrs if attrs is not None else no_attrs
    if data is not None:
        given[3] = data
    return cpython.PyObject_Vectorcall(function, given, 3 if data is None else 4, None)


@native
def clear_error() -> bool:
    """Whether another way may be tried: nothing was raised, or one of `OPERAND_ERRORS`, which it
    will word and which is cleared; others stay."""
    if cpython.PyErr_Occurred() is None:
        return True
    if cpython.PyErr_ExceptionMatches(operand_errors) == 0:
        return False
    cpython.PyErr_Clear()
    return True


# -- calls that are handed on --------------------------------------------------------------------


@inline
def given_count(count: int, names: Tuple | None) -> int:
    """How many arguments a call gives: by position, and by names."""
    return count if names is None else count + cpython.PyTuple_Size(names)


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
    memory = cpython.PyMem_Malloc((given + 2) * 8)
    if memory is None:
        return cpython.PyErr_NoMemory()
    result = forward_in(memory, callable, first, second, args, count, given, names)
    cpython.PyMem_Free(memory)
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
    return cpython.PyObject_Vectorcall(callable, objects, count + before, names)
