"""Passes left out in turn: which are compiled, what is counted, whether results agree."""

from __future__ import annotations

from typing import Any

import pytest

from staticflow import nn
from staticflow.comparison import ablation as module
from staticflow.comparison.ablation import Ablations, ablate
from staticflow.comparison.contest import static_contestant
from staticflow.comparison.job import Job, make_job
from staticflow.comparison.source import ModelFile
from staticflow.passes.order import PASSES

QUICK: dict[str, Any] = {"rounds": 3, "seconds": 1e-4}


class Net(nn.Module):
    """A layer and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(x).relu()


def job() -> Job:
    inputs = ("x: f32[batch=8, 3]", "y: i64[batch] < 4")
    file = ModelFile("here", "Net", Net, {"example_inputs": inputs})
    return make_job(file, loss="cross_entropy", optimizer="sgd", lr=0.1)


@pytest.fixture(scope="module")
def found() -> Ablations:
    return ablate(job(), **QUICK)


def test_every_pass_is_timed_or_has_no_effect_or_is_needed(found: Ablations) -> None:
    named = [row.without for row in found.rows] + [*found.no_effect, *found.needed]
    assert sorted(named) == sorted(n for n in PASSES if n != "relax")
    assert {"hoist", "merge", "scalar_loops"} <= set(found.no_effect)  # there is no loop
    assert set(found.needed) == {"decompose", "copy_strided"}


def test_rows_say_what_the_program_without_the_pass_is(found: Ablations) -> None:
    row = next(row for row in found.rows if row.without == "fuse")
    program = static_contestant(job(), passes=["-fuse"]).program
    whole = static_contestant(job()).program
    assert program is not None and whole is not None
    assert row.kernels == program.kernel_count > whole.kernel_count
    assert row.peak == program.plan.peak_bytes(batch=8) > whole.plan.peak_bytes(batch=8)
    assert row.step.count == 3 and row.agrees
    assert [r.ratio for r in found.rows] == sorted((r.ratio for r in found.rows), reverse=True)


def test_what_changes_nothing_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch, found: Ablations
) -> None:
    compiled: list[Any] = []

    def counting(job: Job, **options: Any) -> Any:
        compiled.append(options.get("passes"))
        return static_contestant(job, **options)

    monkeypatch.setattr(module, "static_contestant", counting)
    turns: list[int] = []
    again = ablate(job(), progress=lambda: turns.append(1), **QUICK)
    assert again.no_effect == found.no_effect
    assert sorted(compiled[1:]) == sorted([f"-{row.without}"] for row in again.rows)
    assert len(turns) == 3 * len(compiled)


def test_a_pass_without_which_results_differ_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(job: Job, **options: Any) -> Any:
        made = static_contestant(job, **options)
        if options.get("passes") == ["-fuse"]:
            made.model.layer.bias.detach()[0] += 1e-2
        return made

    monkeypatch.setattr(module, "static_contestant", wrong)
    rows = {row.without: row.agrees for row in ablate(job(), **QUICK).rows}
    assert not rows.pop("fuse") and rows and all(rows.values())
