"""The line of the user that recorded an operation, whatever runs in between."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf


def line_here() -> int:
    return sys._getframe(1).f_lineno


def line_of(tensor: sf.Tensor) -> int:
    (loc,) = tensor.grad_fn.locs
    assert loc.file == __file__
    return loc.line


def squared(x: sf.Tensor) -> tuple[sf.Tensor, int]:
    return x * x, line_here()


def test_line_of_the_function_that_was_called_last() -> None:
    """It calls the operation; who called it recorded before."""
    x = sf.ones(3, requires_grad=True)
    for _ in range(2):
        y, here = x + x, line_here()
        assert line_of(y) == here
        z, there = squared(y)
        assert line_of(z) == there
        y, here = z.exp(), line_here()
        assert line_of(y) == here


APPLIES: dict[str, Callable[[Any], Any]] = {
    "native": lambda x: x * 2.0,
    "of several steps": lambda x: sf.nn.functional.linear(x, x.reshape(1, 3)),
    "view": lambda x: x.reshape(3, 1),
    "in place": lambda x: (x * 1.0).add_(x),
    "subscript": lambda x: x[0],
    "layer": sf.nn.Sequential(sf.nn.Linear(3, 3), sf.nn.Sequential(sf.nn.ReLU())),
}


@pytest.mark.parametrize("name", APPLIES)
def test_line_through_the_package(name: str) -> None:
    """However many frames of the package lie in between."""
    apply = APPLIES[name]
    x = sf.ones(3, 3, requires_grad=True) if name == "layer" else sf.ones(3, requires_grad=True)
    _, before = squared(x)
    assert before
    y = apply(x)
    (loc,) = y.grad_fn.locs
    own = getattr(apply, "__code__", None)
    assert loc.file == __file__
    assert loc.code is (own or sys._getframe().f_code)


def test_line_of_code_that_comes_and_goes() -> None:
    """More functions than are remembered, at the addresses of those before."""
    x = sf.ones(3, requires_grad=True)
    for i in range(600):
        names: dict[str, Any] = {}
        exec(compile("\n" * i + "def f(x): return x * x", f"file {i}", "exec"), names)
        y = names["f"](x)
        assert str(y.grad_fn.locs[0]) == f"file {i}:{i + 1}"
        del names, y
