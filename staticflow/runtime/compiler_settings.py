"""The settings of a process while LLVM is at work."""

from __future__ import annotations

import sys
import weakref
from typing import ClassVar

import llvmlite.binding as llvm

from staticflow.runtime.once import Lock

__all__ = ["LEFT_OUT", "Settings"]

LEFT_OUT = ("lsr", "cgp", "post-ra")
"""Passes of LLVM, as its options to leave them out say."""

_TURN = 0.0005
"""Seconds of a turn of Python's threads while something is compiled."""

_lock = Lock()


class Settings:
    """Settings of the process from where this is entered to where it is left, or is gone: a handler
    of a signal that raises may keep it from being left. Others may be entered meanwhile, on
    whatever threads; what was before is so again when all are left.

    Three of LLVM's passes are left out. Strength reduction of loops: the text adds to its indices
    already where it could multiply. Measured on products, convolutions, attention and others, code
    is as fast without it (in the mean; convolutions with unknown sizes take 0.9 of the time, a sum
    with a transposed array 1.1), and made in 0.6 of the time where sizes are unknown. What moves
    addresses to where they are used (``cgp``), and the scheduler behind the registers: the training
    steps of the benchmarks (two-layer net, LeNet, LSTM, transformer, GPT, residual net) take 0.98
    to 1.03 of the time without both, each of which is some 5 % of the time in which code is made.

    Python's threads take turns every half millisecond: one that compiles needs the interpreter a
    dozen times for a module.
    """

    _entered: ClassVar[weakref.WeakSet[Settings]] = weakref.WeakSet()
    _interval: ClassVar[float | None] = None
    """The seconds of a turn before the first was entered."""

    def enter(self) -> None:
        """Set them, unless they are."""
        with _lock:
            if not self._entered:
                _leave_out("true")
                if Settings._interval is None:
                    Settings._interval = sys.getswitchinterval()
                sys.setswitchinterval(min(Settings._interval, _TURN))
            self._entered.add(self)

    def leave(self) -> None:
        """Set them back, unless others are entered, or this is not."""
        with _lock:
            if self not in self._entered:
                return
            self._entered.discard(self)
            if not self._entered and Settings._interval is not None:
                _leave_out("false")
                sys.setswitchinterval(Settings._interval)
                Settings._interval = None

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()


def _leave_out(value: str) -> None:
    for name in LEFT_OUT:
        llvm.set_option("staticflow", f"-disable-{name}={value}")
