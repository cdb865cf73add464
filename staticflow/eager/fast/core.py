"""The module of native code that the functions of the fast path make together."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from staticflow.eager.fast import classes
from staticflow.eager.fast.in_place import IN_PLACE
from staticflow.eager.fast.op_calls import ENTRIES
from staticflow.eager.fast.recall import RECALL
from staticflow.eager.fast.records import CODES, MEMO, NO_DTYPE, KnownCodeRecord, NumberMemoRecord
from staticflow.eager.fast.walk import WALK
from staticflow.eager.fused import FusedEntry, FusedProgram
from staticflow.eager.memory import Memory
from staticflow.eager.saved import SavedType
from staticflow.eager.vertex import Output, PerElementEntry, TapeEntry
from staticflow.eager.views import View
from staticflow.graph.dtypes import DTYPES
from staticflow.graph.locs import is_inside
from staticflow.native.language import Object, symbol_of
from staticflow.native.layout import Layout, slots_of
from staticflow.ops.declaring.thread import State
from staticflow.runtime.free_lists import recycle
from staticflow.runtime.native import NativeModule, compile_native, native_text
from staticflow.runtime.object_layout import ARRAYS, box_type, c_symbols, has_known_layout
from staticflow.runtime.threads import wanted_address

__all__ = ["NAMES", "can_be_read", "compile_core", "render_core"]

FUNCTIONS = (*ENTRIES, *IN_PLACE, *RECALL, *WALK)
NAMES = [fn.__name__ for fn in FUNCTIONS]
"""The functions whose addresses Python asks for."""

_CLASSES: Mapping[type[Object], type] = {
    classes.Memory: Memory, classes.View: View, classes.SavedType: SavedType,
    classes.Entry: TapeEntry, classes.State: State, classes.Output: Output,
    classes.FusedProgram: FusedProgram,
}  # fmt: skip
"""What the classes are whose slots are read, beside that of tensors."""


def can_be_read(tensor: type) -> bool:
    """Whether this Python lets native code read the objects of the eager side."""
    every = (tensor, *_CLASSES.values())
    return has_known_layout() and all(box_type(cls, slot) for cls in every for slot in _slots(cls))


def compile_core(
    tensor: Any, tables: Mapping[str, int], python: Mapping[str, Any]
) -> tuple[NativeModule, Any]:
    """The module for the class of tensors, and what lives as long. It finds the ``tables`` at
    their addresses, and calls the functions ``python``, by their symbols."""
    text = render_core(tensor)
    symbols, held = _symbols(tensor, python)
    symbols |= c_symbols(text)
    entries = (TapeEntry, PerElementEntry, FusedEntry)
    symbols |= recycle((*entries, Output, View), hidden=(Memory, SavedType))
    symbols |= {**tables, "wanted": wanted_address()}
    return compile_native(text, NAMES, symbols), held


def render_core(tensor: type) -> str:
    """The LLVM text of `FUNCTIONS`, for the class of tensors."""
    offsets: dict[type, Mapping[str, int]] = {**ARRAYS}
    sizes: dict[type, int] = {}
    for native, cls in {**_CLASSES, classes.Tensor: tensor}.items():
        boxes = {slot.strip("_"): box_type(cls, slot) for slot in _slots(cls)}
        known = {name: box.slot_offset for name, box in boxes.items() if box is not None}
        assert known.keys() >= slots_of(native).keys() - slots_of(Object).keys(), native
        offsets[native] = {**known, "weakref": cls.__weakrefoffset__}
        sizes[native] = cls.__basicsize__
    return native_text(FUNCTIONS, Layout(offsets, sizes))


def _slots(cls: type) -> list[str]:
    return [slot for slot in vars(cls)["__slots__"] if slot != "__weakref__"]


def _symbols(tensor: type, python: Mapping[str, Callable[..., Any]]) -> tuple[dict[str, int], Any]:
    """The addresses of what native code names, by symbols, and what is to live as long as it."""
    example = classes.example_of(tensor, "_memory", "_view", "_vertex", "_grad", "name", "_hooks")
    constants = filter(None, map(symbol_of, vars(classes).values()))
    objects = {s.name: s.thing for s in constants if s.thing is not None}
    objects |= {"tensor_type": tensor, "tensor_example": example, "users": _is_users, **python}
    nothing = [None] * (NO_DTYPE + 1 - len(DTYPES))
    tables: dict[str, Any] = {
        "descrs": (ctypes.c_void_p * len(DTYPES))(*(id(d.numpy) for d in DTYPES)),
        "dtypes": (ctypes.c_void_p * (NO_DTYPE + 1))(*map(id, (*DTYPES, *nothing))),
        "memo": (NumberMemoRecord * MEMO)(),
        "codes": (KnownCodeRecord * CODES)(),
    }
    addresses = {name: id(thing) for name, thing in objects.items()}
    addresses |= {name: ctypes.addressof(table) for name, table in tables.items()}
    return addresses, (objects, tables)


def _is_users(code: CodeType) -> bool:
    """Whether code is the user's."""
    return not is_inside(code.co_filename)
