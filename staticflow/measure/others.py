"""How busy other programs keep the processors while something is timed."""

from __future__ import annotations

import os
import time
from collections.abc import Set
from pathlib import Path

from staticflow.data_classes import dataclass

__all__ = ["OtherPrograms", "busy_ticks"]

_STAT = Path("/proc/stat")
_IDLE_FIELDS = (3, 4, 8, 9)
"""Of a processor's times in ``/proc/stat`` those idle and waiting for a disk, and two parts of
others."""
_MUCH = 0.1
"""Processors that may be taken from what is timed before it is said."""


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    all: float
    own: float


class OtherPrograms:
    """What other programs take of the processors that this one may run on, from now on.

    Of this process count all threads, and processes that it started once they were waited for; what
    those still do that were not is taken for others'. Linux tells (``/proc/stat``, in steps of 10
    ms); where the system does not, nothing is known.
    """

    def __init__(self) -> None:
        self._begun = _look()

    def processors(self) -> float | None:
        """How many processors they kept busy on average; None where it is not known."""
        begun, now = self._begun, _look()
        if begun is None or now is None or now.at <= begun.at:
            return None
        return max((now.all - begun.all) - (now.own - begun.own), 0.0) / (now.at - begun.at)

    def remark(self, threads: int) -> str | None:
        """What a reader of times on so many threads has to know of it; None if there was room for
        all."""
        taken = self.processors()
        if taken is None:
            return None
        there = len(_own_processors())
        if taken + min(threads, there) < there + _MUCH:
            return None
        return (
            f"other programs kept {taken:.1f} of {there} processors busy while steps were timed: "
            "they take longer than on a quiet machine, most where threads wait for each other"
        )


def busy_ticks(stat: str, processors: Set[int]) -> int:
    """The ticks in which these processors had something to do, by the text of ``/proc/stat``.

    >>> busy_ticks("cpu  9 9 9 9\\ncpu0 1 2 3 40 5 6 7 8\\ncpu1 9 9 9 9\\nintr 5\\n", {0})
    27
    """
    ticks = 0
    for line in stat.splitlines():
        name, *times = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in processors:
            ticks += sum(int(t) for i, t in enumerate(times) if i not in _IDLE_FIELDS)
    return ticks


def _own_processors() -> Set[int]:
    return os.sched_getaffinity(0)


def _look() -> _Look | None:
    try:
        ticks = busy_ticks(_STAT.read_text(), _own_processors())
    except (OSError, AttributeError):  # not Linux
        return None
    return _Look(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4]))
