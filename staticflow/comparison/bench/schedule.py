"""How far a run of the benchmarks is, and how much longer it will take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from staticflow.measure.units import seconds_in_words

__all__ = ["Schedule"]


class Schedule:
    """Scripts by name, in the order in which they run, with the seconds that each ``took``.

    What is left is estimated by the seconds that were ``expected`` of a script, as an earlier run
    took them, times what this run takes more or less than was expected so far. A script of which
    nothing was expected is taken for one of the middle. Nothing is said before a script has ended,
    unless something was expected.
    """

    def __init__(
        self,
        names: Sequence[str],
        expected: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.took: dict[str, float] = {}
        self.name = ""
        self._names, self._expected, self._clock = names, expected, clock
        self._began = self._start = clock()

    def begin(self) -> str:
        """The name of the next script, which begins now."""
        self.name = self._names[len(self.took)]
        self._began = self._clock()
        return self.name

    def finish(self) -> None:
        """Note that the script has ended."""
        self.took[self.name] = self._clock() - self._began

    def remaining(self) -> float | None:
        """The seconds from the beginning of this script to the end of all; None if nothing is
        known."""
        known = {name: self._expected.get(name) for name in self._names}
        usual = [seconds for seconds in known.values() if seconds is not None]
        middle = statistics.median(usual) if usual else 1.0
        weights = {n: middle if seconds is None else seconds for n, seconds in known.items()}
        if not self.took:
            return sum(weights.values()) if usual else None
        pace = sum(self.took.values()) / max(sum(weights[n] for n in self.took), 1e-9)
        return pace * sum(weight for n, weight in weights.items() if n not in self.took)

    def text(self) -> str:
        """Which script runs, and how long all will take, in a line."""
        left = self.remaining()
        gone = seconds_in_words(self._clock() - self._start)
        times = [f"{gone} gone"] if self.took else []
        times += [] if left is None else [f"about {seconds_in_words(left)} left"]
        place = f"bench: {len(self.took) + 1} of {len(self._names)}, {self.name}"
        return "; ".join(filter(None, (place, ", ".join(times))))
