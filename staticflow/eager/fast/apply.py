"""Native code of an op from its operands to tensors: begin here.

What is not the usual case goes to the general path, which gives the same.
"""

from __future__ import annotations

from staticflow.eager.fast.calls import call_python, clear_error
from staticflow.eager.fast.classes import State, finish, general
from staticflow.eager.fast.compute import compute_call, is_unrecorded
from staticflow.eager.fast.entry import record, record_several
from staticflow.eager.fast.objects import bit_of, has_flag, tensor_of, tensors_of
from staticflow.eager.fast.operands import current_state, is_recording, open_operands
from staticflow.eager.fast.records import FLAGS, MOST, Call, KnownOp, Operand, Step
from staticflow.eager.fast.view import wrap_view
from staticflow.graph.dtypes import DTYPES
from staticflow.native import cpython
from staticflow.native.cpython import Array, Tuple, is_array, is_tuple
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    drop,
    drop_row,
    inline,
    native,
    zero_record,
    zero_row,
)

__all__ = ["apply", "apply_usual"]

RECORDABLE, VIEW = FLAGS["RECORDABLE"], FLAGS["VIEW"]
FLOATS = sum(1 << i for i, dtype in enumerate(DTYPES) if dtype.is_floating)


# -- the op --------------------------------------------------------------------------------------


@native
def apply(
    op: KnownOp, objects: Row[Object], count: int, attrs: Object | None, step: Step | None
) -> Owned[Object | None]:
    """What an op gives of objects and attributes, a dict or null, as ``general(op, objects,
    attrs)`` does; null with an error set. ``step`` is the step of a plan by which it is called, or
    null."""
    out = apply_usual(op, objects, count, attrs, step)
    if out is not None or cpython.PyErr_Occurred() is not None:
        return out
    return call_python(general, op, objects, count, attrs, None)


@native
def apply_usual(
    op: KnownOp, objects: Row[Object], count: int, attrs: Object | None, step: Step | None
) -> Owned[Object | None]:
    """What `apply` gives in the usual case; null with an error set, or, with none, in any other."""
    if count > MOST:
        return None
    operands = zero_row(Operand, count, MOST)
    out = apply_to(operands, op, objects, count, attrs, step)
    drop_row(operands, count)
    return out


@inline
def apply_to(
    operands: Row[Operand],
    op: KnownOp,
    objects: Row[Object],
    count: int,
    attrs: Object | None,
    step: Step | None,
) -> Owned[Object | None]:
    """What an op gives in the usual case, its ``operands`` to be taken up; null with an error set,
    or, with none, in any other."""
    state = current_state()
    if state is None:
        return None
    call = zero_record(Call)
    call.op = op
    call.objects = objects
    call.count = count
    call.operands = operands
    call.attrs = attrs
    call.step = step
    out = compute_and_wrap(call, state) if open_operands(call, state) else None
    drop(state)
    return out


@inline
def compute_and_wrap(call: Call, state: State) -> Owned[Object | None]:
    """The tensors that a call gives of operands that are taken up; null as `apply_to`."""
    data = compute_call(call, state)
    if data is None:
        clear_error()  # the general path raises it again
        return None
    out = wrap_several(call, state, data) if is_tuple(data) else wrap_one(call, state, data)
    drop(data)
    return out


# -- tensors -------------------------------------------------------------------------------------


@inline
def wrap_one(call: Call, state: State, data: Object) -> Owned[Object | None]:
    """The tensor on an array that was computed, of which the tape knows; null with an error set."""
    if not is_array(data):
        return None
    if has_flag(call.op, VIEW):
        out = wrap_view(call, state, data)
        if out is None and cpython.PyErr_Occurred() is None:
            return finish_call(call, data)
    else:
        out = tensor_of(data)
    if out is not None and may_record(call, state, data) and not record(call, out, data):
        drop(out)
        return None
    return out


@inline
def may_record(call: Call, state: State, data: Array) -> bool:
    """Whether the tape is to know of what was computed, if a gradient is wanted."""
    return is_recording(state) and has_flag(call.op, RECORDABLE) and bit_of(data) & FLOATS != 0


@inline
def wrap_several(call: Call, state: State, data: Tuple) -> Owned[Object | None]:
    """The tensors on several arrays that were computed; null with an error set."""
    unrecorded = is_unrecorded(call, state)
    if cpython.PyErr_Occurred() is None:
        tensors = tensors_of(data, cpython.PyTuple_Size(data))
        if tensors is not None and (unrecorded or record_several(call, tensors, data)):
            return tensors
        drop(tensors)
    if not clear_error():  # an error is met again, but for an interrupt
        return None
    return finish_call(call, data)


@native
def finish_call(call: Call, data: Object) -> Owned[Object | None]:
    """The tensors on ``data``, the arrays that the op gave, or perhaps a view, made by Python; null
    with an error set."""
    return call_python(finish, call.op, call.objects, call.count, call.attrs, data)
