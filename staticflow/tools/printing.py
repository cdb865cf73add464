"""Printing to whoever may have stopped reading, as ``head`` does."""

from __future__ import annotations

import os
import sys

__all__ = ["leave_output", "print_result"]


def print_result(text: str) -> OSError | None:
    """Print a result beside which there is more to do, such as files to write. Gives the error if
    it cannot be printed, as where the reader of a pipe went away or a disk is full."""
    try:
        print(text, flush=True)
    except OSError as error:
        leave_output()
        return error
    return None


def leave_output() -> None:
    """Flush the standard output, or send what is left in it nowhere if that fails, so that the end
    of the process does not fail by it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
