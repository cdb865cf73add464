"""Native code that Python calls for an op: by its function, its method, its operator."""

from __future__ import annotations

from staticflow.eager.fast.apply import apply, apply_usual
from staticflow.eager.fast.calls import forward
from staticflow.eager.fast.classes import general, op_call
from staticflow.eager.fast.recall import recall
from staticflow.eager.fast.records import MOST, KnownOp
from staticflow.native import cpython
from staticflow.native.cpython import Tuple, is_dict, is_tuple
from staticflow.native.language import (
    Inside,
    Object,
    Owned,
    Row,
    copy,
    export,
    inline,
    space,
    trust,
)

__all__ = ["ENTRIES", "call_op", "call_op_on", "call_reflected"]


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
    to `Op.call`. What is not the usual case, as operands that are promoted, is remembered."""
    if names is not None or count != op.arity:
        return forward(op_call, op.object, None, objects, count, names)
    out = apply_usual(op, objects, count, None, None)
    if out is not None or cpython.PyErr_Occurred() is not None:
        return out
    return recall(op.otherwise, None, objects, count, None)


@export
def call_op_on(
    op: KnownOp, self: Object, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """`call_op` of an object and the arguments of its method: ``x.mul(y)`` of ``x`` and ``y``."""
    if names is None and count + 1 == op.arity and count < MOST:
        objects = space(Object, MOST)
        objects[0] = self
        copy(objects[1:], args, count)
        return call_op(op, objects, count + 1, None)
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


ENTRIES = (call_with_attrs, call_op_at, call_op, call_op_on, call_reflected)
