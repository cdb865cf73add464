"""Symbols: handles with in-place syntax, and what they promote to."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DTYPES
from staticflow.graph.graph import close
from staticflow.graph.interpret import interpret_graph
from staticflow.ops.symbols.symbol import Symbol


def value_of(out: Symbol, **inputs: Any) -> list[Any]:
    """The value of a symbol for these values of its placeholders."""
    graph = close([p for p in _params(out) if p.attrs["name"] in inputs], [out.node])
    arrays = [np.asarray(inputs[p.attrs["name"]], p.tensor_type.dtype.numpy) for p in graph.params]
    return interpret_graph(graph, arrays)[0].tolist()


def _params(out: Symbol) -> list[Any]:
    from staticflow.graph.node import param, toposort

    return [n for n in toposort([out.node]) if n.op is param]


def test_both_modes_promote_alike() -> None:
    shapes: tuple[tuple[int, ...], ...] = ((2,), ())
    functions: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x + y,
        lambda x, y: x / y,
        lambda x, y: x == y,
        sf.maximum,
    ]
    operands: list[Any] = [True, 2, 2.5, *itertools.product(DTYPES, shapes)]

    def eager(o: Any) -> Any:
        return sf.ones(*o[1], dtype=o[0]) if isinstance(o, tuple) else o

    def symbol(o: Any) -> Any:
        return sf.placeholder(o[1], o[0]) if isinstance(o, tuple) else o

    for a, b in itertools.product(operands, repeat=2):
        if not isinstance(a, tuple) and not isinstance(b, tuple):
            continue
        for fn in functions:
            x, y = symbol(a), symbol(b)
            assert fn(x, y).dtype is fn(eager(a), eager(b)).dtype, (a, b)


def test_in_place_forms_make_the_handle_name_another_value() -> None:
    x = sf.placeholder((2,), name="x")
    y = x * 1
    same = y
    y += x
    y.mul_(2)
    assert y is same and value_of(y, x=[1, 2]) == [4, 8]
    y.clamp_(max=5)
    assert value_of(y, x=[1, 2]) == [4, 5]
    assert value_of(y.copy_(x), x=[1, 2]) == [1, 2] and value_of(y.zero_() + x, x=[1, 2]) == [1, 2]


def test_a_clone_is_a_handle_of_its_own() -> None:
    x = sf.placeholder((2,), name="x")
    y = x.clone()
    y += 1
    assert value_of(x + 0, x=[1, 2]) == [1, 2] and value_of(y, x=[1, 2]) == [2, 3]


def test_in_place_forms_keep_type_as_those_of_tensors_do() -> None:
    x = sf.placeholder((2,), "int64", name="x")
    with pytest.raises(DTypeError, match=r"float32 into .*int64.*test_symbols\.py:\d+"):
        x.add_(1.5)
    y = sf.placeholder((2,), name="y")
    assert y.clone().add_(sf.ones(2, dtype="float64")).dtype is sf.float32
    with pytest.raises(ShapeError, match=r"\[2\] to \[3, 2\].*test_symbols\.py:\d+"):
        y.clone().add_(sf.ones(3, 2))
    with pytest.raises(ShapeError, match=r"\[2\] to \[3, 2\]"):
        y.clone().copy_(sf.ones(3, 2))
    assert y.clone().copy_(sf.ones(1)).shape == (2,)


def test_copy_keeps_the_sign_of_zero() -> None:
    x = sf.placeholder((1,), name="x")
    y = (x + 1).copy_(x)
    assert value_of(1 / y, x=[-0.0]) == [-np.inf]


def test_an_in_place_method_is_called_by_a_name_that_it_has() -> None:
    for cls in (Symbol, sf.Tensor):
        for name in (n for n in dir(cls) if n.endswith("_") and not n.startswith("_")):
            method = getattr(cls, name)
            assert not callable(method) or hasattr(cls, method.__name__), (cls, name)
    with pytest.raises(TypeError, match=r"^copy_\(\) missing 1 required"):
        sf.placeholder((2,)).copy_()
