"""What the tape is made of: the vertices that recorded operations leave, and what they keep.

A *vertex* is what made a tensor that requires a gradient: a `TapeEntry`, an `Output` of one that
has several results, or a leaf tensor itself. Edges lead to the vertices of the arguments and never
to results, so that a graph is freed by reference counts alone. Every vertex has a *serial* number
that is larger than those of all that its edges lead to; a leaf's is 0.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NoReturn

import numpy as np

from staticflow.eager.costs import LARGE, SPREAD
from staticflow.eager.device import as_array
from staticflow.eager.memory import Memory
from staticflow.eager.part_gradient import gives_part
from staticflow.eager.pullback import may_compile, pull_by_program
from staticflow.eager.row_gradient import pull_rows
from staticflow.eager.saved import (
    ResultType,
    SavedType,
    check_unchanged,
    copy_if_on,
    load_value,
    refuse_unsaved,
    save_value,
)
from staticflow.eager.straight import straight_op
from staticflow.eager.vjp_plans import pull_by_plan
from staticflow.errors import AutogradError
from staticflow.graph.dtypes import BY_PYTHON, bfloat16
from staticflow.graph.locs import Loc, Locs, format_locs, is_inside
from staticflow.graph.op import OUT, Op
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.saves import place_of_result, saves_of

__all__ = [
    "LEAF", "WALKED_AGAIN", "Output", "PerElementEntry", "TapeEntry", "Vertex", "attach",
    "make_entry", "next_serial", "record", "save_values", "user_frame",
]  # fmt: skip

Vertex = Any
"""A `TapeEntry`, `Output` or `Tensor`, or whatever else has ``serial``, ``edges``, ``hooks``,
``locs``, ``name`` and ``pull(ct, edges, retain)``."""

LEAF: Any = "leaf"
"""In the place of a tensor's vertex: it is a leaf that wants a gradient, and so its own vertex. It
does not name itself, which would be a reference cycle."""

WALKED_AGAIN = (
    "a value carried over from one training step to the next must leave the tape "
    "(state = state.detach()); to go back through one step twice, call the first backward with "
    "retain_graph=True"
)
"""What to do where backward meets what an earlier one has freed."""

_new = object.__new__
_array = np.ndarray
_getframe = sys._getframe
_BFLOAT16 = bfloat16.numpy

serials = itertools.count(1)
next_serial = serials.__next__


class TapeEntry:
    """One recorded operation.

    Of each argument ``args`` has: a number as it is; a `SavedValue` where the vjp needs the value;
    else a `SavedType`, or None where that is the shape and dtype of the one result. ``result`` is a
    `SavedValue`, or None where the vjp does not need it; of an op of several results, whose vjp
    takes a list of cotangents and a tuple of results, it is a list of saved values and types. Once
    a backward has freed the values, ``args`` is None and ``result`` the line of that backward.
    """

    __slots__ = (
        "__weakref__", "args", "at", "attrs", "code", "edges", "hooks", "op", "result", "serial",
    )  # fmt: skip

    op: Op
    attrs: Mapping[str, Any]
    edges: tuple[Vertex | None, ...]
    args: Sequence[Any] | None
    result: Any
    hooks: Any
    serial: int
    code: Any
    at: int

    def copy_before_change(self, memory: Memory) -> None:
        """Copy what is kept of a memory that is about to be overwritten with this very result."""
        self.args = [copy_if_on(a, memory) for a in self.args or ()]

    @property
    def locs(self) -> Locs:
        """The user's line that recorded the operation."""
        return () if self.code is None else (Loc(self.code, self.at),)

    def name(self) -> str:
        """The name that ``grad_fn`` prints."""
        return self.op.grad_name

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """What the arguments came from, as in PyTorch."""
        return functions_of(self.edges)

    def saved_name(self, position: int) -> str:
        """What errors call argument ``position``, or a result if that is `OUT`."""
        if position > OUT:
            return f"{self.op.name}: argument {position}"
        number = OUT - position
        return f"{self.op.name}: its output" + (f" number {number}" if number else "")

    def pull(self, ct: Any, edges: Sequence[Vertex | None], retain: bool) -> Sequence[Any]:
        """The cotangents of the arguments whose entry of ``edges`` is not None. Frees what the
        entry keeps unless ``retain``."""
        if self.args is None:
            self._refuse()
        like = ResultType.of(ct)
        args = [
            like if a is None
            else load_value(a, self.edges[i], self, i) if isinstance(a, tuple)
            else a
            for i, a in enumerate(self.args)
        ]  # fmt: skip
        result, cts = self._results(ct, like)
        if not retain:
            self._free()
        needs = [e is not None for e in edges]
        if not thread.state.recording:
            if not thread.state.anomaly and gives_part(self, ct):
                return ((self, ct),)
            rows = pull_rows(self.op, edges[0], ct, args, self.attrs)
            if rows is not None:
                return rows, None
            pulled = pull_by_plan(self.op, needs, cts, result, args, self.attrs)
            if pulled is not None:
                return pulled
            pulled = pull_by_program(self.op, needs, cts, result, args, self.attrs)
            if pulled is not None:
                wrap = eager.tensor._wrap
                return [wrap(p) if type(p) is _array else p for p in pulled]
        assert self.op.vjp is not None
        try:
            pulled = self.op.vjp(needs, cts, result, *args, **self.attrs)
        except Exception as error:
            refuse_unsaved(error, self)
            raise
        if self.op.piecewise_linear and thread.state.recording and needs[0]:
            return [self._straight(pulled[0]), *pulled[1:]]
        return pulled

    def _straight(self, ct: Any) -> Any:
        """The cotangent of the first argument, which is on the tape as a function of that, too."""
        edges = ct._current_vertex(), self.edges[0]
        entry = make_entry(TapeEntry, straight_op, {}, edges, (None, None), None, _getframe(1))
        return eager.tensor._on_tape(ct._data, ct._own_memory(), entry)

    def _results(self, ct: Any, like: ResultType) -> tuple[Any, Any]:
        """The result or results, or what stands for them, and their cotangents."""
        kept = self.result
        if kept is None:
            return like, ct
        if isinstance(kept, tuple):
            return load_value(kept, self, self, OUT), ct
        results = tuple(
            load_value(k, Output(self, i), self, place_of_result(i)) if isinstance(k, tuple) else k
            for i, k in enumerate(kept)
        )
        return results, [ct.get(i) for i in range(len(kept))]

    def _free(self) -> None:
        """Forget what is kept; an entry that keeps no values can be last_backward again."""
        kept = self.result
        for a in (*(self.args or ()), *(kept if type(kept) is list else (kept,))):
            if isinstance(a, tuple):
                self.args, self.result = None, thread.state.last_backward
                return

    def _refuse(self) -> NoReturn:
        raise AutogradError(
            f"backward goes through {self.op.name} (made at {format_locs(self.locs)}) a second "
            f"time, but its saved values were freed by the first (at {format_locs(self.result)}); "
            + WALKED_AGAIN
        )

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class PerElementEntry(TapeEntry):
    """A recorded elementwise operation without attributes whose operands are numbers or of the
    shape and dtype of the result. Its partials run on the arrays if they can. The fast path alone
    makes it; a `TapeEntry` of the same operation gives the same gradients."""

    __slots__ = ()

    def pull(self, ct: Any, edges: Sequence[Vertex | None], retain: bool) -> Sequence[Any]:
        """The cotangents of the arguments, of small arrays without a frame for each op."""
        state = thread.state
        vjp: Any = self.op.vjp
        data = ct._data
        if not vjp.self_contained or state.recording or data.dtype is _BFLOAT16:
            return super().pull(ct, edges, retain)
        if data.size >= LARGE and (data.size >= SPREAD or may_compile(self.op)):
            return super().pull(ct, edges, retain)
        kept, result = self.args, self.result
        if kept is None:
            self._refuse()
        freed = not retain and result is not None
        operands = [data, None if result is None else check_unchanged(result, self, OUT)]
        for a in kept:
            if a is None:
                operands.append(None)
            elif isinstance(a, tuple):
                operands.append(check_unchanged(a, self, len(operands) - 2))
                freed = not retain
            else:
                operands.append(a)
        pulled: list[Any] = []
        for i, partial in enumerate(vjp.partials):  # zip takes longer
            if edges[i] is None or partial is None:
                pulled.append(None)
                continue
            array = state.run(partial, *operands)
            if array is data:
                pulled.append(ct)
                continue
            out = _new(eager.tensor)
            out._data = array if type(array) is _array else as_array(array)
            out._memory = out._view = out._vertex = out._grad = out.name = out._hooks = None
            pulled.append(out)
        if freed:
            self.args, self.result = None, state.last_backward
        return pulled


