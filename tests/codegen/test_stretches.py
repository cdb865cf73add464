"""Launches that come again and again on other arrays are a loop over a table of where these lie."""

from __future__ import annotations

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.llvm.stretches import Stretch, find_stretches
from staticflow.codegen.program.routine import Launch, walk_steps
from staticflow.config import config


def run_of(step: sf.Program) -> str:
    """The text of what launches the kernels of a program."""
    return step.source("llvm").split("define i64 @run")[1]


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("", []),
        ("a", [(0, 1, 1)]),
        ("a" * 7, [(i, 1, 1) for i in range(7)]),
        ("a" * 8, [(0, 1, 8)]),
        ("ab" * 8, [(0, 2, 8)]),
        ("ab" * 8 + "a", [(0, 2, 8), (16, 1, 1)]),
        ("x" + "abc" * 10, [(0, 1, 1), (1, 3, 10)]),
        ("aab" * 9, [(0, 3, 9)]),
        ("abcdefgh" * 8, [(0, 8, 8)]),
        ("abcdefghi" * 8, [(i, 1, 1) for i in range(72)]),
        ("." * 9 + "a" * 9, [*((i, 1, 1) for i in range(9)), (9, 1, 9)]),
    ],
)
def test_stretches_cover_all_steps_in_their_order(keys: str, found: list[tuple[int, ...]]) -> None:
    """A dot is a step without a key."""
    each = [None if k == "." else k for k in keys]
    assert [*find_stretches(each)] == [Stretch(*f) for f in found]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 33, 100])
def test_updates_of_many_tensors_are_a_loop(count: int) -> None:
    values = np.random.default_rng(count).standard_normal((2, count, 5)).astype("f")
    tensors = [sf.from_numpy(v.copy()) for v in values[0]]
    rows = [sf.placeholder((5,), name=f"x{i}") for i in range(count)]
    step = sf.compile(
        rows, None, updates={t: t * 0.5 + x.exp() for t, x in zip(tensors, rows, strict=True)}
    )
    steps = [s for s in walk_steps(step._executable.program.steps) if isinstance(s, Launch)]
    assert len(steps) == count
    assert run_of(step).count("call i32 @") == (count if count < 8 else 1)
    step(*values[1])
    got = np.stack([t.numpy() for t in tensors])
    np.testing.assert_allclose(got, values[0] * 0.5 + np.exp(values[1]), rtol=1e-6, atol=1e-6)


def test_launches_on_buffers_of_the_arena_and_on_arrays_of_the_caller() -> None:
    """Two kernels by turns, of which the second reads what the first has made."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((6, 6)).astype("f") for _ in range(20)]
    tensors = [sf.from_numpy(w.copy()) for w in weights]
    x = sf.placeholder((4, 6), name="x")
    loss = sum(((x @ t) ** 2).sum() for t in tensors)
    grads = sf.grad(loss, tensors)
    step = sf.compile(
        [x], loss, updates={t: t - 0.1 * g for t, g in zip(tensors, grads, strict=True)}
    )
    launches = sum(isinstance(s, Launch) for s in walk_steps(step._executable.program.steps))
    assert launches >= 40 > 20 > run_of(step).count("call i32 @")
    given = rng.standard_normal((4, 6)).astype("f")
    total = sum(np.square(given @ w).sum() for w in weights)
    np.testing.assert_allclose(step(given).item(), total, rtol=1e-5)
    for t, w in zip(tensors, weights, strict=True):
        np.testing.assert_allclose(t.numpy(), w - 0.2 * given.T @ (given @ w), rtol=2e-4, atol=1e-5)


def test_a_loop_over_few_launches_is_optimised_and_one_of_many_kinds_is_not() -> None:
    tensors = [sf.full((3,), float(i)) for i in range(80)]
    x = sf.placeholder((3,), name="x")
    alike = sf.compile([x], None, updates={t: t * x for t in tensors})
    apart = sf.compile([x], None, updates={t: t * x + i for i, t in enumerate(tensors)})
    assert "optnone" not in run_of(alike).splitlines()[0]
    assert "optnone" in run_of(apart).splitlines()[0]


def test_where_sizes_are_open_what_lies_at_a_number_is_in_a_loop() -> None:
    """The buffers of all turns begin where the arena does."""
    x = sf.placeholder((None, 6), name="x")
    weights = [sf.ones(6, 6) * 0.1 * i for i in range(12)]
    out = [(x @ w).tanh() @ w for w in weights]
    step = sf.compile([x], out)
    assert "stretch" in run_of(step) and run_of(step).count("call i32 @") == 2
    given = np.random.default_rng(1).standard_normal((7, 6)).astype("f")
    for got, w in zip(step(given), weights, strict=True):
        np.testing.assert_allclose(
            got.numpy(), np.tanh(given @ w.numpy()) @ w.numpy(), rtol=1e-5, atol=1e-6
        )


def test_profiles_and_poisoned_memory_tell_launches_apart() -> None:
    def program() -> sf.Program:
        tensors = [sf.full((3,), float(i)) for i in range(10)]
        x = sf.placeholder((3,), name="x")
        return sf.compile([x], None, updates={t: t * x for t in tensors})

    assert sum(row.count for row in program().profile(sf.ones(3), repeat=1).rows) == 10
    with config.change(poison=True):
        assert "stretch" not in run_of(program())
