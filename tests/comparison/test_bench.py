"""The command that runs the benchmarks: which there are, what is kept, what counts as a change."""

from __future__ import annotations

import dataclasses
import json
import queue
import re
import time
from pathlib import Path

import pytest

from staticflow.comparison.bench import workloads as module
from staticflow.comparison.bench.results import (
    Results,
    find_changes,
    format_changes,
    format_table,
    join_results,
    load_results,
    noise_between,
    read_tables,
    results_as_json,
)
from staticflow.comparison.bench.schedule import Schedule
from staticflow.comparison.bench.script import Script, run_script
from staticflow.comparison.bench.workloads import (
    Run,
    choose_workloads,
    find_folder,
    find_workloads,
    run_workloads,
)
from staticflow.errors import ArgumentError
from staticflow.measure.machine import Machine
from staticflow.measure.statistics import Spread
from staticflow.tools.cli import main

FOLDER = Path(__file__).parents[2] / "benchmarks"
MACHINE = Machine("a processor", 1, "a system", {"numpy": "2"}, 1e9, 1e9, ((1024, 2e9),))
HOW = Run((1,), 2, 0.001)

ROW = {
    "median": 2e-3, "low": 1.9e-3, "high": 2.1e-3, "count": 15, "least": 1.8e-3, "most": 3e-3,
    "first": 0.5, "best_peer": "NumPy", "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.2,
}  # fmt: skip
WRITTEN = {
    "threads": 1,
    "tables": {
        "a step": {
            "contestants": {
                "staticflow static": ROW,
                "NumPy": {**ROW, "median": 4e-3, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0},
            },
            "left_out": ["JAX jit (No module named 'jax')"],
            "work": {"bytes": 1_000_000, "flops": 500_000, "footprint": 10_000_000},
        }
    },
}
MEMORY = {
    **WRITTEN["tables"]["a step"],
    "contestants": {"NumPy": {**ROW, "median": 2**26}},
    "work": None,
    "unit": "B",
    "left_out": ["JAX jit (" + "a long reason " * 9 + ")"],
    "notes": ["of 200 shapes 190 are ahead"],
}


