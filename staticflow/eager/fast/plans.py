"""Functions whose way from arguments to ops is remembered.

What `ops.declaring.by_shape` marks, and the basic part of subscripts, is asked once for each kind
of call which ops it comes to, on which of its tensors and of what earlier ops gave: its *plan*.
From then on native code (`staticflow.eager.fast.recall`) runs these ops at once. A call whose
kind was not seen shortly before runs the function as it is, so that what is always another kind
costs nothing.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from staticflow.eager.choose import bound, by_numpy, kernel_of, pays_often
from staticflow.eager.costs import SMALL
from staticflow.eager.fast.recall import MOST_VALUES, SLOTS
from staticflow.eager.fast.records import (
    PlannedViewRecord,
    PlanRecord,
    ProgramStepRecord,
    RememberedRecord,
    SlotRecord,
    StepRecord,
    TakenArrayRecord,
    TakingRecord,
)
from staticflow.eager.kernels import KernelCall, Order
from staticflow.eager.memory import note_exchange
from staticflow.eager.noted_programs import ChangeCall, ProgramCall, program_op
from staticflow.eager.rows import in_dims
from staticflow.eager.vertex import LEAF
from staticflow.graph.dtypes import BY_PYTHON
from staticflow.graph.op import Op
from staticflow.ops.basics.creation import full
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.declaring.thread import thread

__all__ = ["Planner", "parameters_of"]

MOST_STEPS = 1 << 10
"""Calls of more ops than that are not remembered, nor are such that ask for the values of a tensor,
as where one stands for a size. A plan of 100 views takes 2 milliseconds to make, and gives them in
35 microseconds, not in 220."""

_WORD = 8

_Array = np.ndarray[Any, Any]

_Kind = tuple[bytes, Sequence[_Array]]
"""The key of a call with its hash, and the arrays of the tensors that it was written by."""

Noted = Sequence[tuple[Op | None, Sequence[Any], Sequence[Any], Any, Any]]
"""Each op with its operands, the arrays that it ran on, its attributes and what it gave; for a draw
None, with the state of the generator in the place of attributes."""


class PlanOwner:
    """The `records.Plan` of a kind of calls, with all that it points to."""

    __slots__ = ("held", "record", "waiting")

    def __init__(self, key: bytes, *held: Any) -> None:
        self.held = [*held]
        self.waiting: list[Callable[[], None]] = []
        words = self.hold((ctypes.c_char * len(key)).from_buffer_copy(key))
        self.record = PlanRecord(key=words, words=len(key) // _WORD)

    def hold(self, array: Any) -> int:
        """The address of a ctypes object, which lives from now on as long as the plan."""
        self.held.append(array)
        return ctypes.addressof(array)

    def hasten(self) -> None:
        """Called when calls of the kind have come often: let kernels compute what NumPy did so far,
        where that gives the same bits."""
        waiting, self.waiting = self.waiting, []
        for bind in waiting:
            bind()

    def compute_by(self, step: Any, compute: Callable[..., Any]) -> None:
        """Let a function of arrays alone compute a step."""
        self.held.append(compute)
        step.compute = id(compute)

    def own(self, thing: Any) -> int:
        """The address of an object, which lives from now on as long as the plan."""
        self.held.append(thing)
        return id(thing)

    def words(self, numbers: Sequence[int]) -> int:
        """The address of numbers."""
        return self.hold((ctypes.c_int64 * len(numbers))(*numbers))

    def objects(self, objects: Sequence[Any]) -> int:
        """The address of the addresses of objects."""
        self.held.append(objects)
        return self.hold((ctypes.c_void_p * len(objects))(*map(id, objects)))


class Planner:
    """What makes the plans of functions whose calls are remembered.

    ``functions`` are ops and functions as they are to be called otherwise, ``records`` the
    addresses of what native code knows of ops. ``addresses`` are those of what it knows of the
    functions.
    """

    def __init__(self, functions: Sequence[Callable[..., Any]], records: Mapping[Op, int]) -> None:
        self.slots = (SlotRecord * SLOTS)()
        self.table = (RememberedRecord * len(functions))()
        self.addresses = dict(zip(functions, map(ctypes.addressof, self.table), strict=True))
        self._records = records
        self._held: list[Any] = []
        for row, fn in zip(self.table, functions, strict=True):
            self._fill(row, fn.call if isinstance(fn, Op) else refuses_foreign(fn))

    def add(self, fn: Callable[..., Any]) -> int:
        """The address of what native code knows of one more function, which is called as it is
        where its calls are not remembered."""
        row = RememberedRecord()
        self._held.append(row)
        self._fill(row, fn)
        return ctypes.addressof(row)

    def _fill(self, row: Any, plain: Callable[..., Any]) -> None:
        learner = partial(self._learn, plain, row)
        self._held += (plain, learner)
        row.itself, row.learner = id(plain), id(learner)

    def install_by(self, address: int) -> None:
        """Let native code at an address, `recall.install_plan`, take plans from now on."""
        function = ctypes.PYFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p, ctypes.py_object)
        self._install = function(address)

    def _learn(
        self, fn: Callable[..., Any], row: Any, kind: _Kind, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call the function of a ``row``, and remember what it came to for calls of a ``kind``.
        What came of other arrays, where a tensor was given one meanwhile, is not remembered; nor
        is the first call that is fused, since from then on kinds tell which gradients are
        wanted."""
        words, arrays = kind
        key, code = words[:-_WORD], int.from_bytes(words[-_WORD:], "little")
        objects = [*_flatten(args), *_flatten(kwargs.values())]
        tensors = [*{id(a): a for a in objects if hasattr(a, "_vertex")}.values()]
        others = [a for a in objects if not hasattr(a, "_vertex")]
        state, looked = thread.state, note_exchange()
        as_described = _are_still_on(arrays, tensors)
        noted: list[Any] = []
        plain = state.usual
        try:
            state.noted, state.usual = noted, False
            out = fn(*args, **kwargs)
        finally:
            state.noted, state.usual = None, plain
        if not (as_described and _are_still_on(arrays, tensors) and note_exchange() == looked + 1):
            return out
        if not row.fuses and any(map(_is_program, filter(None, noted))):
            row.fuses = 1
            return out
        plan = PlanOwner(key, others, list(kwargs))
        if None not in noted and len(noted) <= MOST_STEPS:
            draws = any(op is None for op, *_ in noted)
            if tensors or draws or not _is_small_and_new(out):
                self._write(plan, tensors, noted, out)
            else:
                self._write_copy(plan, out._data)
        self._install(code, ctypes.addressof(plan.record), plan)
        return out

    def _write(self, plan: PlanOwner, tensors: Sequence[Any], noted: Noted, out: Any) -> None:
        """Write the ops that lead from ``tensors`` to ``out``, if all that they take is known."""
        numbers = [a for _, operands, *_ in noted for a in operands if type(a) in BY_PYTHON]
        positions = {id(v): i for i, v in enumerate([*tensors, *numbers])}
        count = len(tensors) + len(numbers)
        steps = (StepRecord * len(noted))()
        for step, (op, operands, arrays, attrs, result) in zip(steps, noted, strict=True):
            if op is not None and op not in self._records:
                return
            if not positions.keys() >= set(map(id, operands)):
                return
            results = result if type(result) is tuple else (result,)
            plan.held += (op, attrs)
            if op is None:
                step.compute = id(attrs)
                positions[id(result)] = count
                count += 1
                continue
            step.op, step.attrs = self._records[op], id(attrs) if attrs else None
            step.count = len(operands)
            step.operands = plan.words([positions[id(a)] for a in operands])
            step.results = len(result) if type(result) is tuple else 0
            _plan_step(plan, step, op, operands, arrays, attrs, result)
            for r in results:
                positions.setdefault(id(r), count)  # one that was changed stays where it was
                count += 1
        given = out if isinstance(out, tuple) else (out,)
        if not positions.keys() >= set(map(id, given)):
            return
        if any(a._vertex is LEAF for a in given if positions[id(a)] >= len(tensors)):
            return  # it was made to require a gradient, which is no op
        widest = max((s.count for s in steps), default=0)
        if max(count, widest) > MOST_VALUES:
            return
        record = plan.record
        record.numbers, record.number_count = plan.objects(numbers), len(numbers)
        record.values = count
        record.results = plan.words([positions[id(a)] for a in given])
        record.result_count = len(given) if isinstance(out, tuple) else -1
        if type(out) is not tuple and isinstance(out, tuple):
            plan.held.append(type(out))
            record.made = id(type(out))
        record.steps, record.step_count = plan.hold(steps), len(steps)

    def _write_copy(self, plan: PlanOwner, array: np.ndarray[Any, Any]) -> None:
        """Write that each call gives such an array, since there are no tensors among its
        arguments."""
        steps = (StepRecord * 1)(StepRecord(op=self._records[full]))
        plan.compute_by(steps[0], array.copy().copy)
        record = plan.record
        record.steps, record.step_count = plan.hold(steps), 1
        record.values, record.result_count, record.results = 1, -1, plan.words([0])


