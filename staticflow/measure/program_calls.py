"""Calls of compiled programs in a block that is written down, with what ran inside of them.

In such a block another executable runs in the place of a program, which is made of the same routine
when the program is first called there, does the same to the same tensors, and reads a clock around
each step. Where threads are in one program together, each has one of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.measure.clock import Clock
from staticflow.measure.readings import Reader
from staticflow.measure.recorder import Recorder
from staticflow.ops.declaring.thread import thread

__all__ = ["MAKING", "Inside", "ProbedProgram", "ProgramCalls", "Programs"]

MAKING = "preparation"
"""The kind of what is written down when an executable that reads a clock is made."""

Function = Callable[..., Any]


@dataclass(eq=False, slots=True)
class ProbedProgram:
    """What runs in the place of a ``program`` of this ``label``, and what it has read."""

    program: Any
    label: str
    call: Function
    reader: Reader


@dataclass(frozen=True, slots=True)
class Inside:
    """What ran inside of one call of a program: the readings from the one of number ``first`` to
    that before ``last``, and the ``ticks`` of its steps; to see to that took ``spent``
    nanoseconds."""

    of: ProbedProgram
    first: int
    last: int
    ticks: int
    spent: int


@dataclass(frozen=True, slots=True)
class Programs:
    """What programs are: objects of ``cls``, each of a ``label``, whose work ``in_ops`` counts, a
    `Described`. ``read_in_place`` gives what runs in the place of one, and its `Reader`; None where
    native code can read no clock."""

    cls: type
    label: Callable[[Any], str]
    in_ops: Any
    read_in_place: Function | None


class ProgramCalls:
    """The calls of ``programs`` in a block. It stands in the place of the slot in which each has
    its own call, which goes on to be there."""

    def __init__(self, recorder: Recorder, programs: Programs) -> None:
        self.recorder, self.programs = recorder, programs
        self.own = vars(programs.cls)["__call__"]
        self.clock: Clock | None = None
        self.made: list[ProbedProgram] = []
        self._calls: dict[Any, Function] = {}
        self._labels: dict[Any, str] = {}

    def __get__(self, program: Any, owner: type | None = None) -> Any:
        if program is None:
            return self
        return self._calls.get(program) or self._calls.setdefault(program, self._around(program))

    def __set__(self, program: Any, value: Any) -> None:
        self.own.__set__(program, value)

    def label(self, program: Any) -> str:
        """The label of a program, with a number if it is not the first of this label."""
        if program not in self._labels:
            label = self.programs.label(program)
            same = [*map(self.programs.label, self._labels)].count(label)
            self._labels[program] = f"{label} #{same + 1}" if same else label
        return self._labels[program]

    def _around(self, program: Any) -> Function:
        """A function that does what the call of ``program`` does, and writes it down with what ran
        inside."""
        recorder, get_own = self.recorder, self.own.__get__
        in_ops = self.programs.in_ops.bound_to(program)
        free: list[ProbedProgram] = []

        def run(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter_ns()
            operation = recorder.stack.open[-1]
            if get_own(program) is not program._usual:
                program.check_what_changed()
            probed = free.pop() if free else self._make(program)
            reader = probed.reader
            ticks, first = reader.ticks_in_steps, reader.length
            called = perf_counter_ns()
            try:
                return probed.call(*args, **kwargs)
            finally:
                ended = perf_counter_ns()
                ticks = reader.ticks_in_steps - ticks
                spent = perf_counter_ns() - ended + called - began
                operation.inside = Inside(probed, first, reader.length, ticks, spent)
                free.append(probed)

        def run_unread(*args: Any, **kwargs: Any) -> Any:
            return get_own(program)(*args, **kwargs)

        is_read = self.programs.read_in_place is not None and program.device.type == "cpu"
        recorded = recorder.around(
            run if is_read else run_unread, self.label(program), "program", in_ops
        )

        def call(*args: Any, **kwargs: Any) -> Any:
            if thread.state.tracing:
                return run_unread(*args, **kwargs)
            if is_read and not free:  # and not as a part of the call
                free.append(self._make(program))
            return recorded(*args, **kwargs)

        return call

    def _make(self, program: Any) -> ProbedProgram:
        entered = perf_counter_ns()
        read_in_place, label = self.programs.read_in_place, self.label(program)
        assert read_in_place is not None  # as this is asked for only then
        operation = self.recorder.begin(entered, f"compiling {label} with a clock", MAKING, None)
        operation.kind = MAKING  # also in a step of backward
        try:
            call, reader = read_in_place(program)
            reader.keep()
            if self.clock is None:
                self.clock = Clock(reader.executable)
        finally:
            self.recorder.finish(operation, None)
        made = ProbedProgram(program, label, call, reader)
        self.made.append(made)
        return made
