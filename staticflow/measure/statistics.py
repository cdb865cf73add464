"""Times and what they say: contestants in turns, medians with their intervals, what differs.

A median comes with the 95 % interval of a bootstrap (B. Efron, "Bootstrap Methods: Another Look at
the Jackknife", 1979): of samples that are drawn again from those there are, with replacement. The
draws are the same in every process, so one list of samples has one interval.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass

__all__ = [
    "Spread",
    "count_runs",
    "differ",
    "spread",
    "spread_of_ratio",
    "time_in_turns",
    "until_idle",
]

DRAWS = 2000
"""How many lists of samples are drawn for an interval."""

_ENDS = (2.5, 97.5)  # percentiles
_WARM = 0.25
"""The part of a turn that as many runs must take for their time to say how many fill it."""
_TRIES = 3

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Spread:
    """A median of ``count`` samples, with the ends of its 95 % interval."""

    median: float
    low: float
    high: float
    count: int


def spread(samples: Sequence[float]) -> Spread:
    """The median of at least one sample, and its interval, which is a point for a single one.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0, count=3)
    """
    values = np.asarray(samples, np.float64)
    drawn = np.median(values[_draws(len(values))], axis=1)
    return _interval(float(np.median(values)), drawn, len(values))


def spread_of_ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """The ratio of two medians and its interval. Both have one sample for each round; what a round
    did to both is drawn together, so that a busy machine widens the interval little.

    >>> spread_of_ratio([2.0, 20.0], [1.0, 10.0])
    Spread(median=2.0, low=2.0, high=2.0, count=2)
    """
    a, b = np.asarray(above, np.float64), np.asarray(below, np.float64)
    drawn = _draws(len(a))
    ratios = np.median(a[drawn], axis=1) / np.median(b[drawn], axis=1)
    return _interval(float(np.median(a) / np.median(b)), ratios, len(a))


def differ(a: Spread, b: Spread) -> bool:
    """Whether two medians differ beyond noise: their intervals have no point in common.

    >>> differ(Spread(1.0, 0.9, 1.1, 15), Spread(1.3, 1.2, 1.4, 15))
    True
    """
    return a.high < b.low or b.high < a.low


_IDLE = 0.04
"""Seconds after which the threads of a library that has nothing to do sleep: those of OpenBLAS look
for work for some 25 ms, and take a core from whoever comes next."""


def until_idle(threads: int) -> None:
    """Wait until the threads that another contestant was given, if there are several, sleep."""
    if threads > 1:
        time.sleep(_IDLE)


def time_in_turns(
    contestants: Mapping[str, Callable[[int], object]],
    rounds: int,
    seconds: float,
    progress: Callable[[], object] = lambda: None,
    threads: int = 1,
) -> dict[str, list[float]]:
    """Seconds a run, by contestant and round. ``contestant(n)`` runs n times.

    Every round gives each contestant one turn of about ``seconds``, in another order each time, so
    that what else the machine does meets all alike. A contestant that takes longer runs once.
    ``progress`` is called after each turn. Where contestants have several ``threads``, those of one
    sleep before the next one's turn begins.
    """
    counts = {name: count_runs(run, seconds) for name, run in contestants.items()}
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            until_idle(threads)
            began = time.perf_counter()
            contestants[name](counts[name])
            samples[name].append((time.perf_counter() - began) / counts[name])
            progress()
    return samples


def count_runs(run: Callable[[int], object], seconds: float) -> int:
    """How many runs take ``seconds``, at least 1; found by doubling, which also warms up. Each
    number of runs is tried three times, and the least time counts: what compiles something in one
    of its first calls has no fewer runs for it.
    """
    count = 1
    while True:
        taken = min(_seconds_of(run, count) for _ in range(_TRIES))
        if taken >= seconds * _WARM:
            return max(1, round(count * seconds / taken)) if taken else count
        count *= 2


def _seconds_of(run: Callable[[int], object], count: int) -> float:
    began = time.perf_counter()
    run(count)
    return time.perf_counter() - began


def _draws(count: int) -> Array:
    """Positions of samples, (DRAWS, count)."""
    return np.random.default_rng(0).integers(0, count, (DRAWS, count))


def _interval(median: float, drawn: Array, count: int) -> Spread:
    low, high = np.percentile(drawn, _ENDS)
    return Spread(median, float(low), float(high), count)
