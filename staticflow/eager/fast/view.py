"""Native code of views: the part of an array that one is, its memory, and its way to the base."""

from __future__ import annotations

from staticflow.eager.fast.classes import (
    Memory,
    State,
    Tensor,
    View,
    memory_example,
    no_attrs,
    view_example,
)
from staticflow.eager.fast.objects import (
    is_memory,
    is_tensor,
    is_there,
    is_view,
    operand_array,
    operand_tensor,
    pair,
    tensor_of,
)
from staticflow.eager.fast.records import Call, PlannedView
from staticflow.native import cpython
from staticflow.native.cpython import Array, array_type
from staticflow.native.language import Object, Owned, drop, hold, inline, native, size_of
from staticflow.runtime.new_objects import like
from staticflow.runtime.object_layout import WRITEABLE

__all__ = ["base_of", "memory_of", "own_memory", "part_of", "wrap_view"]


# -- the array -----------------------------------------------------------------------------------


@native
def part_of(view: PlannedView, array: Array) -> Owned[Array | None]:
    """The view of an array; null if it was planned of another, or with an error set."""
    return make_part(view, array) if is_planned(view, array) else None


@native
def is_planned(view: PlannedView, array: Array) -> bool:
    """Whether an array has the sizes and strides of which a view was planned: since then its tensor
    may have been given another, or it another shape."""
    ndim = array.ndim
    if ndim != view.from_ndim:
        return False
    sizes = array.dims
    strides = array.strides
    planned_sizes = view.from_sizes
    planned_strides = view.from_strides
    for i in range(ndim):
        if sizes[i] != planned_sizes[i] or strides[i] != planned_strides[i]:
            return False
    return True


@native
def make_part(view: PlannedView, array: Array) -> Owned[Array | None]:
    """The view of an array that it was planned of; null with an error set."""
    first = array.data[view.offset :]
    flags = array.flags & WRITEABLE
    part = cpython.PyArray_NewFromDescr(
        array_type, hold(array.descr), view.ndim, view.sizes, view.strides, first, flags, None
    )
    if part is None:
        return None
    if cpython.PyArray_SetBaseObject(part, hold(array)) != 0:
        drop(part)
        return None
    return part


@native
def lies_in(data: Array, array: Array) -> bool:
    """Whether an array lies in the memory of another and NumPy says so by `base`."""
    base = data.base
    return base is not None and (base is array or base is array.base)


# -- the memory ----------------------------------------------------------------------------------


@inline
def own_memory(tensor: Tensor) -> Owned[Object | None]:
    """The memory of a tensor, made if need be; null with an error set."""
    memory = tensor.memory
    if is_there(memory):
        return hold(memory)
    made = like(memory_example, size_of(Memory), 0)
    if made is None:
        return None
    meanwhile = tensor.memory
    if is_there(meanwhile):  # a finalizer asked for it
        found = hold(meanwhile)
        drop(made)
        return found
    tensor.memory = hold(made)
    return made


@native
def memory_of(tensor: Tensor, array: Array) -> Owned[Memory | None]:
    """The memory of a tensor that is on ``array``; null if it is none that counts its changes, if
    the tensor is on another array meanwhile, or with an error set."""
    memory = own_memory(tensor)
    if memory is None:
        return None
    if is_memory(memory) and tensor.data is array:
        return memory
    drop(memory)
    return None


# -- the tensor ----------------------------------------------------------------------------------


@native
def base_of(tensor: Tensor) -> Owned[Tensor | None]:
    """The tensor of which a view of this one is a view; null where `View.base` has to look
    further."""
    view = tensor.view
    if not is_there(view):
        return hold(tensor)
    if is_view(view):
        base = view.base
        if is_tensor(base) and not is_there(base.view):
            return hold(base)
    return None


@native
def wrap_view(call: Call, state: State, data: Array) -> Owned[Tensor | None]:
    """The tensor on ``data``, which the op of a call gave as a view of its operand; null if Python
    is to look whether it is one, or with an error set."""
    operand = call.operands[0]
    array = operand_array(operand)
    if not lies_in(data, array):
        return None
    memory = memory_of(operand_tensor(operand), array)
    if memory is None:
        return None
    view = begin_view(operand_tensor(operand))
    if view is not None and fill_view(view, call, state, memory):
        out = tensor_of(data)
        if out is not None:
            out.memory = memory
            out.view = view
            return out
    drop(view)
    drop(memory)
    return None


@inline
def begin_view(tensor: Tensor) -> Owned[View | None]:
    """How a view of a tensor is one of that tensor's base; null where Python has to look, or with
    an error set."""
    base = base_of(tensor)
    if base is None:
        return None
    before = hold(tensor.view)
    view = like(view_example, size_of(View), 0)
    if view is None:
        drop(base)
        drop(before)
        return None
    view.base = base
    view.before = before
    return view


@inline
def fill_view(view: View, call: Call, state: State, memory: Memory) -> bool:
    """Write into a view how it was taken; false with an error set."""
    view.recorded = hold(state.recording)
    view.seen = hold(memory.version)
    attrs = call.attrs
    step = pair(hold(call.op.object), hold(attrs if attrs is not None else no_attrs))
    if step is None:
        return False
    view.step = step
    return True
