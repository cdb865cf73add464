"""Text of bounded width: tables, lists that are wrapped, and words that are cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["WIDTH", "cut", "fold_lines", "table", "wrap_items"]

WIDTH = 100
"""Columns of a screen."""


def cut(text: str, width: int) -> str:
    """``text`` if it fits into so many columns, or its beginning and an ellipsis.

    >>> cut("64*((16*x_0 + 63)//64)", 12)
    '64*((16*x_0…'
    """
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def fold_lines(text: str, width: int = WIDTH) -> list[str]:
    """The lines of ``text``, those that are too long folded between words, what follows set in.

    >>> fold_lines("  %2: f32[N] = add(%0, %1)", 20)
    ['  %2: f32[N] =', '          add(%0,', '          %1)']
    """
    lines: list[str] = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 8)
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
            drop_whitespace=True, replace_whitespace=False,
        ) or [""]  # fmt: skip
    return lines


def table(rows: Sequence[Sequence[str]], align: str, width: int = WIDTH) -> list[str]:
    """Lines of the columns of ``rows``, each as wide as its widest entry, at most ``width`` in all:
    what is too long is cut in the last column. ``align`` has ``<`` or ``>`` for each column.

    >>> table([["kernel", "runs", "from"], ["map0", "12", "net.py:3"]], "<><")
    ['kernel  runs  from', 'map0      12  net.py:3']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(align))]
    lines = []
    for row in rows:
        cells = (f"{cell:{a}{w}}" for cell, a, w in zip(row, align, widths, strict=True))
        lines.append(cut("  ".join(cells).rstrip(), width))
    return lines


def wrap_items(title: str, items: Iterable[str], most: int = 3, width: int = WIDTH) -> list[str]:
    """``items``, separated by commas, behind a ``title`` of 12 columns, on at most so many lines;
    how many do not fit is said at the end.

    >>> wrap_items("inputs", ["x: f32[N, 3]", "y: i64[N]"])
    ['inputs      x: f32[N, 3], y: i64[N]']
    """
    given = [cut(item, width - 30) for item in items]
    lines = [f"{title:12}"]
    for done, item in enumerate(given):
        is_last = done + 1 == len(given)
        room = width - (0 if is_last or len(lines) < most else 12)  # for how many more there are
        if len(lines[-1]) + len(item) + 1 > room and lines[-1].strip() not in ("", title):
            if len(lines) == most:
                lines[-1] += f"{len(given) - done} more"
                return lines
            lines[-1] = lines[-1].rstrip()
            lines.append(" " * 12)
        lines[-1] += item + ("" if is_last else ", ")
    return [line.rstrip() for line in lines]
