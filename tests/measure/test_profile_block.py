"""Profiles of eager code: just what ran, to the same bits, and nothing left behind."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import tape
from staticflow.eager.mode import EAGER
from staticflow.eager.vertex import PerElementEntry, TapeEntry
from staticflow.errors import ProfileError
from staticflow.measure.block import _Times
from staticflow.measure.hooks import ROUNDS, HookCost, run_hooked
from staticflow.measure.operations import record_operations
from staticflow.ops.declaring.by_shape import BY_SHAPE
from staticflow.ops.declaring.fused import FUSED


def everything() -> list[Any]:
    """All that a profile exchanges."""
    return [
        EAGER.forms, dict(vars(sf.Tensor)), tape.backward, tape.grad, TapeEntry.pull,
        PerElementEntry.pull, [m.form for m in BY_SHAPE.values()], [f.form for f in FUSED],
        vars(type(sf.compile([x := sf.placeholder((1,))], x + 1)))["__call__"],
        vars(sf.optim.Optimizer)["step"],
    ]  # fmt: skip


def learn(steps: int, profiled: bool) -> tuple[list[bytes], list[sf.profile]]:
    """The bits of all parameters and losses of a small convolutional net."""
    sf.manual_seed(0)
    model = sf.nn.Sequential(
        sf.nn.Conv2d(1, 4, 3), sf.nn.BatchNorm2d(4), sf.nn.ReLU(), sf.nn.MaxPool2d(2),
        sf.nn.Flatten(), sf.nn.Dropout(0.3), sf.nn.Linear(36, 5),
    )  # fmt: skip
    optimizer = sf.optim.Adam(model.parameters(), lr=0.01)
    x, y = sf.randn(8, 1, 8, 8), sf.arange(8) % 5
    found, blocks = [], []

    def step() -> None:
        optimizer.zero_grad()
        loss = sf.nn.functional.cross_entropy(model(x), y) + (x[:2] ** 2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.detach().numpy().tobytes())

    for _ in range(steps):
        if profiled:
            with sf.profile() as block:
                step()
            blocks.append(block)
        else:
            step()
    found += [p.detach().numpy().tobytes() for p in model.parameters()]
    return found, blocks


def test_what_is_measured_as_a_block_ends_leaves_no_trace() -> None:
    packed: list[object] = []
    x = sf.ones(3)
    with (
        sf.autograd.graph.saved_tensors_hooks(packed.append, lambda x: x),
        sf.no_grad(),
        sf.profile() as block,
    ):
        x.exp()
    found = block.result
    assert {r.name: r.count for r in found.operations} == {"exp": 1}
    assert not packed and found.threads == {0: "MainThread"}
    assert [t for t, _ in found.memory] == sorted(t for t, _ in found.memory)


def test_what_writing_down_costs_is_charged_by_the_operations_there_are() -> None:
    with sf.profile() as block:
        sf.ones(3, requires_grad=True).exp().sum().backward()
    found = block.result
    backward = sum(r.count for r in found.operations if r.kind == "backward")
    forward = sum(r.count for r in found.operations) - backward
    whole, writing = found.seconds, found.outside["writing the operations down"]
    with record_operations() as recording:
        hooked = run_hooked(recording)
    assert not recording.operations and not recording.threads
    assert len(hooked) == ROUNDS and all(
        (one.forward, one.operations) == (100, 100) and other.operations > other.forward == 40
        for one, other in hooked
    )
    times = _Times(whole, 0.0, whole, writing, 0.0, forward, backward)
    left = (whole - writing) / 4
    cost = HookCost(left / forward, left / backward)
    told = times.overhead([cost, HookCost(0.0, 0.0), HookCost(1.0, 1.0)])
    assert told.median == pytest.approx(2 * whole / (whole - writing))
    assert told.low == pytest.approx(whole / (whole - writing)) and told.high == np.inf


def test_bits_are_the_same_and_the_parts_add_up() -> None:
    plain, _ = learn(4, profiled=False)
    profiled, blocks = learn(4, profiled=True)
    assert profiled == plain
    for block in blocks:
        found = block.result
        for rows in (found.rows, found.lines):
            whole = sum(r.seconds for r in rows) + sum(found.outside.values())
            assert whole == pytest.approx(found.seconds)
            assert min(found.outside.values()) >= 0
        assert found.overhead.low >= 1
        names = {(r.name, r.kind): r.count for r in found.rows}
        for name in ("conv2d", "relu", "max_pool2d", "linear", "cross_entropy", "mean"):
            assert names[name, "forward"] == 1, name
        assert names["backward", "backward"] == 1
        assert names["ReluBackward0", "backward"] == 1
        assert names["Adam.step", "update"] == 1
        assert all(o.end >= o.start for o in found.spans)
    assert len({tuple(sorted((r.name, r.count) for r in b.result.rows)) for b in blocks[2:]}) == 1


def test_just_the_operations_that_ran() -> None:
    x, y = sf.ones(3, 4), sf.ones(4, requires_grad=True)
    for _ in range(3):
        with sf.profile() as prof:
            z = x * y
            z += 1.0
            2 - z
            z.T  # noqa: B018
            sf.relu(z)
            sf.cat([z, x])
            z[0]
            z.sum(dim=1)
            z.shape, z.ndim, z.numel(), z.dtype
    found = [(s.name, s.kind) for s in prof.result.spans if s.kind != "block"]
    wanted = ["mul", "add_", "sub", "T", "relu", "cat", "get", "sum"]
    outermost = [name for name, _ in found if name in wanted]
    assert outermost == wanted
    assert all(kind == "forward" for _, kind in found)


def test_each_operation_has_the_line_of_the_user() -> None:
    w = sf.ones(5, requires_grad=True)
    for _ in range(2):
        with sf.profile() as prof:
            y = w.exp()
            z = y.sum()
            z.backward()
    first = test_each_operation_has_the_line_of_the_user.__code__.co_firstlineno + 4
    lines = {s.name: s.details.get("lines", "").rpartition(":")[2] for s in prof.result.spans}
    assert lines["exp"] == lines["ExpBackward0"] == str(first)
    assert lines["sum"] == lines["SumBackward0"] == str(first + 1)
    assert lines["backward"] == str(first + 2)


def test_what_is_allocated_is_by_operation() -> None:
    x = sf.ones(1000)
    x + 1, x.exp().sum()
    with sf.profile() as prof:
        y = x + 1
        (y.exp() * 2).sum()
    sizes = {r.name: r.bytes for r in prof.result.rows}
    assert sizes["add"] == sizes["mul"] == 4000
    assert sizes["exp"] == 4000
    assert sizes["sum"] is not None
    assert sizes["sum"] < 100
    assert max(held for _, held in prof.result.memory) >= 12_000


def test_nothing_is_left_behind() -> None:
    sf.nn.functional.layer_norm(sf.ones(2, 2), (2,))
    before = everything()
    with sf.profile():
        assert everything()[0] is not before[0]
    assert everything() == before
    with pytest.raises(ZeroDivisionError), sf.profile() as prof:
        sf.ones(3) + sf.ones(3)
        1 / 0  # noqa: B018
    assert everything() == before
    assert [r.name for r in prof.result.rows if r.name == "add"] == ["add"]
    with pytest.raises(sf.ShapeError), sf.profile() as prof:
        sf.ones(3) + sf.ones(4)
    assert everything() == before
    assert prof.result.rows[0].name


def test_programs_are_spans_on_the_same_axis() -> None:
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], x * 2)
    jitted = sf.jit(lambda a: a * 3)
    jitted(sf.ones(4))
    with sf.profile() as prof:
        program(sf.ones(4))
        jitted(sf.ones(4))
        sf.ones(4) + program(sf.ones(4))
    counts = {r.name: r.count for r in prof.result.rows if r.kind == "program"}
    assert counts["program(x)"] == 2
    assert counts["jit of <lambda>"] == 1
    block, *spans = prof.result.spans
    assert all(block.start <= s.start <= s.end <= block.end for s in spans)


def test_a_program_that_is_compiled_inside_goes_on_outside() -> None:
    x = sf.placeholder((None,), name="x")
    w = sf.ones(3)
    with sf.profile() as prof:
        program = sf.compile([x], x * w)
        assert program(sf.ones(3)).tolist() == [1.0] * 3
        assert program.__call__(sf.ones(3)).tolist() == [1.0] * 3
    assert [r.count for r in prof.result.rows if r.name == "program(x)"] == [2]
    assert program(sf.ones(3)).tolist() == [1.0] * 3
    assert vars(program).get("__call__") is None


def test_a_graph_that_is_written_inside_is_no_operation() -> None:
    w = sf.ones(3)
    with sf.profile() as prof:
        x = sf.placeholder((3,), name="x")
        sf.compile([x], (x * w).sum())
    assert [r.name for r in prof.result.rows if r.name in ("mul", "sum")] == []


def test_other_threads_have_rows_of_their_own() -> None:
    x = sf.ones(3)

    def compute() -> None:
        x.exp()

    with sf.profile() as prof:
        thread = threading.Thread(target=compute, name="helper")
        thread.start()
        thread.join()
        x.sin()
    found = prof.result
    threads = {s.name: found.threads[s.thread] for s in found.spans if s.kind == "forward"}
    assert threads["exp"] == "helper"
    assert threads["sin"] == threading.current_thread().name


def test_one_at_a_time_and_asked_for_behind_the_block(tmp_path: Path) -> None:
    with sf.profile() as prof:
        with pytest.raises(ProfileError, match="counted already"), sf.profile():
            pass
        with pytest.raises(ProfileError, match="has not ended"):
            prof.table()
        sf.ones(3).sin()
    assert "sin" in str(prof)
    with pytest.raises(ProfileError, match="the path is function"):
        sf.profile(lambda: None)  # type: ignore[arg-type]
    with sf.profile(tmp_path / "trace.json"):
        sf.ones(3).sin()
    assert '"sin"' in (tmp_path / "trace.json").read_text()


def test_a_block_of_nothing_says_so() -> None:
    with sf.profile() as prof:
        np.ones(3)
    assert prof.result.rows == ()
    assert "nothing ran" in str(prof)


def test_a_function_of_the_users_is_one_step_back() -> None:
    class Double(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: sf.Tensor) -> sf.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, ct: sf.Tensor) -> sf.Tensor:
            return ct * 2

    x = sf.ones(3, requires_grad=True)
    with sf.profile() as prof:
        Double.apply(x).sum().backward()
    names = {(r.name, r.kind) for r in prof.result.rows}
    assert ("DoubleBackward", "backward") in names
    assert ("mul", "forward") in names
    assert ("mul", "backward") in names
