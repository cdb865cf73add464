"""The memory of the examples' training steps, in bytes: within 5 percent of what no layout can go
below, with known and with open sizes, and no more than it was when this was written."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from staticflow.comparison.contest import static_contestant

ROOT = Path(__file__).parents[2]

MOST = {
    "lenet": 3_750_000,
    "lstm_classifier": 4_040_000,
    "transformer": 840_000,
    "weight_sharing:RandomDepth": 67_500,
    "adaptive_ode": 192,
    "custom_module": 6_000,
    "rnn_scan": 114_500,
    "truncated_bptt": 134_000,
}


LONG = ("lenet", "lstm_classifier", "transformer")
"""What takes a second to compile with open sizes."""


@pytest.mark.parametrize(
    ("name", "is_open"),
    [
        pytest.param(
            name, is_open, marks=[pytest.mark.campaign] if is_open and name in LONG else []
        )
        for name in MOST
        for is_open in (False, True)
    ],
)
def test_steps_take_little_more_than_the_bound(
    name: str, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("plan_memory")
    assert set(benchmark.EXAMPLES) == MOST.keys()
    job = benchmark.example_job(name)
    program = static_contestant(job if is_open else benchmark.with_known_sizes(job)).program
    assert program is not None
    sizes = {s.name: job.sizes[s.name] for s in program.plan.routine.sizes}
    arena, bound = program.plan.arena_bytes(**sizes), program.plan.bound_bytes(**sizes)
    assert bound <= arena <= 1.05 * bound + 128  # up to a line of the cache each
    assert arena <= MOST[name]
