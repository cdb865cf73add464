"""The grid of a sweep, and the model that is fitted to it. The clock is not asked."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import pytest

from staticflow import nn
from staticflow.comparison import sweep as module
from staticflow.comparison import why
from staticflow.comparison.axes import grid, parse_axes, split_axes
from staticflow.comparison.job import make_job
from staticflow.comparison.progress import Progress
from staticflow.comparison.record import Sweep, SweepPoint
from staticflow.comparison.source import ModelFile
from staticflow.comparison.sweep import Pair, fit_model, sweep, sweep_job, usual_axes
from staticflow.errors import ArgumentError

EAGER = {"per_step": 2e-6, "per_operation": 8e-7, "per_flop": 2e-11}
STATIC = {"per_step": 1e-6, "per_operation": 0.0, "per_flop": 1e-11}


def points(noise: float = 0.0) -> list[SweepPoint]:
    rng = np.random.default_rng(0)
    found = []
    for operations in (10, 40, 160):
        for flops in (10**4, 10**6, 10**8):
            exact = [
                p["per_step"] + p["per_operation"] * operations + p["per_flop"] * flops
                for p in (EAGER, STATIC)
            ]
            seconds = [t * (1 + noise * rng.uniform(-1, 1)) for t in exact]
            found.append(SweepPoint({"o": operations, "f": flops}, *seconds, operations, flops))
    return found


def test_the_fit_finds_the_prices_that_the_times_were_made_of() -> None:
    fit = fit_model(points())
    assert fit is not None
    for found, expected in ((fit.eager, EAGER), (fit.static, STATIC)):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-16)
    assert max(fit.error.values()) < 1e-9


def test_the_error_of_the_fit_is_that_of_the_times() -> None:
    fit = fit_model(points(noise=0.2))
    assert fit is not None
    assert 0.01 < fit.error["eager"] < 0.2
    assert fit.eager["per_operation"] == pytest.approx(EAGER["per_operation"], rel=0.3)


def test_no_price_is_below_zero() -> None:
    # more operations, less time: without bounds their price would be negative
    times = [SweepPoint({}, 3e-6 - 1e-7 * n, 1e-6 * n, n, 10 * n * n) for n in (1, 5, 10, 20)]
    fit = fit_model(times)
    assert fit is not None
    assert all(price >= 0 for price in (*fit.eager.values(), *fit.static.values()))
    assert fit.eager["per_operation"] == 0


def test_what_does_not_vary_has_no_price_and_too_few_points_no_fit() -> None:
    times = [SweepPoint({}, 1e-5 + 1e-11 * f, 1e-6 + 1e-11 * f, 30, f) for f in (10**5, 10**7)]
    fit = fit_model(times)
    assert fit is not None and fit.eager["per_operation"] == 0
    assert fit.eager["per_step"] == pytest.approx(1e-5)
    assert fit_model(times[:1]) is not None  # all of it is the price of a step
    assert fit_model([*times, SweepPoint({}, 1e-5, 1e-6, 31, 10**5)][1:]) is None
    assert fit_model([]) is None


def test_every_setting_is_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, int]] = []

    def pair_at(sizes: dict[str, int]) -> Pair:
        asked.append(sizes)
        work = sizes["batch"] * sizes["width"]
        return Pair(lambda n: None, lambda n: None, 5 * sizes["width"], work)

    def turns(runs: object, rounds: int, seconds: float) -> dict[str, list[float]]:
        work = asked[-1]["batch"] * asked[-1]["width"]
        return {"eager": [3.0 * work, 1.0 * work, 2.0 * work], "static": [1.0, 1.0, 1.0]}

    monkeypatch.setattr(module, "time_in_turns", turns)
    axes = {"batch": (1, 8), "width": (2, 4, 6)}
    done: list[int] = []
    found = sweep(pair_at, axes, progress=lambda: done.append(1))
    assert asked == grid(axes) == [p.sizes for p in found.points] and len(done) == 6
    first = found.points[0]
    assert (first.eager, first.static, first.operations, first.flops) == (4.0, 1.0, 10, 2)
    assert found.fit is not None and found.fit.static["per_step"] == pytest.approx(1.0)


def test_a_setting_at_which_the_model_fails_is_told_and_the_others_stand() -> None:
    def pair_at(sizes: dict[str, int]) -> Pair:
        if sizes["n"] == 2:
            raise ValueError("no two")
        return Pair(lambda n: None, lambda n: None, 1, 1)

    told: list[str] = []
    axes = {"n": (1, 2, 3)}
    found = sweep(pair_at, axes, rounds=1, seconds=0.0, left_out=told)
    assert [p.sizes["n"] for p in found.points] == [1, 3]
    assert len(told) == 1 and told[0].startswith("no step with n=2: ValueError: no two, at ")
    with pytest.raises(ValueError, match="no two"):
        sweep(pair_at, axes, rounds=1, seconds=0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the sweep is empty"),
        ("batch", "the sweep has 'batch'; write a name and numbers"),
        ("batch=", "the sweep has 'batch='"),
        ("batch=1,x", "the sweep has 'batch=1,x'"),
        ("batch=0,1", "the sweep has batch=0; sizes are 1 or more"),
        ("batch=1 batch=2", "the sweep has batch twice"),
        ("a=" + ",".join(map(str, range(1, 20))) + " b=" + ",".join(map(str, range(1, 20))),
         "the sweep has 361 settings; 256 are the most"),
    ],
)  # fmt: skip
def test_wrong_sweeps_are_told_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse_axes(text)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_an_axis_is_an_open_size_or_an_argument_of_the_model() -> None:
    def make(width: int = 8, *, depth: int = 1) -> None: ...

    axes = parse_axes("depth=1,2 batch=1,8")
    assert split_axes(axes, {"batch": 32}, make) == ({"batch": (1, 8)}, {"depth": (1, 2)})
    with pytest.raises(ArgumentError) as error:
        split_axes(parse_axes("hight=2"), {"batch": 32}, make)
    assert str(error.value) == (
        "nothing is called hight; the sweep takes open sizes of the inputs (batch) and arguments "
        "of the model (width, depth)"
    )


class Net(nn.Module):
    """Some layers."""

    def __init__(self, width: int = 4, depth: int = 1) -> None:
        super().__init__()
        sizes = [3, *[width] * depth, 2]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).relu()
        return x


def make(sweep: str | None = None) -> Any:
    file = ModelFile("here", "Net", Net, {"example_inputs": ("x: f32[batch=8, 3]",)})
    return make_job(file, loss="mse", optimizer="sgd", lr=0.1, sweep=sweep)


def test_one_program_serves_all_open_sizes_and_each_model_has_its_own() -> None:
    job = make("batch=1,16,64 depth=1,3")
    found = sweep_job(job, job.sweep, rounds=1, seconds=1e-5)
    assert [p.sizes for p in found.points] == grid(job.sweep) and found.compilations == 2
    shallow = {p.sizes["batch"]: p for p in found.points if p.sizes["depth"] == 1}
    deep = {p.sizes["batch"]: p for p in found.points if p.sizes["depth"] == 3}
    assert len({p.operations for p in shallow.values()}) == 1
    assert deep[1].operations > shallow[1].operations
    # two products forward, three back, of 2 * batch * rows * columns each, and what goes with them
    products = 2 * 64 * (2 * 3 * 4 + 3 * 4 * 2)
    assert shallow[64].flops is not None and products <= shallow[64].flops < 2 * products
    assert shallow[16].flops is not None and shallow[16].flops < shallow[64].flops


def test_settings_that_fail_are_told_in_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: Any, axes: Any, left_out: list[str]) -> Sweep:
        left_out += ["no step with batch=1: why", "no step with batch=8: why"]
        return Sweep((), None)

    monkeypatch.setattr(why, "sweep_job", fail)
    monkeypatch.setattr(why, "ablate", lambda job: None)
    found, notes, model = why.Why(), [], cast(Any, object())
    why.find_why(make(), model, model, found, notes, Progress())
    assert notes == ["no step with batch=1: why; nor at 1 of the others"]
    assert found.sweep is None


def test_a_job_is_swept_around_its_sizes_unless_it_says_over_what() -> None:
    assert usual_axes(make()) == {"batch": (1, 8, 32)} and make().sweep is None
    with pytest.raises(ArgumentError, match="nothing is called hight; the sweep takes open sizes"):
        make("hight=3")
    with pytest.raises(ArgumentError, match="the sweep is of type list; it must be a text"):
        make(["batch"])  # type: ignore[arg-type]
