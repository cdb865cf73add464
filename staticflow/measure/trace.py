"""Profiles as a trace: JSON in the Trace Event Format, which Perfetto and chrome://tracing open.

The format is described in "Trace Event Format" (Google, 2016): spans are complete events (``"X"``),
names of processes and threads are metadata (``"M"``), memory is a counter (``"C"``); times are in
microseconds. Each profile is a process of its own; all are on one axis, since both modes read one
clock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from staticflow.errors import ProfileError
from staticflow.graph.locs import format_locs, here
from staticflow.measure.profile import Profile

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
    """The trace as a dict. Time 0 is where the first span begins."""
    starts = [s.start for p in profiles for s in p.spans] + [
        t for p in profiles for t, _ in p.memory
    ]
    zero = min(starts, default=0.0)
    events = [e for i, p in enumerate(profiles) for e in _events(p, i + 1, zero)]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _events(profile: Profile, process: int, zero: float) -> Iterator[dict[str, Any]]:
    yield _name("process_name", process, 0, f"{profile.mode}: {profile.what}")
    for thread, name in profile.threads.items():
        yield _name("thread_name", process, thread, name)
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


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}
