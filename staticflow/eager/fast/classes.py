"""The classes of Python whose slots native code of the eager side reads, and objects that it names.

Anybody can put anything into a slot, or delete it: what is read from one is an `Object` or null,
until a function has looked what it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.native.language import Object, Type, constant
from staticflow.native.types import Layout, slots_of

__all__ = [
    "CLASSES", "Entry", "Memory", "Shadow", "State", "Tensor", "View", "asarray", "bfloat16",
    "default_dtypes", "dtype_type", "finish", "general", "layout_of", "leaf", "memory_example",
    "multiply", "name_alpha", "name_edge", "name_hasten", "name_shape", "name_state",
    "name_version", "no_attrs", "no_state", "number_beside", "one", "op_call", "serials",
    "shadow_example", "state_type", "tensor_example", "tensor_type", "thread", "trace", "users",
    "view_example", "zero",
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
    """`staticflow.eager.memory.View`."""

    base: Object | None
    before: Object | None
    recorded: Object | None
    seen: Object | None
    step: Object | None


class Shadow(Object):
    """`staticflow.eager.saved.Shadow`."""

    dtype: Object | None
    shape: Object | None


class Entry(Object):
    """`staticflow.eager.vertex.TapeEntry`."""

    args: Object | None
    at: Object | None
    attrs: Object | None
    code: Object | None
    edges: Object | None
    result: Object | None
    serial: Object | None


class State(Object):
    """`staticflow.ops.declaring.thread.State`."""

    context: Object | None
    plain: Object | None
    recording: Object | None


CLASSES = {
    "tensor": Tensor, "memory": Memory, "view": View, "shadow": Shadow, "entry": Entry,
    "state": State,
}  # fmt: skip
"""The classes by what their slots are called among numbers: ``tensor_view``."""


def layout_of(numbers: Mapping[str, int]) -> Layout:
    """The layout of the classes, by the numbers that stand for slots."""
    own = {cls: [*slots_of(cls).keys() - slots_of(Object).keys()] for cls in CLASSES.values()}
    offsets: dict[type, Mapping[str, int]] = {
        cls: {slot: numbers[f"{name}_{slot}"] for slot in (*own[cls], "weakref")}
        for name, cls in CLASSES.items()
    }
    return Layout(offsets, {cls: numbers[f"{name}_size"] for name, cls in CLASSES.items()})


tensor_example = constant(Tensor, "tensor_example")
memory_example = constant(Memory, "memory_example")
shadow_example = constant(Shadow, "shadow_example")
view_example = constant(View, "view_example")
tensor_type = constant(Type, "tensor_type")
dtype_type = constant(Type, "dtype_type")
default_dtypes = constant(Object, "default_dtypes")
asarray = constant(Object, "asarray")
finish = constant(Object, "finish")
general = constant(Object, "general")
leaf = constant(Object, "leaf")
no_attrs = constant(Object, "no_attrs")
trace = constant(Object, "trace")
no_state = constant(Object, "no_state")
number_beside = constant(Object, "number_beside")
op_call = constant(Object, "op_call")
serials = constant(Object, "serials")
state_type = constant(Type, "state_type")
thread = constant(Object, "thread")
users = constant(Object, "users")
zero = constant(Object, "zero")
one = constant(Object, "one")
bfloat16 = constant(Object, "bfloat16")
multiply = constant(Object, "multiply")
name_alpha = constant(Object, "name_alpha")
name_hasten = constant(Object, "name_hasten")
name_edge = constant(Object, "name_edge")
name_shape = constant(Object, "name_shape")
name_state = constant(Object, "name_state")
name_version = constant(Object, "name_version")
