"""Programs that are called in a profiled block: their kernels are seen, and nothing else changes."""

import platform
import signal
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.program.routine import Launch, Repeat, walk_steps
from staticflow.errors import ArgumentError, IndexRangeError, ShapeError, SymbolicError
from staticflow.measure.block import MOST_SPANS
from staticflow.measure.profile import Profile, Row
from staticflow.measure.trace import trace_of
from staticflow.static.compile import Program


def training_step() -> tuple[Program, sf.nn.Module]:
    sf.manual_seed(0)
    model = sf.nn.Sequential(
        sf.nn.Linear(20, 30), sf.nn.BatchNorm1d(30), sf.nn.Dropout(0.2), sf.nn.Linear(30, 3)
    )
    x, y = sf.placeholder((None, 20), name="x"), sf.placeholder((None,), "int64", name="y")
    loss = sf.nn.functional.cross_entropy(model(x), y)
    optimizer = sf.optim.Adam(model.parameters())
    return sf.compile([x, y], loss, updates=optimizer.minimize(loss)), model


def launches_of(program: Program) -> Counter[str]:
    steps = walk_steps(program.plan.routine.steps)
    return Counter(s.kernel for s in steps if isinstance(s, Launch))


def kernels_of(found: Profile, program: str = "") -> dict[str, Row]:
    rows = [r for r in found.rows if r.kind == "kernel" and r.program.startswith(program)]
    assert len({(r.program, r.name) for r in rows}) == len(rows)
    return {row.name: row for row in rows}


def check_sums(found: Profile) -> None:
    for rows in (found.rows, found.lines):
        whole = sum(r.seconds for r in rows) + sum(found.outside.values())
        assert whole == pytest.approx(found.seconds)


def test_each_launch_is_a_child_of_its_call() -> None:
    program, _ = training_step()
    x, y = sf.randn(16, 20), sf.zeros(16, dtype="int64")
    with sf.profile() as prof:
        for _ in range(3):
            program(x, y)
    found = prof.result
    check_sums(found)
    wanted = {name: 3 * count for name, count in launches_of(program).items()}
    assert {name: row.count for name, row in kernels_of(found).items()} == wanted
    assert all("test_profile_programs.py" in row.lines for row in kernels_of(found).values())
    assert [(r.name, r.count) for r in found.rows if r.kind == "program"] == [("program(x, y)", 3)]
    calls = [s for s in found.spans if s.kind == "program"]
    kernels = [s for s in found.spans if s.kind == "kernel"]
    assert (len(calls), len(kernels)) == (3, sum(wanted.values()))
    inside = [[k for k in kernels if c.start <= k.start <= k.end <= c.end] for c in calls]
    assert [len(part) for part in inside] == [sum(launches_of(program).values())] * 3
    assert found.preparing > 0
    assert sum(s.kind == "preparation" for s in found.spans) == 1
    table = str(prof)
    assert "kernels of programs" in table and "compiling the programs with a clock" in table
    assert max(map(len, table.splitlines())) <= 80


def test_what_is_trained_is_trained_once_and_to_the_same_bits() -> None:
    def learn(profiled: bool) -> list[bytes]:
        program, model = training_step()
        x, y = sf.randn(16, 20), sf.arange(16) % 3
        found = []
        for _ in range(4):
            if profiled:
                with sf.profile():
                    found.append(program(x, y).numpy().tobytes())
                    found.append(program(x, y).numpy().tobytes())
            else:
                found += [program(x, y).numpy().tobytes(), program(x, y).numpy().tobytes()]
        state = model.state_dict()
        assert state["1.num_batches_tracked"].item() == 8
        return found + [t.detach().numpy().tobytes() for t in state.values()]

    assert learn(profiled=True) == learn(profiled=False)


def test_a_block_leaves_the_program_as_it_was() -> None:
    program, _ = training_step()
    x, y = sf.randn(16, 20), sf.zeros(16, dtype="int64")
    program(x, y)
    call, text, held = program.__call__, program.source(), program.held_bytes
    slot = vars(Program)["__call__"]
    with sf.profile():
        assert program.__call__ is not call
        program(x, y)
        assert program.held_bytes == held
    assert program.__call__ is call
    assert vars(Program)["__call__"] is slot
    assert program.source() == text
    assert "readcyclecounter" not in text and "readsteadycounter" not in text


def test_jitted_functions_forward_and_back() -> None:
    f = sf.jit(lambda a: (a.sin() @ a.T).sum())
    x = sf.randn(8, 8).requires_grad_()
    for _ in range(2):
        x.grad = None
        f(x).backward()
    alone = x.grad
    x.grad = None
    with sf.profile() as prof:
        f(x).backward()
    assert x.grad is not None and alone is not None
    assert x.grad.numpy().tobytes() == alone.numpy().tobytes()
    found = prof.result
    check_sums(found)
    assert {r.name for r in found.operations if r.kind == "program"} >= {"jit of <lambda>"}
    assert {"program(arg0)", "program(arg0, ct1)"} == {
        r.program for r in found.rows if r.kind == "kernel"
    }


