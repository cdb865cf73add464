"""Loops with a counter are scans: what they compute and their gradients do not change, their stacks
have a known size, and a few iterations are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.static.compile import Program

X = sf.placeholder((None, 3), "float64", name="x")


def rows() -> Any:
    return X.shape[0]


def last_of(cond: Callable[..., Any], step: int, start: Any) -> list[Any]:
    """The counter and the value that a loop ends with, its gradient and that of the gradient."""
    i, y = sf.while_loop(lambda i, y: cond(i), lambda i, y: (i + step, (y * 1.1).sin()), (start, X))
    gradient = sf.grad(y.square().sum(), X)
    return [i, y, gradient, sf.grad(gradient.sin().sum(), X)]


FORMS: dict[str, tuple[Callable[..., Any], int, Callable[[], Any]]] = {
    "below a number": (lambda i: i < 7, 1, lambda: 0),
    "by threes": (lambda i: i < 7, 3, lambda: -2),
    "a number and itself": (lambda i: i <= 7, 2, lambda: 0),
    "never": (lambda i: i < 7, 1, lambda: 7),
    "once": (lambda i: i < 7, 5, lambda: 6),
    "down": (lambda i: i > 0, -2, lambda: 5),
    "below a size": (lambda i: i < rows(), 1, lambda: 0),
    "down from a size": (lambda i: i >= 0, -1, lambda: rows() - 1),
    "between sizes": (lambda i: i <= 2 * rows(), 2, rows),
}


def counted(step: Program) -> int:
    return sum(p.counts["counted loop"] for p in step.passes)


@pytest.mark.parametrize("form", FORMS)
def test_a_counted_loop_computes_what_it_did(form: str) -> None:
    cond, step, start = FORMS[form]
    outputs = last_of(cond, step, start())
    as_scan = sf.compile([X], outputs)
    as_written = sf.compile([X], outputs, passes="-count_iterations")
    assert counted(as_scan) >= 2
    assert counted(as_written) == 0
    assert "iterations" not in str(as_scan.plan.peak)
    assert not as_scan.plan.routine.growing
    assert as_written.plan.routine.growing
    for n in (0, 1, 2, 5):
        x = np.random.default_rng(n).normal(size=(n, 3))
        for got, same in zip(as_scan(x), as_written(x), strict=True):
            np.testing.assert_allclose(got.numpy(), same.numpy(), rtol=1e-12)


def test_a_counted_loop_inside_of_another_and_in_jit() -> None:
    def inner(y: Any) -> Any:
        return sf.while_loop(lambda i, y: i < 6, lambda i, y: (i + 1, y * 1.5 - i), (0, y))[1]

    def both(x: Any) -> Any:
        return sf.scan(lambda c, row: (inner(c) + row, None), x[0] * 0, x)[0].sum()

    x = np.random.default_rng(0).normal(size=(4, 3))
    step = sf.compile([X], [both(X), sf.grad(both(X), X)])
    assert counted(step) >= 2
    assert not step.plan.routine.growing
    leaf = sf.tensor(x, requires_grad=True)
    loss = both(leaf)
    loss.backward()
    assert leaf.grad is not None
    for got, want in zip(step(x), (loss, leaf.grad), strict=True):
        np.testing.assert_allclose(got.numpy(), want.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(sf.jit(both)(sf.tensor(x)).item(), loss.item(), rtol=1e-12)


def test_few_iterations_are_written_out() -> None:
    step = sf.compile([X], last_of(lambda i: i < 3, 1, 0)[1])
    assert not any(n.op.name in ("scan", "while") for n in step.optimized.nodes)
    x = np.random.default_rng(0).normal(size=(4, 3))
    want = x
    for _ in range(3):
        want = np.sin(want * 1.1)
    np.testing.assert_allclose(step(x).numpy(), want, rtol=1e-12)


def test_loops_whose_number_only_the_run_tells_stay() -> None:
    n = sf.placeholder((), "int64", name="n")
    for cond, many in (
        (lambda i, y: i < n, 4),
        (lambda i, y: (i < 7) & (y.sum() < 100), 7),
        (lambda i, y: y.sum() < 90, 14),
    ):
        _, y = sf.while_loop(cond, lambda i, y: (i + 1, y + 1), (0, X))
        step = sf.compile([X, n], y)
        assert counted(step) == 0
        assert (step(np.ones((2, 3)), 4).numpy() == 1 + many).all()
