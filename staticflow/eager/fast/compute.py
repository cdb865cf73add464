"""Native code that computes an op on arrays: by what the step of a plan knows of it, by the kernel
that did so last on large arrays, or by NumPy."""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.costs import HALVES, LARGE, STARTED, SUMMED_ROW
from staticflow.eager.fast.classes import State, asarray
from staticflow.eager.fast.entry import find_edges
from staticflow.eager.fast.objects import bit_of, has_flag, operand_array
from staticflow.eager.fast.operands import is_recording
from staticflow.eager.fast.records import FLAGS, MOST, Call, Cell, KnownOp, Step, TakenArray, Taking
from staticflow.eager.fast.view import part_of
from staticflow.eager.work import joint_work, work_by_rows
from staticflow.graph.dtypes import DTYPES
from staticflow.native import cpython
from staticflow.native.cpython import Array, is_array, is_tuple
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    drop,
    drop_row,
    hold,
    inline,
    native,
    space,
    trust,
)
from staticflow.runtime.object_layout import CONTIGUOUS

__all__ = [
    "call_in_context", "compute_call", "compute_in_order", "compute_taken", "is_unrecorded",
    "kernel_at", "run_kernel", "try_compute",
]  # fmt: skip

RECORDABLE, NUMBERS = FLAGS["RECORDABLE"], FLAGS["NUMBERS"]
REDUCES, OF_HALVES, EVEN = FLAGS["REDUCES"], FLAGS["HALVES"], FLAGS["EVEN"]
SHORT_FLOATS = sum(1 << i for i, d in enumerate(DTYPES) if d.is_floating and d.bits == 16)


# -- kernels -------------------------------------------------------------------------------------


@inline
def is_whole(data: Object) -> bool:
    """Whether this is an array, or a tuple of what an op gives, and no scalar."""
    return is_array(data) or is_tuple(data)


@native
def try_compute(kernel: Object, arrays: Row[Object], count: int) -> Owned[Object | None]:
    """What a kernel gives of arrays; null if it declines, since they are not as it takes them or by
    the number of an error, or with an error set if it fails."""
    data = cpython.PyObject_Vectorcall(kernel, arrays, count, None)
    if data is not None and not is_whole(data):
        drop(data)
        return None
    return data


MOST_ARRAYS = 128
"""Arrays that `compute_in_order` copies at most."""


@native
def compute_in_order(kernel: Object, arrays: Row[Object], count: int) -> Owned[Object | None]:
    """`try_compute`, where the kernel declines of copies of those arrays that are not row-major."""
    data = try_compute(kernel, arrays, count)
    if data is not None or cpython.PyErr_Occurred() is not None:
        return data
    if count > MOST_ARRAYS or not lies_apart(arrays, count):
        return None
    copies = space(Owned[Object], MOST_ARRAYS)
    known = copy_in_order(copies, arrays, count)
    if known == count:
        data = compute_of_held(kernel, copies, count)
    drop_row(copies, known)
    return data


@native
def compute_of_held(kernel: Object, held: Row[Owned[Object]], count: int) -> Owned[Object | None]:
    """`try_compute`, of arrays that the caller holds."""
    given = space(Object, MOST_ARRAYS)
    for i in range(count):
        given[i] = held[i]
    return try_compute(kernel, given, count)


@native
def copy_in_order(copies: Row[Owned[Object]], arrays: Row[Object], count: int) -> int:
    """Write arrays, those that are not row-major as copies. How many these are: fewer with an error
    set."""
    for i in range(count):
        array = arrays[i]
        if is_apart(array):
            copy = cpython.PyArray_NewCopy(array, 0)
            if copy is None:
                return i
            copies[i] = copy
        else:
            copies[i] = hold(array)
    return count


@native
def lies_apart(arrays: Row[Object], count: int) -> bool:
    """Whether one of some arrays is not row-major."""
    for i in range(count):
        if is_apart(arrays[i]):
            return True
    return False


