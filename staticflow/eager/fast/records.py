"""The records of native code, some of which Python fills in: what lies where in them.

A text reads the field ``array`` of an operand by ``call ptr @operand.array(ptr %operand)`` and
writes it by ``call void @operand.set.array(ptr %operand, ptr %array)``; `render_records` makes
these functions, and the type ``%operand``. What may be null is so where there is none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from ctypes import c_bool, c_int8, c_int32, c_int64, c_uint64, c_void_p
from string import Template
from typing import Any

__all__ = [
    "MOST", "RECORDS", "FunctionRecord", "InPlaceRecord", "OpRecord", "OperandRecord",
    "PlanRecord", "SlotRecord", "StepRecord", "StridedRecord", "render_records",
]  # fmt: skip

MOST = 32
"""Arguments of one call; the general path takes more."""


class OpRecord(ctypes.Structure):
    """An op."""

    _fields_ = (
        ("object", c_void_p),
        ("compute", c_void_p * 2),  # what computes it, on small and on large arrays
        ("entry", c_void_p * 2),  # an `EvenEntry` and a `TapeEntry` with what all of the op have
        ("dtypes", c_uint64),  # a bit for each
        ("flags", c_uint64),
        ("uses", c_uint64 * (MOST + 1)),  # the cotangents that need the result, and each argument
        ("arity", c_int64),
        ("kernel", c_void_p),  # where that is which computed it of large arrays last, or null
    )


class OperandRecord(ctypes.Structure):
    """An argument of a call."""

    _fields_ = (
        ("object", c_void_p),  # first, so that an operand is a row of arguments, too
        ("array", c_void_p),  # its array, or what stands for that
        ("edge", c_void_p),  # where its gradient goes, or null
        ("is_number", c_bool),
        ("size", c_int64),  # of its array
    )


class CallRecord(ctypes.Structure):
    """A call of an op."""

    _fields_ = (
        ("op", c_void_p),
        ("count", c_int64),
        ("operands", c_void_p),
        ("attrs", c_void_p),  # or null
        ("state", c_void_p),  # of the thread
        ("step", c_void_p),  # that it is, or null
    )


class FunctionRecord(ctypes.Structure):
    """A function whose calls are remembered."""

    _fields_ = (
        ("plain", c_void_p),  # itself
        ("learner", c_void_p),  # which takes the key and its hash as bytes before the arguments
        ("tensors", c_int64),  # that it may take
    )


class KeyRecord(ctypes.Structure):
    """The key of a call, as it is written."""

    _fields_ = (
        ("words", c_void_p),
        ("count", c_int64),
        ("tensors", c_void_p),
        ("tensor_count", c_int64),
    )


class SlotRecord(ctypes.Structure):
    """A place for a plan."""

    _fields_ = (
        ("hash", c_uint64),  # of its key, 0 if there is no plan
        ("plan", c_void_p),
        ("owner", c_void_p),  # the object that the plan lives as long as, and that the slot holds
        ("missed", c_uint64),  # the hash of the key that was looked for here last in vain
    )


class PlanRecord(ctypes.Structure):
    """What a kind of call comes to. Its *values* are the tensors, numbers, and what steps give."""

    _fields_ = (
        ("key", c_void_p),
        ("words", c_int64),  # of the key
        ("numbers", c_void_p),  # among the operands of steps
        ("number_count", c_int64),
        ("steps", c_void_p),  # null if calls of the kind are not remembered
        ("step_count", c_int64),
        ("values", c_int64),
        ("widest", c_int64),  # so many operands a step takes at most
        ("result_count", c_int64),  # given in a tuple, or -1 for one value alone
        ("results", c_void_p),  # which of the values
        ("made", c_void_p),  # the class that is made of the tuple, or null
        ("runs", c_int64),
    )


class StepRecord(ctypes.Structure):
    """A step of a plan: an op, or a draw from a generator, which stands as what computes it."""

    _fields_ = (
        ("op", c_void_p),  # or null for a draw
        ("attrs", c_void_p),  # or null
        ("count", c_int64),  # of operands
        ("places", c_void_p),  # of these among the values
        ("results", c_int64),  # 0 for one that is no tuple
        ("compute", c_void_p),  # what computes it of arrays alone, or null
        ("view", c_void_p),  # that it gives, or null
        ("vector", c_void_p),  # that `compute` takes for the second operand, or null
        ("by_numpy", c_void_p),  # the function that computes it else, of arrays alone, or null
    )


class StridedRecord(ctypes.Structure):
    """A view of an array of known sizes and strides."""

    _fields_ = (
        ("offset", c_int64),  # in bytes
        ("ndim", c_int32),
        ("sizes", c_void_p),
        ("strides", c_void_p),
        ("from_ndim", c_int32),
        ("from_sizes", c_void_p),
        ("from_strides", c_void_p),
    )


class InPlaceRecord(ctypes.Structure):
    """An in-place method."""

    _fields_ = (
        ("general", c_void_p),  # what does what is not usual
        ("ufunc", c_void_p),  # or null
        ("count", c_int64),  # of operands beside the tensor itself, 0 or 1
        ("constant", c_void_p),  # that a copy takes if it has no operand, or null
        ("dtypes", c_uint64),  # a bit for each
        ("scaled", c_int8),  # whether its operand may be
        ("number", c_int8),  # whether its operand is
        ("program", c_void_p),  # where that is which overwrote a large array last; null for a copy
        ("value", c_void_p),  # the function whose value is copied to a small array, or null
    )


class MemoRecord(ctypes.Structure):
    """A number that was taken up as an array."""

    _fields_ = (("number", c_void_p), ("descr", c_void_p), ("array", c_void_p))


class KnownRecord(ctypes.Structure):
    """A code object, and whether it is the user's."""

    _fields_ = (("code", c_void_p), ("users", c_int64))


