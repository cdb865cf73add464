"""Ctrl-C while the package is imported, which takes a tenth of a second and more: a command line
ends with one line, as it does later; a program of a user's sees what Python makes of it. A command
line that is asked to end otherwise (SIGTERM, as ``timeout`` sends it) ends as after Ctrl-C: its
children are ended, and what it has not written whole is taken away."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from types import FrameType

__all__ = ["INTERRUPTED", "leave_at_interrupt", "raise_at_interrupt"]

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of SIGINT, as of other programs."""


def leave_at_interrupt() -> None:
    """Let Ctrl-C end the process from now on, if it is ``python -m staticflow`` that begins."""
    if (
        _is_command_line(sys.argv, sys.orig_argv)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _leave)


def raise_at_interrupt() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again, as it usually does, and SIGTERM, too."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)


def _is_command_line(arguments: Sequence[str], words: Sequence[str]) -> bool:
    """Whether Python, which was begun with these ``words``, looks for this package to run it: until
    it has it, the first of the ``arguments`` is ``-m``."""
    package = __name__.partition(".")[0]
    named = any(a.startswith("-") and a.endswith("m") and b == package for a, b in pairwise(words))
    joined = any(w.startswith("-") and w.endswith(f"m{package}") for w in words)
    return arguments[:1] == ["-m"] and (named or joined)


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process at once: an exception would go through code that is half imported, some of
    which would say that this is broken."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
