"""Every example that has a model can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticflow.comparison.job import Request
from staticflow.comparison.refusal import find_change, try_statically
from staticflow.comparison.requests import job_of
from staticflow.comparison.run import Options, compare_job

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = {"peers": ":two_layer", "two_layer_nn": ":network", "weight_sharing": ":RandomDepth"}
MODELS = [
    f"{path}{NAMES.get(path.stem, '')}"
    for path in sorted(FOLDER.glob("*.py"))
    if "example_inputs" in path.read_text() or "(nn.Module)" in path.read_text()
]


def test_there_are_models() -> None:
    assert len(MODELS) >= 9


@pytest.mark.parametrize("target", MODELS, ids=lambda t: Path(t).stem)
def test_it_runs_and_is_a_graph(target: str) -> None:
    assert find_change(job_of(Request(target, steps=2))) == ""


@pytest.mark.campaign
@pytest.mark.parametrize("target", MODELS, ids=lambda t: Path(t).stem)
def test_the_whole_comparison(target: str) -> None:
    found = compare_job(job_of(Request(target, steps=20)), Options(repeats=1))
    assert found.has_passed and set(found.break_even) == {"cold", "warm"}
    assert found.memory["static"].measured > 0 and found.kernels


def test_a_python_loop_over_an_input_is_refused_with_its_line() -> None:
    _, refused = try_statically(job_of(Request(f"{FOLDER}/weight_sharing.py:PythonDepth", steps=1)))
    line = (FOLDER / "weight_sharing.py").read_text().split("in range(repeats)")[0].count("\n") + 1
    assert refused is not None and f"weight_sharing.py:{line}" in refused and "fori_loop" in refused
