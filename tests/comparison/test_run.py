"""Comparisons of small models of every kind: what is found, what is said, what is counted."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.comparison import agreement, requests, run
from staticflow.comparison.agreement import find_verdict
from staticflow.comparison.axes import parse_axes
from staticflow.comparison.contest import eager_contestant, static_contestant
from staticflow.comparison.costs import FreshCosts, measure_fresh
from staticflow.comparison.differences import compare_arrays, relative_difference
from staticflow.comparison.estimate import StartUp, break_even, curve
from staticflow.comparison.job import Request
from staticflow.comparison.progress import Progress
from staticflow.comparison.record import Comparison
from staticflow.comparison.requests import job_of
from staticflow.comparison.run import Findings, InterruptedComparison, Options, compare_job
from staticflow.comparison.scores import find_scores
from staticflow.comparison.sweep import sweep_job
from staticflow.comparison.text import format_comparison
from staticflow.errors import ArgumentError

MODELS = Path(__file__).with_name("models.py")


@cache
def compared(model: str, **options: object) -> Comparison:
    settings = {"steps": 4, **options}
    return compare_job(job_of(Request(f"{MODELS}:{model}", **settings)), Options(is_quick=True))


TRAINED = ("Plain", "Dropping", "Normed", "Shared", "Frozen")


@pytest.mark.parametrize("model", TRAINED)
def test_the_modes_agree(model: str) -> None:
    found = compared(model)
    assert found.has_passed and found.refused is None and found.agreement is not None
    assert found.agreement.verdict == "they agree"
    assert all(found.agreement.deterministic.values())
    assert all(found.agreement.same_on_threads.values())
    for part in ("values", "gradients", "state", "losses"):
        assert getattr(found.agreement, part).static_eager <= 1e-5
    assert found.static is not None and len(found.static.losses) == len(found.eager.losses) == 4
    assert "off by" in found.agreement.gradcheck and "differ" not in found.agreement.gradcheck
    assert found.compilations["static"] == {"N=4": 1, "N=3": 1, "N=2": 1}


def test_double_precision_is_nearer_than_single_and_is_not_asked_of_draws() -> None:
    plain, dropping = compared("Plain").agreement, compared("Dropping").agreement
    assert plain is not None and plain.values.eager_float64 is not None
    assert 0 < plain.values.eager_float64 < 1e-6
    assert dropping is not None and dropping.values.eager_float64 is None
    assert any("draws random numbers" in note for note in compared("Dropping").notes)


@pytest.mark.campaign
def test_in_double_precision_the_limits_are_closer() -> None:
    found = compared("Plain", dtype="float64")
    assert found.has_passed and found.agreement is not None
    assert found.agreement.values.limit == 1e-10 and found.model.inputs[0] == "x: f64[N=4, 3]"


@pytest.mark.campaign
def test_in_16_bits_more_may_differ() -> None:
    found = compared("Plain", dtype="bfloat16")
    assert found.has_passed and found.agreement is not None
    assert found.agreement.values.limit >= 5e-2 and found.model.inputs[0] == "x: bf16[N=4, 3]"


def test_what_another_process_can_import_has_a_name_there() -> None:
    assert requests._name_for_others(sf.nn.Linear) == "staticflow.nn.linear:Linear"
    assert requests._name_for_others(lambda: sf.nn.Linear(2, 2)) == ""
    assert requests._name_for_others(sf.nn.Linear(2, 2)) == ""


@pytest.mark.campaign
def test_a_model_without_what_is_trained_is_compared_forward() -> None:
    found = compared("AllFrozen")
    assert found.has_passed and found.model.optimizer == "none"
    assert any("no parameter requires a gradient" in note for note in found.notes)
    forward = compared("Plain", loss="none", optimizer="none", inputs=("f32[N=4, 3]",))
    assert forward.has_passed and forward.eager.losses == () and forward.model.loss == "none"
    gradients = compared("Plain", optimizer="none")
    assert gradients.has_passed and len(set(gradients.eager.losses)) > 1


def test_what_a_file_evaluates_must_be_numbers_by_name() -> None:
    job = job_of(Request(f"{MODELS}:Plain", steps=1))
    model = job.make_model()
    assert find_scores(job, model) == {}
    seen = []

    def evaluate(model, seed):
        seen.append((model.training, seed))
        return {"norm": sf.ones(()), "count": 3}

    measured = dataclasses.replace(job, evaluate=evaluate, seed=7)
    assert find_scores(measured, model) == {"norm": 1.0, "count": 3.0}
    assert seen == [(False, 7)] and model.training
    for wrong in (3, {"a": "good"}, {"a": sf.ones(2)}):
        with pytest.raises(ArgumentError, match="must give a dict of numbers by name"):
            find_scores(dataclasses.replace(job, evaluate=lambda model, seed: wrong), model)  # noqa: B023


def test_targets_are_made_for_losses_by_name() -> None:
    found = compared("Plain", loss="cross_entropy", inputs=("f32[N=4, 3]",))
    assert found.has_passed and found.model.inputs[1] == "target: i64[N=4] < 2"
    bounded = compared("Pair", loss="mse", inputs=("f32[N=4, 3]",))
    assert bounded.has_passed and bounded.model.inputs[1] == "target: f32[N=4, 2]"


def test_the_target_of_a_flattened_output_follows_its_open_sizes() -> None:
    for loss, target in (("mse", "f32[N, T, 2]"), ("cross_entropy", "i64[N, T] < 2")):
        given = ("f32[N=2, T=3, 3]",)
        job = job_of(Request(f"{MODELS}:Flattened", given, loss))
        assert [str(x) for x in job.inputs][1:] == [f"target: {target}"]
    axes = parse_axes("N=1,4 T=2,5")
    left_out: list[str] = []
    found = sweep_job(job, axes, rounds=1, seconds=0.0, left_out=left_out)
    assert left_out == []
    assert [p.sizes for p in found.points] == [{"N": n, "T": t} for n in (1, 4) for t in (2, 5)]
    assert found.compilations == 1


@pytest.mark.campaign
def test_the_target_of_a_loss_has_all_open_sizes_of_the_output() -> None:
    job = job_of(Request(f"{MODELS}:Recurrent", ("f32[N=2, T=5, 3]",), "mse"))
    assert [str(x) for x in job.inputs][1:] == ["target: f32[N, T, 2]"]


def test_several_inputs_of_integers() -> None:
    given = ("words: i64[N=2, T=6] < 11", "places: i64[T] < 6", "i64[12] < 11")
    assert compared("Words", inputs=given, loss="cross_entropy").has_passed


def test_a_branch_on_a_value_names_its_line_and_what_to_write() -> None:
    found = compared("Branching")
    line = MODELS.read_text().split("# THE BRANCH")[0].count("\n") + 1
    assert found.refused is not None and f"models.py:{line}" in found.refused
    assert "sf.cond" in found.refused and found.static is None and not found.has_passed
    assert len(found.eager.losses) == 4 and found.eager.step is not None
    assert "NO GRAPH" in format_comparison(found)


def test_a_graph_that_differs_from_trace_to_trace_is_refused() -> None:
    found = compared("RandomDepth", seed=1)
    assert found.refused is not None and "different graphs" in found.refused
    assert "models.py" in found.refused


def test_nan_in_both_is_said() -> None:
    found = compared("Exploding", optimizer="sgd(lr=1e20)", steps=6)
    assert found.agreement is not None and found.has_passed
    assert found.agreement.verdict.startswith("both went to NaN at step 2")
    assert set(found.agreement.losses.has_nan) >= {"static", "eager"}
    text = json.dumps(found.as_dict(), allow_nan=False)
    assert '"NaN"' in text and "FAILED" not in format_comparison(found)


def test_overflow_in_both_is_said_whichever_is_nan_first() -> None:
    losses = {"eager": (1.0, math.inf, math.nan), "static": (1.0, math.nan, math.nan)}
    told = "both overflowed by step 2 (eager inf, static nan); until then they agree"
    assert find_verdict([], losses, ()) == (True, told)
    later = {"eager": (1.0, 2.0, math.nan), "static": (1.0, math.nan, math.nan)}
    agree, told = find_verdict([], later, ())
    assert not agree and "went to NaN: eager at step 3, static at step 2" in told


@pytest.mark.campaign
def test_a_loss_that_only_a_graph_can_tell_differs_on_purpose() -> None:
    found = compared("Surprised", loss="sum", optimizer="sgd", inputs=("f32[N=4, 3]",))
    assert found.agreement is not None and found.has_passed
    told = found.agreement.on_purpose
    assert "the loss is inf eagerly" in told[0] and "log_of_softmax" in told[0]
    assert "on purpose: the loss is inf eagerly" in format_comparison(found)


# -- what is wrong is found ------------------------------------------------------------------------


def test_another_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    look = agreement.look_statically

    def changed(job, **options):
        found = look(job, **options)
        gradients = {n: g * 1.001 for n, g in found.gradients.items()}
        return dataclasses.replace(found, gradients=gradients)

    monkeypatch.setattr(agreement, "look_statically", changed)
    found = compare_job(job_of(Request(f"{MODELS}:Plain", steps=2)), Options(is_quick=True))
    assert not found.has_passed and found.agreement is not None
    assert "the gradients differ by 1.0e-03" in found.agreement.verdict
    assert "FAILED: they do not agree" in format_comparison(found)


def test_another_rate_is_found_in_the_state_and_the_losses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = job_of(Request(f"{MODELS}:Plain", steps=20))
    other = dataclasses.replace(job, optimizer=lambda ps: sf.optim.Adam(ps, lr=0.011))
    monkeypatch.setattr(run, "try_statically", lambda job: (static_contestant(other), None))
    found = compare_job(job, Options(is_quick=True)).agreement
    assert found is not None and not found.agree
    assert "the state differ" in found.verdict and "the losses differ" in found.verdict


def test_differences_are_relative_and_see_what_is_not_finite() -> None:
    one = np.array([1.0, 2.0, np.inf, np.nan])
    assert relative_difference(one, one) == 0.0
    assert relative_difference(one, np.array([1.0, 2.5, np.inf, np.nan])) == 0.2
    assert relative_difference(one, np.array([1.0, 2.0, -np.inf, np.nan])) == np.inf
    assert relative_difference(one, np.array([1.0, 2.0, np.inf, 3.0])) == np.inf
    assert relative_difference(np.zeros(0), np.zeros(0)) == 0.0
    a, b, c = ({"w": np.array([x])} for x in (1.0, 1.01, 1.005))
    assert compare_arrays(a, b, None, "float32").limit == 1e-4
    assert compare_arrays(a, b, c, "float32").limit > 1e-2  # both are as far from double


# -- costs -----------------------------------------------------------------------------------------


def test_break_even_charges_both_sides() -> None:
    eager, static = StartUp((1.5, 1.5, 1.6), (0.003,)), StartUp((3.0, 3.1, 3.0), (0.001,))
    found = break_even(eager, static)
    assert found.step == 751 and found.low is not None and found.high is not None
    assert found.low <= 751 <= found.high
    curves = curve(eager, static, found.step)
    behind = [s > e for e, s in zip(curves.eager, curves.static, strict=True)]
    assert behind[0] and not behind[-1] and behind == sorted(behind, reverse=True)
    assert break_even(eager, StartUp((2.0,), (0.003,))).step is None
    assert break_even(eager, StartUp((1.0,), (0.001,))).step == 1


def test_what_the_record_says_is_what_the_runtime_counts() -> None:
    job = job_of(Request(f"{MODELS}:Plain", steps=4))
    static = static_contestant(job)
    assert static.program is not None
    for _, batch in run.sizes_to_try(job):
        static.step(*batch)
    found = compared("Plain")
    assert list(found.compilations["static"].values())[-1] == static.program.compile_count == 1
    assert found.model.parameters == sum(p.numel() for p in static.model.parameters()) == 32


def test_contestants_draw_as_if_each_were_alone() -> None:
    job = job_of(Request(f"{MODELS}:Dropping", steps=4))
    alone = eager_contestant(job)
    alone.chance.restore()
    losses = [alone.step(*batch).item() for batch in job.batches(4)]
    assert compared("Dropping").eager.losses == tuple(losses)


# -- in the middle ---------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_was_found() -> None:
    class Stop(Progress):
        def stage(self, name: str, total: int = 0) -> None:
            if name == "the state after a step":
                raise KeyboardInterrupt

    with pytest.raises(InterruptedComparison) as caught:
        compare_job(job_of(Request(f"{MODELS}:Plain", steps=4)), Options(is_quick=True), Stop())
    record = caught.value.record
    assert record.unfinished == "the state after a step" and len(record.eager.losses) == 4
    assert record.agreement is None and "INTERRUPTED" in format_comparison(record)


def test_nothing_was_found_before_the_first_stage() -> None:
    findings = Findings(
        job_of(Request(f"{MODELS}:Plain")), sf.measure.machine.machine(measure=False)
    )
    record = findings.as_record("the beginning")
    assert record.eager.step is None and "not measured" in format_comparison(record)


# -- the text and Python ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["Plain", "Branching", "Exploding"])
def test_the_table_fits_80_columns(model: str) -> None:
    options = {"optimizer": "sgd(lr=1e20)", "steps": 6} if model == "Exploding" else {}
    lines = format_comparison(compared(model, **options)).splitlines()
    assert max(map(len, lines)) <= 80


def test_in_python_a_module_a_class_and_a_function_are_compared() -> None:
    def make() -> sf.nn.Module:
        return sf.nn.Linear(3, 2)

    x, y = sf.randn(4, 3), np.zeros((4, 2), np.float32)
    for model in (sf.nn.Sequential(make()), make):
        found = sf.compare(
            model, (x, y), loss=sf.nn.MSELoss(), optimizer=lambda p: sf.optim.SGD(p, lr=0.1),
            steps=3, quick=True,
        )  # fmt: skip
        assert found.has_passed and found.model.inputs == ("input: f32[4, 3]", "target: f32[4, 2]")
    assert repr(found) == "<comparison of make: they agree>"
    assert "AGREEMENT: they agree" in str(found) and found._repr_html_().startswith("<pre>")
    trained = sf.nn.Linear(3, 2)
    before = trained.weight.detach().numpy().copy()
    sf.compare(trained, (x, y), loss="mse", optimizer="sgd", steps=2, quick=True)
    assert np.array_equal(before, trained.weight.detach().numpy())


@pytest.mark.parametrize("mode", [sf.no_grad, sf.inference_mode])
def test_what_is_switched_off_around_and_what_was_drawn_changes_nothing(mode: Any) -> None:
    net = sf.nn.Sequential(sf.nn.Linear(3, 2), sf.nn.Dropout(0.5))
    sf.manual_seed(1), np.random.seed(2), random.seed(3)
    wanted = sf.rand(2).tolist(), np.random.rand(2).tolist(), random.random()
    sf.manual_seed(1), np.random.seed(2), random.seed(3)
    with mode():
        found = sf.compare(net, ("f32[4, 3]",), loss="mse", optimizer="sgd", steps=2, quick=True)
        assert not sf.is_grad_enabled()
    assert found.has_passed and len(found.static.losses) == 2
    assert wanted == (sf.rand(2).tolist(), np.random.rand(2).tolist(), random.random())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": 0}, "at least 1"),
        ({"steps": True}, "at least 1"),
        ({"dtype": "int32"}, "the dtype is one of"),
        ({"model": 3}, "the model is an int"),
        ({"model": list}, "gives a list"),
        ({"inputs": None}, "says nothing of its inputs"),
        ({"inputs": ()}, "at least one input"),
        ({"inputs": ("f32[4, 5]",)}, "the model does not run on its inputs"),
        ({"loss": "none", "optimizer": "sgd"}, "an optimiser needs a loss"),
        ({"loss": lambda y: y}, "reduce it"),
        ({"loss": lambda y, a, b: y.sum()}, "only 1 for all"),
        ({"loss": sf.nn.MSELoss()}, "give one input more"),
        ({"optimizer": None, "lr": 0.1}, "needs an optimiser"),
        ({"optimizer": lambda parameters: 3}, "gives an int; it must be one of sf.optim"),
        ({"seed": -1}, "the seed is -1; it must be a whole number"),
        ({"inputs": ([[1, 2], [3]],)}, "must be a tuple of arrays or tensors of numbers"),
        ({"model": lambda x: x}, "needs x to be made"),
    ],
)
def test_mistakes_in_python(change: dict[str, object], says: str) -> None:
    given = {
        "model": sf.nn.Linear(3, 2), "inputs": ("f32[N=4, 3]",), "loss": "mse",
        "optimizer": "sgd", "steps": 2, "quick": True, **change,
    }  # fmt: skip
    model, inputs = given.pop("model"), given.pop("inputs")
    with pytest.raises(ArgumentError, match=says):
        sf.compare(model, inputs, **given)


def test_numbers_that_json_has_no_word_for() -> None:
    found = dataclasses.replace(compared("Plain"), curve={})
    losses = (1.0, math.nan, math.inf, -math.inf)
    changed = dataclasses.replace(found, eager=dataclasses.replace(found.eager, losses=losses))
    assert changed.as_dict()["eager"]["losses"] == [1.0, "NaN", "Infinity", "-Infinity"]


# -- insides and fresh processes -------------------------------------------------------------------


def test_memory_kernels_and_graphs_are_those_of_the_program() -> None:
    job = job_of(Request(f"{MODELS}:Plain", steps=4))
    program = static_contestant(job).program
    assert program is not None
    found = compared("Plain")
    static, eager = found.memory["static"], found.memory["eager"]
    outputs = 4  # the loss
    assert static.predicted == program.plan.peak_bytes(N=4) + outputs
    assert 0 < static.measured <= static.predicted + 4096 and eager.measured > 0
    assert found.static is not None and found.static.roofline is not None
    assert found.static.roofline.kernels == program.kernel_count
    work = program.work(N=4)
    assert [(k.name, k.launches, k.bytes) for k in found.kernels] == [
        (k.name, k.launches, k.bytes) for k in work
    ]
    assert found.static.roofline.flops == sum(k.flops for k in work)
    assert found.static.roofline.launches == sum(k.launches for k in work)
    assert found.graphs.eager is not None and found.graphs.static is not None
    assert found.graphs.eager["kind"] == "tape" and len(found.graphs.static["nodes"]) > 5


def test_a_fresh_process_tells_its_phases() -> None:
    job, costs = job_of(Request(f"{MODELS}:Plain", steps=4)), FreshCosts()
    measure_fresh(job, ["static"], run.sizes_to_try(job), 1, costs)
    (cold,), (warm,) = costs.phases["cold"]["static"], costs.phases["warm"]["static"]
    phases = ["import", "model", "trace", "optimise", "generate", "load", "first_step", "warm_up"]
    assert list(cold) == list(warm) == phases and all(s >= 0 for s in warm.values())
    assert costs.compilations == {"static": {"N=4": 1, "N=3": 1, "N=2": 1}}
    assert costs.passes[0]["fuse"] > 0


@pytest.mark.campaign
def test_fresh_processes_charge_both_modes_for_all_phases() -> None:
    job = job_of(Request(f"{MODELS}:Plain", steps=4))
    found = compare_job(job, Options(repeats=1))
    assert found.static is not None
    for start in ("cold", "warm"):
        eager, static = getattr(found.eager, start), getattr(found.static, start)
        assert list(eager) == ["import", "model", "first_step", "warm_up"]
        compiling = ["trace", "optimise", "generate", "load"]
        assert list(static) == ["import", "model", *compiling, "first_step", "warm_up"]
        assert all(seconds >= 0 for seconds in (*eager.values(), *static.values()))
        assert all(eager[phase] == static[phase] for phase in ("import", "model"))
        for mode, phases in (("eager", eager), ("static", static)):  # which add up to the curve
            after = getattr(found.curve[start], mode)[0]
            assert after == pytest.approx(sum(phases.values()), rel=0.05)
        assert found.curve[start].steps[0] == 1
        assert start in found.break_even
    assert found.static.passes is not None and found.static.passes["fuse"] > 0
    assert found.static.warm["load"] < found.static.cold["load"]  # which compiles
    assert found.static.step is not None and found.static.roofline is not None
    eagerly = found.eager.roofline
    assert eagerly is not None and eagerly.fraction is not None and eagerly.launches >= 10
    # (cheap work is done twice rather than stored)
    assert eagerly.flops == pytest.approx(found.static.roofline.flops, rel=0.1)
    assert eagerly.bytes > found.static.roofline.bytes
    inside = sum(k.seconds for k in found.kernels if k.seconds is not None)
    assert 0 < inside <= found.static.step.median
    outside = found.static.roofline.outside_kernels
    assert outside is not None and abs(outside + inside / found.static.step.median - 1) < 0.2
    assert list(found.compilations["static"].values()) == [1, 1, 1]
    counts = list(found.compilations["eager"].values())
    assert counts == sorted(counts) and counts[0] > 0
    text = format_comparison(found)
    assert "COLD START" in text and "break-even:" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.campaign
def test_a_fresh_process_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "no seed")
    found = compare_job(job_of(Request(f"{MODELS}:Bare", steps=1)), Options(repeats=1))
    assert any("a fresh process failed" in note for note in found.notes)
    assert found.break_even == {} and found.has_passed
