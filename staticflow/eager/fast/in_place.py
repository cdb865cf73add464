"""Native in-place methods of tensors that are a ufunc, or a copy.

If nothing of it is recorded, NumPy puts the result where it belongs, or, of large arrays, the
program that did so last (`staticflow.eager.overwrite`); or what a function gives is copied
(`copy_value_of`). All else goes to `staticflow.eager.in_place`, of a large array by a plan.
"""

from __future__ import annotations

from staticflow.eager.costs import LARGE
from staticflow.eager.fast.calls import clear_error, forward, given_count
from staticflow.eager.fast.change import (
    bump,
    call_ufunc_into,
    copy_array,
    has_vertex,
    is_done_here,
    is_free,
    is_in_lines,
    is_in_rows,
    no_op,
    open_source,
    open_target,
    run_program,
    scale,
)
from staticflow.eager.fast.classes import Memory, State, Tensor, name_alpha
from staticflow.eager.fast.entry import has_no_edge, is_like
from staticflow.eager.fast.objects import (
    count_elements,
    lies_alike,
    operand_array,
    operand_tensor,
)
from staticflow.eager.fast.operands import (
    current_state,
    is_recording,
    is_usual,
    open_number,
    open_operand,
)
from staticflow.eager.fast.recall import recall
from staticflow.eager.fast.records import InPlace, Operand
from staticflow.native import cpython
from staticflow.native.cpython import Array, Tuple, is_array
from staticflow.native.language import (
    Inside,
    Object,
    Owned,
    Row,
    drop,
    drop_row,
    export,
    hold,
    inline,
    native,
    space,
    trust,
    zero_row,
)

__all__ = ["IN_PLACE", "call_in_place"]


@export
def call_in_place(
    method: InPlace, tensor: Tensor, args: Row[Object], count: int, names: Tuple | None
) -> Owned[Object | None]:
    """What a call of an in-place method gives: the tensor; null with an error set."""
    state = current_state()
    if state is None:
        return None
    operands = zero_row(Operand, 3)  # the tensor, the operand, and what that is scaled by
    operands[0].object = tensor
    done = is_usual(state) and try_in_place(method, operands, tensor, args, count, names, state)
    left = not done and clear_error()
    good = done and cpython.PyErr_Occurred() is None
    drop_row(operands, 3)
    drop(state)
    if left and is_large(tensor):
        return recall(method.general, tensor, args, count, names)
    if left:
        return forward(method.general.itself, tensor, None, args, count, names)
    return hold(tensor) if good else None


@inline
def is_large(tensor: Tensor) -> bool:
    """Whether a tensor is on a large array of the host."""
    array = tensor.data
    return array is not None and is_array(array) and count_elements(array) >= LARGE


@inline
def try_in_place(
    method: InPlace,
    operands: Row[Operand],
    tensor: Tensor,
    args: Row[Object],
    count: int,
    names: Tuple | None,
    state: State,
) -> bool:
    """Do it in the usual case; false with nothing done, and perhaps an error set, in any other. An
    error may be set after it was done, too."""
    if method.value is not None:
        if copy_value_of(method, tensor, args, count, names, state):
            return True
        if cpython.PyErr_Occurred() is not None or method.program is None:
            return False
    factor = factor_of(args, count, names, method)
    if count != method.count or (names is not None and factor is None):
        return False
    operands[1].object = args[0] if count != 0 else method.constant
    operands[2].object = factor
    recording = is_recording(state)
    memory = open_target(method, operands[0], recording)
    if memory is None:
        return False
    done = compute_in_place(method, operands, recording, state)
    if done:
        bump(memory)
    drop(memory)
    return done


@native
def factor_of(
    args: Row[Object], count: int, names: Tuple | None, method: InPlace
) -> Inside[Object | None]:
    """What a call scales its operand by, ``alpha``; null if it does not."""
    if names is None or method.scaled == 0 or cpython.PyTuple_Size(names) != 1:
        return None
    return args[count] if cpython.PyTuple_GetItem(names, 0) is name_alpha else None


