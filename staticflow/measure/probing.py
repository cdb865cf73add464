"""The profile of a compiled program, by the clock that its native code reads around each step."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from staticflow.errors import ProfileError
from staticflow.graph.dims import Sym
from staticflow.graph.locs import format_locs, here
from staticflow.measure.profile import Profile, Row, Span, group, lines_of
from staticflow.measure.statistics import spread_of_ratio
from staticflow.runtime.executable import Executable

__all__ = ["MOST_SPANS", "Contestants", "find_sizes", "probes_of_host", "profile_runs"]

MOST_SPANS = 100_000
"""Readings of one call that are kept one by one; all are counted."""

_CLOCKS = {
    "x86_64": "llvm.readcyclecounter", "AMD64": "llvm.readcyclecounter",
    "aarch64": "llvm.readsteadycounter", "arm64": "llvm.readsteadycounter",
}  # fmt: skip
_CALIBRATION = 2e-3  # seconds between two looks at both clocks, at least
_MOST_SECONDS, _FEWEST, _MOST = 0.2, 5, 200  # for the calls of one contestant, and how many
_CALLER = 0  # the thread of the steps, and of the parts that it runs itself


def probes_of_host() -> Probes:
    """What reads the clock of this processor. Raises `ProfileError` where there is none."""
    machine = platform.machine()
    if machine not in _CLOCKS:
        raise ProfileError(
            f"profile: there is no clock for native code on {machine}; it can be read on "
            f"{', '.join(_CLOCKS)}, at {format_locs(here())}"
        )
    return Probes(_CLOCKS[machine])


@dataclass(frozen=True, slots=True)
class Contestants:
    """A call of a program as it is, and one of its twin whose ``executable`` has ``probes``; either
    begins with ``reset``, which is not timed."""

    plain: Callable[[], object]
    probed: Callable[[], object]
    reset: Callable[[], object]
    executable: Executable
    probes: Probes


# -- the clock -----------------------------------------------------------------------------------


class _Clock:
    """Ticks of the processor as seconds of `time.perf_counter`, by two looks at both clocks."""

    def __init__(self, executable: Executable) -> None:
        kind = ctypes.PYFUNCTYPE(ctypes.c_int64)
        self.ticks = kind(executable.module.address("ticks"))
        self.first = self.second = self.look()

    def look(self) -> tuple[float, int]:
        """A moment by both clocks: the closest of some pairs."""
        found = []
        for _ in range(10):
            before, ticks, after = time.perf_counter(), self.ticks(), time.perf_counter()
            found.append((after - before, (before + after) / 2, ticks))
        _, at, ticks = min(found)
        return at, ticks

    def calibrate(self) -> None:
        """Look a second time, long enough after the first."""
        while time.perf_counter() - self.first[0] < _CALIBRATION:
            pass
        self.second = self.look()

    @property
    def rate(self) -> float:
        """Seconds of a tick."""
        (a, ticks), (b, more) = self.first, self.second
        return (b - a) / (more - ticks)

    def moment(self, ticks: int) -> float:
        """When there were so many ticks."""
        return self.first[0] + (ticks - self.first[1]) * self.rate


# -- readings ------------------------------------------------------------------------------------


class _Reading(ctypes.Structure):
    _fields_ = (
        ("site", ctypes.c_int64), ("start", ctypes.c_int64), ("end", ctypes.c_int64),
        ("number", ctypes.c_int64),
    )  # fmt: skip


class _Readings(ctypes.Structure):
    _fields_ = (("length", ctypes.c_int64), ("room", ctypes.c_int64), ("rows", ctypes.c_void_p))


@dataclass(frozen=True, slots=True)
class _Site:
    """What is read: its name, its kind, its lines, and whether it holds others."""

    name: str
    kind: str
    lines: str
    holds: bool = False


def _sites(executable: Executable) -> list[_Site]:
    """The run, and its steps."""
    routine = executable.program
    steps = (_site(step, routine) for step in walk_steps(routine.steps))
    return [_Site("run", "run", "", holds=True), *steps]


def _site(step: Step, routine: Routine) -> _Site:
    if isinstance(step, Launch):
        return _Site(step.kernel, "kernel", lines_of(step.locs))
    if isinstance(step, Copy):
        return _Site(f"copy of {step.bytes} bytes", "copy", "")
    if isinstance(step, Repeat):
        return _Site("loop", "loop", lines_of(step.locs), holds=True)
    if isinstance(step, Choose):
        return _Site("branch", "branch", "", holds=True)
    if isinstance(step, Ask):
        return _Site(f"{step.op.name} in Python", "question", lines_of(step.locs))
    if isinstance(step, Ensure):
        lines = lines_of(routine.buffers[step.buffer].locs)
        return _Site("memory of buffers that grow", "memory", lines)
    return _Site("sizes", "sizes", "")


# -- the runs ------------------------------------------------------------------------------------


def profile_runs(
    contestants: Contestants, what: str, repeat: int | None, held: Sequence[int]
) -> Profile:
    """The profile of ``repeat`` calls (None: as many as take a fifth of a second), in turns with as
    many that are not profiled. ``held`` are the bytes in use after each step of the routine."""
    executable = contestants.executable
    clock = _Clock(executable)
    for call in (contestants.plain, contestants.probed):
        contestants.reset()
        call()
    spans, dropped, memory = _record_one(contestants, clock, held)
    samples = _time_in_turns(contestants, repeat)
    faster = _select_faster(samples.probed)
    whole = float(np.mean([samples.probed[i] for i in faster]))
    clock.calibrate()
    sites = _sites(executable)
    counts, ticks = np.mean(samples.counted[faster], axis=0).T.tolist()
    parts = [
        Row(site.name, site.kind, round(count), taken * clock.rate, 0.0, None, site.lines)
        for site, count, taken in zip(sites, counts, ticks, strict=False)  # parts are in kernels
        if not site.holds
    ]
    run = ticks[0] * clock.rate
    inside = sum(r.seconds for r in parts)
    moments = [_place(span, clock) for span in spans]
    return Profile(
        mode="static",
        what=what,
        seconds=whole,
        calls=len(samples.probed),
        rows=group([((r.kind, r.name), r) for r in parts], whole),
        lines=group([(r.lines, r) for r in parts], whole),
        outside={
            "between kernels: loops, sizes, the clock": run - inside,
            "the call: arguments, outputs, Python": whole - run,
        },
        overhead=spread_of_ratio(samples.probed, samples.plain),
        unprofiled=float(np.mean([samples.plain[i] for i in _select_faster(samples.plain)])),
        spans=tuple(moments),
        dropped=dropped,
        threads={s.thread: _thread_name(s.thread) for s in moments},
        memory=tuple((clock.moment(ticks), bytes_) for ticks, bytes_ in memory),
    )


def _thread_name(thread: int) -> str:
    return "the call" if thread == _CALLER else f"thread {thread} of the pool"


@dataclass(frozen=True, slots=True)
class _Samples:
    """The seconds of each call, plain and probed, and how often and for how many ticks each site
    ran in the probed ones, (calls, sites, 2)."""

    plain: list[float]
    probed: list[float]
    counted: Any


def _time_in_turns(contestants: Contestants, repeat: int | None) -> _Samples:
    """Calls in turns, each first in half of them."""
    probes = _probes(contestants)
    plain: list[float] = []
    probed: list[float] = []
    readings = [np.array(probes)]
    while len(probed) < _count(repeat, plain):
        turns = [(contestants.plain, plain), (contestants.probed, probed)]
        for call, samples in turns if len(plain) % 2 else reversed(turns):
            contestants.reset()
            began = time.perf_counter()
            call()
            samples.append(time.perf_counter() - began)
        readings.append(np.array(probes))
    return _Samples(plain, probed, np.diff(readings, axis=0))


def _select_faster(samples: Sequence[float]) -> list[int]:
    """The positions of the faster half of some times."""
    order = sorted(range(len(samples)), key=samples.__getitem__)
    return order[: (len(order) + 1) // 2]


def _count(repeat: int | None, plain: Sequence[float]) -> int:
    """How many calls there are to be, after those that took ``plain`` seconds."""
    if repeat is not None:
        return repeat
    if not plain:
        return 1
    return max(_FEWEST, min(_MOST, int(_MOST_SECONDS * len(plain) / sum(plain))))


def _probes(contestants: Contestants) -> Any:
    """What is counted of each site, (sites, 2), as it is now."""
    executable = contestants.executable
    sites = len(_sites(executable)) + len(contestants.probes.parts)
    kind = ctypes.c_int64 * (2 * sites)
    counted = kind.from_address(executable.module.address("probes"))
    return np.ctypeslib.as_array(counted).reshape(sites, 2)


def find_sizes(executable: Executable, probed: Callable[[], object]) -> dict[Sym, list[int]]:
    """The sizes that only a run can tell, the iterations of loops and what is counted, as they are
    in one call, each as often as it was found: in a loop that is once an iteration. A call of more
    than `MOST_SPANS` steps tells of none."""
    found: dict[Sym, list[int]] = {}
    steps = [*walk_steps(executable.program.steps)]
    rows, left_out = _read_one(executable, probed)
    for row in () if left_out else rows:
        step = steps[row.site - 1] if 0 < row.site <= len(steps) else None
        if isinstance(step, Repeat | Measure) and step.binds is not None:
            found.setdefault(step.binds, []).append(row.number)
    return found


def _read_one(executable: Executable, call: Callable[[], object]) -> tuple[Sequence[Any], int]:
    """The readings of one call, and how many there was no room for."""
    readings = _Readings.from_address(executable.module.address("readings"))
    rows = (_Reading * MOST_SPANS)()
    readings.rows, readings.length = ctypes.addressof(rows), 0
    try:
        readings.room = MOST_SPANS
        call()
    finally:
        readings.room = 0
    kept = min(readings.length, MOST_SPANS)
    return rows[:kept], readings.length - kept


# -- one call, reading by reading ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TickSpan:
    """A span in ticks."""

    site: _Site
    thread: int
    start: int
    end: int
    number: int


def _record_one(
    contestants: Contestants, clock: _Clock, held: Sequence[int]
) -> tuple[list[_TickSpan], int, list[tuple[int, int]]]:
    """The readings of one call, how many there was no room for, and the bytes that the plan has in
    use, by ticks."""
    executable, probes = contestants.executable, contestants.probes
    sites = _sites(executable)
    first_part = len(sites)
    sites += [_Site(name, "part", "") for name in probes.parts]
    contestants.reset()
    moments: list[int] = []

    def call() -> None:  # and what making room for the readings takes is no part of it
        moments.append(clock.ticks())
        contestants.probed()
        moments.append(clock.ticks())

    kept, left_out = _read_one(executable, call)
    began, ended = moments
    found = [_TickSpan(_Site("call", "call", "", holds=True), _CALLER, began, ended, 0)]
    memory = []
    for row in kept:
        thread = row.number if row.site >= first_part else _CALLER
        found.append(_TickSpan(sites[row.site], thread, row.start, row.end, row.number))
        if 0 < row.site < first_part and not sites[row.site].holds:
            memory.append((row.start, held[row.site - 1]))
    return found, left_out, [*sorted(memory), (ended, 0)]


def _place(span: _TickSpan, clock: _Clock) -> Span:
    site = span.site
    details: dict[str, Any] = {"lines": site.lines} if site.lines else {}
    if site.kind == "loop":
        details["iterations"] = span.number
    start, end = clock.moment(span.start), clock.moment(span.end)
    return Span(site.name, site.kind, span.thread, start, end, details)
