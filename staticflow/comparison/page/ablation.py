"""What each pass is worth: the compiled step without it."""

from __future__ import annotations

from staticflow.comparison.page.axes import shorten
from staticflow.comparison.page.chart import COLOURS, Canvas, Chart
from staticflow.comparison.page.markup import tag
from staticflow.comparison.page.tables import Cell, Column, table
from staticflow.comparison.record import Ablation
from staticflow.measure.units import bytes_in_words, digits, ratio_in_words, seconds_in_words

__all__ = ["ablation_chart"]


def matters(row: Ablation) -> bool:
    """Whether a pass changes the time by more than the interval of its measurement."""
    scale = row.ratio / row.step.median if row.step.median else 0
    return not row.step.low * scale <= 1 <= row.step.high * scale


def ablation_chart(rows: tuple[Ablation, ...]) -> Chart | None:
    """The time of a step without each pass over that with all, the worst first."""
    if not rows:
        return None
    order = sorted(rows, key=lambda r: -r.ratio)

    def draw(canvas: Canvas) -> None:
        (axes,) = canvas.axes()
        axes.axvline(1, color=COLOURS["ink"], linewidth=1)
        for place, row in enumerate(order):
            scale = row.ratio / row.step.median if row.step.median else 0
            colour = COLOURS["static" if matters(row) else "muted"]
            ends = [row.step.low * scale, row.step.high * scale]
            axes.plot(ends, [place] * 2, color=colour, linewidth=2)
            axes.plot(row.ratio, place, "o", color=colour, markersize=7)
            axes.annotate(
                ratio_in_words(row.ratio), (max(ends[1], row.ratio), place), (8, 0),
                textcoords="offset points", va="center",
            )  # fmt: skip
        names = [shorten(r.without, 14 if canvas.narrow else 30) for r in order]
        axes.set_yticks(range(len(order)), names)
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.tick_params(length=0)
        axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
        axes.margins(x=0.12)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.grid(axis="both", linewidth=0.8)
        axes.set_xlabel("time of a step, all passes = 1")

    sentence = ablation_sentence(order)
    height = 60 + 24 * len(order)
    return Chart(
        name="ablation",
        title=sentence,
        description="A dot for each pass: the time of a step without it over the time with all "
        f"passes, with its 95 % interval. {sentence}",
        draw=draw,
        heights=(height, height),
        numbers=table(
            "The step without one pass",
            (
                "Without", Column("Time", number=True), Column("Against all", number=True),
                Column("Peak memory", number=True), Column("Kernels", number=True), "Results",
            ),
            [ablation_row(r) for r in order],
            sort=True,
        ),
    )  # fmt: skip


def ablation_row(row: Ablation) -> list[Cell]:
    """The cells of one pass."""
    results = "the same" if row.agrees else tag("strong", "differ", class_="bad")
    return [
        Cell(row.without),
        Cell(seconds_in_words(row.step.median), row.step.median),
        Cell(ratio_in_words(row.ratio), row.ratio),
        Cell(bytes_in_words(row.peak), row.peak),
        Cell(f"{row.kernels:,}", row.kernels),
        Cell(results),
    ]


def ablation_sentence(order: list[Ablation]) -> str:
    """Which pass matters most, of an order with the worst first, and how many do."""
    count = sum(map(matters, order))
    if not count:
        return "Without any single pass a step takes as long, as far as this measurement can tell."
    worst = max(order, key=lambda r: max(r.ratio, 1 / r.ratio) if matters(r) and r.ratio else 0)
    effect = f"Without {worst.without} a step takes {digits(worst.ratio)} times as long"
    return f"{effect}; of {len(order)} passes, {count} change its time beyond the noise."
