"""What is judged of two modes: nothing is passed over without a word, and nothing by mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from staticflow.comparison import agreement
from staticflow.comparison.job import Request
from staticflow.comparison.judge import Double, Judge, Look, Parts
from staticflow.comparison.requests import job_of
from staticflow.comparison.rounding import clear_elements, find_noise
from staticflow.comparison.run import Options, compare_job
from staticflow.comparison.text import format_comparison

MODELS = Path(__file__).with_name("models.py")
NONE = Double()


def look(values=(1.0, 2.0), **gradients) -> Look:
    return Look(
        {"output": np.array(values, np.float32)},
        {name: np.array(g, np.float32) for name, g in gradients.items()},
        draws=False,
    )


def judged(
    static: Look, eager: Look, rules: str = "", losses=((1.0,), (1.0,)), double: Double = NONE
) -> tuple[Judge, Parts]:
    """The judge and what it found, of modes whose state is one parameter, the same in both."""
    state = {"w": np.ones(2, np.float32)}
    judge = Judge("float32", static, eager, state, losses[0], rules)
    return judge, judge.compare({n: a.copy() for n, a in state.items()}, losses[1], double)


def test_a_gradient_that_one_mode_alone_has_must_be_zeros() -> None:
    for gone, there in ((False, True), (True, False)):
        for value, differs in ((0.0, False), (0.5, True)):
            looks = [look(a=[1.0], **({"b": [value]} if has else {})) for has in (gone, there)]
            judge, parts = judged(*looks)
            assert bool(judge.find_apart(parts)) is differs, (gone, value)


def test_what_overflows_eagerly_alone_is_said_and_the_rest_is_still_compared() -> None:
    finite, infinite = look((1.0, 2.0)), look((np.inf, 2.0))
    judge, parts = judged(finite, infinite)
    assert judge.find_apart(parts) and not judge.on_purpose  # there is no rule that does it
    judge, parts = judged(look((1.0, 2.0)), look((np.inf, 2.0)), "log_of_softmax")
    (told,) = judge.on_purpose
    assert not judge.find_apart(parts) and "1 values are infinite or NaN eagerly" in told
    judge, parts = judged(look((1.0, 2.0)), look((np.inf, 2.1)), "log_of_softmax")
    assert judge.find_apart(parts) and judge.on_purpose
    judge, parts = judged(look((np.inf, 2.0)), look((1.0, 2.0)), "log_of_softmax")
    assert judge.find_apart(parts) and not judge.on_purpose  # the other way round is a defect


def test_losses_are_compared_until_one_is_a_number_in_the_graph_alone() -> None:
    judge, parts = judged(look(), look(), "rule", ((1.0, 2.0, 3.0), (1.0, np.inf, np.nan)))
    assert not judge.find_apart(parts) and "the loss is inf eagerly and 2 in" in judge.on_purpose[0]
    judge, parts = judged(look(), look(), "rule", ((1.0, 2.0, 3.0), (1.1, np.inf, np.nan)))
    assert "the losses differ" in judge.find_apart(parts)[0]


def test_what_cancels_eagerly_alone_is_said_with_both_distances_from_double() -> None:
    exact = Double(look=look((1.0, 2.0)))
    judge, parts = judged(look((1.0, 2.0)), look((1.0, 2.1)), "rule", double=exact)
    assert not judge.find_apart(parts)
    assert "the values are 4.8e-02 off eagerly and 0.0e+00 in the graph" in judge.on_purpose[0]
    judge, parts = judged(look((1.0, 2.1)), look((1.0, 2.0)), "rule", double=exact)
    assert judge.find_apart(parts) and not judge.on_purpose


def test_rounding_is_told_from_gradients_by_the_largest_of_all() -> None:
    gradients = {"w": np.array([1.0, 1e-9, 0.0], np.float32), "b": np.array([0.0, 2e-9], "f4")}
    masks = find_noise([gradients])
    assert masks["w"].tolist() == [False, True, False]  # zeros are zeros
    assert masks["b"].tolist() == [True, True]  # but where all is rounding
    state = {"w": np.ones(3, np.float32), "b": np.ones(2, np.float32)}
    assert clear_elements(masks, (state, None)) == 3
    assert state["w"].tolist() == [1, 0, 1] and state["b"].tolist() == [0, 0]
    assert not find_noise([{"w": np.array([1.0, 1e-3], np.float32)}])["w"].any()


def test_a_loop_of_no_iterations_differs_on_purpose_by_what_the_optimiser_makes_of_it() -> None:
    inputs = ("x: f32[N=4, 3]", "repeats: i64[] < 1", "y: f32[N, 2]")
    request = Request(f"{MODELS}:Repeating", inputs, optimizer="adamw", lr=0.1, steps=3)
    job = job_of(request)
    found = compare_job(job, Options(is_quick=True))
    assert found.agreement is not None and found.agreement.agree
    (told,) = found.agreement.on_purpose
    assert "does not reach middle.bias, middle.weight" in told and "takes zeros" in told
    assert "on purpose: where a step does not reach" in format_comparison(found)
    eager = agreement.look_eagerly(job).gradients
    assert not {n for n in eager if n.startswith("middle")}, "both modes are the same now"