def _flatten(arguments: Any) -> Iterator[Any]:
    """The arguments, and what is in those that are lists, tuples or slices, in order."""
    for a in arguments:
        if type(a) is list or type(a) is tuple:
            yield from _flatten(a)
        elif type(a) is slice:
            yield from (a.start, a.stop, a.step)
        else:
            yield a


def _are_still_on(arrays: Sequence[Any], tensors: Sequence[Any]) -> bool:
    """Whether the tensors are on these arrays."""
    return list(map(id, arrays)) == [id(t._data) for t in tensors]


def _is_small_and_new(out: Any) -> bool:
    """Whether this is a tensor that nobody else has, and that is as soon copied as made."""
    return (
        hasattr(out, "_vertex")
        and out._vertex is out._view is None
        and type(out._data) is np.ndarray
        and out._data.size < SMALL
    )


def _plan_step(
    plan: PlanOwner,
    step: Any,
    op: Op,
    operands: Sequence[Any],
    on: Sequence[Any],
    attrs: Mapping[str, Any],
    result: Any,
) -> None:
    """Write what is known of a step beside its op: a view as where it begins and its strides, a
    kernel, or what fills an array."""
    arrays = [a if hasattr(o, "_vertex") else o for o, a in zip(operands, on, strict=True)]
    if op is program_op:
        call = attrs["program"]
        if isinstance(call, ChangeCall):
            _plan_change(plan, step, call, arrays)
        else:
            _plan_program(plan, step, call, arrays, result)
        return
    if type(result) is not tuple and result._view is not None:
        array, part = arrays[0], result._data
        _plan_view(plan, step, array, _address(part) - _address(array), part)
        return
    if op.shapeless:
        arrays[1] = np.empty(arrays[1].size, np.bool_)  # whose values do not matter
        row = np.empty(arrays[1].size, result._data.dtype)
        if not _plan_view(plan, step, row, 0, result._data):
            return
        plan.held.append(arrays[1])
        step.vector = id(arrays[1])
    results = [r._data for r in (result if type(result) is tuple else (result,))]
    compute = bound(op, arrays, attrs, results)
    if isinstance(compute, KernelCall):
        _plan_kernel(plan, step, compute, arrays, results)
    elif compute is not None:
        plan.compute_by(step, compute)
    function = by_numpy(op, arrays, attrs)
    if function is not None:
        plan.held.append(function)
        step.by_numpy = id(function)
    if pays_often(op, arrays, attrs):
        few = [_without_memory(a) if isinstance(a, np.ndarray) else a for a in arrays]
        given = [*map(_without_memory, results)]

        def bind() -> None:
            kernel = kernel_of(op, few, attrs, given)
            if kernel is not None:
                _plan_kernel(plan, step, kernel, few, given)

        plan.waiting.append(bind)


