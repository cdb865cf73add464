"""What writes operations down: functions around those that run them.

To write one down takes some microseconds. What of that lies between two looks at the clock is
counted, apart from the time of the operation around it; `staticflow.measure.hooks` measures the
rest.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from time import perf_counter_ns
from types import CodeType
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.locs import Loc, Locs, outside
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol
from staticflow.runtime.allocations import log_record
from staticflow.runtime.counting import Allocations

__all__ = ["Operation", "Recorder", "Recording"]

Function = Callable[..., Any]


class Operation:
    """An operation that ran, from ``start`` to ``end`` (nanoseconds of `time.perf_counter_ns`).

    ``kind`` is ``"forward"``, ``"backward"``, ``"update"`` or ``"program"``. ``depth`` is in how
    many others it is; ``children`` is the time of the operations inside of it and of writing them
    down, ``spent`` that of writing down this one. It begins and ends at the entries
    ``first_entry`` and ``last_entry`` of the log of allocations, and ``held`` bytes are in use at
    its end. ``result`` is what it gave, if that is one tensor: the dtype and the shape. ``call`` is
    what tells its work, None where nobody asks for that, and ``is_leaf`` whether no operation is
    in it. ``inside`` is what ran in the native code of a program, None of what is no program.
    """

    __slots__ = (
        "at", "call", "children", "code", "depth", "end", "first_entry", "held", "inside",
        "is_leaf", "kind", "last_entry", "name", "result", "spent", "start", "subject", "thread",
    )  # fmt: skip

    name: str
    kind: str
    thread: int
    depth: int
    code: CodeType | None
    at: int
    start: int
    end: int
    children: int
    spent: int
    first_entry: int
    last_entry: int
    held: int
    result: tuple[Any, tuple[int, ...]] | None
    subject: Any
    call: Any
    is_leaf: bool
    inside: Any

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
    that was allocated; ``thread`` is the one that the block was in. With ``counts_work`` each
    operation has what its work is counted by. ``programs`` are the calls of programs, a
    `ProgramCalls`."""

    thread: int
    allocations: Allocations
    counts_work: bool = False
    start: int = 0
    end: int = 0
    operations: list[Operation] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)
    programs: Any = None


class _Stack(threading.local):
    """The operations that a thread is in, and its number."""

    def __init__(self) -> None:
        self.open: list[Operation] = []
        self.thread = threading.get_ident()
        self.is_known = False


_new = object.__new__
_INHERITED = frozenset(("backward", "update"))
"""The kinds that operations inside of one have, too."""


class Recorder:
    """Makes functions that write down their calls."""

    def __init__(
        self,
        recording: Recording,
        describe_call: Function | None = None,
        describe_pull: Function | None = None,
    ) -> None:
        """The functions that say of a call, and of a step of backward, what its work is counted
        by; without them nobody counts it."""
        self.describe_call, self.describe_pull = describe_call, describe_pull
        self.recording, self.log = recording, log_record()
        self.stack = _Stack()

    def begin(
        self,
        entered: int,
        name: str,
        kind: str,
        line: tuple[Any, int] | None,
        call: Any = None,
    ) -> Operation:
        """Write down that an operation begins: at its user's ``line``, or, where that is None, at
        that of the operation around it; ``entered`` is when it was asked for, ``call`` what tells
        its work."""
        local = self.stack
        stack = local.open
        if not local.is_known:
            local.is_known = True
            self.recording.threads[local.thread] = threading.current_thread().name
        made = _new(Operation)
        made.code, made.at = (None, 0) if line is None else line
        made.kind = kind
        if stack:
            around = stack[-1]
            if line is None:
                made.code, made.at = around.code, around.at
            around.is_leaf = False
            if around.kind in _INHERITED:
                made.kind = around.kind
        made.name, made.thread, made.depth = name, local.thread, len(stack)
        made.children, made.spent, made.subject = 0, entered, None
        made.call, made.is_leaf, made.inside = call, True, None
        made.first_entry = self.log.length
        stack.append(made)
        made.start = perf_counter_ns()
        return made

    def finish(self, made: Operation, result: Any) -> None:
        """Write down that it ends, with what it gave; a node of a graph is no operation."""
        made.end = end = perf_counter_ns()
        log = self.log
        made.held, made.last_entry = log.held, log.length
        data = getattr(result, "_data", None)
        made.result = None if data is None else (data.dtype, data.shape)
        stack = self.stack.open
        stack.pop()
        first = result[0] if type(result) is tuple and result else result
        if type(first) is Symbol:
            if stack:
                stack[-1].children += made.children
            return
        self.recording.operations.append(made)
        entered = made.spent
        left = perf_counter_ns()
        made.spent = left - entered - (end - made.start)
        if stack:
            stack[-1].children += left - entered

    def around(
        self,
        fn: Function,
        name: str | Callable[..., str],
        kind: str = "forward",
        in_ops: Function | None = None,
    ) -> Function:
        """A function that calls ``fn`` and writes it down, unless a graph is traced. ``in_ops`` is
        the same function of symbols, by which its work is counted."""
        describe = self.describe_call if in_ops is not None else None

        def call(*args: Any, **kwargs: Any) -> Any:
            if thread.state.tracing:
                return fn(*args, **kwargs)
            entered = perf_counter_ns()
            label = name if isinstance(name, str) else name(*args)
            work = None if describe is None else describe(in_ops, args, kwargs)
            line = None
            if not self.stack.open:
                frame = outside(sys._getframe(1))
                line = None if frame is None else (frame.f_code, frame.f_lasti)
            result = None
            operation = self.begin(entered, label, kind, line, work)
            try:
                result = fn(*args, **kwargs)
            finally:
                self.finish(operation, result)
            return result

        return call

    def around_pull(self, pull: Function) -> Function:
        """A function that writes down a step of backward, with the line that recorded it."""

        def call(entry: Any, *args: Any, **kwargs: Any) -> Any:
            entered = perf_counter_ns()
            stack = self.stack.open
            if stack and stack[-1].subject is entry:  # it is left to the method of a class above
                return pull(entry, *args, **kwargs)
            locs = entry.locs
            line = (locs[0].code, locs[0].instruction) if locs else None
            pulled: Sequence[Any] = ()
            describe = self.describe_pull
            work = None if describe is None else describe(entry, *args)
            operation = self.begin(entered, entry.name(), "backward", line, work)
            try:
                operation.subject = entry
                pulled = pull(entry, *args, **kwargs)
            finally:
                operation.subject = None
                given = [ct for ct in pulled if ct is not None]
                self.finish(operation, given[0] if len(given) == 1 else None)
            return pulled

        return call