def test_two_programs_of_one_name_are_told_apart() -> None:
    x = sf.placeholder((None,), name="x")
    one, other = sf.compile([x], x.exp().sum()), sf.compile([x], x.sin().sum())
    with sf.profile() as prof:
        one(sf.ones(3)), other(sf.ones(3)), other(sf.ones(4))
    counts = {r.name: r.count for r in prof.result.rows if r.kind == "program"}
    assert counts == {"program(x)": 1, "program(x) #2": 2}
    assert {r.program: r.count for r in prof.result.rows if r.kind == "kernel"} == counts


def test_loops_say_their_iterations_and_their_work_is_counted_by_them() -> None:
    z = sf.placeholder((None, 8), name="z")
    out = sf.while_loop(lambda z: z.sum() < 1e4, lambda z: (z * 2) @ sf.eye(8) + 1, z)
    program = sf.compile([z], out)
    assert any(isinstance(s, Repeat) for s in walk_steps(program.plan.routine.steps))
    given = [sf.full((4, 8), start) for start in (1.0, 1000.0)]
    with sf.profile(work=True) as prof:
        for start in given:
            program(start)
    found = prof.result
    loops = [s.details["iterations"] for s in found.spans if s.kind == "loop"]
    assert len(loops) == 2 and loops[0] > loops[1] >= 0
    assert found.uncounted == 0
    wanted = [k for n in loops for k in program.work(z_0=4, iterations=n)]
    names = {r.name for r in found.rows if r.kind == "kernel"}
    assert sum(k.flops for k in wanted if k.name in names) == sum(
        r.flops or 0 for r in kernels_of(found).values()
    )
    assert found.flops == sum(k.flops for k in wanted)
    assert found.traffic == sum(k.bytes for k in wanted)


