"""What charts share: the marks of axes in words, lines named at their ends, bars with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from staticflow.comparison.page.chart import COLOURS
from staticflow.comparison.record import Spread
from staticflow.measure.units import bytes_in_words, seconds_in_words

__all__ = ["bytes_axis", "count_axis", "name_lines", "seconds_axis", "shorten", "spread_bars"]


def shorten(text: str, length: int) -> str:
    """A text of that many letters at most, the last of which says that there were more.

    >>> shorten("convolution", 6), shorten("sum", 6)
    ('convo…', 'sum')
    """
    return text if len(text) <= length else text[: length - 1] + "…"


def trim(words: str) -> str:
    """A quantity without zeros that say nothing.

    >>> trim("1.50 ms"), trim("100 ms"), trim("2.00 s")
    ('1.5 ms', '100 ms', '2 s')
    """
    number, _, unit = words.partition(" ")
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{number} {unit}"


def marks(axis: Any, words: Callable[[float], str], most: int) -> None:
    """Write the marks of an axis in words, as many as have room. Its data must be drawn."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    if axis.get_scale() == "log" and high >= 10 * low:
        subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=most))
    else:  # of powers of ten there may be none
        axis.set_major_locator(MaxNLocator(most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="both", length=0)


def seconds_axis(axis: Any, most: int = 6) -> None:
    """Mark an axis of seconds."""
    marks(axis, lambda value: trim(seconds_in_words(value)), most)


def bytes_axis(axis: Any, top: float, most: int = 5) -> None:
    """Mark an axis from 0 to so many bytes, at multiples of a power of two."""
    from matplotlib.ticker import MultipleLocator

    marks(axis, lambda value: trim(bytes_in_words(value)), most)
    axis.set_major_locator(MultipleLocator(2 ** math.ceil(math.log2(max(top, 1) / most))))


def count_axis(axis: Any, most: int = 6) -> None:
    """Mark an axis of whole numbers."""
    from matplotlib.ticker import MaxNLocator

    marks(axis, lambda value: f"{value:,.0f}", most)
    if axis.get_scale() != "log":
        axis.set_major_locator(MaxNLocator(most, integer=True))


def name_lines(axes: Any, x: float, ends: dict[str, float]) -> None:
    """Write the names of lines, which are those of their colours, behind their last points, the
    higher one above."""
    order = sorted(ends, key=lambda name: ends[name])
    for place, name in enumerate(order):
        axes.annotate(
            name, (x, ends[name]), (5, (place - (len(order) - 1) / 2) * 10),
            textcoords="offset points", va="center", color=COLOURS[name], weight="bold",
            annotation_clip=False,
        )  # fmt: skip


def spread_bars(axes: Any, rows: Sequence[tuple[str, str, Spread]], most: int) -> None:
    """Draw horizontal bars of medians from the top, each with its interval and its value; a row is
    a name, a colour and a spread."""
    for place, (_, colour, spread) in enumerate(rows):
        axes.barh(place, spread.median, height=0.62, color=COLOURS[colour])
        axes.plot([spread.low, spread.high], [place] * 2, color=COLOURS["ink"], linewidth=1.5)
        axes.annotate(
            seconds_in_words(spread.median), (max(spread.high, spread.median), place), (6, 0),
            textcoords="offset points", va="center",
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [shorten(name, most) for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=COLOURS["ink"])
    axes.margins(x=0.16)
    axes.set_xlim(left=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.grid(axis="x", linewidth=0.8)
    seconds_axis(axes.xaxis, 5)
