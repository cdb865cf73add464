"""Branches by a value, and loops that end by one, in captured graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import assert_alike, compiled, normal
from emulated_device import EmulatedDevice, emulated_gpus

import staticflow as sf


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices:
        yield devices[0]


def halve(x: Any) -> Any:
    return sf.while_loop(lambda y: (y * y).sum() > 1, lambda y: y / 2 + y[::-1] * 0.1, x)


def by_products(x: Any) -> Any:
    w = sf.tensor(normal(4, 4) * 0.2).to("cpu").numpy()
    return sf.while_loop(lambda y: (y * y).sum() > 1, lambda y: y @ w, x)


def of_two(x: Any) -> Any:
    def body(a: Any, b: Any, n: Any) -> Any:
        return b, a * 0.5 + b.flip(0) * 0.25, n + 1

    return sf.while_loop(lambda a, b, n: (b * b).sum() > 1, body, (x, x * 2, sf.zeros(())))


def with_a_loop_inside(x: Any) -> Any:
    def body(y: Any) -> Any:
        return sf.fori_loop(0, 3, lambda i, z: z * 0.9 + z.sum() * 0.01, y)

    return sf.while_loop(lambda y: (y * y).sum() > 1, body, x)


FUNCTIONS = (halve, by_products, of_two, with_a_loop_inside)


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_while_loops(gpu: EmulatedDevice, fn: Any) -> None:
    shape = (4, 4) if fn is by_products else (4,)
    program, on_cpu = (compiled(fn, [normal(*shape)], d, unknown=False) for d in ("cuda", "cpu"))
    for scale in (1e3, 1e3, 1e-3, 1e1, 1e8, 3e4, 1e-3):
        x = normal(*shape) * np.float32(scale)
        gpu.counts.clear()
        assert_alike(program(x), on_cpu(x), rtol=1e-4)
    gpu.counts.clear()
    program(normal(*shape) * 1e-3)
    assert gpu.counts["graph"] >= 1 and gpu.counts["synchronize"] <= 3
    assert "iterations or more a launch" in program.explain()


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_while_loops_in_a_graph(gpu: EmulatedDevice, fn: Any) -> None:
    """However many iterations there are: one launch, and one look of the host, at the end."""
    gpu.loops_in_graphs = True
    shape = (4, 4) if fn is by_products else (4,)
    program, on_cpu = (compiled(fn, [normal(*shape)], d, unknown=False) for d in ("cuda", "cpu"))
    for number, scale in enumerate((1e3, 1e3, 1e-3, 1e1, 1e8, 3e4, 1e-3)):
        x = normal(*shape) * np.float32(scale)
        gpu.counts.clear()
        assert_alike(program(x), on_cpu(x), rtol=1e-4)
        if number > 1:
            assert not gpu.counts["capture"]
            assert gpu.counts["graph"] <= 3  # what comes before and behind
            assert gpu.counts["launch"] <= 1  # of what lies where the last iteration has left it
    assert "one launch of a loop that ends by a value, which the GPU goes" in program.explain()


@pytest.mark.parametrize("fault", ["captured loop", "launched loop"])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_a_graph_that_refuses_a_loop(gpu: EmulatedDevice, fn: Any, fault: str) -> None:
    """The host looks then, in the same call, and one warning says why."""
    gpu.loops_in_graphs = True
    gpu.faults[fault] = 0
    shape = (4, 4) if fn is by_products else (4,)
    program, on_cpu = (compiled(fn, [normal(*shape)], d, unknown=False) for d in ("cuda", "cpu"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for scale in (1e3, 1e3, 1e-3, 1e1, 1e8, 3e4, 1e-3):
            x = normal(*shape) * np.float32(scale)
            assert_alike(program(x), on_cpu(x), rtol=1e-4)
    (only,) = caught
    assert "by itself" in str(only.message) and "a node that is refused" in str(only.message)
    assert "STATICFLOW_CAPTURE" not in str(only.message)
    assert gpu.counts[fault] == 1
    assert "iterations or more a launch" in program.explain()


def test_a_whole_loop_that_fails_later(gpu: EmulatedDevice) -> None:
    """What was launched before is not refused: that is an error, after which all is as before."""
    gpu.loops_in_graphs = True
    program, on_cpu = (compiled(halve, [normal(4)], d, unknown=False) for d in ("cuda", "cpu"))
    for _ in range(3):
        program(normal(4) * 9)
    gpu.faults["launched loop"] = 0
    with pytest.raises(sf.DeviceError, match=r"as a graph: .*refused as.*; .*STATICFLOW_CAPTURE=0"):
        program(normal(4))
    gpu.faults.clear()
    assert gpu.loops_in_graphs
    x = normal(4) * np.float32(1e3)
    assert_alike(program(x), on_cpu(x))


def test_a_whole_loop_without_memory(gpu: EmulatedDevice) -> None:
    """It is no reason to look from the host, whose graphs are larger."""
    gpu.loops_in_graphs = True
    program, on_cpu = (compiled(halve, [normal(4)], d, unknown=False) for d in ("cuda", "cpu"))
    program(normal(4))
    gpu.faults["memory of a loop"] = 0
    with pytest.raises(MemoryError, match=r"no memory .*STATICFLOW_CAPTURE=0"):
        program(normal(4))
    gpu.faults.clear()
    assert gpu.loops_in_graphs
    x = normal(4) * np.float32(1e3)
    assert_alike(program(x), on_cpu(x))


@pytest.mark.parametrize("is_refused", [False, True])
def test_long_iterations_are_fewer_at_once(gpu: EmulatedDevice, is_refused: bool) -> None:
    """As many as can be captured, where the host looks from the beginning, and where it does after
    a graph of the whole loop was refused."""
    gpu.loops_in_graphs = is_refused
    gpu.faults["captured loop"] = 0
    w = normal(2, 2) * np.float32(1e-3)

    def fn(x: Any) -> Any:
        def body(y: Any) -> Any:
            return sf.fori_loop(0, 200, lambda i, z: z @ w + z, y) * 0.01

        return sf.while_loop(lambda y: (y * y).sum() > 1e-3, body, x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program, on_cpu = (compiled(fn, [normal(2, 2)], d, unknown=False) for d in ("cuda", "cpu"))
        for seed in range(3):
            x = normal(2, 2, seed=seed)
            assert_alike(program(x), on_cpu(x), rtol=1e-3)
    assert len(caught) == is_refused
    assert "of 4 iterations or more a launch" in program.explain()
    assert 2048 < gpu.largest_graph <= 4096


def test_many_iterations_are_few_launches(gpu: EmulatedDevice) -> None:
    def count(n: Any) -> Any:
        return sf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i * i), (n * 0, n * 0.0))

    program, on_cpu = (compiled(count, [np.array(3)], d, unknown=False) for d in ("cuda", "cpu"))
    for n in (3, 0, 1, 15, 16, 17, 31, 32, 33, 100):
        gpu.counts.clear()
        assert_alike(program(np.array(n)), on_cpu(np.array(n)))
        if n == 100:
            assert gpu.counts["graph"] < 12 and gpu.counts["launch"] < 4


def test_many_iterations_are_one_launch(gpu: EmulatedDevice) -> None:
    gpu.loops_in_graphs = True

    def count(n: Any) -> Any:
        return sf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i * i), (n * 0, n * 0.0))

    program, on_cpu = (compiled(count, [np.array(3)], d, unknown=False) for d in ("cuda", "cpu"))
    seen = set()
    for n in (3, 3, 0, 1, 2, 15, 16, 17, 100):
        gpu.counts.clear()
        assert_alike(program(np.array(n)), on_cpu(np.array(n)))
        seen.add((gpu.counts["graph"], gpu.counts["synchronize"]))
    assert len(seen - {(0, 0)}) <= 3 and max(graphs for graphs, _ in seen) <= 3


def test_scans_that_end_early(gpu: EmulatedDevice) -> None:
    def until(xs: Any) -> Any:
        return sf.scan(
            lambda c, x: (c + x @ xs.T, (c + x.sum()).sum()), xs[:, 0] * 0, xs,
            until=lambda c, y: y > 1.5,
        )  # fmt: skip

    program, on_cpu = (compiled(until, [normal(7, 3)], d) for d in ("cuda", "cpu"))
    for seed in range(5):
        x = np.abs(normal(7, 3, seed=seed)) * np.float32(0.3 * seed)
        assert_alike(program(x), on_cpu(x))


def branch(x: Any) -> Any:
    y = sf.cond(x.sum() > 0, lambda: x.sin() @ x, lambda: x.flip(0).cos())
    return sf.cond(y.sum() > 1, lambda: (y, y.sum()), lambda: (y * 2, y[0, 0]))


def branch_in_a_branch(x: Any) -> Any:
    def positive() -> Any:
        return sf.cond(
            x[0, 0] > 0, lambda: x + 1, lambda: sf.fori_loop(0, 3, lambda i, c: c @ x, x)
        )

    return sf.cond(x.sum() > 0, positive, lambda: x * 3)


def branch_in_a_loop(x: Any) -> Any:
    def body(y: Any) -> Any:
        return sf.cond(y[0, 0] > 0, lambda: y.T * 0.5, lambda: (y @ y) / (1 + y.abs().sum()))

    return sf.while_loop(lambda y: (y * y).sum() > 1, body, x)


@pytest.mark.parametrize("fn", [branch, branch_in_a_branch, branch_in_a_loop])
def test_both_sides_of_a_branch_are_launched(gpu: EmulatedDevice, fn: Any) -> None:
    program, on_cpu = (compiled(fn, [normal(3, 3)], d, unknown=False) for d in ("cuda", "cpu"))
    for seed in range(12):
        x = normal(3, 3, seed=seed) * np.float32(1 + seed % 3)
        gpu.counts.clear()
        assert_alike(program(x), on_cpu(x), rtol=1e-4)
    if fn is not branch_in_a_loop:
        assert gpu.counts["graph"] == 1 and gpu.counts["launch"] == 0
        assert "1 launch a call, from the second" in program.explain()


def test_a_branch_behind_what_may_fail(gpu: EmulatedDevice) -> None:
    table = sf.placeholder((5,), name="table")
    at = sf.placeholder((2,), "int64", name="at")
    found = table[table[at].long() % 5 + (at > 3) * 9]
    out = sf.cond(found.sum() > 0, lambda: found * 2, lambda: found[::-1] * 3)
    programs = [sf.compile([table, at], out, device=d) for d in ("cuda", "cpu")]
    values = np.array([1, 2, -3, 4, 0.5], np.float32)
    for index in ([0, 1], [2, 2], [3, 0]):
        given = values, np.array(index)
        assert_alike(programs[0](*given), programs[1](*given))
    for index in ([0, 5], [4, 0]):
        with pytest.raises(sf.IndexRangeError):
            programs[0](values, np.array(index))


def test_other_loops_are_the_hosts(gpu: EmulatedDevice) -> None:
    table = sf.placeholder((5,), name="table")
    at = sf.placeholder((), "int64", name="at")
    last = sf.while_loop(lambda i: table[i] > 0, lambda i: i + 1, at)  # an index may be wrong
    program = sf.compile([table, at], last, device="cuda")
    for _ in range(3):
        found = program(np.array([1, 1, 1, 0, 1], np.float32), np.array(0))
        assert found.cpu().item() == 3
    assert "which the host reads in each iteration" in program.explain()
