"""The benchmarks of a GPU: all contestants do the same, on an emulated one as on the processor, at
sizes that nobody would time; and what the command says and writes. Nothing is timed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_device import emulated_gpus

from staticflow.comparison.bench import workloads
from staticflow.tools import bench
from staticflow.tools.cli import main

FOLDER = Path(__file__).parents[2] / "benchmarks"
SMALL: dict[str, tuple[int, ...]] = {
    "gpu_functions": (1 << 12,), "gpu_steps": (2, 8, 4), "gpu_loops": (16,)
}  # fmt: skip


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The modules of the scripts, by name."""
    import importlib

    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("common", "report", "gpu_contestants", *SMALL)
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with monkeypatch.context() as patch:
        for variable in ("STATICFLOW_CACHE_DIR", "XLA_PYTHON_CLIENT_PREALLOCATE"):
            patch.setenv(variable, "")
        yield {name: importlib.import_module(name) for name in names}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)


def results_of(scripts: dict[str, Any], name: str, chosen: tuple[str, ...]) -> dict[str, Any]:
    """What the chosen contestants of each table of a script give after two runs."""
    found: dict[str, Any] = {}
    for title, makers in scripts[name].tables(*SMALL[name]).items():
        found[title] = {}
        for contestant in (c for c in makers if c in chosen):
            made = makers[contestant]()
            made.run(2)
            found[title][contestant] = [np.asarray(r, np.float64) for r in made.result()]
    return found


OURS = ("staticflow static", "staticflow eager")


@pytest.mark.parametrize("name", SMALL)
def test_contestants_do_the_same(scripts: dict[str, Any], name: str) -> None:
    """Ours on an emulated GPU, and NumPy and those of PyTorch, which have the same lines, on the
    processor."""
    pytest.importorskip("torch")
    with emulated_gpus():
        on_gpu = results_of(scripts, name, OURS)
    scripts["gpu_contestants"].DEVICE[0] = "cpu"
    others = results_of(scripts, name, (*OURS, "PyTorch eager", "NumPy"))
    assert on_gpu.keys() == others.keys()
    for title, found in on_gpu.items():
        assert set(found) == set(OURS) and "PyTorch eager" in others[title]
        wanted = others[title]["PyTorch eager"]
        for given in (*found.values(), *others[title].values()):
            for a, b in zip(given, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=title)


def test_the_tables_are_those_that_are_asked_for(scripts: dict[str, Any]) -> None:
    titles = [t for name in SMALL for t in scripts[name].tables(*SMALL[name])]
    for part in ("copy", "elementwise", "softmax", "layer norm", "gelu", "attention", "50 tiny",
                 "LeNet", "transformer", "LSTM", "two-layer", "ends by a value"):  # fmt: skip
        assert any(part in t for t in titles), part
    for name in SMALL:
        for makers in scripts[name].tables(*SMALL[name]).values():
            assert {*OURS, "PyTorch eager", *scripts["gpu_contestants"].MODES} <= makers.keys()


def test_without_a_gpu_a_sentence_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(["bench", "--device", "cuda"]) != 0
    said = capsys.readouterr()
    assert not said.out and "cupy is not installed" in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert main(["bench", "--device", "cuda", "--list"]) == 0
    assert "gpu_functions.py" in capsys.readouterr().out


def test_results_name_the_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a script that writes what it did not measure, on a GPU that is only a name."""
    row = {
        "median": 2e-3, "low": 1.9e-3, "high": 2.1e-3, "count": 15, "least": 1.8e-3, "most": 3e-3,
        "first": 0.5, "best_peer": "PyTorch", "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.2,
    }  # fmt: skip
    table = {
        "contestants": {"staticflow static": row, "PyTorch": row},
        "left_out": [],
        "work": None,
    }
    written = {"threads": 1, "tables": {"a copy": table}}
    text = f'"""GPU workload a: a copy."""\nimport sys\nopen(sys.argv[-1], "w").write({json.dumps(written)!r})\n'
    (tmp_path / "gpu_one.py").write_text(text)
    (tmp_path / "one.py").write_text('"""Workload a: of the processor."""')
    monkeypatch.setattr(bench, "_gpu_name", lambda: "a GPU")
    file = tmp_path / "r.json"
    given = ["bench", "--device", "cuda", "--threads", "1", "--folder", str(tmp_path), "--json"]
    assert main([*given, str(file)]) == 0
    (machine,) = json.loads(file.read_text())["machines"]
    assert machine["processor"] == "a GPU" and machine["flops_per_second"] is None
    assert "a GPU" in capsys.readouterr().out
    assert main([*given, str(file), "--add"]) == 0
    assert workloads.machine_of(1, "a GPU").processor == "a GPU"
    monkeypatch.setattr(bench, "_gpu_name", lambda: "another GPU")
    assert main([*given, str(file), "--add"]) != 0


# -- the first session -----------------------------------------------------------------------------


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    import importlib

    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "gpu_session", raising=False)
    module = importlib.import_module("gpu_session")
    monkeypatch.setattr(module, "STAY", 5.0)
    return module


def test_a_session_goes_on_past_what_fails(session: Any, tmp_path: Path) -> None:
    def python(name: str, text: str, seconds: float) -> Any:
        return session.Step(name, (sys.executable, "-c", text), seconds)

    endless = "import time\nprint('begun', flush=True)\ntime.sleep(100)"
    steps = [
        session.Step("missing", ("no-such-program",), 30),
        python("wrong", "raise SystemExit('said')", 30),
        python("endless", endless, 4),
        python("right", "open(r'{folder}/made', 'a').write('x')", 30),
    ]
    found = session.run_steps(steps, tmp_path, 1000)
    how = [found[s.name]["how"] for s in steps]
    assert how == [
        "left out: there is no no-such-program", "failed with status 1", "was cut off after 4 s",
        "passed",
    ]  # fmt: skip
    assert json.loads((tmp_path / "summary.json").read_text()) == found
    assert "said" in (tmp_path / "wrong.txt").read_text()
    said = (tmp_path / "endless.txt").read_text()
    assert "begun" in said and "KeyboardInterrupt" in said
    assert session.run_steps(steps, tmp_path, 1000) == found  # nothing is made twice
    assert (tmp_path / "made").read_text() == "x"


def test_what_a_call_cuts_off_is_begun_anew(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LEAST", 2.0)
    text = "import os, time\ntime.sleep(0 if os.path.exists(r'{folder}/go') else 100)"
    steps = [session.Step("long", (sys.executable, "-c", text), 40)]
    found = session.run_steps(steps, tmp_path, 6)
    assert found["long"]["how"].endswith("with the call") and not found["long"]["has_ended"]
    (tmp_path / "go").touch()
    assert session.run_steps(steps, tmp_path, 1)["long"] == found["long"]  # no time for it
    assert session.run_steps(steps, tmp_path, 1000)["long"]["how"] == "passed"


def test_the_steps_of_a_session(session: Any) -> None:
    """Their files are there, and pytest finds tests for a GPU in them."""
    for step in session.STEPS:
        for word in step.command:
            if word.startswith(("tests", "--ignore=tests")):
                assert (FOLDER.parent / word.removeprefix("--ignore=")).exists()
    tools = {s.command[2] for s in session.STEPS if s.command[0] == "compute-sanitizer"}
    assert tools == {"memcheck", "racecheck", "synccheck"}
    assert [s.name for s in session.STEPS[2:5]] == ["kernels", "programs", "bench"]