def make_entry(
    kind: type[TapeEntry],
    op: Op,
    attrs: Mapping[str, Any],
    edges: tuple[Vertex | None, ...],
    args: Sequence[Any],
    result: Any,
    frame: FrameType,
) -> TapeEntry:
    """An entry that keeps ``args`` and ``result``; the user's line is in ``frame`` or what called
    it."""
    entry = _new(kind)
    entry.op = op
    entry.attrs = attrs
    entry.edges = edges
    entry.args = args
    entry.result = result
    entry.hooks = None
    entry.serial = next_serial()
    code: CodeType | None = frame.f_code
    if code is not latest_user.code:
        code, frame = user_frame(frame)
    entry.code = code
    entry.at = frame.f_lasti
    return entry


def save_values(
    op: Op,
    args: Sequence[Any],
    attrs: Mapping[str, Any],
    edges: Sequence[Vertex | None],
    result: Any,
    saves: Collection[int] | None = None,
) -> tuple[Sequence[Any], Any]:
    """What an entry keeps of the arguments, and of the result or results: the values that are used
    by the cotangents that have an edge to go to, or of the arguments ``saves``."""
    if not saves:
        every = saves_of(op, args, attrs, result)
        pairs = zip(edges, every, strict=True)
        saves = every[0] if len(edges) == 1 else {i for e, v in pairs if e is not None for i in v}
    several = type(result) is tuple
    like = None if several else result._data
    kept: list[Any] = []
    for i, a in enumerate(args):
        if type(a) in BY_PYTHON:
            kept.append(a)
        elif i in saves:
            kept.append(save_value(a))
        elif like is not None and a._data.shape == like.shape and a._data.dtype is like.dtype:
            kept.append(None)
        else:
            kept.append(SavedType(a))
    if several:
        results: list[Any] = []
        for i, r in enumerate(result):
            results.append(save_value(r) if place_of_result(i) in saves else SavedType(r))
        return kept, results
    return kept, save_value(result) if OUT in saves else None


