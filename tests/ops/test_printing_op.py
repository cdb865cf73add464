"""`sf.print` prints in compiled programs what it prints on tensors, in the same order, and changes
nothing."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from routine_machine import run_slowly

import staticflow as sf
from staticflow.config import config
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.parser import parse_graph
from staticflow.graph.printer import print_graph
from staticflow.ops import OPS

Capture = pytest.CaptureFixture[str]


def in_loop(x: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        sf.print("iteration {i}: {c:.2f}", i=i, c=c)
        return c * 2 + x

    return sf.fori_loop(0, 3, body, x)


def in_while(x: Any) -> Any:
    def body(x: Any) -> Any:
        sf.print("{} and {}", x, x * x)  # which nobody else needs
        return x - 1

    return sf.while_loop(lambda x: x > 0, body, x)


def in_branch(x: Any) -> Any:
    def yes() -> Any:
        sf.print("positive {x}", x=x)
        return x * 2

    def no() -> Any:
        sf.print("negative {x}", x=x)
        return x * 3

    return sf.cond(x > 0, yes, no)


def nested(x: Any) -> Any:
    def row(c: Any, i: Any) -> Any:
        sf.print("row {}", i)

        def cell(c: Any, j: Any) -> Any:
            sf.cond(j > i, lambda: (sf.print("above {i}, {j}", i=i, j=j), c)[1], lambda: c)
            return c + i * j, None

        c, _ = sf.scan(cell, c, sf.arange(2))
        sf.print("has {:.1f}", c)
        return c, c

    return sf.scan(row, x, sf.arange(2))[1].sum()


def of_arrays(x: Any) -> Any:
    y = sf.arange(3) * x
    sf.print("y is {y}, of {n} elements\n{z}", y=y, n=3, z=y.reshape(3, 1).expand(3, 2))
    sf.print("twice {}", y * 2)
    return y.sum()


def without_results(x: Any) -> Any:
    sf.map(lambda row: sf.print("{}", row), sf.arange(2) * x)
    return x


FUNCTIONS = [in_loop, in_while, in_branch, nested, of_arrays, without_results]


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("value", [3.0, -2.0])
def test_a_program_prints_as_tensors_do(
    call_path: bool, capsys: Capture, fn: Callable[[Any], Any], value: float
) -> None:
    wanted = fn(sf.tensor(value))
    said = capsys.readouterr().out
    jitted = sf.jit(fn)
    for _ in range(2):
        assert jitted(sf.tensor(value)).item() == wanted.item()
        assert capsys.readouterr().out == said


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_derivatives_print_once(capsys: Capture, fn: Callable[[Any], Any]) -> None:
    fn(sf.tensor(3.0))
    said = capsys.readouterr().out
    x = sf.tensor(3.0, requires_grad=True)
    fn(x).backward()
    assert capsys.readouterr().out == said
    wanted = x.grad
    x = sf.tensor(3.0, requires_grad=True)
    y = sf.jit(fn)(x)
    assert capsys.readouterr().out == said
    y.backward()
    assert capsys.readouterr().out == ""
    assert x.grad.item() == wanted.item()

    def value_and_gradient(x: Any) -> Any:
        y = fn(x)
        return y, sf.grad(y, x)

    _, gradient = sf.jit(value_and_gradient)(sf.tensor(3.0))
    assert capsys.readouterr().out == said
    assert gradient.item() == wanted.item()


@pytest.mark.parametrize("checkpoint", [2, "sqrt"])
def test_what_is_replayed_prints_once(capsys: Capture, checkpoint: Any) -> None:
    def step(c: Any, x: Any) -> Any:
        sf.print("c is {c:.3f}", c=c)
        return (c * x).sin(), None

    def loss(c: Any) -> Any:
        y = sf.scan(step, c, sf.arange(5) + 1.0, checkpoint=checkpoint)[0]
        return y, sf.grad(y, c)

    sf.scan(step, sf.tensor(0.5), sf.arange(5) + 1.0)
    said = capsys.readouterr().out
    sf.jit(loss)(sf.tensor(0.5))
    assert capsys.readouterr().out == said


def test_equal_prints_are_several(capsys: Capture) -> None:
    def fn(x: Any) -> Any:
        sf.print("again")
        sf.print("again")
        return x

    sf.jit(fn)(sf.tensor(1.0))
    assert capsys.readouterr().out == "again\nagain\n"


def test_of_placeholders(capsys: Capture) -> None:
    """Outside of a trace what was printed prints where it is used from then on."""
    x = sf.placeholder((None,), name="x")
    before = sf.compile([x], x + 1)
    sf.print("x is {x}", x=x)
    y = (x * 2).sum()
    sf.print("y is {}", y)
    program = sf.compile([x], y)
    before(np.ones(2, np.float32))
    assert capsys.readouterr().out == ""
    assert program(np.ones(2, np.float32)).item() == 4
    assert capsys.readouterr().out == "x is tensor([1., 1.])\ny is 4.0\n"
    assert sf.compile([x], sf.grad(y, x))(np.ones(2, np.float32)).tolist() == [2, 2]


def test_the_text_and_the_interpreters_know_it(capsys: Capture) -> None:
    x = sf.placeholder((), name="x")
    program = sf.compile([x], nested(x * 1))
    given = [np.float32(3), *(v._data for v in program._caller.variables)]
    program(given[0])
    said = capsys.readouterr().out
    parsed = parse_graph(print_graph(program.graph), OPS)
    for graph in (program.graph, program.optimized, parsed):
        if graph is not program.optimized:
            interpret_graph(graph, given)
            assert capsys.readouterr().out == said
    run_slowly(program, [np.float32(3)])
    assert capsys.readouterr().out == said


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError("nobody listens")


def test_what_the_stream_raises_ends_the_program(
    call_path: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    x, w = sf.placeholder((), name="x"), sf.zeros(())
    program = sf.compile([x], in_loop(x), updates={w: sf.symbol(w) + 1})
    with monkeypatch.context() as patch, pytest.raises(BrokenPipeError, match="nobody listens"):
        patch.setattr(sys, "stdout", Broken())
        program(np.float32(1))
    assert w.item() == 0
    program(np.float32(1))
    assert w.item() == 1
    assert capsys.readouterr().out.count("\n") == 3


def test_looking_for_nan_does_not_print(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "check_nan", True)
    sf.jit(in_while)(sf.tensor(1.0))
    assert capsys.readouterr().out == "1.0 and 1.0\n"


def test_what_a_template_lacks_is_an_error() -> None:
    with pytest.raises(sf.ArgumentError, match="cannot be filled with 0 values and x"):
        sf.print("{x} {}", x=sf.tensor(1.0))
    with pytest.raises(sf.ArgumentError, match="KeyError: 'y'"):
        sf.jit(lambda x: sf.print("{y}", x=x))(sf.tensor(1.0))