@pytest.fixture(autouse=True)
def no_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is not measured."""
    monkeypatch.setattr(module, "machine", lambda threads, anew: MACHINE)


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(body)
    return path


def fake(letter: str, written: object = WRITTEN) -> str:
    return (
        f'"""Workload {letter}: something.\n\nAnd more."""\nimport json, sys\n'
        f"at = sys.argv.index('--json')\nopen(sys.argv[at + 1], 'w').write({json.dumps(written)!r})"
    )


def results(ratio: Spread, seconds: Spread, processor: str = "a processor") -> Results:
    (table,) = read_tables("a", 1, WRITTEN["tables"], MACHINE)
    row = dataclasses.replace(table.contestants["staticflow static"], run=seconds, ratio=ratio)
    rows = {**table.contestants, "staticflow static": row}
    machine = dataclasses.replace(MACHINE, processor=processor)
    return Results("then", (machine,), 15, 0.1, (dataclasses.replace(table, contestants=rows),))


def test_every_workload_of_the_folder_is_found_and_named_in_its_page() -> None:
    known = find_workloads(FOLDER)
    assert set("abcdefghijklmnopqrstu") == {w.letter for w in known}
    page = (FOLDER / "README.md").read_text()
    for workload in known:
        assert f"| {workload.letter} | `{workload.path.name}` |" in page, workload
    on_gpu = find_workloads(FOLDER, on_gpu=True)
    assert [w.letter for w in on_gpu] == ["a", "b", "c"]
    for workload in on_gpu:
        assert f"| {workload.letter} | `{workload.path.name}` |" in page, workload
    others = {p.stem for p in FOLDER.glob("*.py")} - {w.path.stem for w in (*known, *on_gpu)}
    assert others == {
        "common", "compile_ops", "compile_time", "data_parallel", "eager_layers", "eager_ops", "gpu_contestants",
        "gpu_launches", "gpu_session", "jit_functions", "large_arrays",
        "mixed_precision", "op_table", "ops", "peak", "plan_memory", "processes", "report", "steps", "summary",
    }  # fmt: skip
    assert find_folder() == FOLDER


def test_workloads_are_chosen_by_letter_or_name() -> None:
    known = find_workloads(FOLDER)
    chosen = choose_workloads(known, ["j", "lenet"])
    assert [w.path.stem for w in chosen] == ["lenet", "call_overhead", "eager_chain"]
    assert choose_workloads(known, []) == known


def test_what_a_benchmark_writes_is_read_with_the_part_of_the_limit_that_it_reaches() -> None:
    (table,) = read_tables("a", 1, WRITTEN["tables"], MACHINE)
    assert table.best_peer == "NumPy" and table.key == ("a", "a step", 1)
    ours = table.contestants["staticflow static"]
    assert ours.ratio == Spread(2.0, 1.9, 2.2, 15) and ours.roofline == pytest.approx(0.25)
    assert table.contestants["NumPy"].roofline is None  # it may do other work
    text = format_table(table)
    assert "2.00 × (1.90 to 2.20)" in text and "25%" in text
    assert "left out: JAX jit (No module named 'jax')" in text
    assert max(map(len, text.splitlines())) <= 80
    (bare,) = read_tables("l", 1, {"t": MEMORY}, MACHINE)
    assert bare.work is None and bare.unit == "B"
    text = format_table(bare)
    assert "NumPy                    64.0 MiB" in text and "of 200 shapes 190 are ahead" in text
    assert max(map(len, text.splitlines())) <= 80


def test_results_are_the_same_once_written_and_read(tmp_path: Path) -> None:
    tables = {"a step": WRITTEN["tables"]["a step"], "memory": MEMORY}
    read = tuple(read_tables("a", 1, tables, MACHINE))
    found = Results("now", (MACHINE,), 15, 0.1, read, ("x",), {"a a.py": 9.0})
    (tmp_path / "r.json").write_text(results_as_json(found))
    assert load_results(tmp_path / "r.json") == found


def test_a_change_is_what_intervals_do_not_share() -> None:
    before = results(Spread(2.0, 1.9, 2.1, 15), Spread(1.0, 0.9, 1.1, 15))
    same = results(Spread(2.05, 1.95, 2.2, 15), Spread(0.95, 0.85, 1.05, 15))
    assert find_changes(before, same) == []
    assert format_changes([], "then") == "nothing changed beyond noise since then"
    worse = results(Spread(1.5, 1.4, 1.6, 15), Spread(1.4, 1.3, 1.5, 15))
    found = find_changes(before, worse)
    assert [(c.of_time, c.is_better) for c in found] == [(True, False), (False, False)]
    text = format_changes(found, "then")
    assert "WORSE: a a step, staticflow static, 1 thread: the best peer takes 1.50 × as" in text
    assert "WORSE: a a step, staticflow static, 1 thread: a run takes 1.40 s, 1.00 s before" in text
    assert [c.is_better for c in find_changes(worse, before)] == [True, True]


def test_what_peers_have_changed_alike_is_noise() -> None:
    before = results(Spread(2.0, 1.9, 2.1, 15), Spread(1.0, 0.9, 1.1, 15))
    busy = results(Spread(2.0, 1.9, 2.1, 15), Spread(1.4, 1.3, 1.5, 15))
    assert [c.is_better for c in find_changes(before, busy)] == [False]
    (table,) = busy.tables
    numpy = table.contestants["NumPy"]
    slow = dataclasses.replace(numpy, run=Spread(4e-3 * 1.5, 5e-3, 7e-3, 15))
    rows = {**table.contestants, "NumPy": slow}
    busy = dataclasses.replace(busy, tables=(dataclasses.replace(table, contestants=rows),))
    pairs = [*zip(before.tables, busy.tables, strict=True)]
    assert noise_between(pairs, True) == pytest.approx(1.5) and noise_between(pairs, False) == 1.0
    assert find_changes(before, busy) == [] and find_changes(busy, before) == []
    assert noise_between([], True) == 1.0


def test_on_another_machine_only_ratios_are_compared() -> None:
    before = results(Spread(2.0, 1.9, 2.1, 15), Spread(1.0, 0.9, 1.1, 15))
    other = results(Spread(3.0, 2.9, 3.1, 15), Spread(9.0, 8.0, 9.5, 15), "another")
    (change,) = find_changes(before, other)
    assert not change.of_time and change.is_better


def test_a_script_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    script(tmp_path, "one.py", fake("a"))
    script(tmp_path, "two.py", '"""Workload b: wrong."""\nraise SystemExit("x disagrees")')
    script(tmp_path, "three.py", fake("c"))
    script(tmp_path, "common.py", '"""What they share."""')
    told: list[str] = []
    found = run_workloads(find_workloads(tmp_path), HOW, told.append)
    assert [t.workload for t in found.tables] == ["a", "c"]
    assert found.failed == ("b two.py, threads 1: x disagrees",)
    assert "FAILED: b two.py, threads 1: x disagrees" in told
    assert list(found.took) == [f"{w}.py, threads 1" for w in ("a one", "b two", "c three")]


def test_a_script_that_fails_later_keeps_the_tables_that_it_wrote(tmp_path: Path) -> None:
    faulty = fake("a", {**WRITTEN, "faults": {"a graph": "x disagrees"}})
    script(tmp_path, "one.py", faulty + "\nraise SystemExit('a graph: x disagrees')")
    script(tmp_path, "two.py", fake("b") + "\nraise SystemExit('out of memory')")
    found = run_workloads(find_workloads(tmp_path), HOW, lambda text: None)
    assert [t.workload for t in found.tables] == ["a", "b"]
    assert found.failed == (
        "a one.py, threads 1: a graph: x disagrees", "b two.py, threads 1: out of memory"
    )  # fmt: skip


def test_a_script_that_hangs_is_ended_with_what_it_wrote_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its patience is over once it has said the last, however long a busy machine takes for that."""

    class Lines(queue.SimpleQueue[str | None]):
        said = ""

        def get(self, timeout: float) -> str | None:
            assert timeout == 0.8
            if "torch.compile" in self.said:
                raise queue.Empty
            self.said = super().get(timeout=60) or ""
            return self.said

    hung = "\nprint('  torch.compile', flush=True)\nimport time\ntime.sleep(60)"
    path = script(tmp_path, "one.py", fake("a") + hung)
    monkeypatch.setattr("queue.SimpleQueue", Lines)
    outcome = run_script(Script(path, ("--threads", "1"), 0.4))
    assert list(outcome.tables) == ["a step"]
    assert outcome.faults == {"": "it said nothing for 1 s; the last was 'torch.compile'"}


