"""A stand-in for ``cupy.cuda.nvrtc``, with its names and what they take."""

from __future__ import annotations

from typing import Any

__all__ = ["FakeNvrtc"]


class FakeNvrtc:
    """As ``cupy.cuda.nvrtc``: a program is its text, and its code the text behind its options."""

    NVRTCError = ZeroDivisionError

    def __init__(self) -> None:
        self.programs: dict[int, str] = {}

    def getVersion(self) -> tuple[int, int]:
        return (13, 5)

    def getSupportedArchs(self) -> tuple[int, ...]:
        return (75, 80, 90)

    def createProgram(self, src: str, name: str, headers: Any, include_names: Any) -> int:
        self.programs[len(self.programs) + 1] = src
        return len(self.programs)

    def compileProgram(self, prog: int, options: tuple[str, ...]) -> None:
        if "wrong" in self.programs[prog]:
            raise self.NVRTCError("NVRTC_ERROR_COMPILATION (6)")
        self.programs[prog] = " ".join([*options, self.programs[prog]])

    def getProgramLog(self, prog: int) -> str:
        return "line 1: wrong\n"

    def getCUBIN(self, prog: int) -> bytes:
        return b"code " + self.programs[prog].encode()

    def getPTX(self, prog: int) -> bytes:
        return b"PTX " + self.programs[prog].encode()

    def destroyProgram(self, prog: int) -> None:
        self.programs[prog] = ""
