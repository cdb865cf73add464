"""The first screen: which mode wins, by how much, from which step on, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.comparison.page.findings import (
    STATES,
    agreement_sentence,
    break_even_interval,
    break_even_words,
    contestants,
    interval,
    ratio_interval,
    speed_sentence,
    step_ratio,
    verdict_words,
)
from staticflow.comparison.page.markup import Content, Html, tag
from staticflow.comparison.page.memory import memory_sentence, predicted_words
from staticflow.comparison.record import Comparison
from staticflow.measure.units import bytes_in_words, ratio_in_words, seconds_in_words

__all__ = ["summary"]

MODES = ["static", "eager"]


def summary(comparison: Comparison) -> list[Content]:
    """What a person reads in a minute."""
    model = comparison.model
    about = [f"{model.parameters:,} parameters", *model.inputs]
    about += [f"loss {model.loss}", f"optimiser {model.optimizer}"]
    return [
        tag("p", "staticflow · define-by-run and define-then-run", class_="eyebrow"),
        tag("h1", model.name),
        tag("p", " · ".join(about), class_="muted"),
        list(warnings(comparison)),
        tag("p", answer(comparison), class_="answer"),
        tag("div", list(cards(comparison)), class_="cards"),
    ]


def warnings(comparison: Comparison) -> Iterator[Html]:
    """What a reader has to know before any number."""
    agreement = comparison.agreement
    if comparison.refused is not None:
        yield callout("This model cannot be a graph", tag("pre", comparison.refused))
    if agreement is not None and verdict_words(agreement)[1] == "bad":
        yield callout(verdict_words(agreement)[0].capitalize(), tag("p", agreement.verdict))
    if comparison.unfinished is not None:
        yield callout("Not finished", tag("p", f"It was interrupted in: {comparison.unfinished}."))


def callout(title: str, content: Content) -> Html:
    """A box that is seen first."""
    return tag("div", tag("strong", title), content, class_="callout", role="note")


def answer(comparison: Comparison) -> str:
    """The finding in one or two sentences."""
    sentence = speed_sentence(comparison)
    at = comparison.break_even.get("cold")
    if comparison.refused is not None or at is None:
        return sentence
    if at.step is None:
        return f"{sentence} Compiling never pays in a fresh process."
    if at.step <= 1:
        return f"{sentence} It is ahead from the first step of a fresh process on."
    return f"{sentence} Compiling has paid after {at.step:,} steps of a fresh process."


def cards(comparison: Comparison) -> Iterator[Html]:
    """The four answers, each with its uncertainty."""
    yield step_card(comparison)
    yield break_even_card(comparison)
    word, colour = verdict_words(comparison.agreement)
    yield card("Do they agree?", word, tag("p", agreement_sentence(comparison.agreement)), colour)
    yield memory_card(comparison)


def card(question: str, value: str, content: Content, colour: str | None = None) -> Html:
    """A question, its answer in large letters, and what is to say about it."""
    large = tag("p", value, class_=f"value {colour}" if colour else "value")
    return tag("section", tag("h2", question), large, content, class_="card")


def step_card(comparison: Comparison) -> Html:
    """How long a step takes."""
    ratio = step_ratio(comparison)
    rows = contestants(comparison)
    most = max([s.median for _, _, s in rows], default=0)
    bars = [
        bar(name, colour, s.median / most if most else 0, seconds_in_words(s.median), interval(s))
        for name, colour, s in rows
        if colour != "peer"
    ]
    if ratio is None:
        value = bars and seconds_in_words(rows[0][2].median)
        return card("How long is a step?", value or "not measured", bars)
    winner = ratio.winner
    value = "no difference" if winner is None else ratio_in_words(max(ratio.value, 1 / ratio.value))
    note = tag("p", f"eager ÷ static: {ratio_interval(ratio)}, both intervals at their ends")
    return card(
        "Which is faster?" if winner is None else f"{winner.capitalize()} is faster by",
        value, [bars, note], winner,
    )  # fmt: skip


def bar(name: str, colour: str, share: float, value: str, hint: str) -> Html:
    """A horizontal bar with its name and value."""
    return tag(
        "div",
        tag("span", name, class_=colour),
        tag("span", tag("i", class_=f"fill-{colour}", style=f"width:{100 * share:.1f}%")),
        tag("span", value, title=hint),
        class_="row",
    )


def break_even_card(comparison: Comparison) -> Html:
    """From which step on the static mode is ahead."""
    lines = [
        tag("p", tag("strong", state), f" ({STATES[state]}): {break_even_words(at)}", tag("br"),
            tag("span", break_even_interval(at), class_="muted"))
        for state, at in comparison.break_even.items()
    ]  # fmt: skip
    first = comparison.break_even.get("cold")
    value = "no static mode" if comparison.refused is not None else break_even_words(first)
    return card("Static is ahead from", value, lines)


def memory_card(comparison: Comparison) -> Html:
    """How much memory a step needs."""
    names = [mode for mode in MODES if mode in comparison.memory]
    memory = {mode: comparison.memory[mode] for mode in names}
    most = max([m.measured for m in memory.values()], default=0)
    bars = [
        bar(mode, mode, m.measured / most if most else 0, bytes_in_words(m.measured),
            f"predicted: {predicted_words(m)}")
        for mode, m in memory.items()
    ]  # fmt: skip
    plan = memory.get("static")
    note = None
    if plan is not None and plan.predicted is not None:
        note = tag("p", f"the plan predicted {predicted_words(plan)} for static")
    value = bytes_in_words(next(iter(memory.values())).measured) if memory else "not measured"
    return card("Memory of a step", value, [bars, note] if bars else memory_sentence(memory))
