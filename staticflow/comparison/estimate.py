"""Break-even steps with their intervals, by the bootstrap, and the curves that cross there.

B. Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 7, 1979: what a
number would have been with other samples is estimated by drawing, with replacement, from these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.comparison.record import BreakEven, Curve
from staticflow.data_classes import dataclass

__all__ = ["StartUp", "break_even", "curve", "even_samples"]

DRAWS = 1000
MOST = 500
"""So many samples are drawn from at most, evenly chosen: the interval hardly depends on more."""

Array = np.ndarray[Any, Any]


def even_samples(samples: Sequence[float]) -> Sequence[float]:
    """At most `MOST` of the samples, evenly chosen."""
    if len(samples) <= MOST:
        return samples
    return [samples[i] for i in np.linspace(0, len(samples) - 1, MOST).astype(int)]


def _medians(samples: Sequence[float], seed: int = 0) -> Array:
    """The medians of `DRAWS` draws from the samples."""
    given = np.asarray(even_samples(samples), np.float64)
    random = np.random.default_rng(seed)
    return np.median(given[random.integers(0, len(given), (DRAWS, len(given)))], axis=1)


@dataclass(frozen=True, slots=True)
class StartUp:
    """What a mode costs: ``totals`` are the seconds up to the end of the first step and of the
    warm-up, of each fresh process, ``steps`` those of single steady steps."""

    totals: tuple[float, ...]
    steps: tuple[float, ...]


def break_even(eager: StartUp, static: StartUp) -> BreakEven:
    """The step from which on the static mode has taken less time, and its 95 % interval.

    >>> break_even(StartUp((1.0,), (0.3,)), StartUp((2.5,), (0.1,)))
    BreakEven(step=9, low=9, high=9)
    """
    late = np.median(static.totals) - np.median(eager.totals)
    gain = np.median(eager.steps) - np.median(static.steps)
    lates = _medians(static.totals, 1) - _medians(eager.totals, 2)
    gains = _medians(eager.steps, 3) - _medians(static.steps, 4)
    crossings = sorted(_crossing(*both) for both in zip(lates, gains, strict=True))
    low, high = crossings[int(0.025 * DRAWS)], crossings[int(0.975 * DRAWS) - 1]
    return BreakEven(*(_as_step(x) for x in (_crossing(late, gain), low, high)))


def _crossing(late: float, gain: float) -> float:
    """The first step after which whoever is ``late`` and gains so much a step is ahead for good."""
    if gain <= 0:
        return math.inf
    return max(1.0, 1 + math.ceil(late / gain - 1e-9))


def _as_step(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def curve(eager: StartUp, static: StartUp, crossing: int | None) -> Curve:
    """The seconds that both modes have taken after so many steps, evenly on a logarithmic scale to
    beyond the ``crossing``."""
    last = 10 ** math.ceil(math.log10(max(100, 3 * (crossing or 1))))
    steps = np.unique(np.geomspace(1, last, 60).round().astype(int))

    def seconds(mode: StartUp) -> tuple[float, ...]:
        total, step = np.median(mode.totals), np.median(mode.steps)
        return tuple(float(total + (n - 1) * step) for n in steps)

    return Curve(tuple(int(n) for n in steps), seconds(eager), seconds(static))
