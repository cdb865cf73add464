"""What stands for ops and methods where native code can be: builtin functions and descriptors.

`fast_forms` writes down what native code is to know of each op (`records.KnownOp`), has the
functions of `core` compiled, and makes of their addresses what Python calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.choose import (
    broadcasts,
    compute_of,
    is_even,
    latest_kernel,
    reduces,
    takes_halves,
)
from staticflow.eager.fast.core import NAMES, can_be_read, compile_core
from staticflow.eager.fast.in_place_forms import InPlaceMethod, in_place_table
from staticflow.eager.fast.methods import render_methods
from staticflow.eager.fast.plans import Planner, parameters_of
from staticflow.eager.fast.pull import place_of
from staticflow.eager.fast.records import FLAGS, MOST, OPS_ROOM, KnownOpRecord, OpPlaceRecord
from staticflow.eager.noted_programs import program_op
from staticflow.eager.vertex import PerElementEntry, TapeEntry
from staticflow.eager.vjp_plans import vjp_of
from staticflow.graph.dtypes import DTYPES
from staticflow.graph.op import OUT, Op, takes
from staticflow.ops import OPS
from staticflow.ops.basics.arithmetic import add
from staticflow.ops.declaring import lowering
from staticflow.ops.declaring.by_shape import BY_SHAPE
from staticflow.ops.declaring.declare import PerElement
from staticflow.ops.declaring.promote import usual_dtypes
from staticflow.ops.indexing.index_ops import embedding_op
from staticflow.ops.symbols.saves import saves_of
from staticflow.runtime.fastcall import builtin_function, method_descriptor
from staticflow.runtime.native import compile_native
from staticflow.runtime.once import compiling

__all__ = ["FastForms", "fast_forms", "has_fast_form"]

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class FastForms:
    """Builtin functions and methods of tensors by which Python reaches native code."""

    functions: Mapping[Op, Function]  # called with a tuple and a dict, ``(args, attrs)``
    direct: Mapping[Op, Function]  # called as the op is
    methods: Mapping[Op, Any]
    reflected: Mapping[Op, Any]  # of operators whose operands stand the other way round
    remembered: Mapping[Function, Function]
    remembered_methods: Mapping[Function, Any]
    in_place: Mapping[str, Any]  # methods by name
    walk_on: Function | None  # of the walk back, where `vjp_of` is remembered
    remember: Callable[[Function], Function] | None  # gives the form of one more function


def fast_forms(
    ops: Sequence[Op],
    methods: Collection[Op],
    reflected: Collection[Op],
    tensor: type,
    general: Function,
    finish: Function,
    remembered: Sequence[Function],
    in_place: Mapping[str, InPlaceMethod],
) -> FastForms:
    """The forms of those of ``ops`` that have a fast path, of functions whose calls are
    ``remembered`` and of in-place methods, for the class of tensors.

    ``general(op, args, attrs)`` does what is not usual, ``finish(op, args, attrs, results)`` makes
    tensors of several results. There are no forms if this Python does not let native code read its
    objects.
    """
    if not can_be_read(tensor):
        return FastForms({}, {}, {}, {}, {}, {}, {}, None, None)
    ops = [op for op in ops if has_fast_form(op)]
    kernels = [op for op in ops if _has_own_plan(op)]  # which are remembered, too
    records = (KnownOpRecord * len(ops))()
    known = [_fill_record(record, op) for record, op in zip(records, ops, strict=True)]
    addresses = {op: ctypes.addressof(record) for op, record in zip(ops, records, strict=True)}
    # (what only the run can type is counted in Python each time, see `ops.loops.inner_sizes`)
    typed = {
        op: at for op, at in addresses.items() if op.lowering or op.decompose or op is program_op
    }
    plans = Planner([*remembered, *kernels], typed)
    for op, record in zip(ops, records, strict=True):
        record.otherwise = plans.add(_general_call(general, op))
    note_saves = partial(_note_saves, dict(zip(ops, records, strict=True)))
    python = {"general": general, "finish": finish, "note_saves": note_saves}
    places = _places(records)
    pulled_by = plans.addresses.get(vjp_of)
    core, objects = compile_core(
        tensor,
        {
            "plan_slots": ctypes.addressof(plans.slots),
            "op_places": ctypes.addressof(places),
            "vjp_remembered": pulled_by or 0,
            "add_op": addresses.get(add, 0),
        },
        python,
    )
    plans.install_by(core.address("install_plan"))

    def builtins(entry: str, of: Mapping[Any, int]) -> dict[Any, Function]:
        code = core.address(entry)
        return {fn: builtin_function(code, _name_and_text(fn)[0], at) for fn, at in of.items()}

    def remember(fn: Function) -> Function:
        return builtin_function(core.address("recall_at"), fn.__name__, plans.add(fn))

    walk_on = builtin_function(core.address("walk_on"), "walk_on", 0)
    recalled = builtins("recall_at", plans.addresses)
    direct = {**builtins("call_op_at", addresses), **{op: recalled[op] for op in kernels}}
    by_shape = {fn: recalled[m.written] for fn, m in BY_SHAPE.items() if m.written in recalled}
    changes = in_place_table([*in_place.values()], {**direct, **by_shape}, plans.add)

    numbers: dict[str, Mapping[Any, int]] = {
        "method": {op: number for number, op in enumerate(ops) if op in methods},
        "reflected": {op: number for number, op in enumerate(ops) if op in reflected},
        "remembered": {fn: number for number, fn in enumerate(plans.addresses)},
        "changed": {name: number for number, name in enumerate(in_place)},
    }
    tables = {"ops": records, "functions": plans.table, "in_place": changes}
    symbols = {name: core.address(name) for name in NAMES}
    symbols |= {name: ctypes.addressof(table) for name, table in tables.items()}
    text = render_methods({kind: of.values() for kind, of in numbers.items()})
    names = [f"{kind}_{number}" for kind, of in numbers.items() for number in of.values()]
    entries = compile_native(text, names, symbols, quick=True)
    held = (core, entries, known, objects, plans, places, tables, in_place, direct, by_shape)

    def method(kind: str, key: Any, fn: Any) -> Any:
        name, doc = _name_and_text(fn)
        code = entries.address(f"{kind}_{numbers[kind][key]}")
        return method_descriptor(tensor, code, name, ("$self", *_parameters(fn)), doc, *held)

    remembering = {fn: method("remembered", fn, fn) for fn in plans.addresses}
    return FastForms(
        functions=builtins("call_with_attrs", addresses),
        direct=direct,
        methods={op: remembering.get(op) or method("method", op, op) for op in numbers["method"]},
        reflected={op: method("reflected", op, op) for op in numbers["reflected"]},
        remembered={fn: recalled[fn] for fn in remembered},
        remembered_methods={fn: remembering[fn] for fn in remembered},
        in_place={name: method("changed", name, m.general) for name, m in in_place.items()},
        walk_on=walk_on if pulled_by and add in addresses else None,
        remember=remember,
    )


def _name_and_text(fn: Function) -> tuple[str, str]:
    return (fn.name, fn.doc) if isinstance(fn, Op) else (fn.__name__, fn.__doc__ or "")


def _parameters(fn: Function) -> Sequence[str]:
    """What a method of an op or of a function takes beside its object."""
    return fn.names[1 : takes(fn)[0]] if isinstance(fn, Op) else parameters_of(fn)


def _has_own_plan(op: Op) -> bool:
    """Whether an op is remembered by itself, as functions of ops are: it is a kernel at every size,
    or as well as NumPy, of which no ufunc does it at once."""
    if op.shapeless or op.numpy == "slower":
        return not op.shapeless
    return op.exact and (op.numpy == "small" or (op.numpy == "alone" and op.ufunc is None))


def has_fast_form(op: Op) -> bool:
    """Whether the op has a fast path: all but loops and branches have, and what Python is asked
    for."""
    return op.lowering is None or type(op.lowering) in _FORMS


_FORMS = frozenset((
    lowering.Checked, lowering.Contract, lowering.Correlate, lowering.CorrelateKernel,
    lowering.Elementwise, lowering.Generate, lowering.LoopNest, lowering.Reduce, lowering.View,
))  # fmt: skip


def _fill_record(record: Any, op: Op) -> Any:
    """Fill in what the native code is to know of an op; gives the objects whose addresses are in
    it."""
    generates = type(op.lowering) is lowering.Generate  # of sizes alone, at which it looks itself
    small = getattr(np, op.ufunc) if op.ufunc else _compute(op, generates)
    compute = [small, _compute(op, True)]
    entries = [_example_entry(PerElementEntry, op), _example_entry(TapeEntry, op)]
    record.object = id(op)
    record.compute[:] = [*map(id, compute)]
    record.entry[:] = [*map(id, entries)]
    record.dtypes = sum(1 << i for i, d in enumerate(DTYPES) if d.numpy in usual_dtypes(op))
    record.flags = sum(FLAGS[name] for name, holds in _flags(op).items() if holds)
    record.arity, *_ = takes(op)
    kernel = latest_kernel(op)
    record.kernel = None if kernel is None else ctypes.addressof(kernel)
    record.name = id(op.name)
    if isinstance(op.vjp, PerElement):
        record.partials[: len(op.vjp.partials)] = [p and id(p) for p in op.vjp.partials]
    return compute, entries, kernel


def _general_call(general: Function, op: Op) -> Function:
    """The general path of an op, called as the op is, without attributes."""

    def call(*args: Any) -> Any:
        return general(op, args, {})

    return call


def _places(records: Any) -> Any:
    """The table in which native code finds the records of ops (`pull.find_op`)."""
    places = (OpPlaceRecord * OPS_ROOM)()
    assert len(records) < OPS_ROOM // 2
    for record in records:
        place = place_of(record.object)
        while places[place].op:
            place = (place + 1) % OPS_ROOM
        places[place].op = ctypes.addressof(record)
    return places


def _flags(op: Op) -> dict[str, bool]:
    promoted = op.promote != "none"
    elementwise = type(op.lowering) is lowering.Elementwise
    least, most, attrs = takes(op)
    bare = least == most and not attrs
    return {
        "RECORDABLE": op.vjp is not None,
        "PER_ELEMENT": elementwise and promoted and bare and isinstance(op.vjp, PerElement),
        "NUMBERS": broadcasts(op),
        "BY_NUMBER": op.ufunc is None,
        "ANY_DTYPES": not promoted,
        "TAIL": op.promote == "tail",
        "VIEW": type(op.lowering) is lowering.View and op.numpy == "faster",
        "REDUCES": reduces(op),
        "PARTIALS": isinstance(op.vjp, PerElement) and op.vjp.self_contained,
        "PLANNED": OPS.get(op.name) is op,
        "HALVES": takes_halves(op),
        "EVEN": is_even(op),
        "ROWS": op is embedding_op,
        "PART": type(op.lowering) is lowering.View and op.lowering.span is not None,
    }


def _compute(op: Op, is_large: bool) -> Callable[..., Any]:
    return partial(compute_of(op, is_large), np)


def _example_entry(kind: type[TapeEntry], op: Op) -> TapeEntry:
    """An entry of which that is set which all of the op have."""
    entry = object.__new__(kind)
    entry.op, entry.attrs, entry.hooks = op, {}, None
    return entry


def _note_saves(
    records: Mapping[Op, Any], op: Op, args: Sequence[Any], attrs: Mapping[str, Any]
) -> None:
    """Fill in which values the cotangents of an op use that is recorded with so many arguments for
    the first time."""
    saves, record = saves_of(op, args, attrs), records[op]
    with compiling:
        for i, used in enumerate(saves):
            for value in used:
                record.uses[max(value, OUT) + 1] |= 1 << i  # first those of results
                if value <= OUT:
                    record.results |= 1 << min(OUT - value, MOST)
        record.traced |= 1 << len(args)