@inline
def is_apart(thing: Object) -> TypeGuard[Array]:
    """Whether this is an array that is not row-major."""
    return is_array(thing) and thing.flags & CONTIGUOUS == 0


@inline
def kernel_at(cell: Cell | None) -> Object | None:
    """The kernel that lies in a cell, which may take another; null if there is none, or no cell."""
    return cell.object if cell is not None else None


# -- what a kernel takes otherwise --------------------------------------------------------------


@native
def compute_taken(
    taking: Taking, kernel: Object, arrays: Row[Object], count: int
) -> Owned[Object | None]:
    """What a kernel gives that takes operands otherwise than as they are; null if it declines, if
    they are not as planned, or with an error set."""
    given = space(Owned[Object], MOST_ARRAYS)
    known = take_arrays(given, taking, arrays, count)
    data = compute_of_held(kernel, given, known) if known == taking.count else None
    drop_row(given, known)
    back = taking.back
    if data is None or back is None:
        return data
    seen = part_of(back, data) if is_array(data) else None
    drop(data)
    return seen


@native
def take_arrays(given: Row[Owned[Object]], taking: Taking, arrays: Row[Object], count: int) -> int:
    """Write what a kernel takes. How many arrays these are: fewer if one is not as planned, or with
    an error set."""
    for i in range(taking.count):
        array = take_array(taking.arrays[i], arrays[i] if i < count else None)
        if array is None:
            return i
        given[i] = array
    return taking.count


@inline
def take_array(taken: TakenArray, operand: Object | None) -> Owned[Object | None]:
    """What a kernel takes for one of its arrays; null if the ``operand``, which is null where there
    is none, is not as planned, or with an error set."""
    own = taken.object
    if own is not None or operand is None:
        return hold(own)
    view = taken.view
    if view is not None:
        return part_of(view, operand) if is_array(operand) else None
    if taken.copied != 0 and is_apart(operand):
        return cpython.PyArray_NewCopy(operand, 0)
    return hold(operand)


# -- ways that are known -------------------------------------------------------------------------


@inline
def run_kernel(step: Step, kernel: Object, arrays: Row[Object], count: int) -> Owned[Object | None]:
    """What the kernel of a step gives of arrays; null as `compute_step`."""
    taking = step.taking
    if taking is None:
        return try_compute(kernel, arrays, count)
    return compute_taken(taking, kernel, arrays, count)


@native
def compute_step(step: Step, arrays: Row[Object], count: int) -> Owned[Object | None]:
    """What a step gives of arrays by what is known of its kind; null if nothing is, if that
    declines, or with an error set."""
    view = step.view
    kernel = step.compute
    if kernel is None:
        first = arrays[0]
        return part_of(view, first) if view is not None and is_array(first) else None
    vector = step.vector
    if vector is None or view is None:
        return run_kernel(step, kernel, arrays, count)
    second = arrays[1]  # for which the vector stands, and in whose shape the result is seen
    arrays[1] = vector
    row = run_kernel(step, kernel, arrays, count)
    arrays[1] = second
    if row is None:
        return None
    shaped = part_of(view, row) if is_array(row) else None
    drop(row)
    return shaped


@inline
def compute_as_known(
    op: KnownOp, step: Step | None, arrays: Row[Object], count: int, by_kernel: bool
) -> Owned[Object | None]:
    """What the step of a call gives of arrays, or else, ``by_kernel``, what computed the op of
    large arrays last; null if these decline, or with an error set."""
    if step is not None:
        data = compute_step(step, arrays, count)
        if data is not None or cpython.PyErr_Occurred() is not None:
            return data
    if not by_kernel:
        return None
    kernel = hold(kernel_at(op.kernel))
    if kernel is None:
        return None
    again = try_compute(kernel, arrays, count)
    drop(kernel)
    return again


# -- any way -------------------------------------------------------------------------------------


