"""The profile of a compiled program, by the clock that its native code reads around each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.measure.clock import Clock
from staticflow.measure.profile import Profile, Span, group
from staticflow.measure.readings import Reader, read_one
from staticflow.measure.statistics import spread_of_ratio

__all__ = ["Contestants", "profile_runs"]

_MOST_SECONDS, _FEWEST, _MOST = 0.2, 5, 200  # for the calls of one contestant, and how many
_CALLER = 0  # the thread of the steps, and of the parts that it runs itself


@dataclass(frozen=True, slots=True)
class Contestants:
    """A call of a program as it is, and one of its twin whose readings ``reader`` has; either
    begins with ``reset``, which is not timed."""

    plain: Callable[[], object]
    probed: Callable[[], object]
    reset: Callable[[], object]
    reader: Reader


def profile_runs(
    contestants: Contestants, what: str, repeat: int | None, held: Sequence[int]
) -> Profile:
    """The profile of ``repeat`` calls (None: as many as take a fifth of a second), in turns with as
    many that are not profiled. ``held`` are the bytes in use after each step of the routine."""
    reader = contestants.reader
    clock = Clock(reader.executable)
    for call in (contestants.plain, contestants.probed):
        contestants.reset()
        call()
    one = _record_one(contestants, clock)
    samples = _time_in_turns(contestants, repeat)
    faster = _select_faster(samples.probed)
    whole = float(np.mean([samples.probed[i] for i in faster]))
    clock.calibrate()
    counted = np.mean(samples.counted[faster], axis=0)
    parts = reader.rows(counted, clock.rate)
    run = float(counted[0, 1]) * clock.rate
    inside = sum(r.seconds for r in parts)
    spans = one.spans(reader, clock)
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
        spans=spans,
        dropped=one.dropped,
        threads={s.thread: _thread_name(s.thread) for s in spans},
        memory=one.memory(reader, clock, held),
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
    plain: list[float] = []
    probed: list[float] = []
    counted = [contestants.reader.read_counts()]
    while len(probed) < _count(repeat, plain):
        turns = [(contestants.plain, plain), (contestants.probed, probed)]
        for call, samples in turns if len(plain) % 2 else reversed(turns):
            contestants.reset()
            began = time.perf_counter()
            call()
            samples.append(time.perf_counter() - began)
        counted.append(contestants.reader.read_counts())
    return _Samples(plain, probed, np.diff(counted, axis=0))


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


@dataclass(frozen=True, slots=True)
class _OneCall:
    """A call from the tick at which it ``began`` to that at which it ``ended``, its readings, and
    how many there was no room for."""

    began: int
    ended: int
    readings: Sequence[Any]
    dropped: int

    def spans(self, reader: Reader, clock: Clock) -> tuple[Span, ...]:
        """The call, and what was read in it."""
        began, ended = clock.moment(self.began), clock.moment(self.ended)
        inner = [
            reader.span(row, clock, reader.thread_of(row) if reader.is_part(row) else _CALLER)
            for row in self.readings
        ]
        return (Span("call", "call", _CALLER, began, ended), *inner)

    def memory(
        self, reader: Reader, clock: Clock, held: Sequence[int]
    ) -> tuple[tuple[float, int], ...]:
        """The bytes that the plan has in use, by time; ``held`` are those of each step."""
        found = [
            (row.start, held[row.site - 1])
            for row in self.readings
            if not reader.is_part(row) and not reader.sites[row.site].holds
        ]
        return tuple((clock.moment(at), bytes_) for at, bytes_ in (*sorted(found), (self.ended, 0)))


def _record_one(contestants: Contestants, clock: Clock) -> _OneCall:
    contestants.reset()
    moments: list[int] = []

    def call() -> None:  # and what making room for the readings takes is no part of it
        moments.append(clock.ticks())
        contestants.probed()
        moments.append(clock.ticks())

    readings, dropped = read_one(contestants.reader, call)
    began, ended = moments
    return _OneCall(began, ended, readings, dropped)
