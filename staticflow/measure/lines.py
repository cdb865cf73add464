"""The user's lines in few words: paths from the folder where one is, each file named once."""

from __future__ import annotations

import os
from pathlib import Path

from staticflow.graph.locs import Locs, format_locs

__all__ = ["lines_in_words", "lines_or_none"]


def lines_in_words(locs: Locs, most: int = 3) -> str:
    """Lines as ``net.py:12, 14, loss.py:3``: at most so many of them, then how many more there
    are. A file that lies elsewhere is told by its folder and its name.

    >>> from staticflow.graph.locs import Loc
    >>> code = compile("x = 1", "models/nets/small.py", "exec")
    >>> lines_in_words((Loc(code, 2), Loc(code, 2)))
    'models/nets/small.py:1'
    """
    lines = dict.fromkeys((_short_path(loc.file), loc.line) for loc in locs)
    words: list[str] = []
    last = ""
    for file, line in [*lines][:most]:
        words.append(str(line) if file == last else f"{file}:{line}")
        last = file
    if len(lines) > most:
        words.append(f"{len(lines) - most} more")
    return ", ".join(words) or format_locs(())


def lines_or_none(lines: str) -> str:
    """The lines of something in a model, or that no line of the model is where it comes from: a
    loss and an optimiser that are only named have none.

    >>> lines_or_none("net.py:3"), lines_or_none("<unknown line>")
    ('net.py:3', 'no line of the model')
    """
    return "no line of the model" if lines in ("", format_locs(())) else lines


def _short_path(path: str) -> str:
    file = Path(os.path.abspath(path))
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(Path(*file.parts[-2:]))
