"""Long chains: nothing recurses along them, and the work for them grows with their length only."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.config import config
from staticflow.graph.graph import close
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.parser import parse_graph
from staticflow.graph.printer import print_graph
from staticflow.ops import OPS

LONG = 1000


@pytest.fixture
def shallow() -> Iterator[None]:
    """Little room for recursion, so that chains need not be longer than they are here."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    yield
    sys.setrecursionlimit(before)


def chain(x: Any, length: int = LONG) -> Any:
    """Three ops in turn, the last of which reads the start too."""
    y = x
    for i in range(length // 3):
        y = y * 0.5 if i % 2 else y.sin()
        y = y + 0.25
        y = y - x * 0.125
    return y


def expected(x: np.ndarray) -> np.ndarray:
    y = x
    for i in range(LONG // 3):
        y = (y * 0.5 if i % 2 else np.sin(y)) + 0.25 - x * 0.125
    return y


@pytest.mark.usefixtures("shallow")
def test_a_chain_is_compiled_and_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "verify", True)
    x = sf.placeholder((None,), "float64", name="x")
    y = chain(x)
    program = sf.compile([x], (y, sf.grad(y.sum(), x)))
    at = np.linspace(-1, 1, 5)
    value, slope = (t.numpy() for t in program(at))
    np.testing.assert_allclose(value, expected(at), rtol=1e-12)
    step = 1e-5
    measured = (expected(at + step) - expected(at - step)) / (2 * step)
    np.testing.assert_allclose(slope, measured, rtol=1e-6)


@pytest.mark.usefixtures("shallow")
def test_a_chain_of_numbers() -> None:
    """0-d work on sizes, which a kernel that reads it could repeat, but not a thousand times."""
    x = sf.placeholder((None,), "float64", name="x")
    program = sf.compile([x], chain(x.sum() / x.shape[0]) + chain(sf.zeros_like(x[0]) + x.shape[0]))
    at = np.array([0.25, 0.75])
    assert program(at).item() == pytest.approx(expected(np.array(0.5)) + expected(np.array(2.0)))


@pytest.mark.usefixtures("shallow")
def test_a_chain_of_views_of_views() -> None:
    x = sf.placeholder((LONG // 2, LONG // 2 + 1), name="x")
    at = np.arange(LONG // 2 * (LONG // 2 + 1), dtype=np.float32).reshape(x.shape)
    y, want = x, at
    for _ in range(LONG - 3):
        y, want = y.T[1:], want.T[1:]
    np.testing.assert_array_equal(sf.compile([x], y)(at).numpy(), want)


@pytest.mark.usefixtures("shallow")
def test_a_chain_inside_of_a_loop() -> None:
    xs = sf.placeholder((None,), "float64", name="xs")
    last, _ = sf.scan(lambda c, x: (chain(c, 300) + x, None), sf.constant(np.zeros(())), xs)
    program = sf.compile([xs], (last, sf.grad(last, xs)))
    at = np.array([0.5, -0.25])
    carry = np.zeros(())
    for x in at:
        y = carry
        for i in range(100):
            y = (y * 0.5 if i % 2 else np.sin(y)) + 0.25 - carry * 0.125
        carry = y + x
    assert program(at)[0].item() == pytest.approx(carry)


@pytest.mark.usefixtures("shallow")
def test_a_chain_has_text_and_is_interpreted() -> None:
    x = sf.placeholder((4,), "float64", name="x")
    graph = close([x.node], [chain(x).node])
    again = parse_graph(print_graph(graph), OPS)
    at = np.linspace(0, 1, 4)
    np.testing.assert_array_equal(interpret_graph(again, [at])[0], expected(at))


@pytest.mark.usefixtures("shallow")
def test_a_chain_on_the_tape() -> None:
    x = sf.tensor(np.linspace(-1, 1, 3), requires_grad=True)
    chain(x).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def counted(length: int) -> int:
    """Calls of Python functions that compiling a chain and its gradient takes."""
    x = sf.placeholder((None,), name="x")
    y = chain(x, length)
    loss = sf.grad(y.sum(), x)
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        sf.compile([x], loss)
    finally:
        sys.setprofile(None)
    return calls


def test_work_grows_with_the_length() -> None:
    """Twice the length is about twice the work, and never four times."""
    counted(60)  # what is done once only
    short, long = counted(200), counted(400)
    assert long < 2.5 * short