def test_threads_in_one_program_have_rows_of_their_own() -> None:
    """A thread of the pool has one where it took a part, which it does if it wakes in time: in one
    block or another."""
    before = sf.get_num_threads()
    x = sf.placeholder((None, 256), name="x")
    program = sf.compile([x], x.exp() @ sf.ones(256, 256))
    given = sf.randn(256, 256)
    wanted = program(given).numpy()
    each = launches_of(program)
    results: list[Any] = []
    barrier = threading.Barrier(3)

    def call() -> None:
        barrier.wait()
        for _ in range(5):
            results.append(program(given).numpy())

    def check_block() -> set[str]:
        """The threads that took parts in a block."""
        results.clear()
        with sf.profile() as prof:
            threads = [threading.Thread(target=call, name=f"caller {i}") for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        found = prof.result
        assert len(results) == 15 and all(np.array_equal(r, wanted) for r in results)
        assert {k: r.count for k, r in kernels_of(found).items()} == {
            k: 15 * n for k, n in each.items()
        }
        on = Counter(found.threads[s.thread] for s in found.spans if s.kind == "kernel")
        assert on == {f"caller {i}": 5 * sum(each.values()) for i in range(3)}
        parts = {found.threads[s.thread] for s in found.spans if s.kind == "part"}
        assert parts <= {*on, "thread 1 of the pool"}
        return parts

    try:
        sf.set_num_threads(2)
        assert any("thread 1 of the pool" in check_block() for _ in range(50))
    finally:
        sf.set_num_threads(before)


def test_an_error_in_a_program_is_its_own_and_changes_nothing() -> None:
    table, seen = sf.tensor([1.0, 2.0]), sf.tensor(0.0)
    i = sf.placeholder((None,), "int64", name="i")
    program = sf.compile([i], sf.symbol(table)[i], updates={seen: sf.symbol(seen) + 1})
    given = {"wrong": sf.tensor([0, 5]), "right": sf.tensor([1])}

    def message(call: Any) -> str:
        with pytest.raises(IndexRangeError) as error:
            call()
        return str(error.value).split("called at")[0]

    alone = message(lambda: program(given["wrong"]))
    with sf.profile() as prof:
        assert message(lambda: program(given["wrong"])) == alone
        assert program(i=given["right"]).tolist() == [2.0]
        with pytest.raises(ShapeError, match="takes 1 inputs"):
            program()
    assert seen.item() == 1
    assert [r.count for r in prof.result.rows if r.kind == "program"] == [3]
    check_sums(prof.result)
    with pytest.raises(IndexRangeError), sf.profile() as prof:
        program(given["wrong"])
    assert prof.result.rows
    assert program(given["right"]).tolist() == [2.0]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_ctrl_c_in_a_program_ends_the_block_in_order() -> None:
    n, seen = sf.placeholder((), "int64", name="n"), sf.tensor(0.0)
    last = sf.fori_loop(0, n, lambda i, z: (z + 1).sin() @ sf.eye(64), sf.ones(64, 64))
    program = sf.compile([n], last, updates={seen: sf.symbol(seen) + last.sum() * 0 + 1})
    program(3)
    slot = vars(Program)["__call__"]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), sf.profile() as prof:
            program(2)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            program(1_000_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert vars(Program)["__call__"] is slot
    assert seen.item() == 2
    found = prof.result
    check_sums(found)
    assert [r.count for r in found.rows if r.kind == "program"] == [2]
    assert max(r.count for r in kernels_of(found).values()) > 100
    assert program(3).shape == (64, 64)


def test_steps_beyond_those_that_are_kept_are_counted() -> None:
    n = sf.placeholder((), "int64", name="n")
    last = sf.fori_loop(0, n, lambda i, z: (z + 1).sin() @ sf.eye(4), sf.ones(4, 4))
    program = sf.compile([n], last)
    with sf.profile() as prof:
        program(MOST_SPANS)
        program(3)
    found = prof.result
    assert len(found.spans) <= MOST_SPANS + 1
    assert found.dropped > 0
    (count,) = {r.count for r in kernels_of(found).values() if r.count > MOST_SPANS}
    assert count == MOST_SPANS + 3
    check_sums(found)


def test_a_program_that_is_no_longer_what_was_written_says_so() -> None:
    program, model = training_step()
    x, y = sf.randn(16, 20), sf.zeros(16, dtype="int64")
    with sf.profile() as prof:
        program(x, y)
        model.eval()
        with pytest.raises(SymbolicError, match="eval"):
            program(x, y)
        model.train()
        program(x, y)
    assert [r.count for r in prof.result.rows if r.kind == "program"] == [3]


def test_what_is_given_away_is_and_a_budget_holds() -> None:
    x = sf.placeholder((4,), name="x")
    program = sf.compile([x], x * 2, donate=[x])
    given = sf.ones(4)
    with sf.profile():
        result = program(given)
        with pytest.raises(ArgumentError, match="donated to an earlier call"):
            program(given)
    assert np.shares_memory(result.numpy(), given.numpy())
    a = sf.placeholder((None,), name="a")
    loss = sf.scan(lambda z, _: (z.sin(), None), a, None, length=20, memory_budget=4096)[0].sum()
    held = sf.compile([a], sf.grad(loss, a))
    with sf.profile():
        held(sf.ones(8))
        with pytest.raises(ArgumentError, match="memory_budget=4096"):
            held(sf.ones(100_000))


def test_nested_blocks_are_refused_and_programs_go_on() -> None:
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], x * 2)
    with sf.profile() as prof:
        with pytest.raises(sf.errors.ProfileError), sf.profile():
            program(sf.ones(3))
        program(sf.ones(3))
        program.profile(sf.ones(3), repeat=1)  # has twins of its own, which are no call of it
    assert [r.count for r in prof.result.rows if r.kind == "program"] == [1]
    assert sum(r.count for r in kernels_of(prof.result).values()) == 1


def test_without_a_clock_a_program_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    x, given = sf.placeholder((None,), name="x"), sf.ones(3)
    program = sf.compile([x], x * 2)
    with sf.profile(work=True) as prof:
        program(given)
    assert [(r.name, r.flops) for r in prof.result.rows] == [("program(x)", 3)]
    assert prof.result.preparing == 0
    assert "can read no clock" in str(prof)


def test_a_trace_has_programs_and_operations_on_one_axis() -> None:
    program, _ = training_step()
    x, y = sf.randn(16, 20), sf.zeros(16, dtype="int64")
    with sf.profile() as prof:
        program(x + 1, y)
        (x * 2).sum()
    events = [e for e in trace_of([prof.result])["traceEvents"] if e["ph"] == "X"]
    assert {e["cat"] for e in events} >= {"block", "forward", "program", "kernel", "preparation"}
    (block,) = (e for e in events if e["cat"] == "block")
    ends = block["ts"] + block["dur"]
    assert all(block["ts"] <= e["ts"] and e["ts"] + e["dur"] <= ends + 1e-3 for e in events)
    (call,) = (e for e in events if e["cat"] == "program")
    for kernel in (e for e in events if e["cat"] == "kernel"):
        assert call["ts"] <= kernel["ts"] + 1e-3
        assert kernel["ts"] + kernel["dur"] <= call["ts"] + call["dur"] + 1e-3
        assert kernel["tid"] == call["tid"]
