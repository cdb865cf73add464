"""Profiles of compiled programs: each launch counted, nothing trained, spans inside of spans."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.program.routine import Launch, Repeat, walk_steps
from staticflow.errors import ArgumentError, DTypeError, ProfileError, ShapeError
from staticflow.measure import probing
from staticflow.measure.profile import Profile, short_lines
from staticflow.measure.trace import trace_of
from staticflow.static.compile import Program


def training_step() -> tuple[Program, sf.nn.Module]:
    model = sf.nn.Sequential(sf.nn.Linear(20, 30), sf.nn.ReLU(), sf.nn.Linear(30, 3))
    x, y = sf.placeholder((None, 20), name="x"), sf.placeholder((None,), "int64", name="y")
    loss = sf.nn.functional.cross_entropy(model(x), y)
    optimizer = sf.optim.Adam(model.parameters())
    return sf.compile([x, y], loss, updates=optimizer.minimize(loss)), model


def looping() -> Program:
    n, z = sf.placeholder((), "int64", name="n"), sf.placeholder((None, 8), name="z")
    last = sf.fori_loop(0, n, lambda i, z: (z + 1).sin() @ sf.ones(8, 8), z)
    return sf.compile([n, z], sf.grad(last.sum(), z))


def test_each_kernel_and_launch_is_counted_and_nothing_is_trained() -> None:
    program, model = training_step()
    before = [p.detach().clone() for p in model.parameters()]
    text, held = program.source(), program.held_bytes
    found = program.profile(sf.randn(64, 20), sf.zeros(64, dtype="int64"), repeat=4)
    assert program.source() == text
    assert "readcyclecounter" not in text
    assert "readsteadycounter" not in text
    assert program.held_bytes == held
    for a, b in zip(before, model.parameters(), strict=True):
        assert (a == b).all().item()
    kernels = [row for row in found.rows if row.kind == "kernel"]
    launches = [s for s in walk_steps(program.plan.routine.steps) if isinstance(s, Launch)]
    assert len(kernels) == program.kernel_count
    assert {row.name: row.count for row in kernels} == {
        name: [s.kernel for s in launches].count(name) for name in {s.kernel for s in launches}
    }
    assert all("test_profile.py" in row.lines for row in kernels)
    assert (found.mode, found.calls, found.overhead.count) == ("static", 4, 4)
    assert found.unprofiled is not None


def parts_of(found: Profile, rows: Sequence[Any]) -> float:
    return sum(row.seconds for row in rows) + sum(found.outside.values())


def test_the_parts_add_up_to_the_whole() -> None:
    program, _ = training_step()
    found = program.profile(sf.randn(64, 20), sf.zeros(64, dtype="int64"), repeat=3)
    for rows in (found.rows, found.lines):
        assert parts_of(found, rows) == pytest.approx(found.seconds)
        assert sum(r.share for r in rows) <= 1 + 1e-9
    assert all(seconds >= 0 for seconds in found.outside.values())


def test_loops_say_their_iterations_and_hold_their_launches() -> None:
    program = looping()
    loops = [s for s in walk_steps(program.plan.routine.steps) if isinstance(s, Repeat)]
    inside = sum(isinstance(s, Launch) for loop in loops for s in walk_steps(loop.body))
    every = sum(isinstance(s, Launch) for s in walk_steps(program.plan.routine.steps))
    for n in (0, 1, 7):
        found = program.profile(n, sf.ones(3, 8), repeat=1)
        launches = sum(row.count for row in found.rows if row.kind == "kernel")
        assert launches == n * inside + every - inside
        spans = [s for s in found.spans if s.kind == "loop"]
        assert [s.details["iterations"] for s in spans] == [n] * len(loops)
        assert sum(s.kind == "kernel" for s in found.spans) == launches
        for loop in spans:
            inner = [s for s in found.spans if s.kind == "kernel" and loop.start <= s.start]
            assert not n or any(s.end <= loop.end for s in inner)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_parts_that_threads_share_are_in_their_kernel(threads: int) -> None:
    before = sf.get_num_threads()
    try:
        sf.set_num_threads(threads)
        x = sf.placeholder((None, 512), name="x")
        found = sf.compile([x], x.exp() @ sf.ones(512, 256)).profile(sf.ones(512, 512), repeat=1)
    finally:
        sf.set_num_threads(before)
    parts = [s for s in found.spans if s.kind == "part"]
    kernels = [s for s in found.spans if s.kind == "kernel"]
    assert parts
    assert {s.thread for s in parts} <= set(range(threads))
    for part in parts:
        assert any(k.start <= part.start and part.end <= k.end for k in kernels)
    check_trace(trace_of([found]))


def test_branches_that_are_not_taken_have_no_launches() -> None:
    x = sf.placeholder((None,), name="x")
    out = sf.cond(x.sum() > 0, lambda: x.cumsum(0), lambda: x.flip(0).cumprod(0))
    program = sf.compile([x], out)
    counts = []
    for sign in (1, -1):
        found = program.profile(sign * sf.ones(5), repeat=1)
        assert len([r for r in found.rows if r.kind == "kernel"]) == program.kernel_count
        counts.append({r.name for r in found.rows if r.count and r.kind == "kernel"})
    assert counts[0] != counts[1]


def test_wrong_arguments_are_the_errors_of_the_call() -> None:
    program = looping()
    for args in ((), (3,), (3, sf.ones(3, 9))):
        with pytest.raises(ShapeError) as theirs:
            program(*args)
        with pytest.raises(ShapeError) as ours:
            program.profile(*args)
        assert (
            str(ours.value).split("test_profile")[0] == str(theirs.value).split("test_profile")[0]
        )
    for repeat in (0, -1, True, 1.5, "many"):
        with pytest.raises((ArgumentError, DTypeError), match=r"repeat is|'repeat' must be int"):
            program.profile(3, sf.ones(3, 8), repeat=repeat)  # type: ignore[arg-type]
    named = program.profile(z=sf.ones(3, 8), n=2, repeat=1)
    assert named.calls == 1


def test_a_table_fits_a_screen() -> None:
    program, _ = training_step()
    found = program.profile(sf.randn(64, 20), sf.zeros(64, dtype="int64"), repeat=2)
    lines = str(found).splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert "kernels" in lines[0]
    assert "profiling makes it" in lines[1]
    assert str(found) == found.table()
    assert short_lines("") == ""


# -- traces --------------------------------------------------------------------------------------


def check_trace(trace: dict[str, Any]) -> None:
    """What "Trace Event Format" says of complete, metadata and counter events."""
    json.loads(json.dumps(trace, allow_nan=False))
    assert isinstance(trace["traceEvents"], list)
    assert trace.get("displayTimeUnit") in ("ms", "ns")
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["ts"], float | int)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert isinstance(event["cat"], str)
            assert event["dur"] >= 0
            assert isinstance(event.get("args", {}), dict)
            key = event["pid"], event["tid"]
            spans.setdefault(key, []).append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "C":
            assert event["args"]
            assert all(isinstance(v, int | float) for v in event["args"].values())
        else:
            assert event["ph"] == "M"
            assert event["name"] in ("process_name", "thread_name", "process_labels")
            assert all(isinstance(text, str) for text in event["args"].values())
    for of_thread in spans.values():
        check_nesting(of_thread)


def check_nesting(spans: Sequence[tuple[float, float]]) -> None:
    """Two spans of one thread lie in each other, or apart, to the nanosecond."""
    around: list[float] = []
    for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
        while around and around[-1] <= start + 1e-4:
            around.pop()
        assert not around or end <= around[-1] + 1e-4
        around.append(end)


def test_the_span_of_the_call_has_nothing_of_the_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for the readings is made, and they are read, outside of it."""
    order: list[str] = []
    read_one = probing.read_one

    class Clock(probing.Clock):
        def __init__(self, executable: Any) -> None:
            super().__init__(executable)
            ticks = self.ticks
            self.ticks = lambda: (order.append("tick"), ticks())[1]

    def read(reader: Any, call: Any) -> Any:
        order.append("makes room")
        found = read_one(reader, lambda: (call(), order.append("called")))
        order.append("has read")
        return found

    monkeypatch.setattr(probing, "Clock", Clock)
    monkeypatch.setattr(probing, "read_one", read)
    looping().profile(3, sf.ones(1, 8), repeat=1)
    began = order.index("makes room")
    assert order[began : began + 5] == ["makes room", "tick", "tick", "called", "has read"]


