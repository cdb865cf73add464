"""Calls of functions that `ops.declaring.fused` marks: a program, and one vertex of the tape.

A call that needs no gradient is one program. Where a gradient is needed, the program gives also the
residuals that the backward is to know of the forward (`staticflow.eager.residuals`), and another
program, made when it is first needed, goes back. What such programs do not take runs op by op:
other devices, a backward that is itself recorded, and errors, which are worded so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from staticflow.eager import tape
from staticflow.eager.costs import LARGE
from staticflow.eager.inference import unrecordable
from staticflow.eager.memory import Memory
from staticflow.eager.noted_programs import ProgramCall, note_program
from staticflow.eager.programs import (
    UNMET,
    Kinds,
    Programs,
    close_over,
    compile_graph,
    fill,
    kind_of,
    mark,
    packer,
    params_of,
    run,
    sizes_along_rows,
    trace,
    with_sizes,
)
from staticflow.eager.residuals import Derivative, differentiate
from staticflow.eager.rows import order_of
from staticflow.eager.saved import check_unchanged, save_value
from staticflow.eager.saved_hooks import Packed
from staticflow.eager.turned import turn
from staticflow.eager.vertex import TapeEntry, Vertex, attach, make_entry
from staticflow.errors import StaticflowError, VerifyError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import get_default_dtype
from staticflow.graph.graph import exactly
from staticflow.graph.op import Op
from staticflow.graph.open_size import OpenSize
from staticflow.ops.basics.axes import permute, permute_op
from staticflow.ops.declaring.by_shape import REMEMBERING
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import autocasting, thread
from staticflow.ops.declaring.tracing import tracing
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.order import AS_WRITTEN, INTO_KERNELS, WITH_ATTENTION
from staticflow.runtime.executable import Executable

__all__ = ["FIXED", "FusedEntry", "FusedProgram", "fused_form"]

_array = np.ndarray
_getframe = sys._getframe
_OF_GRAPHS = frozenset((Symbol, Dim, OpenSize))
FIXED = Memory()
"""The memory of residuals, which nobody else has."""
Function = Callable[..., Any]


class FusedProgram:
    """What computes calls of one kind, in which the operands that ``needs`` marks, if it is not
    empty, need a gradient.

    ``args`` are the arguments, with positions for tensors. The program ``forward`` gives the
    outputs and behind them, where a gradient is needed, the residuals of the ``derivative``. With
    an ``order`` all that has as many dims is taken and given with its dims in that order; if it is
    ``in_any_order``, no result has to be copied for that.

    ``ways`` has the native entries of the programs back: by whether each operand is needed, False
    for each residual, and the numbers of the outputs whose cotangents are given, if these are a
    tuple. Native code reads it (`staticflow.eager.fast.pull_fused`).
    """

    __slots__ = (
        "_backward", "args", "back", "derivative", "fn", "forward", "in_any_order", "operands",
        "order", "outputs", "pack", "unread", "ways",
    )  # fmt: skip

    def __init__(
        self,
        fn: Function,
        args: tuple[Any, ...],
        needs: tuple[bool, ...],
        passes: tuple[str, ...],
        order: tuple[int, ...] | None,
        kinds: Kinds,
    ) -> None:
        self.fn, self.args, self.operands = fn, args, len(kinds)
        self.order = order
        self.back = None if order is None else tuple(np.argsort(order).tolist())
        params = params_of(kinds)
        outputs, self.pack = trace(self.of if order is None else self._in_order, params)
        self.outputs = len(outputs)
        turned = (o.tensor_type.ndim == 0 or o.op is not permute_op for o in outputs)
        self.in_any_order = order is None or all(turned)
        self.derivative: Derivative | None = None
        self.ways: dict[tuple[bool | int, ...], Callable[..., Any]] = {}
        if not needs or not any(o.tensor_type.dtype.is_floating for o in outputs):
            self.forward = compile_graph(close_over(params, outputs), passes=passes)
            return
        self.derivative = differentiate(params, outputs, needs, passes)
        self.unread = self.derivative.unread()
        self.forward = compile_graph(self.derivative.forward(), passes=INTO_KERNELS)
        self._backward: Programs[Executable] = Programs()

    def of(self, *tensors: Any) -> Any:
        """What the function gives of other tensors, or of symbols."""
        return self.fn(*fill(self.args, tensors))

    def _in_order(self, *tensors: Any) -> Any:
        """`of`, its tensors and results with their dims in the order."""
        found = self.of(*_turn(tensors, self.back, permute))
        assert self.order is not None
        pack = packer(found)
        return pack([turn(o, self.order) for o in found]) if pack else turn(found, self.order)

    def run(self, arrays: Sequence[Any]) -> Any:
        """What the program forward gives of arrays; None if these are no operands for it."""
        if self.order is None:
            results = self.forward.fast(*arrays)  # as `run` begins
            usual = results is not None and type(results) is not int
            return results if usual else _run(self.forward, arrays)
        results = _run(self.forward, _turn(arrays, self.order))
        if results is None:
            return None
        results = results if type(results) is tuple else (results,)
        outputs = _turn(results[: self.outputs], self.back)
        return (*outputs, *results[self.outputs :])

    def express(self, operands: Sequence[Symbol]) -> Any:
        """What the function gives of symbols, as a part of a graph."""
        with tracing():
            return self.of(*operands)

    def cotangents(self, ct: Any) -> list[Any]:
        """The cotangents of the outputs, None where there is none, of what the tape hands over."""
        return [ct.get(i) for i in range(self.outputs)] if self.pack else [ct]

    def backward(self, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Executable | None:
        """The program from the operands, the residuals and those cotangents of outputs that are
        ``given`` to those of operands that are needed."""
        way = needs, given
        program: Executable | None = self._backward.by_call.get(way, UNMET)
        if program is UNMET:
            program = self._backward.remember(way, self._backward.find((), self._go_back, way))
        return program

    def _go_back(self, way: tuple[tuple[bool, ...], tuple[bool, ...]]) -> Executable:
        assert self.derivative is not None
        return compile_graph(self.derivative.backward(*way), passes=INTO_KERNELS)


def _turn(
    values: Sequence[Any],
    order: tuple[int, ...] | None,
    permute: Callable[..., Any] = np.ndarray.transpose,
) -> Sequence[Any]:
    """``values``, those of as many dims as an ``order`` has with their dims in that order."""
    if order is None:
        return values
    return [permute(v, order) if v.ndim == len(order) else v for v in values]


def _run(program: Executable, arrays: Sequence[Any]) -> Any:
    """What a program gives; None if these are no operands for it: the operations say why."""
    try:
        return run(program, arrays)
    except VerifyError:
        raise
    except StaticflowError:
        return None


class FusedEntry(TapeEntry):
    """A recorded call. It keeps the operands, and behind them what the backward is to know."""

    __slots__ = ()

    def pull(self, ct: Any, edges: Sequence[Vertex | None], retain: bool) -> Sequence[Any]:
        """The cotangents of the arguments, by one program where `TapeEntry.pull` takes several."""
        if thread.state.recording:
            return super().pull(ct, edges, retain)
        if self.args is None:
            self._refuse()
        fused = self.attrs["fused"]
        unread = fused.unread
        arrays = [
            kept[0] if i in unread else check_unchanged(kept, self, i)
            for i, kept in enumerate(self.args)
        ]
        arrays = [a.array() if type(a) is Packed else a for a in arrays]
        cts = fused.cotangents(ct)
        needs = tuple([e is not None for e in edges[: fused.operands]])
        program = fused.backward(needs, tuple([c is not None for c in cts]))
        if program is None:
            return super().pull(ct, edges, retain)
        order, count = fused.order, fused.operands
        if order is None:
            numbers = [i for i, c in enumerate(cts) if c is not None] if fused.pack else ()
            fused.ways[(*(e is not None for e in edges), *numbers)] = program.fast
        given = [c._data for c in cts if c is not None]
        operands = _turn(arrays[:count], order)
        found = _run(program, [*operands, *arrays[count:], *_turn(given, order)])
        if found is None:
            return super().pull(ct, edges, retain)
        if not retain:
            self._free()
        found = found if type(found) is tuple else (found,)
        pulled = map(eager.wrap, _turn(found, fused.back))
        return [next(pulled) if e is not None else None for e in edges]


def _vjp(needs: Sequence[bool], cts: Any, out: Any, *args: Any, fused: FusedProgram) -> Any:
    """The cotangents op by op, on the tape."""
    state, count = thread.state, fused.operands
    before = state.recording
    try:
        state.recording = True
        # other names of the operands, so that no walk leads from one to another
        operands = [a.view_as(a) for a in args[:count]]
        found = fused.of(*operands)
        pairs = zip(found if fused.pack else (found,), fused.cotangents(cts), strict=True)
        # (a result may be of no operand, as the permutation of `lu` is)
        led = [(o, ct) for o, ct in pairs if ct is not None and o.requires_grad]
        outputs, given = [o for o, _ in led], [ct for _, ct in led]
        wanted = [a for a, need in zip(operands, needs, strict=False) if need]
        pulled = iter(tape.grad(outputs, wanted, given, create_graph=before))
    finally:
        state.recording = before
    return [next(pulled) if need else None for need in needs]


def fused_form(
    fn: Function, grad_name: str, only_large: bool, attends: bool, any_order: bool
) -> Function:
    """What a fused function is called as."""
    passes = WITH_ATTENTION if attends else AS_WRITTEN
    keeps_order = only_large and not attends  # as its ops do
    programs: Programs[FusedProgram] = Programs()
    op = Op(fn.__name__, fn.__doc__ or "", _never_run, _never_run, _vjp, grad_name=grad_name)

    def call(*args: Any) -> Any:
        state, tensor = thread.state, eager.tensor
        if state.autocast is not None:
            with autocasting(None):
                return call(*args)
        if state.tracing:
            return fn(*args)
        key: list[Any] = [get_default_dtype()]
        tensors, arrays = [], []
        whole, alone = True, True  # alone: no operand has a history
        for a in args:
            if isinstance(a, tensor):
                data = a._data
                if type(data) is not _array:
                    return fn(*args)
                tensors.append(a)
                arrays.append(data)
                key += data.shape, data.dtype
                if alone and (a._vertex is not None or a._view is not None):
                    alone = False
                if whole and (keeps_order or (any_order and data.size >= LARGE)):
                    whole = data.flags.c_contiguous
            elif type(a) in _OF_GRAPHS:
                return fn(*args)
            else:
                key += type(a), str(a) if type(a) is float else a  # 0.0, -0.0
        if not arrays or (only_large and all([a.size < LARGE for a in arrays])):
            return fn(*args)
        needs: tuple[bool, ...] = ()
        if not alone and state.recording:
            edges = [a._current_vertex() for a in tensors]
            needs = tuple([e is not None for e in edges])
            if True not in needs:
                needs = ()
        order = None if whole else order_of(arrays)
        key += needs, order
        known = tuple(key)
        try:
            program = programs.by_call.get(known, UNMET)
        except TypeError:  # no hashable argument
            return fn(*args)
        if program is UNMET:
            found = _find(fn, programs, args, arrays, needs, passes, order)
            if order is not None and not keeps_order and not (found and found.in_any_order):
                found = _find(fn, programs, args, arrays, needs, passes, None)
            program = programs.remember(known, found)
        results = None if program is None else program.run(arrays)
        if results is None:
            return fn(*args)
        if type(results) is not tuple:
            results = (results,)
        count = program.outputs
        made = tuple(map(tensor._wrap, results[:count]))
        out = made if program.pack else made[0]
        if state.noted is not None and (program.order is None or not (needs or program.pack)):
            _note(call, op, program, needs, tensors, arrays, made if program.pack else out)
        if program.derivative is not None:
            held = list(map(save_value, tensors))
            for array in results[count:]:
                held.append(
                    save_value(tensor._wrap(array)) if state.saved_hooks else (array, FIXED, 0)
                )
            ways = (*edges, *(None,) * (len(held) - len(edges)))
            entry = make_entry(FusedEntry, op, {"fused": program}, ways, held, None, _getframe(1))
            attach(entry, out)
        if state.inference:
            unrecordable(out)
        return program.pack(made) if program.pack else out

    return call if REMEMBERING.form is None else REMEMBERING.form(call)


def _note(
    call: Function,
    op: Op,
    program: FusedProgram,
    needs: tuple[bool, ...],
    tensors: Sequence[Any],
    arrays: Sequence[Any],
    out: Any,
) -> None:
    """Note a call of a fused function and what it gave, for who notes ops."""
    example = None
    if program.derivative is not None:
        example = object.__new__(FusedEntry)
        example.op, example.attrs, example.hooks = op, {"fused": program}, None
    wanted = sum(1 << i for i, need in enumerate(needs) if need)
    otherwise = partial(_call_filled, call, program.args)
    several = program.pack is not None
    entry, order = program.forward.fast, program.order
    noted = ProgramCall(entry, otherwise, program.outputs, several, wanted, example, order)
    note_program(noted, tensors, arrays, out)


def _call_filled(call: Function, args: tuple[Any, ...], *tensors: Any) -> Any:
    """What a call gives of arguments with positions for tensors."""
    return call(*fill(args, tensors))


def _find(
    fn: Function,
    programs: Programs[FusedProgram],
    args: Sequence[Any],
    arrays: Sequence[Any],
    needs: tuple[bool, ...],
    passes: tuple[str, ...],
    order: tuple[int, ...] | None,
) -> FusedProgram | None:
    """The program of a call; None if it is to run op by op."""
    marked = mark(args, lambda a: hasattr(a, "_data"))
    known = get_default_dtype(), exactly(marked), needs, order
    arrays = _turn(arrays, order)
    # (what does not lie in order is copied; short rows of each length are worth a program: the
    # inverses of 1000 matrices of 3 x 3 take 41 microseconds, and without it 139)
    sizes = [sizes_along_rows(a.shape) for a in arrays]
    pairs = zip(map(kind_of, arrays), sizes, strict=True)
    kinds = tuple([replace(kind, steps=None, sizes=s) for kind, s in pairs])
    make = partial(FusedProgram, fn, marked, needs, passes, order)
    return programs.find(known, make, kinds, with_sizes(kinds, arrays))


def _never_run(*_: Any, **__: Any) -> Any:
    raise AssertionError("a fused function runs as its programs")