def _plan_kernel(
    plan: PlanOwner, step: Any, call: KernelCall, arrays: Sequence[Any], results: Sequence[_Array]
) -> None:
    """Let a kernel compute a step of arrays like these, with ``results`` that lie like these."""
    if not call.is_bare:
        count = len(arrays) if call.takes is None else call.takes
        rows = (TakenArrayRecord * (count + len(call.further)))()
        for row, own in zip(rows[count:], call.further, strict=True):
            row.object = plan.own(own)
        orders = call.orders or [()] * count
        for i, (row, array, order) in enumerate(zip(rows, arrays, orders[:count], strict=False)):
            if call.instead and i in call.instead:
                row.object = plan.own(call.instead[i])
            elif order:
                row.view = _view_record(plan, array, 0, in_dims(array, order))
            row.copied = call.copies
        taking = TakingRecord(count=len(rows), arrays=plan.hold(rows))
        if call.flat or call.back is not None:
            out = results[0]
            inner = out.reshape(-1) if call.back is None else out.transpose(np.argsort(call.back))
            taking.back = _view_record(plan, inner, 0, out)
        step.taking = plan.hold(taking)
    plan.compute_by(step, call.entry)


def _is_program(noted: Any) -> bool:
    """Whether what was noted is the call of a program, of which something may be recorded."""
    op, _, _, attrs, _ = noted
    return op is program_op and isinstance(attrs["program"], ProgramCall)