def test_a_script_that_is_interrupted_keeps_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: object, timeout: float) -> str:
        while not target.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    target = tmp_path / "written"
    ready = f"\nopen({str(target)!r}, 'w').close()\nimport time\ntime.sleep(60)"
    for name in "ab":
        script(tmp_path, f"{name}.py", fake(name) + ready)
    lines = type("Lines", (), {"get": interrupt, "put": lambda *_: None})
    monkeypatch.setattr("queue.SimpleQueue", lines)
    found = run_workloads(find_workloads(tmp_path), HOW, lambda text: None)
    assert [t.workload for t in found.tables] == ["a"]
    assert found.failed == ("interrupted in a a.py, threads 1",) and found.took == {}


def test_what_is_left_is_estimated_by_an_earlier_run_and_the_pace_of_this_one() -> None:
    now = 0.0
    watch = Schedule(["a", "b", "c"], {"a": 10.0, "b": 30.0}, lambda: now)
    assert watch.begin() == "a" and watch.remaining() == 60.0  # c is taken for one of 20
    now = 20.0
    watch.finish()
    assert watch.begin() == "b" and watch.took == {"a": 20.0} and watch.remaining() == 100.0
    assert watch.text() == "bench: 2 of 3, b; 20.0 s gone, about 100 s left"
    bare = Schedule(["a", "b"], {}, lambda: now)
    bare.begin()
    assert bare.text() == "bench: 1 of 2, a"
    now = 25.0
    bare.finish()
    bare.begin()
    assert bare.remaining() == 5.0


def test_what_was_measured_until_an_interrupt_is_kept(tmp_path: Path) -> None:
    for name in "abc":
        script(tmp_path, f"{name}.py", fake(name))

    def report(text: str) -> None:
        if text.startswith("b "):
            raise KeyboardInterrupt

    found = run_workloads(find_workloads(tmp_path), HOW, report)
    assert [t.workload for t in found.tables] == ["a", "b"]
    assert found.failed == ("interrupted in b b.py, threads 1",)


