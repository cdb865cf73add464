"""Native code that adds what several users of a vertex give for its cotangent."""

from __future__ import annotations

from staticflow.eager.costs import SPREAD
from staticflow.eager.fast.apply import apply
from staticflow.eager.fast.change import call_ufunc_into
from staticflow.eager.fast.classes import Tensor, plus, sum_cotangents
from staticflow.eager.fast.objects import count_elements, is_tensor
from staticflow.eager.fast.operands import is_recording
from staticflow.eager.fast.records import KnownOp, Walk
from staticflow.native import cpython
from staticflow.native.cpython import is_array
from staticflow.native.language import (
    Object,
    Owned,
    address,
    constant,
    drop,
    hold,
    native,
    space,
)

__all__ = ["add_any", "forget_sum"]

add_op = constant(KnownOp, "add_op")


@native
def add_any(walk: Walk, before: Object, ct: Object) -> Owned[Object | None]:
    """The sum of two cotangents of one vertex, as `tape.sum_cotangents` gives it; null with an
    error set."""
    if is_recording(walk.state) or not is_tensor(before) or not is_tensor(ct):
        return add_by_python(walk, before, ct)
    return add_usual(walk, before, ct) if may_add(before, ct) else add_by_python(walk, before, ct)


@native
def add_by_python(walk: Walk, before: Object, ct: Object) -> Owned[Object | None]:
    """The sum of two cotangents of one vertex, which Python makes; null with an error set."""
    given = space(Object, 3)
    given[0] = before
    given[1] = ct
    given[2] = walk.sums
    return cpython.PyObject_Vectorcall(sum_cotangents, given, 3, None)


@native
def may_add(before: Tensor, ct: Tensor) -> bool:
    """Whether two cotangents are small arrays of the host of one dtype."""
    data = before.data
    more = ct.data
    if data is None or more is None or not is_array(data) or not is_array(more):
        return False
    return data.descr is more.descr and count_elements(data) < SPREAD


@native
def add_usual(walk: Walk, before: Tensor, ct: Tensor) -> Owned[Object | None]:
    """The sum of two small cotangents, in place if the first is a sum that the walk has made; null
    with an error set."""
    number = cpython.PyLong_FromLongLong(address(before))
    if number is None:
        return None
    found = cpython.PySet_Contains(walk.sums, number)
    drop(number)
    if found < 0:
        return None
    if found == 1:
        return hold(before) if add_in_place(walk, before, ct) else None
    both = space(Object, 2)
    both[0] = before
    both[1] = ct
    total = apply(add_op, both, 2, None, None)
    if total is None:
        return None
    if note_sum(walk, total):
        return total
    drop(total)
    return None


@native
def add_in_place(walk: Walk, before: Tensor, ct: Tensor) -> bool:
    """Add the array of a cotangent to that of another; false with an error set."""
    total = hold(before.data)
    term = hold(ct.data)
    good = total is not None and term is not None and add_array(walk, total, term)
    drop(total)
    drop(term)
    return good


@native
def add_array(walk: Walk, total: Object, term: Object) -> bool:
    """Add an array to another in place; false with an error set."""
    arrays = space(Object, 3)
    arrays[0] = total
    arrays[1] = term
    arrays[2] = total
    return call_ufunc_into(plus, arrays, 3, walk.state)


@native
def note_sum(walk: Walk, total: Object) -> bool:
    """Note that the walk has made a sum; false with an error set."""
    number = cpython.PyLong_FromLongLong(address(total))
    if number is None:
        return False
    good = cpython.PySet_Add(walk.sums, number) == 0
    drop(number)
    return good


@native
def forget_sum(walk: Walk, ct: Object) -> bool:
    """Note that a cotangent is passed on, perhaps to several; false with an error set."""
    if cpython.PySet_Size(walk.sums) == 0:
        return True
    number = cpython.PyLong_FromLongLong(address(ct))
    if number is None:
        return False
    good = cpython.PySet_Discard(walk.sums, number) >= 0
    drop(number)
    return good