@native
def compute_call(call: Call, state: State) -> Owned[Object | None]:
    """What comes of the operands of a call, an array or a tuple; null if there is nothing, with an
    error set or not."""
    count = call.count
    arrays = space(Object, count, MOST)
    most = 0
    for i in range(count):
        operand = call.operands[i]
        arrays[i] = trust(operand.array, Object, "what is open holds an array or a number")
        most = max(most, operand.size)
    work = most >= LARGE or is_wide(call) or has_short_rows(call)
    large = work or has_halves(call)
    step = call.step
    attrs = call.attrs
    by_kernel = large and attrs is None
    if step is not None or by_kernel:
        known = compute_as_known(call.op, step, arrays, count, by_kernel)
        if known is not None or cpython.PyErr_Occurred() is not None:
            return known
        if by_kernel and step is None and (not work or has_flag(call.op, EVEN)):  # a plan knows
            return None
    function = call.op.compute[int(large)]
    if step is not None and not large:
        by_numpy = step.by_numpy  # of small arrays alone
        if by_numpy is not None:
            function = by_numpy
            attrs = None
    data = call_in_context(function, arrays, count, attrs, state)
    if data is None or is_whole(data):
        return data
    array = array_of(data)
    drop(data)
    return array


@native
def is_wide(call: Call) -> bool:
    """Whether two arrays of a call make a large one together."""
    if call.count != 2:
        return False
    x = call.operands[0]
    y = call.operands[1]
    if x.size < 2 or y.size < 2:  # 0 of a number
        return False
    if x.size * y.size * (STARTED + 1) < LARGE:
        return False
    a = operand_array(x)
    b = operand_array(y)
    by_element = has_flag(call.op, NUMBERS)
    return joint_work(a.dims, a.ndim, b.dims, b.ndim, by_element) >= LARGE


@native
def has_short_rows(call: Call) -> bool:
    """Whether the rows of an array are so many and so short that reducing it is much work."""
    if not has_flag(call.op, REDUCES):
        return False
    x = call.operands[0]
    if x.size * SUMMED_ROW < LARGE:
        return False
    a = operand_array(x)
    return work_by_rows(a.dims, a.ndim) >= LARGE


@native
def has_halves(call: Call) -> bool:
    """Whether an op that NumPy does to floats of 16 bits one by one is given many."""
    if not has_flag(call.op, OF_HALVES):
        return False
    for i in range(call.count):
        operand = call.operands[i]
        if operand.size >= HALVES and bit_of(operand_array(operand)) & SHORT_FLOATS != 0:
            return True
    return False


@inline
def call_in_context(
    function: Object, arrays: Row[Object], count: int, attrs: Object | None, state: State
) -> Owned[Object | None]:
    """What a function of NumPy gives of arrays and attributes, a dict or null, where it does not
    warn; null if it fails, if somebody deleted the context in which it does not, or if that is
    entered already, as where a finalizer computes."""
    context = hold(state.context)  # what runs inside may give the state another
    if context is None:
        return None
    if cpython.PyContext_Enter(context) != 0:
        cpython.PyErr_Clear()
        drop(context)
        return None
    data = cpython.PyObject_VectorcallDict(function, arrays, count, attrs)
    if cpython.PyContext_Exit(context) != 0:
        drop(data)
        drop(context)
        return None
    drop(context)
    return data


@inline
def array_of(scalar: Object) -> Owned[Object | None]:
    """A scalar as an array; null with an error set."""
    given = space(Object, 1)
    given[0] = scalar
    return cpython.PyObject_Vectorcall(asarray, given, 1, None)


# -- whether it is recorded ----------------------------------------------------------------------


@native
def is_unrecorded(call: Call, state: State) -> bool:
    """Whether nothing is recorded of an op. An error may be set if it is not."""
    if not (has_flag(call.op, RECORDABLE) and is_recording(state)):
        return True
    return find_edges(call) == 0
