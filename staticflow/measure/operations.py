"""The operations of the eager mode, written down as they run: by whom, for which line, how long.

While `record_operations` is on, what stands for the operations of tensors (their methods, the
forms of ops, the steps of backward) are functions of this module around those that were there. The
fast path is taken as ever, and computes the same bits. Off, nothing is asked on the way of an
operation, since there is nothing to ask.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from types import CodeType, FrameType, MethodDescriptorType
from typing import Any

from staticflow.eager import tape
from staticflow.eager.fused import FusedEntry
from staticflow.eager.mode import EAGER
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import PerElementEntry, TapeEntry
from staticflow.graph.locs import Loc, Locs, outside
from staticflow.graph.op import Op
from staticflow.ops.declaring.by_shape import BY_SHAPE
from staticflow.ops.declaring.fused import FUSED
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol
from staticflow.runtime.allocations import log_record
from staticflow.runtime.counting import Allocations, count_allocations

__all__ = ["Extra", "Operation", "Recording", "record_operations", "time_recorder"]

Function = Callable[..., Any]


@dataclass(slots=True)
class Operation:
    """An operation that ran, from ``start`` to ``end`` (nanoseconds of `time.perf_counter_ns`).

    ``kind`` is ``"forward"``, ``"backward"``, ``"update"`` or ``"program"``. ``children`` is the
    time of the operations inside of it, ``depth`` in how many others it is. ``entries`` are the
    positions in the log of allocations where it begins and ends, ``held`` the bytes that are in
    use at its end; ``result`` is the dtype and shape of what it gave, if that is one tensor.
    """

    name: str
    kind: str
    thread: int
    depth: int
    start: int
    code: CodeType | None
    at: int
    first_entry: int
    end: int = 0
    children: int = 0
    last_entry: int = 0
    held: int = 0
    result: tuple[Any, tuple[int, ...]] | None = None
    subject: Any = None

    @property
    def locs(self) -> Locs:
        """The user's line: of a step of backward, the one that recorded the operation."""
        return () if self.code is None else (Loc(self.code, self.at),)

    @property
    def own(self) -> int:
        """The nanoseconds that it took itself, and no operation inside of it."""
        return self.end - self.start - self.children


@dataclass(slots=True)
class Recording:
    """What ran in a block from ``start`` to ``end``, in the order in which it ended, and the memory
    that was allocated; ``thread`` is the one that the block was in."""

    thread: int
    allocations: Allocations
    start: int = 0
    end: int = 0
    operations: list[Operation] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)


class _Stack(threading.local):
    """The operations that a thread is in."""

    def __init__(self) -> None:
        self.open: list[Operation] = []


class _Recorder:
    """Makes functions that write down their calls."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.log = recording, log_record()
        self.stack = _Stack()

    def begin(self, name: str, kind: str, line: tuple[CodeType | None, int] | None) -> Operation:
        """Write down that an operation begins: at its user's ``line``, or, where that is None, at
        that of the operation around it."""
        stack = self.stack.open
        me = threading.get_ident()
        if me not in self.recording.threads:
            self.recording.threads[me] = threading.current_thread().name
        around = stack[-1] if stack else None
        if line is None:
            line = (None, 0) if around is None else (around.code, around.at)
        if around is not None and around.kind in ("backward", "update"):
            kind = around.kind
        made = Operation(name, kind, me, len(stack), 0, *line, self.log.length)
        stack.append(made)
        made.start = perf_counter_ns()
        return made

    def finish(self, operation: Operation, result: Any) -> None:
        """Write down that it ends, with what it gave; a node of a graph is no operation."""
        operation.end = end = perf_counter_ns()
        operation.held, operation.last_entry = self.log.held, self.log.length
        data = getattr(result, "_data", None)
        if data is not None:
            operation.result = data.dtype, data.shape
        stack = self.stack.open
        stack.pop()
        first = result[0] if type(result) is tuple and result else result
        if type(first) is Symbol:
            return
        if stack:
            stack[-1].children += end - operation.start
        self.recording.operations.append(operation)

    def around(
        self, fn: Function, name: str | Callable[..., str], kind: str = "forward"
    ) -> Function:
        """A function that calls ``fn`` and writes it down, unless a graph is traced."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if thread.state.tracing:
                return fn(*args, **kwargs)
            label = name if isinstance(name, str) else name(*args)
            line = None if self.stack.open else _line(outside(sys._getframe(1)))
            operation = self.begin(label, kind, line)
            result = None
            try:
                result = fn(*args, **kwargs)
            finally:
                self.finish(operation, result)
            return result

        return call

    def around_pull(self, pull: Function) -> Function:
        """A function that writes down a step of backward, with the line that recorded it."""

        def call(entry: Any, *args: Any, **kwargs: Any) -> Any:
            stack = self.stack.open
            if (
                stack and stack[-1].subject is entry
            ):  # a method leaves it to that of the class above
                return pull(entry, *args, **kwargs)
            locs = entry.locs
            line = (locs[0].code, locs[0].instruction) if locs else None
            operation = self.begin(entry.name(), "backward", line)
            pulled: Sequence[Any] = ()
            try:
                operation.subject = entry
                pulled = pull(entry, *args, **kwargs)
            finally:
                operation.subject = None
                given = [ct for ct in pulled if ct is not None]
                self.finish(operation, given[0] if len(given) == 1 else None)
            return pulled

        return call


