"""Native code that takes up what an operation is given, where that is the usual case.

The usual case: tensors on the host of dtypes that need no promotion, or a tensor beside numbers
that do not change its dtype, and none of the thread's rarer switches on.
"""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.fast.calls import clear_error
from staticflow.eager.fast.classes import (
    State,
    bfloat16,
    name_state,
    no_state,
    number_beside,
    state_type,
    thread,
)
from staticflow.eager.fast.objects import (
    bit_of,
    count_elements,
    dtype_of,
    has_flag,
    is_tensor,
    operand_array,
)
from staticflow.eager.fast.records import FLAGS, MEMO, NO_DTYPE, Call, KnownOp, NumberMemo, Operand
from staticflow.native import cpython
from staticflow.native.cpython import TRUE, TypeError_, bool_type, float_type, int_type, is_array
from staticflow.native.language import (
    Object,
    Owned,
    Record,
    Row,
    address,
    constant,
    drop,
    hold,
    inline,
    logical_shift,
    native,
    space,
    take,
    trust,
    variable,
)

__all__ = [
    "current_state", "is_recording", "is_usual", "open_number", "open_operand", "open_operands",
]  # fmt: skip

ANY_DTYPES, BY_NUMBER = FLAGS["ANY_DTYPES"], FLAGS["BY_NUMBER"]
NUMBERS, TAIL = FLAGS["NUMBERS"], FLAGS["TAIL"]


# -- the thread ----------------------------------------------------------------------------------


class Latest(Record, shared=True):
    """The thread that asked for its state last, by a number that no other ever has, and that."""

    thread: int
    state: Owned[State | None]


latest = variable(Latest, "latest_state", thread=-1)


@native
def current_state() -> Owned[State | None]:
    """The state of the thread that runs; null with an error set. While a thread ends, its
    finalizers may compute when the thread itself has let go of the state."""
    number = cpython.PyThreadState_GetID(cpython.PyThreadState_Get())
    if number == latest.thread:
        return hold(latest.state)
    state = cpython.PyObject_GetAttr(thread, name_state)
    if state is None:
        return None
    if not is_state(state):
        cpython.PyErr_SetObject(TypeError_, no_state)
        drop(state)
        return None
    before = take(latest.state)
    latest.thread = number
    latest.state = hold(state)
    drop(before)
    return state


@inline
def is_state(thing: Object) -> TypeGuard[State]:
    """Whether an object is a `State`."""
    return thing.type is state_type


@inline
def is_recording(state: State) -> bool:
    """Whether a thread records its operations."""
    return state.recording is TRUE


@inline
def is_usual(state: State) -> bool:
    """Whether none of the rarer switches of a thread is on."""
    return state.usual is TRUE


# -- one operand ---------------------------------------------------------------------------------


@native
def open_operand(operand: Operand) -> bool:
    """Whether an operand is a tensor on an array of the host whose dtype is one of ours, by the
    very object; it holds the array then."""
    thing = operand.object
    if not is_tensor(thing):
        return False
    array = thing.data
    if array is None or not is_array(array) or dtype_of(array) == NO_DTYPE:
        return False
    operand.size = count_elements(array)
    operand.array = hold(array)
    return True


memos = constant(Row[NumberMemo], "memo")


@native
def open_number(op: KnownOp, operand: Operand, beside: Operand) -> bool:
    """Whether an operand is a number that does not change the dtype of the tensor ``beside`` it;
    it holds the number as an array then, or, if the op takes it so, itself. An error is set if the
    user interrupted that."""
    number = trust(operand.object, Object, "an operand that is taken up has one")
    if not is_number(number):
        return False
    descr = operand_array(beside).descr
    bare = has_flag(op, BY_NUMBER) and descr is not bfloat16
    place = logical_shift(address(number) ^ address(descr), 4) & MEMO - 1
    memo = memos[place]
    neighbour = memos[place ^ 1]
    if memo.number is number and memo.descr is descr:
        operand.array = hold(memo.array)
    elif neighbour.number is number and neighbour.descr is descr:
        operand.array = hold(neighbour.array)
    else:
        held = hold(descr)  # an array may be given another dtype meanwhile
        array = remember_number(memo, neighbour, number, held)
        drop(held)
        if array is None:
            return False
        operand.array = array
    if bare:
        before = take(operand.array)
        operand.array = hold(number)
        drop(before)
    operand.is_number = True
    return True


@inline
def is_number(thing: Object) -> bool:
    """Whether an object is a float, an int or a bool, of the very class."""
    kind = thing.type
    return kind is float_type or kind is int_type or kind is bool_type


@native
def remember_number(
    memo: NumberMemo, neighbour: NumberMemo, number: Object, descr: Object
) -> Owned[Object | None]:
    """A number as an array of a dtype, which is remembered; null if that is none of its category.
    An error is set only if the user interrupted it.

    What was remembered there moves to the neighbour: two numbers of one call may have one place.
    """
    given = space(Object, 2)
    given[0] = number
    given[1] = descr
    array = cpython.PyObject_Vectorcall(number_beside, given, 2, None)
    if array is None:
        clear_error()
        return None
    number_before = take(neighbour.number)  # another thread may have been here meanwhile
    descr_before = take(neighbour.descr)
    array_before = take(neighbour.array)
    neighbour.number = take(memo.number)
    neighbour.descr = take(memo.descr)
    neighbour.array = take(memo.array)
    memo.number = hold(number)
    memo.descr = hold(descr)
    memo.array = hold(array)
    drop(number_before)
    drop(descr_before)
    drop(array_before)
    return array


# -- all operands --------------------------------------------------------------------------------


@native
def open_operands(call: Call, state: State) -> bool:
    """Whether a call is the usual case; its operands are open then. An error may be set if it is
    not."""
    if not is_usual(state):
        return False
    tensor: Operand | None = None
    others = 0
    for i in range(call.count):
        operand = call.operands[i]
        operand.object = call.objects[i]
        if open_operand(operand):
            tensor = operand
        else:
            others += 1
    if tensor is None:
        return call.count == 0  # what is made of attributes alone, and not of numbers
    if others != 0 and not has_flag(call.op, NUMBERS):
        return False
    return has_flag(call.op, ANY_DTYPES) or agree(call, tensor)


@inline
def agree(call: Call, tensor: Operand) -> bool:
    """Whether all operands, or all but the first, are of the dtype of the ``tensor`` among them,
    which the op takes, or numbers that do not change it. An error may be set if not."""
    if call.op.dtypes & bit_of(operand_array(tensor)) == 0:
        return False
    first = 0
    if has_flag(call.op, TAIL):
        if call.operands[0].array is None:
            return False
        first = 1
    for i in range(first, call.count):
        operand = call.operands[i]
        if operand.array is None:
            if not open_number(call.op, operand, tensor):
                return False
        elif operand_array(operand).descr is not operand_array(tensor).descr:
            return False
    return True
