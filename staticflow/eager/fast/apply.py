"""Native code of an op from its operands to tensors: begin here.

What is not the usual case goes to the general path, which gives the same.
"""

from __future__ import annotations

from staticflow.eager.fast.calls import call_python, clear_error, forward
from staticflow.eager.fast.classes import State, finish, general, op_call
from staticflow.eager.fast.compute import compute_call, is_unrecorded
from staticflow.eager.fast.entry import record, record_several
from staticflow.eager.fast.objects import bit_of, has_flag, tensor_of, tensors_of
from staticflow.eager.fast.operands import current_state, is_recording, open_operands
from staticflow.eager.fast.records import FLAGS, MOST, Call, KnownOp, Operand, Step
from staticflow.eager.fast.view import wrap_view
from staticflow.graph.dtypes import DTYPES
from staticflow.native import cpython
from staticflow.native.cpython import Array, Tuple, is_array, is_dict, is_tuple
from staticflow.native.language import (
    Inside,
    Object,
    Owned,
    Row,
    copy,
    drop,
    drop_row,
    export,
    inline,
    native,
    space,
    trust,
    zero_record,
    zero_row,
)

__all__ = ["ENTRIES", "apply", "call_op", "call_op_on", "call_reflected"]

RECORDABLE, VIEW = FLAGS["RECORDABLE"], FLAGS["VIEW"]
FLOATS = sum(1 << i for i, dtype in enumerate(DTYPES) if dtype.is_floating)


# -- what Python calls --------------------------------------------------------------------------


@inline
def op_at(address: Object) -> Inside[KnownOp]:
    """The op whose record lies at an address, an int."""
    return trust(cpython.PyLong_AsVoidPtr(address), KnownOp, "it was made with this address")


@export
def call_with_attrs(
    self: Object, given: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """What the op at an address gives of a tuple of arguments and a dict of attributes. Other
    sequences and mappings, and wrong calls, go to the general path."""
    op = op_at(self)
    if count == 2 and names is None:
        args = given[0]
        attrs = given[1]
        if is_tuple(args) and is_dict(attrs):
            named = attrs if cpython.PyDict_Size(attrs) != 0 else None
            return apply(op, args.items, cpython.PyTuple_Size(args), named, None)
    return forward(general, op.object, None, given, count, names)


@export
def call_op_at(
    self: Object, objects: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """`call_op` of the op whose record lies at an address."""
    return call_op(op_at(self), objects, count, names)


@export
def call_op(
    op: KnownOp, objects: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """What an op gives of arguments without attributes. Names, and a wrong number of arguments, go
    to `Op.call`."""
    if names is None and count == op.arity:
        return apply(op, objects, count, None, None)
    return forward(op_call, op.object, None, objects, count, names)


@export
def call_op_on(
    op: KnownOp, self: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """`call_op` of an object and the arguments of its method: ``x.mul(y)`` of ``x`` and ``y``."""
    if names is None and count + 1 == op.arity and count < MOST:
        objects = space(Object, MOST)
        objects[0] = self
        copy(objects[1:], args, count)
        return apply(op, objects, count + 1, None, None)
    return forward(op_call, op.object, self, args, count, names)


@export
def call_reflected(
    op: KnownOp, self: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """`call_op` of an operator's operands the other way round: ``x.__rsub__(y)`` of ``y`` and
    ``x``."""
    objects = space(Object, 2)
    if count != 1:
        objects[0] = self
        return call_op(op, objects, 1, None)
    objects[0] = args[0]
    objects[1] = self
    return call_op(op, objects, 2, None)


# -- the op --------------------------------------------------------------------------------------


@native
def apply(
    op: KnownOp, objects: Row[Object], count: int, attrs: Object | None, step: Step | None
) -> Owned[Object | None]:
    """What an op gives of objects and attributes, a dict or null, as ``general(op, objects,
    attrs)`` does; null with an error set. ``step`` is the step of a plan by which it is called, or
    null."""
    if count <= MOST:
        operands = zero_row(Operand, count, MOST)
        out = apply_to(operands, op, objects, count, attrs, step)
        drop_row(operands, count)
        if out is not None or cpython.PyErr_Occurred() is not None:
            return out
    return call_python(general, op, objects, count, attrs, None)


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


ENTRIES = (call_with_attrs, call_op_at, call_op, call_op_on, call_reflected)
