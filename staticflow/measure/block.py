"""The profile of a block of eager operations, from what was written down of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.types import TensorType
from staticflow.measure.hooks import HookCost
from staticflow.measure.inside_programs import InsidePrograms, add_sizes_of_run
from staticflow.measure.operation_work import Call, OperationWork, work_of_call
from staticflow.measure.profile import Profile, Row, Span, group, lines_of
from staticflow.measure.program_calls import MAKING
from staticflow.measure.recorder import Operation, Recording
from staticflow.measure.statistics import Spread
from staticflow.runtime.counting import MOST_ENTRIES

__all__ = ["MOST_SPANS", "profile_of"]

MOST_SPANS = 100_000
"""Operations, and steps inside of programs, that are kept one by one; all are counted."""


def profile_of(recording: Recording, costs: Sequence[HookCost]) -> Profile:
    """Where the time of a recorded block went, and the memory that its operations allocated.
    ``costs`` is what writing down takes that it does not count, measured some times."""
    inside = InsidePrograms(recording.programs)
    # (another thread may still be in an operation)
    ended = [o for o in [*recording.operations] if o.end <= recording.end]
    sizes = _find_sizes(recording, ended)
    works = _works(recording, ended)
    rows = [*inside.rows(recording.counts_work)]
    for operation, size, work in zip(ended, sizes, works, strict=True):
        if operation.kind != MAKING:
            rows += _rows(operation, size, work, inside)
    times = _Times.of(recording, ended, inside)
    threads = {me: i for i, me in enumerate((recording.thread, *_others(recording)))}
    spans = [Span("profile", "block", 0, recording.start / 1e9, recording.end / 1e9)]
    ordered = sorted(ended, key=lambda o: (o.start, o.depth))
    spans += islice(_spans(ordered, threads, inside), MOST_SPANS)
    readings = sum(o.inside.last - o.inside.first for o in ended if o.inside is not None)
    names = {i: recording.threads.get(me, "main") for me, i in threads.items()}
    pool = {span.thread for span in spans} - names.keys()
    least = recording.allocations.least
    return Profile(
        mode="eager",
        what="the block",
        seconds=times.whole,
        calls=1,
        rows=group(rows, times.whole),
        lines=group([(row.lines, row) for _, row in rows], times.whole),
        outside={
            "outside operations: Python, data": times.whole - times.covered,
            "writing the operations down": times.writing,
        },
        overhead=times.overhead(costs),
        unprofiled=None,
        spans=tuple(spans),
        dropped=len(ended) + readings - (len(spans) - 1),
        threads=names | {i: f"thread {i - len(threads) + 1} of the pool" for i in sorted(pool)},
        uncounted=works.count(None) if recording.counts_work else None,
        memory=tuple((o.end / 1e9, o.held - least) for o in ordered[:MOST_SPANS]),
        preparing=times.preparing,
    )


def _others(recording: Recording) -> list[int]:
    return [me for me in recording.threads if me != recording.thread]


# -- time ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Times:
    """The seconds of the thread that a block was in: the ``whole`` without the ``preparing`` of
    programs, what of it is ``covered`` by operations, ``forward`` and ``backward`` so many, what
    ``writing`` these down has taken, and ``reading`` the clock in programs."""

    whole: float
    preparing: float
    covered: float
    writing: float
    reading: float
    forward: int
    backward: int

    @staticmethod
    def of(recording: Recording, ended: Sequence[Operation], inside: InsidePrograms) -> _Times:
        own = [o for o in ended if o.thread == recording.thread]
        preparing = sum(o.end - o.start + o.spent for o in own if o.kind == MAKING) / 1e9
        covered = sum(o.end - o.start + o.spent for o in own if o.depth == 0) / 1e9
        seen_to = sum(o.inside.spent for o in own if o.inside is not None) / 1e9
        return _Times(
            whole=(recording.end - recording.start) / 1e9 - preparing,
            preparing=preparing,
            covered=covered - preparing,
            writing=sum(o.spent for o in own if o.kind != MAKING) / 1e9 + seen_to,
            reading=sum(inside.reading(o) for o in own),
            forward=sum(o.kind != "backward" for o in own),
            backward=sum(o.kind == "backward" for o in own),
        )

    def overhead(self, costs: Sequence[HookCost]) -> Spread:
        """How much longer the block was than without a profile: what was spent on writing down and
        on reading the clock, and what that does not count itself, by its ``costs``."""
        known = self.writing + self.reading
        ratios = sorted(
            _ratio(known + self.forward * c.forward + self.backward * c.backward, self.whole)
            for c in costs
        )
        return Spread(ratios[len(ratios) // 2], ratios[0], ratios[-1], len(ratios))


def _ratio(cost: float, whole: float) -> float:
    return whole / (whole - cost) if cost < whole else math.inf


# -- rows ------------------------------------------------------------------------------------------


def _works(recording: Recording, ended: Sequence[Operation]) -> list[OperationWork | None]:
    """What each operation does itself, if that is counted: nothing, if others are inside of it."""
    nothing = OperationWork(0, 0)
    if not recording.counts_work:
        return [None] * len(ended)
    known: dict[Call, OperationWork | None] = {}
    found: list[OperationWork | None] = []
    for operation in ended:
        if operation.kind == MAKING or not operation.is_leaf:
            found.append(nothing)
            continue
        call = add_sizes_of_run(operation)
        work = None if call is None else work_of_call(call, known)
        if call is not None and work is None and operation.result is not None:
            work = work_of_call(replace(call, shape=operation.result[1]), known)
        found.append(work)
    return found


def _rows(
    operation: Operation, size: int | None, work: OperationWork | None, inside: InsidePrograms
) -> list[tuple[Any, Row]]:
    """A row of what an operation does itself, and rows of the work of the kernels inside of it."""
    work, kernels = inside.share_work(operation, work)
    moved, flops = (None, None) if work is None else (work.bytes, work.flops)
    row = Row(
        operation.name, operation.kind, 1, inside.own_seconds(operation), 0.0,
        size, lines_of(operation.locs), moved, flops,
    )  # fmt: skip
    return [((operation.kind, operation.name), row), *kernels]


def _find_sizes(recording: Recording, operations: Sequence[Operation]) -> Sequence[int | None]:
    """The bytes that each operation allocated itself; None behind what the log has room for."""
    entries = recording.allocations.sizes()
    before = np.concatenate(([0], np.cumsum(np.maximum(entries, 0))))
    found: list[int | None] = []
    inner: dict[tuple[int, int], int] = {}  # of the operations in one, by its thread and depth
    for o in operations:  # in the order in which they ended: the inner ones first
        if o.last_entry > MOST_ENTRIES:
            found.append(None)
            continue
        size = int(before[o.last_entry] - before[o.first_entry])
        found.append(size - inner.pop((o.thread, o.depth + 1), 0))
        inner[o.thread, o.depth] = inner.get((o.thread, o.depth), 0) + size
    return found


# -- spans -----------------------------------------------------------------------------------------


def _spans(
    ordered: Sequence[Operation], threads: Mapping[int, int], inside: InsidePrograms
) -> Iterator[Span]:
    """The operations, each before what ran inside of it. A thread of the pool has the number behind
    those of the others that it has in the pool."""
    for operation in ordered:
        yield _span(operation, threads)
        yield from inside.spans(operation, threads[operation.thread], len(threads) - 1)


def _span(operation: Operation, threads: Mapping[int, int]) -> Span:
    details: dict[str, Any] = {}
    if operation.locs:
        details["lines"] = lines_of(operation.locs)
    if operation.result is not None:
        dtype, shape = operation.result
        details["result"] = str(TensorType(BY_NUMPY[dtype], shape))
    thread = threads[operation.thread]
    start, end = operation.start / 1e9, operation.end / 1e9
    return Span(operation.name, operation.kind, thread, start, end, details)
