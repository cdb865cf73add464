"""The most memory that this process has held."""

from __future__ import annotations

import resource
from pathlib import Path

__all__ = ["peak_bytes"]


def peak_bytes() -> int:
    """The bytes that were resident at most since the program began. (``ru_maxrss`` counts what the
    process was before it, a copy of the one that started it; it is for systems without /proc.)"""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