RECORDS: Mapping[str, type[ctypes.Structure]] = {
    "op": OpRecord, "operand": OperandRecord, "call": CallRecord, "function": FunctionRecord,
    "key": KeyRecord, "slot": SlotRecord, "plan": PlanRecord, "step": StepRecord,
    "strided": StridedRecord, "in_place": InPlaceRecord, "memo": MemoRecord, "known": KnownRecord,
}  # fmt: skip

_LLVM: Mapping[Any, str] = {
    c_void_p: "ptr", c_int64: "i64", c_uint64: "i64", c_int32: "i32", c_int8: "i8", c_bool: "i1",
}  # fmt: skip

_GET = Template("""
define internal $type @$record.$field(ptr %it$which) alwaysinline {
  %at = getelementptr %$record, ptr %it, i64 0, i32 $place$which
  %value = load $type, ptr %at
  ret $type %value
}
""")

_SET = Template("""
define internal void @$record.set.$field(ptr %it, $type %value) alwaysinline {
  %at = getelementptr %$record, ptr %it, i64 0, i32 $place
  store $type %value, ptr %at
  ret void
}
""")


def render_records(text: str) -> str:
    """The types of the records, and those functions of them that ``text`` calls."""
    return "".join(part for name, kind in RECORDS.items() for part in _rendered(name, kind, text))


def _rendered(record: str, kind: Any, text: str) -> Iterator[str]:
    types = [_type_of(field) for _, field in kind._fields_]
    yield f"%{record} = type {{ {', '.join(types)} }}\n"
    for place, (field, of) in enumerate(kind._fields_):
        several = hasattr(of, "_length_")
        words = {
            "record": record, "field": field, "place": place,
            "type": _type_of(of._type_ if several else of),
            "which": ", i64 %i" if several else "",
        }  # fmt: skip
        if f"@{record}.{field}(" in text:
            yield _GET.substitute(words)
        if f"@{record}.set.{field}(" in text:
            yield _SET.substitute(words)


def _type_of(field: Any) -> str:
    several = hasattr(field, "_length_")
    return f"[{field._length_} x {_type_of(field._type_)}]" if several else _LLVM[field]
