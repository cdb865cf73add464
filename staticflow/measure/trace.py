"""Profiles as a trace: JSON in the Trace Event Format, which Perfetto and chrome://tracing open.

The format is described in "Trace Event Format" (Google, 2016): spans are complete events (``"X"``),
names of processes and threads are metadata (``"M"``), memory is a counter (``"C"``); times are in
microseconds. Each profile is a process of its own. They begin together, so that their lengths are
seen beside each other and not what lay between, such as compiling; profiles that overlap in time
keep their places, since both modes read one clock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from staticflow.errors import ProfileError
from staticflow.graph.locs import format_locs, here
from staticflow.measure.profile import Profile
from staticflow.measure.units import seconds_in_words

__all__ = ["trace_of", "write_trace"]


def write_trace(path: str | os.PathLike[str], profiles: Sequence[Profile]) -> None:
    """Write the trace of ``profiles`` to a file. Raises `ProfileError` if it cannot be written, or
    if one of them is none."""
    import json

    for profile in profiles:
        if not isinstance(profile, Profile):
            raise ProfileError(
                f"export: {profile!r} is no profile; give what step.profile(...) or "
                f"sf.profile() gave, at {format_locs(here())}"
            )
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace_of(profiles), file)
    except (OSError, TypeError) as error:
        raise ProfileError(
            f"export: {path!s} cannot be written ({error}); name a file in a folder that there "
            f"is, as in export('trace.json'), at {format_locs(here())}"
        ) from None


def trace_of(profiles: Sequence[Profile]) -> dict[str, Any]:
    """The trace as a dict. Time 0 is where each profile begins; where some overlap, that of the
    first."""
    bounds = [_bounds(p) for p in profiles]
    first = min((start for start, _ in bounds), default=0.0)
    ordered = sorted(bounds)
    overlap = any(a[1] > b[0] for a, b in pairwise(ordered))
    events: list[dict[str, Any]] = []
    for i, (profile, (start, _)) in enumerate(zip(profiles, bounds, strict=True), 1):
        events += _events(profile, i, first if overlap else start)
        if start > first and not overlap:
            label = f"began {seconds_in_words(start - first)} after the first"
            events.append(_metadata("process_labels", i, 0, {"labels": label}))
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _bounds(profile: Profile) -> tuple[float, float]:
    """When a profile begins and ends."""
    times = [t for s in profile.spans for t in (s.start, s.end)] + [t for t, _ in profile.memory]
    return min(times, default=0.0), max(times, default=0.0)


def _events(profile: Profile, process: int, zero: float) -> Iterator[dict[str, Any]]:
    name = {"name": f"{profile.mode}: {profile.what}"}
    yield _metadata("process_name", process, 0, name)
    for thread, known in profile.threads.items():
        yield _metadata("thread_name", process, thread, {"name": known})
    for span in profile.spans:
        yield {
            "ph": "X", "name": span.name, "cat": span.kind, "pid": process, "tid": span.thread,
            "ts": _microseconds(span.start - zero),
            "dur": _microseconds(span.end - zero) - _microseconds(span.start - zero),
            "args": dict(span.details),
        }  # fmt: skip
    for at, held in profile.memory:
        yield {
            "ph": "C", "name": "memory", "pid": process, "tid": 0, "ts": _microseconds(at - zero),
            "args": {"bytes in use": held},
        }  # fmt: skip


def _microseconds(seconds: float) -> float:
    """Microseconds in whole nanoseconds, so that what lies in a span does so in its digits."""
    return round(seconds * 1e9) / 1e3


def _metadata(kind: str, process: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": args}