def _plan_program(
    plan: PlanOwner, step: Any, call: ProgramCall, arrays: Sequence[_Array], result: Any
) -> None:
    """Write what is known of a call of a program of arrays like these."""
    plan.held.append(call)
    order = call.order
    if order is None:
        plan.compute_by(step, call.entry)
    else:
        out = result._data
        back = tuple(np.argsort(order).tolist()) if out.ndim == len(order) else None
        kernel = KernelCall(call.entry, _in_order(arrays, order), back)
        _plan_kernel(plan, step, kernel, arrays, (out,))
    record = ProgramStepRecord(
        example=None if call.example is None else id(call.example),
        outputs=call.outputs,
        wanted=call.wanted,
        is_tuple=call.is_tuple,
        otherwise=id(call.otherwise),
    )
    step.program = plan.hold(record)


def _plan_change(plan: PlanOwner, step: Any, call: ChangeCall, arrays: Sequence[_Array]) -> None:
    """Let a program overwrite the first of arrays like these."""
    orders = None if call.order is None else _in_order(arrays, call.order)
    kernel = KernelCall(call.entry, orders, instead=call.instead)
    _plan_kernel(plan, step, kernel, arrays, ())
    step.changes = 1


def _in_order(arrays: Sequence[_Array], order: Order) -> list[Order]:
    """In what order of dims each array is taken: those of as many dims as an order has in that."""
    return [order if a.ndim == len(order) else () for a in arrays]


def _without_memory(array: _Array) -> _Array:
    """An array of the same shape, dtype and strides that has memory for its first element alone:
    nobody is to read the others."""
    return as_strided(np.empty((), array.dtype), array.shape, array.strides)


def _plan_view(plan: PlanOwner, step: Any, array: _Array, offset: int, part: _Array) -> bool:
    """Write where in arrays like this one a view begins, and what it is like; False where it does
    not lie between the first and the last element of such an array, all whose memory is there."""
    low, high = (end - _address(array) for end in byte_bounds(array))
    first, last = (end - _address(part) + offset for end in byte_bounds(part))
    if part.size > 0 and not low <= first <= last <= high:
        return False
    step.view = _view_record(plan, array, offset, part)
    return True


def _view_record(plan: PlanOwner, array: _Array, offset: int, part: _Array) -> int:
    """The address of what is known of a view of arrays like this one that begins at an offset in
    bytes and is like a ``part``."""
    lies = [(a.ndim, plan.words(a.shape), plan.words(a.strides)) for a in (part, array)]
    return plan.hold(PlannedViewRecord(offset, *lies[0], *lies[1]))


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def parameters_of(fn: Callable[..., Any]) -> list[str]:
    """The parameters of a method but the first, as CPython reads the signature of a builtin."""
    signature = inspect.signature(fn)
    _, *parameters = (p.replace(annotation=p.empty) for p in signature.parameters.values())
    bare = signature.replace(parameters=parameters, return_annotation=signature.empty)
    return str(bare)[1:-1].split(", ") if parameters else []
