"""What the native code of an executable with probes has read of its clock, site by site."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.codegen.llvm.probes import Probes
from staticflow.codegen.program.routine import (
    Ask,
    Choose,
    Copy,
    Ensure,
    Launch,
    Measure,
    Repeat,
    Routine,
    Step,
    walk_steps,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Sym
from staticflow.measure.clock import Clock
from staticflow.measure.profile import Row, Span, lines_of
from staticflow.runtime.executable import Executable
from staticflow.runtime.plan import name_bound_sizes

__all__ = ["MOST_SPANS", "Reader", "Site", "find_sizes", "name_sizes", "read_one"]

MOST_SPANS = 100_000
"""Readings that are kept one by one; all are counted."""


_TIMED, _ROUNDS = 1000, 3  # readings that are timed, and how often


@dataclass(frozen=True, slots=True)
class Site:
    """What is read: its name, its kind, its lines, and whether it holds others."""

    name: str
    kind: str
    lines: str
    holds: bool = False


def _sites(routine: Routine) -> list[Site]:
    """The run, and its steps."""
    steps = (_site(step, routine) for step in walk_steps(routine.steps))
    return [Site("run", "run", "", holds=True), *steps]


def _site(step: Step, routine: Routine) -> Site:
    if isinstance(step, Launch):
        return Site(step.kernel, "kernel", lines_of(step.locs))
    if isinstance(step, Copy):
        return Site(f"copy of {step.bytes} bytes", "copy", "")
    if isinstance(step, Repeat):
        return Site("loop", "loop", lines_of(step.locs), holds=True)
    if isinstance(step, Choose):
        return Site("branch", "branch", "", holds=True)
    if isinstance(step, Ask):
        return Site(f"{step.op.name} in Python", "question", lines_of(step.locs))
    if isinstance(step, Ensure):
        lines = lines_of(routine.buffers[step.buffer].locs)
        return Site("memory of buffers that grow", "memory", lines)
    return Site("sizes", "sizes", "")


class _Reading(ctypes.Structure):
    _fields_ = (
        ("site", ctypes.c_int64), ("start", ctypes.c_int64), ("end", ctypes.c_int64),
        ("number", ctypes.c_int64),
    )  # fmt: skip


class _Readings(ctypes.Structure):
    _fields_ = (("length", ctypes.c_int64), ("room", ctypes.c_int64), ("rows", ctypes.c_void_p))


class Reader:
    """Reads what an ``executable`` with ``probes`` has counted and written down.

    ``sites`` are the run (0), the steps of the routine, and from ``first_part`` on the parts that
    threads share.
    """

    def __init__(self, executable: Executable, probes: Probes) -> None:
        self.executable = executable
        self.sites = _sites(executable.program)
        self.first_part = len(self.sites)
        self.sites += [Site(name, "part", "") for name in probes.parts]
        kind = ctypes.c_int64 * (2 * len(self.sites))
        counted = kind.from_address(executable.module.address("probes"))
        self._counted = np.ctypeslib.as_array(counted).reshape(len(self.sites), 2)
        self._readings = _Readings.from_address(executable.module.address("readings"))
        self._rows: Any = None
        self._threads: dict[int, int] = {}
        self._inside = ctypes.c_int64.from_address(executable.module.address("inside"))

    def read_counts(self) -> Any:
        """How often each site ran so far and for how many ticks, int64 of shape (sites, 2)."""
        return self._counted.copy()

    @property
    def ticks_in_steps(self) -> int:
        """The ticks that the steps have taken so far, those aside that hold others."""
        return self._inside.value

    def keep(self, room: int = MOST_SPANS) -> None:
        """Keep the readings from here on one by one, while there is room for them."""
        self._rows = (_Reading * room)()  # of zeros, which take no memory as yet
        self._readings.rows, self._readings.length = ctypes.addressof(self._rows), 0
        self._readings.room = room

    def stop(self) -> None:
        """Keep no more of them."""
        self._readings.room = 0

    @property
    def length(self) -> int:
        """How many readings there were since they are kept, those included that found no room."""
        return int(self._readings.length)

    def readings_between(self, first: int, last: int) -> Sequence[Any]:
        """The readings from the one of number ``first`` to that before ``last``, as far as there
        was room."""
        return [] if self._rows is None else self._rows[first : min(last, len(self._rows))]

    def measure_cost(self) -> float:
        """The ticks that one reading takes."""
        kind = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
        cost = kind(self.executable.module.address("cost"))
        return min(int(cost(_TIMED)) for _ in range(_ROUNDS)) / _TIMED

    def is_part(self, reading: Any) -> bool:
        """Whether a reading is of a part that threads share."""
        return bool(reading.site >= self.first_part)

    def thread_of(self, reading: Any) -> int:
        """The number of the thread that a part ran on: 0 of that of the run, others from 1 on in
        the order in which they are first asked for. A part inside another one is numbered by the
        system's thread, since the pool runs it on whatever thread runs the outer one."""
        thread = int(reading.number)
        return self._threads.setdefault(thread, len(self._threads) + 1) if thread else 0

    def span(self, reading: Any, clock: Clock, thread: int) -> Span:
        """When and how long it was that a reading tells of, on the thread of this number."""
        site = self.sites[reading.site]
        details: dict[str, Any] = {"lines": site.lines} if site.lines else {}
        if site.kind == "loop":
            details["iterations"] = reading.number
        start, end = clock.moment(reading.start), clock.moment(reading.end)
        return Span(site.name, site.kind, thread, start, end, details)

    def rows(self, counted: Any, rate: float) -> list[Row]:
        """A row for each step that holds no others, by what was ``counted``, where a tick takes
        ``rate`` seconds."""
        steps = zip(self.sites[: self.first_part], counted[: self.first_part].tolist(), strict=True)
        return [
            Row(site.name, site.kind, round(count), taken * rate, 0.0, None, site.lines)
            for site, (count, taken) in steps
            if not site.holds
        ]


def read_one(reader: Reader, call: Callable[[], object]) -> tuple[Sequence[Any], int]:
    """The readings of one call, and how many there was no room for."""
    reader.keep()
    try:
        call()
    finally:
        reader.stop()
    kept = reader.readings_between(0, reader.length)
    return kept, reader.length - len(kept)


def find_sizes(reader: Reader, readings: Sequence[Any]) -> dict[Sym, list[int]]:
    """The sizes that only a run can tell, the iterations of loops and what is counted, as they are
    among the ``readings`` of a call, each as often as it was found: in a loop that is once an
    iteration."""
    found: dict[Sym, list[int]] = {}
    steps = [*walk_steps(reader.executable.program.steps)]
    for row in readings:
        step = steps[row.site - 1] if 0 < row.site <= len(steps) else None
        if isinstance(step, Repeat | Measure | Launch) and step.binds is not None:
            found.setdefault(step.binds, []).append(row.number)
    return found


def name_sizes(reader: Reader, readings: Sequence[Any]) -> dict[str, int | Sequence[int]]:
    """What `find_sizes` gives, by the names that `Program.work` takes: one number where it was the
    same each time."""
    names = name_bound_sizes(reader.executable.program)
    return {
        str(names[size]): numbers[0] if len(set(numbers)) == 1 else numbers
        for size, numbers in find_sizes(reader, readings).items()
        if size in names
    }
