"""The memory of a step: its timeline in either mode, and the largest buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from staticflow.comparison.page.axes import bytes_axis, count_axis
from staticflow.comparison.page.chart import COLOURS, Canvas, Chart
from staticflow.comparison.page.markup import Html, tag
from staticflow.comparison.page.tables import Cell, Column, table
from staticflow.comparison.record import Buffer, Memory
from staticflow.measure.lines import lines_or_none
from staticflow.measure.units import bytes_in_words, ratio_in_words

__all__ = ["buffer_tables", "memory_chart", "memory_sentence", "predicted_words"]

MOST_POINTS = 600
"""How many points of a timeline are drawn: more than a screen has columns for it."""


def memory_sentence(memory: dict[str, Memory]) -> str:
    """Which mode needs less memory, and how much."""
    words = [f"{mode} {bytes_in_words(m.measured)}" for mode, m in memory.items()]
    if len(memory) < 2 or not memory["static"].measured:
        return f"The peak of a step: {', '.join(words)}." if words else "Memory was not measured."
    ratio = memory["eager"].measured / memory["static"].measured
    if ratio == 1:
        return f"A step needs as much memory in either mode: {words[0]}."
    more, fewer = ("eager", "static") if ratio > 1 else ("static", "eager")
    return (
        f"At its peak a step needs {bytes_in_words(memory[more].measured)} in the {more} mode, "
        f"{ratio_in_words(max(ratio, 1 / ratio))} the {bytes_in_words(memory[fewer].measured)} "
        f"of the {fewer} one."
    )


def envelope(values: Sequence[int], most: int) -> list[tuple[int, int]]:
    """A timeline as pairs of a place and a value, of each stretch of it the largest value, so that
    no peak is lost.

    >>> envelope([1, 9, 2, 3], 2)
    [(0, 9), (2, 3)]
    """
    width = math.ceil(len(values) / most)
    return [(i, max(values[i : i + width])) for i in range(0, len(values), width)]


def memory_chart(memory: dict[str, Memory]) -> Chart | None:
    """Bytes in use after each operation of a step, a panel for each mode, on one scale."""
    timelines = {m: memory[m] for m in ("eager", "static") if m in memory and memory[m].timeline}
    if not timelines:
        return None

    top = 1.15 * max(peak for m in timelines.values() for peak in peaks(m))

    def draw(canvas: Canvas) -> None:
        panels = canvas.axes(len(timelines), sharey=True)
        for axes, (mode, of) in zip(panels, timelines.items(), strict=True):
            draw_timeline(axes, mode, of)
            axes.set_ylim(0, top)
            bytes_axis(axes.yaxis, top)
            axes.set_xlabel("operations" if mode == "eager" else "steps of the program")

    sentence = memory_sentence(memory)
    return Chart(
        name="memory",
        title=sentence,
        description="Bytes in use after each operation of one step, a panel for each mode on the "
        "same scale. Dashed lines are the peak that was measured, which may lie inside of an "
        f"operation, and the one that was predicted. {sentence}",
        draw=draw,
        heights=(280, 210 * len(timelines)),
        numbers=table(
            "Peaks of memory",
            ("Mode", Column("Measured", number=True), Column("Predicted", number=True)),
            [(mode, bytes_in_words(m.measured), predicted_words(m)) for mode, m in memory.items()],
        ),
    )


def peaks(memory: Memory) -> list[int]:
    """All heights that the panel of a mode has to show."""
    return [memory.measured, memory.predicted or 0, *memory.timeline]


def predicted_words(memory: Memory) -> str:
    """The peak that the plan has, if there is one."""
    return "–" if memory.predicted is None else bytes_in_words(memory.predicted)


def draw_timeline(axes: Any, mode: str, memory: Memory) -> None:
    """Draw the bytes in use as an area, and what was predicted as a line."""
    places, values = zip(*envelope(memory.timeline, MOST_POINTS), strict=True)
    places, values = (*places, len(memory.timeline)), (*values, values[-1])
    axes.fill_between(places, values, step="post", color=COLOURS[mode], alpha=0.25, linewidth=0)
    axes.step(places, values, where="post", color=COLOURS[mode], linewidth=1.6)
    lines = {"peak": memory.measured}
    if memory.predicted is not None:
        both = abs(memory.predicted - memory.measured) <= 0.01 * memory.measured
        lines = {"peak, as predicted": memory.measured} if both else lines
        lines |= {} if both else {"predicted": memory.predicted}
    for words, height in lines.items():
        axes.axhline(height, color=COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{words} {bytes_in_words(height)}", (1, height), (-2, 3), ha="right",
            xycoords=("axes fraction", "data"), textcoords="offset points",
        )  # fmt: skip
    axes.set_title(mode)
    axes.margins(x=0)
    axes.grid(axis="y", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    count_axis(axes.xaxis)


def buffer_tables(memory: dict[str, Memory]) -> list[Html]:
    """The largest buffers of each mode, with a bar that says when in the step each is live."""
    return [
        buffer_table(f"Largest buffers, {mode}", memory[mode])
        for mode in ("eager", "static")
        if mode in memory and memory[mode].largest
    ]


def buffer_table(caption: str, memory: Memory) -> Html:
    """The largest buffers of one mode."""
    length = max([len(memory.timeline), *(b.last + 1 for b in memory.largest)])
    columns = (
        "Buffer", "Type", Column("Size", number=True), Column("Live", number=True),
        "During the step", "Source",
    )  # fmt: skip
    return table(caption, columns, [buffer_row(b, length) for b in memory.largest])


def buffer_row(buffer: Buffer, length: int) -> list[Cell | str | Html]:
    """The cells of one buffer, in a step of so many operations."""
    left, width = buffer.first / length, (buffer.last + 1 - buffer.first) / length
    bar = tag("i", style=f"left:{100 * left:.1f}%;width:max(2px,{100 * width:.1f}%)")
    return [
        buffer.label,
        tag("code", buffer.type),
        bytes_in_words(buffer.bytes),
        f"{buffer.first:,} to {buffer.last:,}",
        tag("span", bar, class_="live", aria_hidden="true"),
        tag("code", lines_or_none(buffer.lines)),
    ]
