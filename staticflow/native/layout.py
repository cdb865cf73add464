"""Where native code finds things in memory: slots of objects, fields of records, elements."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.native.annotations import class_hints, read_annotation
from staticflow.native.types import Declared, PointerType, RecordOf, RowOf

__all__ = ["Layout", "alignment_of", "fields_of", "slots_of", "stride_of", "structure"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the slots of Python's objects lie, by class, in bytes, and how large instances are."""

    offsets: Mapping[type, Mapping[str, int]] = field(default_factory=dict)
    sizes: Mapping[type, int] = field(default_factory=dict)

    def offset(self, cls: type, slot: str) -> int | None:
        """Where a slot lies that a class has, or one that it is derived from."""
        for base in cls.__mro__:
            if slot in self.offsets.get(base, {}):
                return self.offsets[base][slot]
        return None


@functools.cache
def slots_of(cls: type) -> dict[str, Declared]:
    """The slots of a class of Python by their names."""
    return {name: read_annotation(hint) for name, hint in class_hints(cls).items()}


@functools.cache
def fields_of(cls: type) -> dict[str, tuple[int, Declared]]:
    """The fields of a record by their names, with where they lie."""
    hints = class_hints(cls)
    memory = structure(cls)
    return {
        name: (getattr(memory, name).offset, read_annotation(hint)) for name, hint in hints.items()
    }


@functools.cache
def structure(cls: type) -> Any:
    """A record as Python fills it in: a class derived from `ctypes.Structure`, in whose fields the
    addresses are of what they point to."""
    hints = class_hints(cls)
    fields = [(name, _in_memory(read_annotation(hint))) for name, hint in hints.items()]
    plain = type(f"{cls.__name__}Record", (ctypes.Structure,), {"_fields_": fields})
    alignment = RecordOf(cls).alignment
    rest = -ctypes.sizeof(plain) % alignment if alignment else 0
    if rest == 0:
        return plain
    fields.append(("", ctypes.c_int8 * rest))
    return type(plain.__name__, (ctypes.Structure,), {"_fields_": fields})


_C: Mapping[str, Any] = {
    "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i8": ctypes.c_int8, "i1": ctypes.c_bool,
    "double": ctypes.c_double, "ptr": ctypes.c_void_p,
}  # fmt: skip


def _in_memory(declared: Declared) -> Any:
    if declared.atomic is not None:
        return _C[declared.atomic.number.llvm]
    if declared.length is None:
        return _C[declared.type.llvm]
    assert isinstance(declared.type, PointerType)
    assert isinstance(declared.type.target, RowOf)
    return _in_memory(declared.type.target.element) * declared.length


def stride_of(element: Declared) -> int:
    """The bytes from one element of a row to the next."""
    kind = element.type
    if isinstance(kind, PointerType) and isinstance(kind.target, RecordOf):
        return ctypes.sizeof(structure(kind.target.cls))
    return ctypes.sizeof(_in_memory(element))


def alignment_of(element: Declared) -> int:
    """What memory for elements begins at a multiple of."""
    kind = element.type
    if isinstance(kind, PointerType) and isinstance(kind.target, RecordOf):
        return max(8, kind.target.alignment)
    return 8
