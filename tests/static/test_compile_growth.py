"""What compiling takes grows as the graph does: calls of Python functions are counted, at some
hundred nodes, twice as many, and twice as many again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf


def compile_chain(count: int) -> Any:
    x = sf.placeholder((None,), name="x")
    y = x
    for i in range(count):
        y = (y * 1.0001).sin() if i % 2 else y + x
    return sf.compile([x], y)


def compile_layers(count: int) -> Any:
    """A net of many layers with its gradient."""
    weights = [0.1 * sf.ones(8, 8) for _ in range(count)]
    x = sf.placeholder((4, 8), name="x")
    y = x
    for w in weights:
        y = (y @ w).tanh()
    loss = y.sum()
    return sf.compile([x], [loss, *sf.grad(loss, weights)])


def compile_adam(count: int) -> Any:
    tensors = [sf.nn.Parameter(0.1 * sf.ones(8, 8)) for _ in range(count)]
    x = sf.placeholder((4, 8), name="x")
    loss = sum(((x @ w) ** 2).mean() for w in tensors)
    return sf.compile([x], loss, updates=sf.optim.Adam(tensors, lr=1e-3).minimize(loss))


def compile_inputs(count: int) -> Any:
    """Many inputs, each of an unknown size."""
    xs = [sf.placeholder((None,), name=f"x{i}") for i in range(count)]
    y = xs[0]
    for x in xs[1:]:
        y = y * 1.5 + x.sum()
    return sf.compile(xs, y)


def calls_of(make: Callable[[int], Any], size: int) -> int:
    """How many Python functions are called by ``make(size)``, and none by the collector, which would
    call what other tests left behind."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        make(size)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize(
    ("make", "few"),
    [(compile_chain, 330), (compile_layers, 60), (compile_adam, 10), (compile_inputs, 200)],
)
def test_compiling_is_linear_in_the_nodes(make: Callable[[int], Any], few: int) -> None:
    make(3)  # what is made once, as the tables of rules, is not counted
    counted = []
    for _ in range(
        2
    ):  # a table that other tests filled may be emptied and made anew in one of them
        one, two, four = (calls_of(make, count) for count in (few, 2 * few, 4 * few))
        counted.append((one, two, four))
        if four - two < 1.1 * 2 * (two - one):
            return
    pytest.fail(f"calls at {few} nodes, at twice and at four times as many: {counted}")


@pytest.mark.parametrize(
    ("make", "few", "most"),
    [
        (compile_chain, 330, 1250),
        (compile_layers, 60, 7500),
        (compile_adam, 20, 23_000),
        (compile_inputs, 100, 3700),
    ],
)
def test_a_node_takes_so_many_calls(make: Callable[[int], Any], few: int, most: int) -> None:
    """Of Python functions, for each operation, layer, tensor and input more: what is asked again of
    each cluster or each launch, though it is known of their kernel, shows here."""
    make(3)
    counted = []
    for _ in range(2):
        one, two = calls_of(make, few), calls_of(make, 2 * few)
        counted.append((two - one) / few)
        if counted[-1] < most:
            return
    pytest.fail(f"calls for one more: {counted}, where {most} are enough")
