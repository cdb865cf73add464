"""Messages of a comparison while it runs: a bar on a terminal, or plain lines."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

__all__ = ["Progress", "TextProgress", "progress_for"]


EVERY = 5.0
"""Seconds after which it is told how far a long stage is."""


class Progress:
    """Progress that is told to nobody."""

    def stage(self, name: str, total: int = 0) -> None:
        """Begin a stage of ``total`` parts, 0 if they are not counted."""

    def advance(self, count: int = 1) -> None:
        """Note that so many more parts of the stage are done."""

    def close(self) -> None:
        """Take away what would stand in the way of the result."""


class TextProgress(Progress):
    """A line of text for each stage, and more for a long one."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._name, self._done, self._total, self._told = "", 0, 0, 0.0

    def stage(self, name: str, total: int = 0) -> None:
        """Print the name of the stage."""
        self._name, self._done, self._total, self._told = name, 0, total, time.monotonic()
        print(f"compare: {name} ...", file=self._file, flush=True)

    def advance(self, count: int = 1) -> None:
        """Print how far it is, every few seconds."""
        self._done += count
        if self._done < self._total and time.monotonic() - self._told > EVERY:
            self._told = time.monotonic()
            told = f"compare: {self._name}, {self._done:,} of {self._total:,}"
            print(told, file=self._file, flush=True)


class BarProgress(Progress):
    """A bar that tqdm draws, one for all stages."""

    def __init__(self, tqdm: Any, file: TextIO) -> None:
        self._bar = tqdm(total=1, leave=False, file=file, bar_format="{desc} {bar} {n}/{total}")

    def stage(self, name: str, total: int = 0) -> None:
        """Begin the bar anew."""
        self._bar.reset(total=max(total, 1))
        self._bar.set_description_str(name)

    def advance(self, count: int = 1) -> None:
        """Move the bar."""
        self._bar.update(count)

    def close(self) -> None:
        """Clear the line."""
        self._bar.close()


def progress_for(file: TextIO | None = None) -> Progress:
    """A bar where there is a terminal and tqdm is installed, else lines of text; to nobody where
    the process has no standard error."""
    there: TextIO | None = sys.stderr if file is None else file
    if there is None:
        return Progress()
    if there.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            return TextProgress(there)
        return BarProgress(tqdm, there)
    return TextProgress(there)