def test_the_command_writes_what_it_measured_and_compares_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path, "one.py", fake("a"))
    target = tmp_path / "r.json"
    options = ["bench", "--folder", str(tmp_path), "--threads", "1"]
    assert main([*options, "--json", str(target)]) == 0
    assert main([*options, "--against", str(target)]) == 0
    assert re.search("nothing changed beyond noise since 20", capsys.readouterr().out)
    script(tmp_path, "two.py", '"""Workload b: wrong."""\nraise SystemExit("x disagrees")')
    assert main([*options, "--json", str(target)]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "b two.py, threads 1: x disagrees"
    assert told[0] == "bench: 1 of 2, a one.py, threads 1"
    assert [t.workload for t in load_results(target).tables] == ["a"]


def test_a_benchmark_of_the_folder_runs_to_its_end() -> None:
    (workload,) = choose_workloads(find_workloads(FOLDER), ["call_overhead"])
    found = run_workloads([workload], HOW, lambda text: None)
    assert found.failed == ()
    (table,) = found.tables
    assert {"staticflow eager", "staticflow static"} <= table.contestants.keys()
    assert all(row.run.count == 2 for row in table.contestants.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zzz"], "there is no workload 'zzz'; the letters are a, b, c"),
        (["--folder", "/nowhere"], "/nowhere is no folder of benchmarks"),
        (["--against", "/nowhere.json"], "/nowhere.json cannot be read: No such file"),
        (["--against", __file__], f"{__file__} is no JSON"),
        (["--json", "/nowhere/r.json"], "the results cannot be written to '/nowhere/r.json': No"),
        (["--rounds", "0"], "at least 1 is needed, not 0"),
        (["--seconds", "nan"], "a number above 0 is needed, not nan"),
        (["--threads", "1,x"], "'x' is not a whole number"),
    ],
)
def test_mistakes_are_told_in_a_line_before_anything_runs(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["bench", *arguments])
    except SystemExit as error:
        code = error.code
    output = capsys.readouterr()
    assert code == 2 and message in output.err and not output.out
    assert "Traceback" not in output.err


def test_a_file_of_something_else_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for text, message in (
        ("[]", "has the schema 'list'"),
        ('{"schema": "x"}', "has the schema 'x'; it must have 'staticflow.bench/1'"),
        ('{"schema": "staticflow.bench/1"}', "is not what `bench --json` writes"),
    ):
        path.write_text(text)
        with pytest.raises(ArgumentError, match=re.escape(message)):
            load_results(path)


def test_an_installed_package_says_that_it_has_no_benchmarks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="an installed package is without it"):
        find_folder()


def test_a_later_run_takes_the_place_of_what_it_measured_again() -> None:
    first, second = (
        Results("", (MACHINE,), 15, 0.1, tuple(read_tables(letter, 1, tables, MACHINE, when)))
        for letter, when, tables in (
            ("a", "then", {"a step": WRITTEN["tables"]["a step"], "memory": MEMORY}),
            ("a", "now", {"a step": WRITTEN["tables"]["a step"]}),
        )
    )
    first = dataclasses.replace(
        first,
        failed=(
            "b b.py, threads 1: it fell",
            "a a.py, threads 16: it fell",
            "a a.py, threads 1: no",
            "interrupted in a a.py, threads 1",
        ),
    )
    second = dataclasses.replace(second, when="now", took={"a a.py, threads 1": 2.0})
    joined = join_results(first, second)
    assert {table.title: table.when for table in joined.tables} == {
        "a step": "now",
        "memory": "then",
    }
    assert joined.when == "now" and joined.failed == (
        "b b.py, threads 1: it fell",
        "a a.py, threads 16: it fell",
    )
    two = dataclasses.replace(MACHINE, threads=2)
    both = join_results(dataclasses.replace(first, machines=(two,)), second).machines
    assert both == (MACHINE, two)


def test_results_are_added_to_those_of_the_same_machine_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.json"
    file.write_text(results_as_json(results(Spread(2.0, 1.9, 2.1, 15), Spread(1.0, 1.0, 1.0, 15))))
    before = file.read_text()
    script(tmp_path, "a.py", fake("a"))
    options = ["bench", "--folder", str(tmp_path), "--json", str(file), "--add", "--threads", "1"]
    assert main(options) == 2
    assert "cannot be added to results of a processor with numpy 2" in capsys.readouterr().err
    assert file.read_text() == before
    assert main(["bench", "--folder", str(tmp_path), "--add"]) == 2
    assert "--json FILE" in capsys.readouterr().err
