"""The classes of Python whose slots native code of the eager side reads, and objects that it names.

Anybody can put anything into a slot, or delete it: what is read from one is an `Object` or null,
until a function has looked what it is.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from staticflow.eager import fused, memory, numbers, part_gradient, saved, tape, vertex, views
from staticflow.errors import OPERAND_ERRORS
from staticflow.graph import dtypes
from staticflow.graph.dtypes import BY_PYTHON, DType
from staticflow.graph.op import Op
from staticflow.native.language import Object, Type, constant
from staticflow.ops.declaring import thread as threads
from staticflow.runtime.free_lists import Row

__all__ = [
    "Entry", "FusedProgram", "Memory", "Output", "SavedType", "State", "Tensor", "View", "asarray",
    "bfloat16", "default_dtypes", "dtype_type", "entry_type", "example_of", "finish",
    "fixed_memory", "fused_program_type", "fused_type", "general",
    "heappop", "heappush", "leaf", "memory_example", "multiply", "name_alpha",
    "name_current_vertex", "name_fused", "name_hasten", "name_serial", "name_shape", "name_state",
    "name_version", "no_attrs", "no_state", "note_saves", "number_beside", "one", "op_call",
    "operand_errors", "output_example",
    "per_element_type", "plus", "row_type", "saved_type_example", "serials", "state_type",
    "sum_cotangents", "tensor_example", "tensor_type", "thread", "users", "view_example",
    "whole_of", "zero",
]  # fmt: skip


class Tensor(Object):
    """`staticflow.eager.tensor.Tensor`."""

    data: Object | None
    memory: Object | None
    vertex: Object | None
    view: Object | None


class Memory(Object):
    """`staticflow.eager.memory.Memory`."""

    changed: Object | None
    version: Object | None


class View(Object):
    """`staticflow.eager.views.View`."""

    base: Object | None
    before: Object | None
    recorded: Object | None
    seen: Object | None
    step: Object | None


class SavedType(Object):
    """`staticflow.eager.saved.SavedType`."""

    dtype: Object | None
    sf_gpu: Object | None
    shape: Object | None


class Entry(Object):
    """`staticflow.eager.vertex.TapeEntry`."""

    args: Object | None
    at: Object | None
    attrs: Object | None
    code: Object | None
    edges: Object | None
    hooks: Object | None
    op: Object | None
    result: Object | None
    serial: Object | None


class Output(Object):
    """`staticflow.eager.vertex.Output`."""

    entry: Object | None
    hooks: Object | None
    index: Object | None
    serial: Object | None


class FusedProgram(Object):
    """`staticflow.eager.fused.FusedProgram`."""

    ways: Object | None


class State(Object):
    """`staticflow.ops.declaring.thread.State`."""

    context: Object | None
    last_backward: Object | None
    usual: Object | None
    recording: Object | None


# -- objects -------------------------------------------------------------------------------------


def example_of(cls: type, *empty: str) -> Any:
    """An instance of a class that native code makes others like: None is in the slots ``empty``."""
    example: Any = object.__new__(cls)
    for slot in empty:
        setattr(example, slot, None)
    return example


# what is known when the class of tensors is
tensor_type = constant(Type, "tensor_type")
tensor_example = constant(Tensor, "tensor_example")
finish = constant(Object, "finish")
general = constant(Object, "general")
note_saves = constant(Object, "note_saves")
users = constant(Object, "users")

memory_example = constant(Memory, "memory_example", memory.Memory())
saved_type_example = constant(
    SavedType, "saved_type_example", example_of(saved.SavedType, "__sf_gpu__")
)
view_example = constant(View, "view_example", example_of(views.View))
output_example = constant(Output, "output_example", example_of(vertex.Output, "hooks"))
fused_type = constant(Type, "fused_type", fused.FusedEntry)
fused_program_type = constant(Type, "fused_program_type", fused.FusedProgram)
fixed_memory = constant(Memory, "fixed_memory", fused.FIXED)
leaf = constant(Object, "leaf", vertex.LEAF)
entry_type = constant(Type, "entry_type", vertex.TapeEntry)
per_element_type = constant(Type, "per_element_type", vertex.PerElementEntry)
row_type = constant(Type, "row_type", Row)
serials = constant(Object, "serials", vertex.serials)

dtype_type = constant(Type, "dtype_type", DType)
default_dtypes = constant(Object, "default_dtypes", BY_PYTHON)
bfloat16 = constant(Object, "bfloat16", dtypes.bfloat16.numpy)
number_beside = constant(Object, "number_beside", numbers.number_beside)
asarray = constant(Object, "asarray", np.asarray)
multiply = constant(Object, "multiply", np.multiply)
sum_cotangents = constant(Object, "sum_cotangents", tape.sum_cotangents)
whole_of = constant(Object, "whole_of", part_gradient.whole_of)
heappush = constant(Object, "heappush", heapq.heappush)
heappop = constant(Object, "heappop", heapq.heappop)
plus = constant(Object, "plus", np.add)
op_call = constant(Object, "op_call", Op.call)
operand_errors = constant(Object, "operand_errors", OPERAND_ERRORS)
no_attrs = constant(Object, "no_attrs", {})
zero = constant(Object, "zero", 0)
one = constant(Object, "one", 1)

thread = constant(Object, "thread", threads.thread)
state_type = constant(Type, "state_type", threads.State)
no_state = constant(Object, "no_state", "thread.state is to be a State")

name_alpha = constant(Object, "name_alpha", "alpha")
name_fused = constant(Object, "name_fused", "fused")
name_current_vertex = constant(Object, "name_current_vertex", "_current_vertex")
name_hasten = constant(Object, "name_hasten", "hasten")
name_serial = constant(Object, "name_serial", "serial")
name_shape = constant(Object, "name_shape", "shape")
name_state = constant(Object, "name_state", "state")
name_version = constant(Object, "name_version", "version")
