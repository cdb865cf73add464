"""The step of a comparison on several processes: what is split, what is told, what is refused."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import staticflow as sf
from staticflow import distributed
from staticflow.comparison import scaling
from staticflow.comparison.contest import trace_step
from staticflow.comparison.costs import ProcessError
from staticflow.comparison.job import Job, Request
from staticflow.comparison.on_mesh import count_sent, split_inputs
from staticflow.comparison.requests import job_of
from staticflow.comparison.run import Options, compare_job
from staticflow.comparison.scaling import check_counts, find_scaling
from staticflow.comparison.text import format_comparison

MODELS = Path(__file__).with_name("models.py")
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))


def plain() -> Job:
    return job_of(Request(f"{MODELS}:Plain", steps=4))


def test_rows_of_inputs_and_targets_are_split_and_gradients_are_summed() -> None:
    def run() -> Any:
        job = plain()
        model, mesh = job.make_model(), distributed.mesh(data=-1)
        _, symbols, loss, updates = trace_step(job, model, lambda given: split_inputs(job, given))
        step = sf.compile(symbols, loss, updates=updates, mesh=mesh)
        batches = job.batches(2)
        losses = [step(*batch).item() for batch in batches]
        assert "all_gather" not in step.explain("mesh")
        return losses, count_sent(step, batches[0])

    ((alone, nothing),) = distributed.simulate(run, 1)
    assert nothing == (0, 0)
    for losses, (sent, messages) in distributed.simulate(run, 2):
        assert losses == pytest.approx(alone, rel=1e-5)
        assert sent > 0 and messages > 0


def test_counts_are_whole_numbers_and_need_mpirun(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_counts(()) == ()
    wrongs: list[Any] = [0, -1, 2.0, True, "2", 65]
    for wrong in wrongs:
        with pytest.raises(sf.ArgumentError, match="integers from 1 to 64"):
            check_counts([wrong])
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(sf.RankError, match="there is no mpirun; install"):
        check_counts([2])


def test_efficiency_is_the_speedup_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        1: {"seconds": [4.0], "losses": [2.0, 1.0], "bytes": 0, "messages": 0},
        2: {"seconds": [2.5], "losses": [2.0, 1.5], "bytes": 8, "messages": 1},
    }

    def answer(command: Any, job: Any, folder: Path, environment: Any) -> Any:
        count = int(command[0])
        if count not in answers:
            raise ProcessError("no such luck")
        (folder / "answer.json").touch()
        return answers[count]

    monkeypatch.setattr(scaling, "launch_command", lambda count, words: ([str(count)], {}))
    monkeypatch.setattr(scaling, "answer_of", answer)
    monkeypatch.setattr(scaling, "usable_processors", lambda: 1)
    found, notes = find_scaling(plain(), (1, 2, 3))
    assert [(s.processes, s.speedup, s.efficiency, s.difference) for s in found] == [
        (1, 1.0, 1.0, 0.0), (2, 1.6, 0.8, 0.5),
    ]  # fmt: skip
    assert notes[0] == "3 processes were not measured: no such luck"
    assert "1 processors, which more processes share" in notes[1]


def test_a_comparison_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mpi4py", reason="several processes talk by MPI")
    if shutil.which("mpirun", path=PATH) is None:
        pytest.skip("several processes are started by mpirun")
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    found = compare_job(plain(), Options(is_quick=True, processes=(1, 2)))
    assert [s.processes for s in found.scaling] == [1, 2], found.notes
    one, two = found.scaling
    assert one.efficiency == 1.0 and one.bytes == 0 < two.bytes
    assert two.difference is not None and two.difference < 1e-5
    assert "PROCESSES OF 1 THREAD" in format_comparison(found)
    page = pytest.importorskip("staticflow.comparison.page")
    pytest.importorskip("matplotlib")
    assert "on processes of one thread" in page.render_page(found)
