"""Raise where Python may run the handler of a signal: as a function of the package begins, and as a
call of native code returns. It may as a loop goes round, too; that jump is left out, since CPython
3.12 takes it for outside the ``try`` that the loop stands in."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from staticflow.graph.locs import is_inside

__all__ = ["Interrupt", "interrupted_at"]

_BEGIN = opcode.opmap["RESUME"]


class Interrupt(BaseException):
    """What the handler raises."""


class _Interrupter:
    def __init__(self, number: int) -> None:
        self.left = number
        self.where = ""

    def reach(self, frame: FrameType) -> None:
        self.left -= 1
        if self.left == 0:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
            raise Interrupt

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_return" and is_inside(frame.f_code.co_filename):
            self.reach(frame)

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not is_inside(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] == _BEGIN:
            self.reach(frame)
        return self.trace


def interrupted_at(number: int, work: Callable[[], Any]) -> str:
    """Where ``work`` was interrupted, at that one of the points; "" if it has not so many."""
    interrupter = _Interrupter(number)
    before = sys.gettrace(), sys.getprofile()
    sys.setprofile(interrupter.profile)
    sys.settrace(interrupter.trace)
    try:
        work()
    except Interrupt:
        pass
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return interrupter.where