def test_a_trace_has_what_the_format_asks_for(tmp_path: Path) -> None:
    program = looping()
    found = program.profile(5, sf.ones(64, 8), repeat=1)
    w = sf.ones(100, requires_grad=True)
    with sf.profile() as prof:
        (w * w).sum().backward()
    path = tmp_path / "trace.json"
    prof.export(path, found)
    trace = json.loads(path.read_text())
    check_trace(trace)
    assert {e["pid"] for e in trace["traceEvents"]} == {1, 2}
    kinds = [e["ph"] for e in trace["traceEvents"]]
    assert kinds.count("X") == len(found.spans) + len(prof.result.spans)
    assert kinds.count("C") == len(found.memory) + len(prof.result.memory)
    # one axis, on which both begin together; the program was profiled before the block
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [min(e["ts"] for e in spans if e["pid"] == i) for i in (1, 2)] == [0, 0]
    (label,) = (e for e in trace["traceEvents"] if e["name"] == "process_labels")
    assert label["pid"] == 1 and label["args"]["labels"].endswith("after the first")
    # what overlaps keeps its place
    one = replace(found, memory=(), spans=found.spans[:1])
    later = replace(one, spans=(replace(one.spans[0], start=one.spans[0].start + 1e-6),))
    starts = [e["ts"] for e in trace_of([later, one])["traceEvents"] if e["ph"] == "X"]
    assert starts == pytest.approx([1.0, 0.0], abs=2e-3)
    held = [e["args"]["bytes in use"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert max(held) >= 800


def test_a_path_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    program = looping()
    found = program.profile(1, sf.ones(1, 8), repeat=1)
    with pytest.raises(ProfileError, match=r"no/trace\.json cannot be written"):
        found.export(tmp_path / "no" / "trace.json")
    with pytest.raises(ProfileError, match="is no profile"):
        found.export(tmp_path / "trace.json", 3)  # type: ignore[arg-type]
    ran = []
    with pytest.raises(ProfileError, match="cannot be written"), sf.profile(tmp_path / "no" / "t"):
        ran.append(1)
    assert not ran
    np.empty(3)
