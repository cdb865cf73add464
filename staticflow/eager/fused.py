"""Calls of functions that `ops.declaring.fused` marks: a program, and one vertex of the tape.

A program is compiled for a kind of call: dtypes, ranks, which sizes are 1, and the arguments that
are no tensors; other sizes stay unknown unless the function asks for them. The derivative is made
when something is first recorded: a program that gives also what the backward is to know of the
forward (`staticflow.eager.residuals`), and another for the way back. What such programs do not take
runs op by op: other devices, a backward that is itself recorded, and errors, which are worded so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from staticflow.eager import kernels, tape
from staticflow.eager.costs import LARGE
from staticflow.eager.inference import unrecordable
from staticflow.eager.memory import Memory
from staticflow.eager.programs import UNMET, ArrayKind, Programs, compiled, kind_of
from staticflow.eager.residuals import Derivative, derivative
from staticflow.eager.saved import check, keep
from staticflow.eager.saved_hooks import Packed
from staticflow.eager.vertex import TapeEntry, Vertex, attach, entered
from staticflow.errors import CompileError, StaticflowError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import get_default_dtype
from staticflow.graph.graph import close, substitute_nodes
from staticflow.graph.node import toposort
from staticflow.graph.op import Op
from staticflow.graph.open_size import OpenSize
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import recording, thread
from staticflow.ops.declaring.tracing import tracing
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.passes.pipeline import INTO_KERNELS
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import compiling

__all__ = ["fused_form"]

_array = np.ndarray
_getframe = sys._getframe
_OF_GRAPHS = frozenset((Symbol, Dim, OpenSize))
_FIXED = Memory()
"""That of what is kept from one program for another: nobody else has it."""
_TENSOR: Any = object()


class _Recorded:
    """The programs of a derivative: ``forward`` gives the outputs and what is kept, `backward` the
    cotangents. Of the operands ``unread`` it uses the shapes only: they may have changed."""

    def __init__(self, parts: Derivative) -> None:
        self.parts = parts
        read = set(toposort(c for c in parts.cotangents if c))
        self.unread = frozenset(i for i, p in enumerate(parts.params) if p not in read)
        graph = close(parts.params, [*parts.outputs, *parts.residuals], parts.equalities)
        self.forward = compiled(graph, passes=INTO_KERNELS)
        self._backward: dict[Hashable, Executable] = {}

    def backward(self, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Executable:
        """From the operands, what is kept and the cotangents ``given`` to the needed ones."""
        program = self._backward.get((needs, given))
        if program is None:
            with compiling:
                graph = self._back(needs, given)
                program = self._backward[needs, given] = compiled(graph, passes=INTO_KERNELS)
        return program

    def _back(self, needs: Sequence[bool], given: Sequence[bool]) -> Any:
        parts = self.parts
        seeds = [s for s, is_given in zip(parts.seeds, given, strict=True) if is_given]
        wanted = [c for c, need in zip(parts.cotangents, needs, strict=True) if c and need]
        missing = {s: zeros_like(Symbol(s)).node for s in parts.seeds if s not in seeds}
        params = [*parts.params, *parts.kept, *seeds]
        return close(params, substitute_nodes(wanted, missing), parts.equalities)


class _Kind:
    """The programs for calls of one kind, made when they are first needed. ``args`` are the
    arguments, with marks in the places of tensors."""

    def __init__(
        self, fn: Callable[..., Any], args: Sequence[Any], kinds: Sequence[ArrayKind]
    ) -> None:
        self.fn, self.args = fn, args
        self.params = [kind.param(f"x{i}") for i, kind in enumerate(kinds)]
        with tracing(), recording(True):
            result = self.of(list(map(Symbol, self.params)))
        self.several = type(result) is tuple
        self.outputs = [to_node(r) for r in (result if self.several else (result,))]
        self.graph = close(self.params, self.outputs)
        self.is_real = any(o.tensor_type.dtype.is_floating for o in self.outputs)
        self.forward = self._first
        self._recorded: dict[tuple[bool, ...], _Recorded] = {}

    def of(self, tensors: Sequence[Any]) -> Any:
        """What the function gives of other tensors."""
        given: Iterator[Any] = iter(tensors)
        return self.fn(*(next(given) if a is _TENSOR else a for a in self.args))

    def express(self, operands: Sequence[Symbol]) -> Any:
        """What the function gives of symbols."""
        with tracing():
            return self.of(operands)

    def listed(self, ct: Any) -> list[Any]:
        """The cotangents of the outputs, None where there is none, as the tape hands them over."""
        return [ct.get(i) for i in range(len(self.outputs))] if self.several else [ct]

    def _first(self, arrays: Sequence[Any]) -> Any:
        """What the function gives, from now on by its program."""
        with compiling:
            self.forward = partial(_run, compiled(self.graph))
        return self.forward(arrays)

    def recorded(self, needs: tuple[bool, ...]) -> _Recorded:
        """The programs for calls in which these operands need a gradient."""
        found = self._recorded.get(needs)
        if found is None:
            with compiling:
                found = _Recorded(derivative(self.params, self.outputs, needs))
                self._recorded[needs] = found
        return found


class FusedEntry(TapeEntry):
    """A recorded call. It keeps the operands, and behind them what the backward is to know."""

    __slots__ = ()

    def pull(self, ct: Any, edges: Sequence[Vertex | None], keep: bool) -> Sequence[Any]:
        """See `TapeEntry.pull`."""
        if thread.state.recording:
            return super().pull(ct, edges, keep)
        if self.args is None:
            self._refuse()
        kind, recorded = self.attrs["kind"], self.attrs["recorded"]
        unread = recorded.unread
        arrays = [
            kept[0] if i in unread else check(kept, self, i) for i, kept in enumerate(self.args)
        ]
        arrays = [a.array() if type(a) is Packed else a for a in arrays]
        cts = kind.listed(ct)
        needs = tuple([e is not None for e in edges[: len(kind.params)]])
        program = recorded.backward(needs, tuple([c is not None for c in cts]))
        found = _run(program, [*arrays, *(c._data for c in cts if c is not None)])
        if found is None:
            return super().pull(ct, edges, keep)
        if not keep:
            self._free()
        pulled = map(eager.wrap, found if type(found) is tuple else (found,))
        return [next(pulled) if e is not None else None for e in edges]


def _run(program: Executable, arrays: Sequence[Any]) -> Any:
    """What a program gives; None if these are no operands for it: the operations say why."""
    try:
        return kernels.run(program, arrays)
    except StaticflowError:
        return None


def _vjp(needs: Sequence[bool], cts: Any, out: Any, *args: Any, kind: Any, recorded: Any) -> Any:
    """The cotangents op by op, on the tape."""
    state, count = thread.state, len(kind.params)
    before, state.recording = state.recording, True
    try:
        # other names of the operands, so that no walk leads from one to another
        operands = [a.view_as(a) for a in args[:count]]
        found = kind.of(operands)
        pairs = zip(found if kind.several else (found,), kind.listed(cts), strict=True)
        outputs, given = zip(*((o, ct) for o, ct in pairs if ct is not None), strict=True)
        wanted = [a for a, need in zip(operands, needs, strict=False) if need]
        pulled = iter(tape.grad(outputs, wanted, given, create_graph=before))
    finally:
        state.recording = before
    return [next(pulled) if need else None for need in needs]


def fused_form(fn: Callable[..., Any], grad_name: str, only_large: bool) -> Callable[..., Any]:
    """What a fused function is called as."""
    kinds: Programs[_Kind] = Programs()
    op = Op(fn.__name__, fn.__doc__ or "", _unused, _unused, _vjp, grad_name=grad_name)

    def call(*args: Any) -> Any:
        state, tensor = thread.state, eager.tensor
        if state.tracing:
            return fn(*args)
        key: list[Any] = [get_default_dtype()]
        tensors, arrays = [], []
        for a in args:
            if isinstance(a, tensor):
                data = a._data
                if type(data) is not _array:
                    return fn(*args)
                tensors.append(a)
                arrays.append(data)
                key += data.shape, data.dtype
            elif type(a) in _OF_GRAPHS:
                return fn(*args)
            else:
                key += type(a), str(a) if type(a) is float else a  # 0.0, -0.0
        if not arrays or (only_large and all([a.size < LARGE for a in arrays])):
            return fn(*args)
        place = tuple(key)
        try:
            kind = kinds.by_call.get(place, UNMET)
        except TypeError:  # no hashable argument
            return fn(*args)
        if kind is UNMET:
            kind = _find(fn, kinds, args, arrays)
            kinds.remember(place, kind)
        if kind is None:
            return fn(*args)
        edges = [a._edge() for a in tensors] if state.recording else []
        needs = tuple([e is not None for e in edges])
        try:
            recorded = kind.recorded(needs) if True in needs and kind.is_real else None
            results = kind.forward(arrays) if recorded is None else _run(recorded.forward, arrays)
        except CompileError:  # of what only a library computes
            results = None
        if results is None:
            return fn(*args)
        if type(results) is not tuple:
            results = (results,)
        count = len(kind.outputs)
        made = tuple(map(tensor._wrap, results[:count]))
        out = made if kind.several else made[0]
        if recorded is not None:
            held = list(map(keep, tensors))
            for array in results[count:]:
                held.append(keep(tensor._wrap(array)) if state.saved_hooks else (array, _FIXED, 0))
            attrs = {"kind": kind, "recorded": recorded}
            ways = (*edges, *(None,) * (len(held) - len(edges)))
            attach(entered(FusedEntry, op, attrs, ways, held, None, _getframe(1)), out)
        return unrecordable(out) if state.inference else out

    return call


def _find(
    fn: Callable[..., Any],
    kinds: Programs[_Kind],
    args: Sequence[Any],
    arrays: Sequence[Any],
) -> _Kind | None:
    """The kind of a call; None if it is to run op by op."""
    marked = tuple([_TENSOR if hasattr(a, "_data") else a for a in args])
    rest = tuple([(type(a), str(a) if type(a) is float else a) for a in marked])
    own = get_default_dtype(), rest
    whole = [replace(kind_of(a), steps=None) for a in arrays]  # what lies otherwise is copied
    sized = [replace(kind, sizes=a.shape) for kind, a in zip(whole, arrays, strict=True)]
    return kinds.find(
        ((own, *whole), lambda: _traced(fn, marked, whole)),
        ((own, *sized), lambda: _traced(fn, marked, sized)),
    )


def _traced(
    fn: Callable[..., Any], args: Sequence[Any], kinds: Sequence[ArrayKind]
) -> _Kind | None:
    """The kind of calls with operands of these kinds; None if the function cannot be traced so."""
    try:
        return _Kind(fn, args, kinds)
    except (StaticflowError, TypeError, AttributeError):
        return None


def _unused(*_: Any, **__: Any) -> Any:
    raise AssertionError("a fused function runs as its programs")
