"""Native in-place methods of tensors that copy what a function gives.

The function is the native form of what the method is the in-place form of, as `clamp` of `clamp_`.
"""

from __future__ import annotations

from staticflow.eager.costs import LARGE
from staticflow.eager.fast.change import bump, changeable, copy_array, has_vertex, is_free
from staticflow.eager.fast.classes import Memory, State, Tensor
from staticflow.eager.fast.entries import forward
from staticflow.eager.fast.objects import (
    given_count,
    operand_array,
    operand_tensor,
)
from staticflow.eager.fast.operands import is_recording, open_operand
from staticflow.eager.fast.record import alike, has_no_edge
from staticflow.eager.fast.records import InPlace, Operand
from staticflow.native.cpython import Tuple
from staticflow.native.language import (
    Object,
    Row,
    drop,
    drop_row,
    inline,
    native,
    trusted,
    zeroed_row,
)

__all__ = ["renew"]


@native
def renew(
    method: InPlace,
    tensor: Tensor,
    args: Row[Object],
    count: int,
    names: Tuple | None,
    state: State,
) -> bool:
    """Copy what the function of a method gives, in the usual case; false with nothing done, and
    perhaps an error set, in any other. An error may be set after it was done, too."""
    operands = zeroed_row(Operand, 1)
    target = operands[0]
    target.object = tensor
    recording = is_recording(state)
    memory = changeable(method, target, recording)
    done = False
    if memory is not None:
        if target.size < LARGE and not (recording and has_history(args, count, names)):
            function = trusted(method.value, Object, "only methods that have one come here")
            value = forward(function, tensor, None, args, count, names)
            if value is not None:
                done = store(value, target, memory, recording)
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
    operands = zeroed_row(Operand, 1)
    operand = operands[0]
    operand.object = thing
    recorded = open_operand(operand) and not has_no_edge(operand)
    drop_row(operands, 1)
    return recorded


@native
def store(value: Object, target: Operand, memory: Memory, recording: bool) -> bool:
    """Copy a value of the usual kind to a tensor, and count that; false with nothing done, and
    perhaps an error set."""
    operands = zeroed_row(Operand, 1)
    source = operands[0]
    source.object = value
    done = (
        open_operand(source)
        and is_still(target, memory, recording)
        and alike(operand_array(target), operand_array(source))
        and not has_vertex(operand_tensor(source))
        and not copy_array(operand_array(target), operand_array(source))
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
