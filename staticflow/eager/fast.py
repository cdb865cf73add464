"""The fast path of elementwise operations and products: native code from the operator to NumPy.

Every such op of one or two operands has here a builtin function, and the methods and operators of
`Tensor` are made of it. It takes the usual case: small tensors of one dtype, or a tensor beside a
number that does not change it, nothing special going on in the thread. Everything else, errors
included, goes to the general path, `staticflow.eager.mode`, which gives the same; and all of it,
where native code cannot read the objects of this Python.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from staticflow.eager.fast_text import (
    BY_NUMBER,
    EVEN,
    MEMO,
    RECORDABLE,
    render_core,
    render_entries,
)
from staticflow.eager.kernels import compute_of
from staticflow.eager.memory import Memory
from staticflow.eager.programs import LARGE
from staticflow.eager.vertex import LEAF, EvenEntry, Shadow, TapeEntry, recent, serials, users
from staticflow.graph.dtypes import BY_NUMPY, BY_PYTHON, DTYPES, bfloat16
from staticflow.graph.op import OUT, Op
from staticflow.ops.declare import PerElement
from staticflow.ops.lowering import Contract, Elementwise
from staticflow.ops.promote import usual_dtypes
from staticflow.ops.thread import State, thread
from staticflow.runtime.fastcall import builtin_function, method_descriptor
from staticflow.runtime.fastcall_layout import box_type, has_known_layout, python_types
from staticflow.runtime.host import python_symbols
from staticflow.runtime.native import compile_native

__all__ = ["FastForms", "fast_forms", "has_fast_form", "number_beside"]

_PYTHON = (
    "Py_IncRef", "Py_DecRef", "PyType_IsSubtype", "PyType_GenericAlloc", "PyTuple_New",
    "PyTuple_Size", "PyTuple_SetItem", "PyTuple_GetItem", "PyLong_FromLongLong", "PyIter_Next",
    "PyObject_GetAttr", "PyObject_Vectorcall", "PyObject_VectorcallMethod", "PyThreadState_Get",
    "PyThreadState_GetID",
    "PyContext_Enter", "PyContext_Exit", "PyEval_GetFrame", "PyFrame_GetCode", "PyFrame_GetLasti",
    "PyErr_ExceptionMatches", "PyErr_Clear",
)  # fmt: skip


class _Op(ctypes.Structure):
    """What the native code knows of an op; see `staticflow.eager.fast_text`."""

    _fields_ = (
        ("op", ctypes.c_void_p),
        ("compute", ctypes.c_void_p * 2),
        ("entry", ctypes.c_void_p * 2),
        ("dtypes", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("uses", ctypes.c_uint64 * 3),
    )


@dataclass(frozen=True, slots=True)
class FastForms:
    """The forms of one op: a function, a method of tensors, and the method of the operator whose
    operands stand the other way round."""

    function: Callable[..., Any]
    method: Any
    reflected: Any


def has_fast_form(op: Op) -> bool:
    """Whether the op has a fast path."""
    even = type(op.lowering) is Elementwise
    if not (even or type(op.lowering) is Contract) or op.promote not in ("common", "float"):
        return False
    if even and op.vjp is not None and type(op.vjp) is not PerElement:
        return False
    parameters = inspect.signature(op.reference).parameters.values()
    attributes = any(p.kind is p.KEYWORD_ONLY for p in parameters)
    binary = _arity(op) == 2 and (op.ufunc is not None or op.eager != "large")
    return not attributes and (_arity(op) == 1 or binary)


def _arity(op: Op) -> int:
    return len(inspect.signature(op.reference).parameters) - 1


def fast_forms(ops: Sequence[Op], tensor: type, general: Callable[..., Any]) -> dict[Op, FastForms]:
    """The forms of ``ops`` for the class of tensors; ``general(op, args)`` does what is not usual.
    There are none if this Python does not let native code read its objects."""
    classes = (State, tensor, Memory, Shadow, TapeEntry, type(recent))
    if not has_known_layout() or not all(box_type(c, s) for c in classes for s in _slots(c)):
        return {}
    records = (_Op * len(ops))()
    kept = [_fill(record, op) for record, op in zip(records, ops, strict=True)]
    arities = [_arity(op) for op in ops]
    objects, symbols = _symbols(tensor, general)
    core = compile_native(render_core(_numbers(tensor)), _CALLS, symbols)
    known = {name: core.address(name) for name in _CALLS}
    known["ops"] = ctypes.addressof(records)
    names = [f"{kind}_{i}" for i in range(len(ops)) for kind in _KINDS]
    entries = compile_native(render_entries(arities), names, known, quick=True)
    held = (core, entries, records, kept, objects)
    forms = {}
    for i, op in enumerate(ops):
        function, method, reflected = (entries.address(f"{kind}_{i}") for kind in _KINDS)
        arguments = op.names[: arities[i]]
        forms[op] = FastForms(
            builtin_function(function, op.name, arguments, op.doc, *held),
            method_descriptor(tensor, method, op.name, ("$self", *arguments[1:]), op.doc, *held),
            method_descriptor(tensor, reflected, op.name, ("$self", "other"), op.doc, *held),
        )
    return forms


_CALLS = ("called", "called_on")
_KINDS = ("function", "method", "reflected")


def _fill(record: _Op, op: Op) -> Any:
    """Fill in what the native code is to know of an op; gives the objects whose addresses are in
    it."""
    compute = [getattr(np, op.ufunc) if op.ufunc else _compute(op, False), _compute(op, True)]
    entries = [_entry(EvenEntry, op), _entry(TapeEntry, op)]
    record.op = id(op)
    record.compute[:] = [*map(id, compute)]
    record.entry[:] = [*map(id, entries)]
    record.dtypes = sum(1 << i for i, d in enumerate(DTYPES) if d.numpy in usual_dtypes(op))
    recordable = RECORDABLE if op.vjp is not None else 0
    even = EVEN if type(op.lowering) is Elementwise else 0
    record.flags = recordable | even | (BY_NUMBER if op.ufunc is None else 0)
    record.uses[:] = [_uses(op, value) for value in (0, 1, OUT)]
    return compute, entries


def _slots(cls: type) -> Sequence[str]:
    return [s for s in vars(cls)["__slots__"] if s != "__weakref__"]


def _compute(op: Op, is_large: bool) -> Callable[..., Any]:
    return partial(compute_of(op, is_large), np)


def _entry(kind: type[TapeEntry], op: Op) -> TapeEntry:
    """An entry of which that is set which all of the op have."""
    entry = object.__new__(kind)
    entry.op, entry.attrs, entry.hooks = op, {}, None
    return entry


def _uses(op: Op, value: int) -> int:
    """For which arguments the cotangent needs the value of an argument or of the result: a bit for
    each."""
    arity = _arity(op)
    used = op.saves_for or (op.saves,) * arity
    return sum(1 << i for i in range(arity) if value in used[i])


def _numbers(tensor: type) -> Mapping[str, int]:
    """Where slots lie, and how large objects are."""
    classes = {
        "tensor": tensor, "memory": Memory, "shadow": Shadow, "entry": TapeEntry, "state": State,
        "recent": type(recent),
    }  # fmt: skip
    numbers = {f"{name}_size": cls.__basicsize__ for name, cls in classes.items()}
    for name, cls in classes.items():
        for slot in _slots(cls):
            place = box_type(cls, slot)
            assert place is not None
            numbers[f"{name}_{slot.strip('_')}"] = place.slot_offset
    return {**numbers, "DTYPES": len(DTYPES), "LARGE": LARGE}


def _symbols(tensor: Any, general: Callable[..., Any]) -> tuple[Any, dict[str, int]]:
    """The objects that the native code names, which are to live as long as it does, and their
    addresses."""
    shadow = object.__new__(Shadow)
    shadow.place = None
    example = object.__new__(tensor)
    example._memory = example._view = example._vertex = None
    example._grad = example.name = example._hooks = None
    objects = {
        "tensor_type": tensor, "tensor_example": example, "memory_example": Memory(),
        "shadow_example": shadow, "leaf": LEAF, "thread": thread, "recent": recent,
        "serials": serials, "bfloat16": bfloat16.numpy, "name_state": "state",
        "name_edge": "_edge", "name_shape": "shape", "name_version": "version",
        "asarray": np.asarray, "number_beside": number_beside, "general": general, "users": users,
        **python_types(),
    }  # fmt: skip
    tables = {
        "descrs": (ctypes.c_void_p * len(DTYPES))(*(id(d.numpy) for d in DTYPES)),
        "dtypes": (ctypes.c_void_p * len(DTYPES))(*map(id, DTYPES)),
        "memo": (ctypes.c_void_p * (3 * MEMO))(),
    }
    addresses = {name: id(o) for name, o in objects.items()}
    addresses |= {name: ctypes.addressof(t) for name, t in tables.items()}
    return (objects, tables), addresses | python_symbols(*_PYTHON)


def _number(value: Any, dtype: Any) -> Any:
    """A number as a 0-d array, which NumPy takes up faster. Raises `TypeError` if it would change
    the dtype."""
    if BY_PYTHON[type(value)].category > BY_NUMPY[dtype].category:
        raise TypeError("the number is of a higher category than the tensor")
    return thread.state.run(np.asarray, value, dtype)


_known_number = lru_cache(4096, typed=True)(_number)
_NUMBERS = frozenset(BY_PYTHON)


def number_beside(value: Any, dtype: Any) -> Any:
    """The number ``value`` as an array of NumPy's ``dtype``. Raises `TypeError` for what is none,
    or of a higher category."""
    if type(value) not in _NUMBERS:
        raise TypeError("no number")
    return _known_number(value, dtype) if value else _number(value, dtype)  # 0.0 is not -0.0