@native
def compute_in_place(
    method: InPlace, operands: Row[Operand], recording: bool, state: State
) -> bool:
    """Compute new elements where they belong; false with nothing done, and perhaps an error set,
    where this is not the usual case."""
    target = operands[0]
    other = operands[1]
    factor = operands[2]
    array = operand_array(target)
    scaled = factor.object is not None
    if not is_done_here(method, array, target.size, scaled):
        return False
    few = target.size < LARGE
    by_numpy = method.ufunc is not None and (few or not is_in_rows(array))
    if other.object is not None:
        if not open_source(method, other, target, recording):
            return False
        if scaled and not open_number(no_op, factor, target):
            return False
        if scaled and by_numpy and not scale(other, factor, state):
            return False
    array = operand_array(target)  # as `scale` may exchange that of an operand
    if method.program is None:  # NumPy is slow at copies of transposed arrays
        source = operand_array(other)
        pays = few or is_in_rows(source) or lies_alike(array, source)
        return pays and copy_array(array, source)
    ufunc = method.ufunc
    if by_numpy and ufunc is not None:
        if not few and is_in_lines(array) and (other.object is None or goes_with(other, array)):
            return False  # which a program by elements does in another order, as a plan knows
        return compute_by_ufunc(ufunc, array, other, state)
    arrays = space(Object, 3)
    arrays[0] = array
    if other.object is None:
        return run_program(method, arrays, 1)
    arrays[1] = operand_array(other)
    if not scaled:
        return run_program(method, arrays, 2)
    arrays[2] = operand_array(factor)
    return run_program(method, arrays, 3)


@inline
def goes_with(operand: Operand, array: Array) -> bool:
    """Whether an operand is a number or a vector, or lies as an array does."""
    beside = operand_array(operand)
    return beside.ndim <= 1 or lies_alike(array, beside)


@inline
def compute_by_ufunc(ufunc: Object, array: Object, other: Operand, state: State) -> bool:
    """Let a ufunc of an array, and of an operand if there is one, write into the array."""
    arrays = space(Object, 3)
    arrays[0] = array
    if other.object is None:
        arrays[1] = array
        return call_ufunc_into(ufunc, arrays, 2, state)
    arrays[1] = operand_array(other)
    arrays[2] = array
    return call_ufunc_into(ufunc, arrays, 3, state)


# -- what copies the value of a function --------------------------------------------------------


@native
def copy_value_of(
    method: InPlace,
    tensor: Tensor,
    args: Row[Object],
    count: int,
    names: Tuple | None,
    state: State,
) -> bool:
    """Copy what the function of a method gives, in the usual case; false with nothing done, and
    perhaps an error set, in any other. An error may be set after it was done, too."""
    operands = zero_row(Operand, 1)
    target = operands[0]
    target.object = tensor
    recording = is_recording(state)
    memory = open_target(method, target, recording)
    done = False
    if memory is not None:
        if target.size < LARGE and not (recording and has_history(args, count, names)):
            function = trust(method.value, Object, "only methods that have one come here")
            value = forward(function, tensor, None, args, count, names)
            if value is not None:
                done = store_value(value, target, memory, recording)
                drop(value)
        drop(memory)
    drop_row(operands, 1)
    return done


@native
def has_history(args: Row[Object], count: int, names: Tuple | None) -> bool:
    """Whether an argument is a tensor with a history. An error may be set if one is."""
    for i in range(given_count(count, names)):
        if is_recorded(args[i]):
            return True
    return False


@inline
def is_recorded(thing: Object) -> bool:
    """Whether an object is a tensor with a history. An error may be set if it is."""
    operands = zero_row(Operand, 1)
    operand = operands[0]
    operand.object = thing
    recorded = open_operand(operand) and not has_no_edge(operand)
    drop_row(operands, 1)
    return recorded


@native
def store_value(value: Object, target: Operand, memory: Memory, recording: bool) -> bool:
    """Copy a value of the usual kind to a tensor, and count that; false with nothing done, and
    perhaps an error set."""
    operands = zero_row(Operand, 1)
    source = operands[0]
    source.object = value
    done = (
        open_operand(source)
        and is_still(target, memory, recording)
        and is_like(operand_array(target), operand_array(source))
        and not has_vertex(operand_tensor(source))
        and copy_array(operand_array(target), operand_array(source))
    )
    if done:
        bump(memory)
    drop_row(operands, 1)
    return done


@inline
def is_still(target: Operand, memory: Memory, recording: bool) -> bool:
    """Whether the tensor of an opened operand is on the same array and memory still, and has no
    history that a change would be a part of."""
    tensor = operand_tensor(target)
    same = tensor.data is target.array and tensor.memory is memory
    return same and (not recording or is_free(tensor))


IN_PLACE = (call_in_place,)
