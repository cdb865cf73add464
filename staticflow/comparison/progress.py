"""What is told of a comparison while it runs."""

from __future__ import annotations

import sys
from typing import Any, TextIO

__all__ = ["Progress", "TextProgress", "progress_for"]


class Progress:
    """Progress that is told to nobody."""

    def stage(self, name: str, total: int = 0) -> None:
        """Begin a stage of ``total`` parts, 0 if they are not counted."""

    def advance(self, count: int = 1) -> None:
        """Note that so many more parts of the stage are done."""

    def close(self) -> None:
        """Take away what would stand in the way of the result."""


class TextProgress(Progress):
    """A line of text for each stage."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def stage(self, name: str, total: int = 0) -> None:
        """Print the name of the stage."""
        print(f"compare: {name} ...", file=self._file, flush=True)


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
    """A bar where there is a terminal and tqdm is installed, else lines of text."""
    there = sys.stderr if file is None else file
    if there.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            return TextProgress(there)
        return BarProgress(tqdm, there)
    return TextProgress(there)
