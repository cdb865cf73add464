"""Every example that has a model can be compared, and every other one says here that it has none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from staticflow.comparison.job import Request
from staticflow.comparison.page import render_page
from staticflow.comparison.refusal import find_change, try_statically
from staticflow.comparison.requests import job_of
from staticflow.comparison.run import Options, compare_job

FOLDER = Path(__file__).parents[2] / "examples"

MAKERS = {"peers": "two_layer", "two_layer_nn": "network"}
"""Examples whose model is what a function makes."""

EAGER_ONLY = {"weight_sharing.py:PythonDepth": "in range(repeats)"}
"""Models that are no graph, and what stands in the line that says why."""

WITHOUT_A_MODEL = {
    "array_api", "batches", "beam_search", "checkpointing", "data_parallel", "draw", "dtypes", "early_exit", "explain",
    "from_pytorch", "hidden_markov", "interop", "jacobian_hessian", "jit",
    "look_into_gradients", "losses", "mixed_precision", "new_function", "newton", "onnx_export",
    "onnx_load", "operations", "optimizers", "pipeline", "profiles", "pytorch_idioms", "random_numbers", "register_machine", "ring_attention",
    "tape", "tensor_parallel", "two_layer_autograd", "two_layer_numpy", "two_layer_static", "two_layer_tensors",
    "views", "vmap",
}  # fmt: skip
"""Examples of operations, derivatives, loops and tools: functions of tensors, or a network that is
made in passing to show something else."""


def find_models(path: Path) -> list[str]:
    """The models of a file, as the command line takes them: each class of modules."""
    classes = (n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef))
    known: list[str] = []
    for each in classes:
        bases = [ast.unparse(base) for base in each.bases]
        if any(base.split(".")[-1] == "Module" or base in known for base in bases):
            known.append(each.name)
    names = known or [MAKERS[path.stem]] if path.stem in MAKERS else known
    return [f"{path.name}:{name}" for name in names]


MODELS = [model for path in sorted(FOLDER.glob("*.py")) for model in find_models(path)]
GRAPHS = [model for model in MODELS if model not in EAGER_ONLY]


def test_an_example_has_a_model_or_says_that_it_has_none() -> None:
    with_models = {model.partition(".")[0] for model in MODELS}
    assert not with_models & WITHOUT_A_MODEL and set(EAGER_ONLY) <= set(MODELS)
    assert with_models | WITHOUT_A_MODEL == {path.stem for path in FOLDER.glob("*.py")}
    reports = {path.stem for path in (FOLDER / "reports").glob("*.json")}
    assert reports and reports <= with_models


@pytest.mark.parametrize("model", GRAPHS)
def test_it_runs_and_is_a_graph(model: str) -> None:
    assert find_change(job_of(Request(f"{FOLDER}/{model}", steps=2))) == ""


@pytest.mark.campaign
@pytest.mark.parametrize("model", GRAPHS)
def test_the_whole_comparison(model: str) -> None:
    found = compare_job(job_of(Request(f"{FOLDER}/{model}", steps=20)), Options(repeats=1))
    assert found.has_passed and set(found.break_even) == {"cold", "warm"}
    assert found.memory["static"].measured > 0 and not any(k.uncounted for k in found.kernels)
    assert all(row.agrees for row in found.ablation)
    left_out = [note for note in found.notes if "was not measured" in note or "no step" in note]
    assert not left_out
    assert len(render_page(found).encode()) <= 2_000_000


@pytest.mark.parametrize("model", EAGER_ONLY)
def test_a_model_that_is_no_graph_is_refused_with_its_line(model: str) -> None:
    _, refused = try_statically(job_of(Request(f"{FOLDER}/{model}", steps=1)))
    file = model.partition(":")[0]
    line = (FOLDER / file).read_text().split(EAGER_ONLY[model])[0].count("\n") + 1
    assert refused is not None and f"{file}:{line}" in refused and "fori_loop" in refused
