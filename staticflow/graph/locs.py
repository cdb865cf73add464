"""Where in the user's own code a value was made.

A location is taken as (code object, instruction) and turned into a file and a line only when
somebody prints it. Frames of staticflow itself are skipped, and of what calls it on the way: NumPy,
einops, and Python's own modules, such as ``contextlib`` and ``copy``.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from types import CodeType, FrameType

import numpy as np

from staticflow.data_classes import dataclass

__all__ = [
    "EXAMPLES", "PACKAGE", "Loc", "format_locs", "here", "is_inside", "is_rewriting", "merge_locs",
    "outside", "stand_for", "using", "warn",
]  # fmt: skip

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of staticflow."""
EXAMPLES = os.path.join(PACKAGE, "tools", "examples") + os.sep
"""The folder of the models that staticflow brings along, whose lines are shown as a user's are."""
_SKIPPED = PACKAGE, os.path.dirname(np.__file__) + os.sep, "<frozen "
_EINOPS = f"-packages{os.sep}einops{os.sep}"
_PYTHONS = sysconfig.get_paths()["stdlib"] + os.sep
_OUTERMOST = 6
"""So much of staticflow's code is known of a line: a call goes through a few wrappers at most."""
_override = threading.local()
_known_files: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class Loc:
    """An instruction of a code object. ``within`` is the outermost code of staticflow that ran
    there, the innermost first: what the user called is found by it (`graph.called`)."""

    code: CodeType
    instruction: int
    within: tuple[CodeType, ...] = field(default=(), compare=False, repr=False)

    def __hash__(self) -> int:
        """The hash of line and instruction: that of the code goes over all its constants."""
        return hash((self.code.co_firstlineno, self.code.co_name, self.instruction))

    @staticmethod
    def at(file: str, line: int) -> Loc:
        """A line of a file whose code is not here, as that of a program that was saved."""
        code = compile("", file, "exec").replace(co_firstlineno=line, co_linetable=b"")
        return Loc(code, 0)

    @property
    def file(self) -> str:
        """The file, as Python was given it."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line number, from 1."""
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


Locs = tuple[Loc, ...]


def here() -> Locs:
    """The innermost frame outside staticflow, or what `using` or `stand_for` has set."""
    forced: Locs | None = getattr(_override, "locs", None)
    if forced is not None:
        return forced
    frame: FrameType | None = sys._getframe(1)
    within = []
    while frame is not None and is_inside(frame.f_code.co_filename):
        within.append(frame.f_code)
        frame = frame.f_back
    if frame is None:
        began: Locs = getattr(_override, "began", ())
        return began
    return (Loc(frame.f_code, frame.f_lasti, tuple(within[-_OUTERMOST:])),)


def stand_for(locs: Locs) -> None:
    """``locs`` is `here` for this thread of staticflow's own wherever no code of the user's runs:
    the line that the thread was begun at."""
    _override.began = locs


def outside(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's, from ``frame`` on; None if there is none."""
    while frame is not None and is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def is_inside(file: str) -> bool:
    """Whether code is staticflow's, NumPy's, einops' or Python's own, by its file. A model that
    staticflow brings along as an example is a user's."""
    known = _known_files.get(file)
    if known is None:
        # packages may be installed in a folder of Python's own
        is_pythons = file.startswith(_PYTHONS) and "-packages" not in file
        is_skipped = file.startswith(_SKIPPED) and not file.startswith(EXAMPLES)
        known = _known_files[file] = is_pythons or is_skipped or _EINOPS in file
    return known


@contextmanager
def using(locs: Locs) -> Iterator[None]:
    """What is made inside belongs to ``locs``: a rewrite keeps the lines of what it replaces."""
    before: Locs | None = getattr(_override, "locs", None)
    try:
        _override.locs = locs
        yield
    finally:
        _override.locs = before


def is_rewriting() -> bool:
    """Whether what is made now takes the place of something else, as in a pass."""
    return getattr(_override, "locs", None) is not None


def merge_locs(a: Locs, b: Locs) -> Locs:
    """The lines of two values that became one, each once, in order."""
    return a + tuple(loc for loc in b if loc not in a)


def format_locs(locs: Locs) -> str:
    """``file:line, file:line``, or ``<unknown line>``."""
    return ", ".join(dict.fromkeys(map(str, locs))) or "<unknown line>"


def warn(message: str) -> None:
    """Warn at the user's line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and is_inside(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
