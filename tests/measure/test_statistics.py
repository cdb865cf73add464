"""Medians, their intervals, and contestants in turns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from staticflow.measure import statistics
from staticflow.measure.statistics import (
    Spread,
    count_runs,
    differ,
    spread,
    spread_of_ratio,
    time_in_turns,
)


def test_an_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        found = spread(list(rng.exponential(1.0, 25)))
        held += found.low <= np.log(2) <= found.high
    assert 88 <= held <= 99


def test_a_spread_says_the_median_and_how_many_samples_there_were() -> None:
    found = spread([4.0, 1.0, 2.0, 3.0])
    assert (found.median, found.count) == (2.5, 4)
    assert 1.0 <= found.low < 2.5 < found.high <= 4.0
    assert spread([2.0]) == Spread(2.0, 2.0, 2.0, 1)


def test_the_same_samples_have_the_same_interval() -> None:
    samples = list(np.random.default_rng(2).random(15))
    assert spread(samples) == spread(samples)


def test_what_a_round_does_to_both_widens_the_interval_of_a_ratio_not_at_all() -> None:
    below = list(np.random.default_rng(3).exponential(1.0, 15))
    found = spread_of_ratio([4 * b for b in below], below)
    assert found == Spread(4.0, 4.0, 4.0, 15)


def test_medians_differ_if_no_point_is_in_both_intervals() -> None:
    a = Spread(1.0, 0.9, 1.1, 15)
    assert differ(a, Spread(1.3, 1.2, 1.4, 15)) and differ(Spread(0.5, 0.4, 0.6, 15), a)
    assert not differ(a, Spread(1.3, 1.1, 1.4, 15)) and not differ(a, a)


class Clock:
    """A clock that contestants move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.runs: list[str] = []
        monkeypatch.setattr(statistics.time, "perf_counter", lambda: self.now)

    def contestant(self, name: str, seconds: float):
        def run(n: int) -> None:
            self.runs.append(name)
            self.now += n * seconds

        return run


def test_threads_of_one_contestant_sleep_before_the_next_has_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(statistics.time, "sleep", lambda seconds: clock.runs.append("idle"))
    given = {n: clock.contestant(n, 1.0) for n in ("one", "other")}
    time_in_turns(given, 1, 1.0)
    assert "idle" not in clock.runs
    clock.runs.clear()
    time_in_turns(given, 2, 1.0, threads=2)
    assert clock.runs[-8::2] == ["idle"] * 4


def test_what_compiles_in_its_first_calls_has_as_many_runs_in_a_turn_as_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    run, calls = clock.contestant("compiles", 2.0**-8), itertools.count()

    def compiles(n: int) -> None:
        clock.now += 9.0 if next(calls) in (0, 4) else 0.0
        run(n)

    assert count_runs(compiles, 1.0) == 256


def test_contestants_take_turns_and_a_run_has_its_part_of_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    given = {n: clock.contestant(n, s) for n, s in (("quick", 2.0**-8), ("slow", 3.0))}
    assert count_runs(given["quick"], 1.0) == 256 and count_runs(given["slow"], 1.0) == 1
    clock.runs.clear()
    turns = itertools.count()
    samples = time_in_turns(given, 5, 1.0, lambda: next(turns))
    assert samples == {"quick": [2.0**-8] * 5, "slow": [3.0] * 5} and next(turns) == 10
    rounds = [clock.runs[-10:][i : i + 2] for i in range(0, 10, 2)]
    assert all(sorted(r) == ["quick", "slow"] for r in rounds)
    assert len({tuple(r) for r in rounds}) == 2  # in another order each time
