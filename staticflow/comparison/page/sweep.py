"""The map of which mode wins where, and the model that explains it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from staticflow.comparison.page.axes import shorten
from staticflow.comparison.page.chart import COLOURS, Canvas, Chart, legend
from staticflow.comparison.page.findings import divide
from staticflow.comparison.page.markup import Html, tag
from staticflow.comparison.page.tables import Cell, numbers, table
from staticflow.comparison.record import Sweep, SweepPoint, WinModel
from staticflow.measure.units import digits, flops_in_words, ratio_in_words, seconds_in_words

__all__ = ["fit_section", "map_chart", "predict"]

Panels = dict[tuple[tuple[str, int], ...], list[SweepPoint]]
"""Points by the sizes that all of a panel have."""

MOST_PANELS = 6
STRONGEST, FULL = 0.45, 8.0
"""The most of a colour that a cell has, so that its number can be read, and the ratio that has
it."""


def ratio_of(point: SweepPoint) -> float:
    """How many times as long the eager step takes."""
    return divide(point.eager, point.static)


def map_chart(sweep: Sweep) -> Chart | None:
    """A cell for each point of the sweep. The two sizes with the most values are the axes; of the
    others, every setting has a panel of its own."""
    if not sweep.points:
        return None
    axes_names, panels = arrange(sweep.points)
    shown = dict(list(panels.items())[:MOST_PANELS])

    def draw(canvas: Canvas) -> None:
        columns = 1 if canvas.narrow else min(len(shown), 2)
        grid = canvas.figure.subplots(-(-len(shown) // columns), columns, squeeze=False)
        for axes in grid.flat[len(shown) :]:
            axes.set_visible(False)
        for axes, (others, points) in zip(grid.flat, shown.items(), strict=False):
            draw_map(axes, points, axes_names, sweep.fit)
            axes.set_title(", ".join(f"{name} {value:,}" for name, value in others))

    sentence = map_sentence(sweep)
    left = len(panels) - len(shown)
    more = f" Of {len(panels)} panels, {left} are only in the table." if left else ""
    rows = max(len({p.sizes.get(axes_names[1]) for p in of}) for of in shown.values())
    panel = 90 + 42 * rows
    return Chart(
        name="map",
        title=sentence + more,
        description="A cell for each setting of the sizes, with the time of an eager step over "
        f"that of a static one; above 1 static is faster. {sentence}",
        draw=draw,
        heights=(panel * (-(-len(shown) // 2)), panel * len(shown)),
        numbers=sweep_table(sweep),
        legend=legend((("static", "static is faster"), ("eager", "eager is faster"))),
    )


def arrange(points: Sequence[SweepPoint]) -> tuple[tuple[str, str], Panels]:
    """The names of the two sizes that vary most, and the points by all other sizes that vary."""
    names = list(dict.fromkeys(name for p in points for name in p.sizes))
    values = {name: {p.sizes.get(name) for p in points} for name in names}
    varying = sorted((n for n in names if len(values[n]) > 1), key=lambda n: -len(values[n]))
    x = varying[0] if varying else names[0] if names else ""
    y = varying[1] if len(varying) > 1 else ""
    panels: Panels = {}
    for point in points:
        others = tuple((n, point.sizes[n]) for n in varying if n not in (x, y) and n in point.sizes)
        panels.setdefault(others, []).append(point)
    return (x, y), panels


def draw_map(axes: Any, points: list[SweepPoint], names: tuple[str, str], fit: Any) -> None:
    """Draw the cells of one panel: their colour says who wins, a mark that the fit is wrong."""
    from matplotlib.patches import Rectangle

    x_name, y_name = names
    xs = sorted({p.sizes.get(x_name, 0) for p in points})
    ys = sorted({p.sizes.get(y_name, 0) for p in points})
    for point in points:
        x, y = xs.index(point.sizes.get(x_name, 0)), ys.index(point.sizes.get(y_name, 0))
        ratio = ratio_of(point)
        colour, strength = shade(ratio)
        cell = Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=COLOURS[colour], lw=0)
        cell.set_alpha(strength)
        axes.add_patch(cell)
        mark = "" if fit is None or predict(fit, point) == winner(ratio) else " ?"
        axes.text(x, y, digits(ratio) + mark, ha="center", va="center")
    axes.set_xticks(range(len(xs)), [f"{v:,}" for v in xs])
    axes.set_yticks(range(len(ys)), [f"{v:,}" for v in ys] if y_name else [""])
    axes.set(xlim=(-0.5, len(xs) - 0.5), ylim=(-0.5, len(ys) - 0.5))
    axes.set(xlabel=shorten(x_name, 24), ylabel=shorten(y_name, 24))
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)


def shade(ratio: float) -> tuple[str, float]:
    """The colour of a ratio and how much of it: the more, the further from 1, on a logarithmic
    scale."""
    if not ratio > 0 or not math.isfinite(ratio):
        return "muted", 0.2
    share = min(abs(math.log(ratio)) / math.log(FULL), 1)
    return winner(ratio), 0.08 + (STRONGEST - 0.08) * share


def winner(ratio: float) -> str:
    """The mode that is faster at a ratio."""
    return "static" if ratio >= 1 else "eager"


def predict(fit: WinModel, point: SweepPoint) -> str:
    """The mode that the fit takes for the faster one at a point."""
    return winner(divide(step_seconds(fit.eager, point), step_seconds(fit.static, point)))


def step_seconds(terms: dict[str, float], point: SweepPoint) -> float:
    """The time of a step by a fit of one mode."""
    counts = {"per_step": 1, "per_operation": point.operations, "per_flop": point.flops or 0}
    return sum(terms.get(name, 0.0) * count for name, count in counts.items())


def map_sentence(sweep: Sweep) -> str:
    """How often each mode wins, and how far the ratios reach."""
    ratios = [ratio_of(p) for p in sweep.points]
    wins = sum(r > 1 for r in ratios)
    return (
        f"Static is faster at {wins} of {len(ratios)} settings; an eager step takes "
        f"{digits(min(ratios))} to {ratio_in_words(max(ratios))} the time of a static one."
        + compilations_sentence(sweep.compilations)
    )


def compilations_sentence(count: int | None) -> str:
    """How many programs served all settings, where that was counted."""
    if count is None:
        return ""
    return f" {count:,} compiled program{'s' if count != 1 else ''} served all settings."


def sweep_table(sweep: Sweep) -> Html:
    """All points of a sweep, with what the fit says of them."""
    names = list(dict.fromkeys(name for p in sweep.points for name in p.sizes))
    heads = numbers([*names, "Eager", "Static", "Ratio", "Operations", "FLOPs"])
    heads += ["By the fit"] if sweep.fit else []
    rows = [[*sweep_row(p, names), *fit_cell(sweep.fit, p)] for p in sweep.points]
    return table("All settings of the sweep", heads, rows, sort=True, tall=True)


def sweep_row(point: SweepPoint, names: list[str]) -> Iterator[Cell]:
    """The cells of one point."""
    for name in names:
        size = point.sizes.get(name)
        yield Cell("–" if size is None else f"{size:,}", size)
    yield Cell(seconds_in_words(point.eager), point.eager)
    yield Cell(seconds_in_words(point.static), point.static)
    yield Cell(ratio_in_words(ratio_of(point)), ratio_of(point))
    yield Cell(f"{point.operations:,}", point.operations)
    yield Cell("–" if point.flops is None else flops_in_words(point.flops), point.flops)


def fit_cell(fit: WinModel | None, point: SweepPoint) -> list[Cell]:
    """What the fit says of a point, if there is a fit."""
    if fit is None:
        return []
    said = predict(fit, point)
    return [Cell(said if said == winner(ratio_of(point)) else f"{said} (not so)")]


def fit_section(sweep: Sweep) -> list[Html]:
    """The model of a step's time, with its coefficients and its error."""
    fit = sweep.fit
    if fit is None:
        return [tag("p", "No model was fitted to these times.")]
    right = sum(predict(fit, p) == winner(ratio_of(p)) for p in sweep.points)
    words = (
        "A step is taken to cost something by itself, something for each operation and something "
        f"for each floating-point operation. So fitted, the model names the faster mode at {right} "
        f"of {len(sweep.points)} settings; a question mark in the map is where it does not."
    )
    rows = [
        (
            mode,
            *(seconds_in_words(terms.get(n, 0.0)) for n in ("per_step", "per_operation")),
            seconds_in_words(terms.get("per_flop", 0.0) * 1e9),
            f"{100 * fit.error[mode]:.1f} %" if mode in fit.error else "–",
        )
        for mode, terms in (("eager", fit.eager), ("static", fit.static))
    ]
    heads = ("A step", "An operation", "10⁹ FLOPs", "Median error")
    return [tag("p", words), table("What the model fitted", ["Mode", *numbers(heads)], rows)]
