"""The clock that native code reads, and what it is in seconds."""

from __future__ import annotations

import ctypes
import platform
import time

from staticflow.codegen.llvm.probes import Probes
from staticflow.errors import ProfileError
from staticflow.graph.locs import format_locs, here
from staticflow.runtime.executable import Executable

__all__ = ["Clock", "find_clock", "probes_of_host"]

_CLOCKS = {
    "x86_64": "llvm.readcyclecounter", "AMD64": "llvm.readcyclecounter",
    "aarch64": "llvm.readsteadycounter", "arm64": "llvm.readsteadycounter",
}  # fmt: skip
_CALIBRATION = 2e-3  # seconds between two looks at both clocks, at least


def find_clock() -> str | None:
    """The intrinsic of LLVM that reads the clock of this processor; None where there is none."""
    return _CLOCKS.get(platform.machine())


def probes_of_host() -> Probes:
    """What reads the clock of this processor. Raises `ProfileError` where there is none."""
    clock = find_clock()
    if clock is None:
        raise ProfileError(
            f"profile: there is no clock for native code on {platform.machine()}; it can be read "
            f"on {', '.join(_CLOCKS)}, at {format_locs(here())}"
        )
    return Probes(clock)


class Clock:
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
