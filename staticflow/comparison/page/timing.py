"""The charts of time: cumulative curves, phases, steps of all contestants, and losses."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

from staticflow.comparison.page.axes import (
    count_axis,
    name_lines,
    seconds_axis,
    shorten,
    spread_bars,
)
from staticflow.comparison.page.chart import COLOURS, Canvas, Chart, legend
from staticflow.comparison.page.findings import (
    STATES,
    break_even_sentence,
    break_even_words,
    contestants,
    interval,
    speed_sentence,
    total,
)
from staticflow.comparison.page.tables import Column, table
from staticflow.comparison.record import Comparison, Curve
from staticflow.measure.units import seconds_in_words

__all__ = ["cost_chart", "curve_chart", "loss_chart", "step_chart"]

MOST_POINTS = 2000
"""Points of a line that are drawn, evenly chosen: more than a screen has columns for it."""

PHASES = {
    "import": "start and import",
    "model": "make the model",
    "trace": "trace the graph",
    "optimise": "optimise it",
    "generate": "generate code",
    "load": "load code",
    "first_step": "first step",
    "warm_up": "warming up",
}


def curve_chart(comparison: Comparison) -> Chart | None:
    """Seconds since the start of a process against steps, both modes, with the crossing."""
    curves = {s: c for s, c in comparison.curve.items() if any(n > 0 for n in c.steps)}
    if not curves:
        return None

    def draw(canvas: Canvas) -> None:
        panels = canvas.axes(len(curves), sharey=not canvas.narrow)
        for axes, (state, curve) in zip(panels, curves.items(), strict=True):
            draw_curve(axes, comparison, state, curve)

    rows = [
        (f"{state}: {n:,}", seconds_in_words(eager), seconds_in_words(static))
        for state, c in curves.items()
        for n, eager, static in thin(list(zip(c.steps, c.eager, c.static, strict=True)), 12)
    ]
    sentences = [break_even_sentence(comparison.break_even.get(s), s) for s in curves]
    return Chart(
        name="curve",
        title=" ".join(sentences),
        description="Seconds since the start of the process against the number of steps, a line "
        "for each mode, on logarithmic axes. " + " ".join(sentences),
        draw=draw,
        heights=(320, 260 * len(curves)),
        numbers=table("Seconds after so many steps", ("Steps", "Eager", "Static"), rows),
    )


def draw_curve(axes: Any, comparison: Comparison, state: str, curve: Curve) -> None:
    """Draw both lines of a kind of process, and where they cross."""
    points = [p for p in zip(curve.steps, curve.eager, curve.static, strict=True) if p[0] > 0]
    steps = [p[0] for p in points]
    axes.set(xscale="log", yscale="log", xlabel="steps", title=f"{state}: {STATES[state]}")
    for place, mode in ((1, "eager"), (2, "static")):
        axes.plot(steps, [p[place] for p in points], color=COLOURS[mode], linewidth=2.2)
    name_lines(axes, steps[-1], {"eager": points[-1][1], "static": points[-1][2]})
    at = comparison.break_even.get(state)
    if at is not None and at.step is not None and steps[0] < at.step <= steps[-1]:
        if at.low is not None:
            high = steps[-1] if at.high is None else min(at.high, steps[-1])
            axes.axvspan(max(at.low, steps[0]), high, color=COLOURS["muted"], alpha=0.2, lw=0)
        axes.axvline(at.step, color=COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            break_even_words(at), (at.step, 1), (-5, -4), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="right", va="top", weight="bold",
        )  # fmt: skip
    axes.grid(linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(steps[0], steps[-1] * (steps[-1] / steps[0]) ** 0.2)
    count_axis(axes.xaxis)
    seconds_axis(axes.yaxis)


def thin(rows: list[Any], most: int) -> list[Any]:
    """Choose so many of the rows at most, evenly, with the first and the last."""
    if len(rows) <= most:
        return rows
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def cost_chart(comparison: Comparison) -> Chart | None:
    """What passes until the first result, or until the steps are steady, by phase."""
    modes = {"eager": comparison.eager, "static": comparison.static}
    known_modes = {mode: costs for mode, costs in modes.items() if costs is not None}
    by_state = {"cold": attrgetter("cold"), "warm": attrgetter("warm")}
    bars: list[tuple[str, str, dict[str, float]]] = [
        (mode, state, get(costs))
        for state, get in by_state.items()
        for mode, costs in known_modes.items()
        if get(costs)
    ]
    if not bars:
        return None
    known = [p for p in PHASES if any(p in phases for _, _, phases in bars)]
    other = sorted({p for _, _, phases in bars for p in phases} - PHASES.keys())
    names = known + other

    def draw(canvas: Canvas) -> None:
        (axes,) = canvas.axes()
        for place, (_, _, phases) in enumerate(bars):
            left = 0.0
            for phase in names:
                colour = COLOURS[phase if phase in PHASES else "other"]
                width = phases.get(phase, 0.0)
                axes.barh(place, width, left=left, height=0.62, color=colour,
                          edgecolor=COLOURS["paper"], linewidth=1)  # fmt: skip
                left += width
            axes.annotate(seconds_in_words(left), (left, place), (5, 0),
                          textcoords="offset points", va="center", weight="bold")  # fmt: skip
        axes.set_yticks(range(len(bars)), [f"{mode}, {state}" for mode, state, _ in bars])
        axes.set_ylim(len(bars) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=COLOURS["ink"])
        axes.margins(x=0.16)
        axes.set_xlim(left=0)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.grid(axis="x", linewidth=0.8)
        seconds_axis(axes.xaxis, 4 if canvas.narrow else 7)

    ends = ", ".join(f"{m} {s} {seconds_in_words(total(p))}" for m, s, p in bars)
    rows = [
        (PHASES.get(n, n), *(seconds_in_words(p[n]) if n in p else "–" for _, _, p in bars))
        for n in names
    ] + [("all", *(seconds_in_words(total(p)) for _, _, p in bars))]
    return Chart(
        name="costs",
        title=f"Before steps are steady: {ends}.",
        description="A bar for each mode, in a process with nothing on disk (cold) and in one with "
        f"machine code on disk (warm), made of the phases. In all: {ends}.",
        draw=draw,
        heights=(60 + 44 * len(bars), 60 + 40 * len(bars)),
        numbers=table("Seconds by phase", ("Phase", *(f"{m}, {s}" for m, s, _ in bars)), rows),
        legend=legend((n if n in PHASES else "other", PHASES.get(n, n)) for n in names),
    )


def step_chart(comparison: Comparison) -> Chart | None:
    """The time of a step of everyone who ran."""
    rows = contestants(comparison)
    if not rows:
        return None

    def draw(canvas: Canvas) -> None:
        spread_bars(canvas.axes()[0], rows, 22 if canvas.narrow else 28)

    return Chart(
        name="step",
        title=speed_sentence(comparison),
        description="Median time of a step, with its 95 % interval as a thin line: "
        + ", ".join(f"{name} {seconds_in_words(s.median)}" for name, _, s in rows)
        + ".",
        draw=draw,
        heights=(40 + 34 * len(rows), 40 + 32 * len(rows)),
        numbers=table(
            "A step",
            ("Who", Column("Median", number=True), "95 % interval", Column("Samples", number=True)),
            [(n, seconds_in_words(s.median), interval(s), f"{s.count:,}") for n, _, s in rows],
        ),
    )


def loss_chart(comparison: Comparison) -> Chart | None:
    """The loss at each step in both modes."""
    losses = {"eager": comparison.eager.losses}
    if comparison.static is not None:
        losses["static"] = comparison.static.losses
    finite = {m: [v for v in ls if math.isfinite(v)] for m, ls in losses.items()}
    if not any(len(values) > 1 for values in finite.values()):
        return None

    def draw(canvas: Canvas) -> None:
        (axes,) = canvas.axes()
        for mode, style, width in (("eager", "-", 4.0), ("static", (0, (3, 2)), 2.0)):
            if mode in losses:
                places = thin(list(range(len(losses[mode]))), MOST_POINTS)
                axes.plot([i + 1 for i in places], [losses[mode][i] for i in places],
                          color=COLOURS[mode], linewidth=width, linestyle=style)  # fmt: skip
        axes.set(xlabel="step", ylabel="loss")
        axes.grid(axis="y", linewidth=0.8)
        axes.spines["left"].set_visible(False)
        count_axis(axes.xaxis)
        axes.tick_params(length=0)

    ends = ", ".join(f"{m} from {ls[0]:.4g} to {ls[-1]:.4g}" for m, ls in losses.items() if ls)
    length = max(map(len, losses.values()))
    of_points = f"{MOST_POINTS:,} of the steps are drawn. " if length > MOST_POINTS else ""
    rows = [
        (f"{i + 1:,}", *(f"{ls[i]:.7g}" if i < len(ls) else "–" for ls in losses.values()))
        for i in thin(list(range(length)), 12)
    ]
    return Chart(
        name="loss",
        title=f"The loss over {length:,} steps: {ends}.",
        description=f"The loss at each step: {ends}. {of_points}The dashed line of "
        "static lies on that of eager where both compute the same.",
        draw=draw,
        heights=(220, 200),
        numbers=table("Losses", ("Step", *(m.capitalize() for m in losses)), rows),
        legend=legend((m, shorten(m, 20)) for m in losses),
    )