def _line(frame: FrameType | None) -> tuple[CodeType | None, int]:
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


# -- what is exchanged ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extra:
    """A method that is an operation, too, or a step of backward: of ``cls``, by its name;
    ``label`` names it by its arguments."""

    cls: type
    method: str
    kind: str
    label: Callable[..., str] | None = None


class _Functions(dict[Op, Function]):
    """What `EagerMode.apply` calls of an op."""

    def __init__(self, recorder: _Recorder, functions: Mapping[Op, Function]) -> None:
        super().__init__()
        self.recorder, self.functions = recorder, functions

    def get(self, op: Op, default: Any = None) -> Any:
        """The function of an op, or its general path, with a recorder around."""
        if op not in self:
            function = self.functions.get(op) or partial(EAGER.general, op)
            self[op] = self.recorder.around(function, op.name)
        return self[op]


Exchange = tuple[Any, str, Any, Any]
"""An object, an attribute of it, the value that it had and another."""


def _exchanges(recorder: _Recorder, extras: Sequence[Extra]) -> Iterator[Exchange]:
    """All that is exchanged for what writes down."""
    around = recorder.around
    functions = EAGER.prepare()
    yield EAGER, "forms", functions, _Functions(recorder, functions)
    forms = getattr(Tensor, "__sf_forms__", {})
    timed = {op: around(form, op.name) for op, form in forms.items()}
    yield Tensor, "__sf_forms__", forms, timed
    for name, member in [*vars(Tensor).items()]:
        if type(member) is MethodDescriptorType:
            yield Tensor, name, member, around(member, member.__name__)
        elif isinstance(member, property) and type(member.fget) is MethodDescriptorType:
            yield Tensor, name, member, property(around(member.fget, name))
    for name in ("__getitem__", "__setitem__"):
        member = vars(Tensor)[name]
        if type(member) is not MethodDescriptorType:
            yield Tensor, name, member, around(member, name.strip("_"))
    for marked in BY_SHAPE.values():
        yield marked, "form", marked.form, around(marked.form, marked.written.__name__)
    for function in FUSED:
        if function.form is not None:
            name = function.written.__name__.strip("_")
            yield function, "form", function.form, around(function.form, name)
    for name in ("backward", "grad"):
        walk = getattr(tape, name)
        yield tape, name, walk, around(walk, name, "backward")
    for cls in (TapeEntry, PerElementEntry, FusedEntry):
        yield cls, "pull", cls.pull, recorder.around_pull(cls.pull)
    for extra in extras:
        yield extra.cls, extra.method, vars(extra.cls)[extra.method], _around_extra(recorder, extra)


def _around_extra(recorder: _Recorder, extra: Extra) -> Function:
    member = vars(extra.cls)[extra.method]
    if extra.label is None:
        return recorder.around_pull(member)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return member.__get__(self)(*args, **kwargs)  # a function, or a slot that has one

    return recorder.around(method, extra.label, extra.kind)


def time_recorder() -> float:
    """The seconds that it takes to write an operation down."""
    recorder = _Recorder(Recording(threading.get_ident(), Allocations(None, None)))
    times = []
    for call in (_nothing, recorder.around(_nothing, "nothing")):
        began = perf_counter_ns()
        for _ in range(_TIMED):
            call()
        times.append(perf_counter_ns() - began)
    alone, recorded = times
    return max(0, recorded - alone) / _TIMED / 1e9


_TIMED = 500  # operations


def _nothing() -> None:
    """What costs nothing."""


@contextmanager
def record_operations(extras: Sequence[Extra] = ()) -> Iterator[Recording]:
    """Write down, in a block, the operations of the eager mode in all threads, and the memory that
    is allocated. ``extras`` are methods that are operations, too.

    Raises `ProfileError` inside another such block. A function that is first called inside, of
    those that run as one program, is written down as the operations that it calls.
    """
    with count_allocations() as allocations:
        recording = Recording(threading.get_ident(), allocations)
        exchanges = [*_exchanges(_Recorder(recording), extras)]
        try:
            for holder, name, _, other in exchanges:
                setattr(holder, name, other)
            recording.start = perf_counter_ns()
            yield recording
        finally:
            recording.end = perf_counter_ns()
            for holder, name, before, _ in exchanges:
                setattr(holder, name, before)
