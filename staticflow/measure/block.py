"""The profile of a block of eager operations, from what was written down of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.types import TensorType
from staticflow.measure.operation_work import Call, OperationWork, work_of_call
from staticflow.measure.profile import Profile, Row, Span, group, lines_of
from staticflow.measure.recorder import Operation, Recording, time_recorder
from staticflow.measure.statistics import Spread
from staticflow.runtime.counting import MOST_ENTRIES

__all__ = ["MOST_SPANS", "profile_of"]

MOST_SPANS = 100_000
"""Operations that are kept one by one; all are counted."""

_ROUNDS = 5


def profile_of(recording: Recording) -> Profile:
    """Where the time of a recorded block went, and the memory that its operations allocated."""
    whole = (recording.end - recording.start) / 1e9
    # (another thread may still be in an operation)
    operations = [o for o in [*recording.operations] if o.end <= recording.end]
    sizes = _find_sizes(recording, operations)
    known: dict[Call, OperationWork | None] = {}
    works = [_work(recording, o, known) for o in operations]
    rows = [_row(*each) for each in zip(operations, sizes, works, strict=True)]
    own = [o for o in operations if o.thread == recording.thread]
    spent = sum(o.spent for o in own) / 1e9
    inside = sum(o.end - o.start + o.spent for o in own if o.depth == 0) / 1e9
    threads = {me: i for i, me in enumerate((recording.thread, *_others(recording)))}
    ordered = sorted(operations, key=lambda o: (o.start, o.depth))
    least = recording.allocations.least
    start, end = recording.start / 1e9, recording.end / 1e9
    spans = [Span("profile", "block", 0, start, end)]
    spans += [_span(o, threads) for o in ordered[:MOST_SPANS]]
    return Profile(
        mode="eager",
        what="the block",
        seconds=whole,
        calls=1,
        rows=group([((r.kind, r.name), r) for r in rows], whole),
        lines=group([(r.lines, r) for r in rows], whole),
        outside={
            "outside operations: Python, data": whole - inside,
            "writing the operations down": spent,
        },
        overhead=_overhead(spent, len(own), whole),
        unprofiled=None,
        spans=tuple(spans),
        dropped=max(0, len(operations) - MOST_SPANS),
        threads={i: recording.threads.get(me, "main") for me, i in threads.items()},
        uncounted=works.count(None) if recording.counts_work else None,
        memory=tuple((o.end / 1e9, o.held - least) for o in ordered[:MOST_SPANS]),
    )


def _others(recording: Recording) -> list[int]:
    return [me for me in recording.threads if me != recording.thread]


def _work(
    recording: Recording, operation: Operation, known: dict[Call, OperationWork | None]
) -> OperationWork | None:
    """What an operation does itself: nothing, if others are inside of it, which do it."""
    if not recording.counts_work:
        return None
    if not operation.is_leaf:
        return OperationWork(0, 0)
    return None if operation.call is None else work_of_call(operation.call, known)


def _row(operation: Operation, size: int | None, work: OperationWork | None) -> Row:
    moved, flops = (None, None) if work is None else (work.bytes, work.flops)
    return Row(
        operation.name, operation.kind, 1, operation.own / 1e9, 0.0, size,
        lines_of(operation.locs), moved, flops,
    )  # fmt: skip


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


def _overhead(spent: float, operations: int, whole: float) -> Spread:
    """How much longer the block was than without a profile: the time that was ``spent`` on writing
    operations down, and what that does not count itself, which is measured now."""
    costs = sorted(time_recorder() for _ in range(_ROUNDS))
    ratios = [_ratio(spent + operations * cost, whole) for cost in costs]
    return Spread(ratios[_ROUNDS // 2], ratios[0], ratios[-1], _ROUNDS)


def _ratio(cost: float, whole: float) -> float:
    return whole / (whole - cost) if cost < whole else math.inf
