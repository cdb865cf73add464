"""Loops that end by a value, of which many iterations are one launch."""

from __future__ import annotations

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


def test_many_iterations_are_few_launches(gpu: EmulatedDevice) -> None:
    def count(n: Any) -> Any:
        return sf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i * i), (n * 0, n * 0.0))

    program, on_cpu = (compiled(count, [np.array(3)], d, unknown=False) for d in ("cuda", "cpu"))
    for n in (3, 0, 1, 15, 16, 17, 31, 32, 33, 100):
        gpu.counts.clear()
        assert_alike(program(np.array(n)), on_cpu(np.array(n)))
        if n == 100:
            assert gpu.counts["graph"] < 12 and gpu.counts["launch"] < 4


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


def test_other_loops_are_the_hosts(gpu: EmulatedDevice) -> None:
    table = sf.placeholder((5,), name="table")
    at = sf.placeholder((), "int64", name="at")
    last = sf.while_loop(lambda i: table[i] > 0, lambda i: i + 1, at)  # an index may be wrong
    program = sf.compile([table, at], last, device="cuda")
    for _ in range(3):
        found = program(np.array([1, 1, 1, 0, 1], np.float32), np.array(0))
        assert found.cpu().item() == 3
    assert "which the host reads in each iteration" in program.explain()