class _LatestUser:
    """The code of the user that recorded last: what is recorded next is mostly of the same."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code: CodeType | None = None


latest_user = _LatestUser()


def user_frame(frame: FrameType) -> tuple[CodeType | None, FrameType]:
    """The user's frame, from ``frame`` on, and its code."""
    last = latest_user.code
    at: FrameType | None = frame
    while at is not None:
        code = at.f_code
        if code is last:
            return code, at
        if not is_inside(code.co_filename):
            latest_user.code = code
            return code, at
        at = at.f_back
    return None, frame


class Output:
    """One of several results of an entry, which takes the cotangents of all by number."""

    __slots__ = ("__weakref__", "entry", "hooks", "index", "serial")

    def __init__(self, entry: Vertex, index: int) -> None:
        self.entry, self.index, self.hooks = entry, index, None
        self.serial = next_serial()

    @property
    def edges(self) -> tuple[Vertex]:
        """The entry."""
        return (self.entry,)

    @property
    def locs(self) -> Locs:
        """The user's line that recorded the operation."""
        locs: Locs = self.entry.locs
        return locs

    def name(self) -> str:
        """The name of the operation."""
        name: str = self.entry.name()
        return name

    def pull(self, ct: Any, edges: Sequence[Vertex | None], retain: bool) -> Sequence[Any]:
        """The cotangent with its number."""
        return ({self.index: ct},)


def attach(vertex: Vertex, result: Any) -> None:
    """Let ``vertex`` be what made ``result``: a tensor, or a tuple of which some are floating."""
    if type(result) is not tuple:
        result._vertex = vertex
        return
    for i, r in enumerate(result):
        if r.dtype.is_floating:
            r._vertex = Output(vertex, i)


def record(
    op: Op,
    args: Sequence[Any],
    attrs: Mapping[str, Any],
    result: Any,
    saves: Collection[int] | None = None,
) -> None:
    """Record that ``op`` gave ``result``, a tensor or a tuple, if an argument requires a gradient.

    ``saves`` are the arguments to keep, those that the vjp uses unless given.
    """
    edges = tuple([None if type(a) in BY_PYTHON else a._current_vertex() for a in args])
    for e in edges:
        if e is not None:
            break
    else:
        return
    if type(result) is tuple or result.dtype.is_floating:
        kept = save_values(op, args, attrs, edges, result, saves)
        attach(make_entry(TapeEntry, op, attrs, edges, *kept, _getframe(1)), result)


# -- as PyTorch's programs walk over it: ``grad_fn.next_functions`` --------------------------------


class AccumulateGrad:
    """Where a walk ends, for who looks at the tape: the gradient of the leaf ``variable``. The tape
    itself has the leaf in this place."""

    __slots__ = ("variable",)
    next_functions = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        """The name that is printed."""
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return type(other) is AccumulateGrad and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def functions_of(edges: Sequence[Any]) -> tuple[tuple[Any, int], ...]:
    """``grad_fn`` and the number of its result for each edge, as PyTorch's ``next_functions``."""
    return tuple(
        (e.entry, e.index) if hasattr(type(e), "entry")  # one of several results
        else (e if e is None or e.serial else AccumulateGrad(e), 0)
        for e in edges
    )  # fmt: skip
