"""Programs of open sizes are little more code than those of known ones, which is what compiling
them takes: statements of kernels, lines of their text and proofs are counted, for each op and for
the training steps of the examples. What is more than others are has its number here."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from code_amount import Amount, amount_of, recipe_of, recipe_of_graph
from opinfo import ROWS
from opinfo.modes import graph_of
from slices import daily

from staticflow.comparison.contest import static_contestant

ROOT = Path(__file__).parents[2]

MOST = 2.55
"""How many times as much code open sizes are, at most."""

MORE = {
    "baddbmm": 4.1, "cond": 3.85, "searchsorted": 3.8, "addmm": 3.7, "var": 3.7, "std": 3.65,
    "agree": 3.2, "select": 2.9, "mean": 2.8, "fold": 2.75, "amax": 2.7, "amin": 2.7,
    "asserted": 2.6,
}  # fmt: skip
"""The ops that are more, and how many times as much they are, at most."""

EXAMPLES = {
    "lenet": 1.7,
    "lstm_classifier": 1.65,
    "transformer": 2.0,
    "weight_sharing:RandomDepth": 1.35,
    "adaptive_ode": 1.05,
    "custom_module": 1.7,
    "rnn_scan": 2.3,
    "truncated_bptt": 1.8,
}
"""Training steps of the examples, and how many times as much code they are, at most."""

BETTER = 0.8
"""What is less than this part of its number is to have a lower one."""

MOST_PROOFS = 1.35
"""Proofs for each statement of a program of open sizes, or of known ones where these are more, at
most, beside the first 30 proofs."""

OPS = [name for name, row in ROWS.items() if row.sized is not None]
LENGTH = 23
"""The size that is open: one that no other dim of the samples has."""

LARGE = 2_003
"""The size that is open where known ones are no special case: nothing is written out for so many
elements."""

MOST_LARGE = 2.2
"""How many times as much code open sizes are there, at most."""

MORE_LARGE = {
    "cond": 2.8, "var": 2.75, "std": 2.7, "agree": 2.55, "custom": 2.45, "mean": 2.35,
}  # fmt: skip
"""The ops that are more there, and how many times as much they are, at most."""

HUGE = {"attend", "attend_back"}
"""The ops whose samples of a large size are more than fits into memory."""


def check(known: Amount, opened: Amount, most: float) -> None:
    times = opened.times(known)
    assert times <= most, f"{times:.2f} times the code: {opened} for open sizes, {known} for known"
    assert most == MOST or times > BETTER * most, f"write down {times:.2f} instead of {most}"
    # what is written out for known sizes may be a call for open ones
    statements = max(opened.statements, known.statements)
    assert opened.proofs <= 30 + MOST_PROOFS * statements, opened


def amounts(name: str, length: int) -> tuple[Amount, Amount]:
    """The code of an op of known sizes, one of them ``length``, and where that is open."""
    info = ROWS[name]
    assert info.sized is not None
    sample = info.sized(info.dtypes[0], length)
    known, opened = (
        amount_of(recipe_of_graph(graph_of(info, sample, unknown=n))) for n in (None, length)
    )
    return known, opened


def check_op(name: str) -> None:
    check(*amounts(name, LENGTH), MORE.get(name, MOST))


def check_large(name: str) -> None:
    (known, opened), most = amounts(name, LARGE), MORE_LARGE.get(name, MOST_LARGE)
    times = opened.times(known)
    assert times <= most, f"{times:.2f} times the code: {opened} for open sizes, {known} for known"
    assert most == MOST_LARGE or times > BETTER * most, f"write down {times:.2f} instead of {most}"


@pytest.mark.parametrize("name", daily(OPS, 60, "open code"))
def test_an_op_of_open_sizes(name: str) -> None:
    check_op(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", OPS)
def test_each_op_of_open_sizes(name: str) -> None:
    check_op(name)


@pytest.mark.parametrize("name", daily([n for n in OPS if n not in HUGE], 20, "large code"))
def test_an_op_of_a_large_open_size(name: str) -> None:
    check_large(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", [n for n in OPS if n not in HUGE])
def test_each_op_of_a_large_open_size(name: str) -> None:
    check_large(name)


@pytest.mark.parametrize("name", ["sort", "linear", "median", "amax", "matmul"])
def test_what_was_more_once(name: str) -> None:
    check_large(name)


def check_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("plan_memory")
    assert set(benchmark.EXAMPLES) == EXAMPLES.keys()
    job = benchmark.example_job(name)
    opened = amount_of(recipe_of(lambda: static_contestant(job)))
    known = amount_of(recipe_of(lambda: static_contestant(benchmark.with_known_sizes(job))))
    check(known, opened, EXAMPLES[name])


@pytest.mark.parametrize("name", daily([*EXAMPLES], 2, "open examples"))
def test_a_step_of_open_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_example(name, monkeypatch)


@pytest.mark.campaign
@pytest.mark.parametrize("name", EXAMPLES)
def test_each_step_of_open_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_example(name, monkeypatch)


def test_the_exceptions_are_ops() -> None:
    assert MORE.keys() | MORE_LARGE.keys() | HUGE <= set(OPS)
