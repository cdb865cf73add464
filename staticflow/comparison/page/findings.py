"""What a comparison found, in sentences: which mode is faster, from which step on, whether they
agree. A difference that is within the intervals of the measurement is called none."""

from __future__ import annotations

import math

from staticflow.comparison.record import Agreement, BreakEven, Comparison, Difference, Spread
from staticflow.data_classes import dataclass
from staticflow.measure.units import digits, ratio_in_words, seconds_in_words

__all__ = [
    "STATES",
    "Ratio",
    "agreement_sentence",
    "break_even_sentence",
    "break_even_words",
    "contestants",
    "difference_words",
    "interval",
    "speed_sentence",
    "step_ratio",
    "total",
    "verdict_words",
]

STATES = {"cold": "nothing on disk", "warm": "machine code on disk"}
"""How a process begins: what an earlier one left for it."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of an eager step over that of a static one, with the least and the most that it is
    where either median is anywhere in its interval."""

    value: float
    low: float
    high: float

    @property
    def winner(self) -> str | None:
        """The faster mode, or None where the intervals do not tell."""
        if self.low > 1:
            return "static"
        return "eager" if self.high < 1 else None


def step_ratio(comparison: Comparison) -> Ratio | None:
    """How many times as long an eager step takes, or None where static was not measured."""
    eager = comparison.eager.step
    static = None if comparison.static is None else comparison.static.step
    return None if eager is None or static is None else spread_ratio(eager, static)


def spread_ratio(upper: Spread, lower: Spread) -> Ratio:
    """The ratio of two medians, and its extremes."""
    return Ratio(
        divide(upper.median, lower.median),
        divide(upper.low, lower.high),
        divide(upper.high, lower.low),
    )


def divide(a: float, b: float) -> float:
    """A quotient that is NaN where there is none."""
    return a / b if b else math.nan


def speed_sentence(comparison: Comparison) -> str:
    """Which mode's step is faster, and by how much.

    A sentence without what it costs to get there.
    """
    ratio = step_ratio(comparison)
    if comparison.refused is not None:
        return "This model cannot be a graph; only the eager mode was measured."
    if ratio is None:
        return "It was not measured how long a step takes in both modes."
    if ratio.winner == "static":
        return f"A static step is {times(ratio.value)} as fast as an eager one."
    if ratio.winner == "eager":
        return f"An eager step is {times(1 / ratio.value)} as fast as a static one."
    return "A step takes as long in either mode, as far as this measurement can tell."


def times(ratio: float) -> str:
    """A ratio as a word before "as fast".

    >>> times(3.14159), times(1.04)
    ('3.14 times', '1.04 times')
    """
    return f"{digits(ratio)} times"


def break_even_words(at: BreakEven | None) -> str:
    """The step from which on static has paid, as short as in a table."""
    if at is None:
        return "not measured"
    if at.step is None:
        return "never"
    return "at once" if at.step <= 1 else f"step {at.step:,}"


def break_even_interval(at: BreakEven) -> str:
    """The 95 % interval of a break-even, as short as in a table; of an end that is missing, it
    says so."""
    if at.low is None and at.high is None:
        return "interval not known" if at.step is not None else ""
    low = "1" if at.low is None else f"{at.low:,}"
    return f"95 % interval {low} to {'never' if at.high is None else f'{at.high:,}'}"


def break_even_sentence(at: BreakEven | None, state: str) -> str:
    """From which step on static has taken less time in a process that begins so."""
    begin = f"With {STATES[state]}"
    if at is None:
        return f"{begin}, the break-even was not measured."
    if at.step is None:
        return f"{begin}, the static mode never makes up for what compiling costs."
    if at.step <= 1:
        return f"{begin}, the static mode is ahead from the first step on."
    interval = break_even_interval(at)
    return f"{begin}, the static mode is ahead from step {at.step:,} on ({interval})."


def interval(spread: Spread) -> str:
    """The 95 % interval of a median time.

    >>> interval(Spread(1e-3, 9e-4, 1.2e-3, 50))
    '900 µs to 1.20 ms'
    """
    return f"{seconds_in_words(spread.low)} to {seconds_in_words(spread.high)}"


def verdict_words(agreement: Agreement | None) -> tuple[str, str]:
    """Whether the modes agree, in two words, and the colour of the style sheet that says so."""
    if agreement is None:
        return "not compared", "muted"
    if all_nan(agreement):
        return "NaN in both", "bad"
    return ("they agree", "good") if agreement.agree else ("they differ", "bad")


def all_nan(agreement: Agreement) -> bool:
    """Whether any kind of number is a NaN in both modes."""
    kinds = (agreement.values, agreement.gradients, agreement.state, agreement.losses)
    return any({"static", "eager"} <= set(k.has_nan) for k in kinds)


def agreement_sentence(agreement: Agreement | None) -> str:
    """How far the modes are apart where they are furthest, against what is allowed."""
    if agreement is None:
        return "There was nothing to compare with."
    kinds = {
        "values": agreement.values,
        "gradients": agreement.gradients,
        "the updated state": agreement.state,
        "losses": agreement.losses,
    }
    name, worst = max(kinds.items(), key=lambda pair: share_of_limit(pair[1]))
    return (
        f"Static and eager are furthest apart in {name}: {difference_words(worst.static_eager)} of "
        f"the largest magnitude, where {difference_words(worst.limit)} is allowed."
    )


def share_of_limit(difference: Difference) -> float:
    """A difference as a share of what is allowed: a NaN is more than any, what was not compared
    less than any."""
    if difference.static_eager is None:
        return -1
    share = divide(difference.static_eager, difference.limit)
    return share if math.isfinite(share) else math.inf


def difference_words(value: float | None) -> str:
    """A relative difference.

    >>> [difference_words(d) for d in (0.0, 1.26e-7, float("nan"), None)]
    ['0', '1.3e-07', 'NaN', 'not compared']
    """
    if value is None:
        return "not compared"
    if value == 0:
        return "0"
    return "NaN" if math.isnan(value) else f"{value:.1e}"


def total(phases: dict[str, float]) -> float:
    """All seconds until the first result."""
    return sum(phases.values())


def contestants(comparison: Comparison) -> list[tuple[str, str, Spread]]:
    """Everyone whose steps were timed: a name, the colour of the style sheet, and the times."""
    modes = {"static": comparison.static, "eager": comparison.eager}
    own = [(m, m, c.step) for m, c in modes.items() if c is not None and c.step is not None]
    return own + [(p.name, "peer", p.step) for p in comparison.peers]


def ratio_interval(ratio: Ratio) -> str:
    """The least and the most that a ratio is.

    >>> ratio_interval(Ratio(3.0, 2.8, 3.2))
    '2.80 to 3.20 ×'
    """
    return f"{digits(ratio.low)} to {ratio_in_words(ratio.high)}"
