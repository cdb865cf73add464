"""A call of a jitted function with tensors of sizes that it has met, which is found sooner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.static import jit as jitting


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was looked for by its structure, as calls are that were not met."""
    found: list[Any] = []
    flatten = jitting.pytree.flatten

    def noting(tree: Any, level: int = 0) -> Any:
        found.append(tree)
        return flatten(tree, level)

    monkeypatch.setattr(jitting.pytree, "flatten", noting)
    return found


def test_a_call_that_was_met_is_not_searched_for(searches: list[Any]) -> None:
    f = sf.jit(lambda a, b: (a + b, {"of a": a * 2}))
    x = sf.rand(3)
    first = f(x, x)
    assert searches
    searches.clear()
    again = f(x, x)
    assert not searches
    assert again[0].tolist() == first[0].tolist()
    assert again[1]["of a"].tolist() == first[1]["of a"].tolist()
    f(sf.rand(4), sf.rand(4))
    assert searches and f.trace_count == 1


@pytest.fixture
def two() -> Iterator[Any]:
    """The dtype of numbers as it was, after the test."""
    yield
    sf.set_default_dtype("float32")


def test_modes_dtypes_and_numpy_are_other_calls(two: None) -> None:
    f = sf.jit(lambda a: a.sum() / 2)
    x = sf.ones(3, dtype="int64")
    for _ in range(2):
        assert f(x).dtype is sf.float32
    sf.set_default_dtype("float64")
    for _ in range(2):
        assert f(x).dtype is sf.float64
    assert f(x.numpy()).item() == 1.5
    with pytest.raises(sf.StaticflowError, match="mask"):
        f(np.ma.masked_array(np.ones(3, np.int64), [True, False, True]))
    with pytest.raises(TypeError, match="positional"):
        f(sf.ones(3, dtype="int64"), x)
    with sf.inference_mode():
        assert f(x).is_inference()
    assert not f(x).is_inference()


@pytest.mark.parametrize("size", [1, 4])
def test_what_requires_a_gradient_is_recorded_whenever_it_does(size: int) -> None:
    w = sf.rand(size)
    f = sf.jit(lambda a: (a * w).sum())
    x = sf.rand(size)
    for _ in range(2):
        assert not f(x).requires_grad
    w.requires_grad_()
    for _ in range(2):
        out = f(x)
        out.backward()
        assert w.grad is not None and w.grad.tolist() == x.tolist()
        w.grad = None
        with sf.no_grad():
            assert not f(x).requires_grad
    w.requires_grad_(False)
    y = sf.rand(size, requires_grad=True)
    assert not f(x).requires_grad and f(y).requires_grad and f(y * 1).requires_grad
    base = sf.rand(size)
    view = base[:]
    assert not f(view).requires_grad
    base.mul_(y)  # of which the view learns when it is asked
    f(view).backward()
    assert y.grad is not None


def test_modules_that_change_are_traced_anew() -> None:
    drop = sf.nn.Dropout(0.5)
    f = sf.jit(drop)
    x = sf.ones(200)
    assert 0.0 in f(x).tolist() and 0.0 in f(x).tolist()
    drop.eval()
    assert f(x).tolist() == x.tolist() == f(x).tolist()
    drop.train()
    assert 0.0 in f(x).tolist()
    layer = sf.nn.Linear(2, 2, bias=False)
    g = sf.jit(layer)
    given = sf.ones(1, 2)
    for _ in range(2):
        assert g(given).tolist() == layer(given).tolist()
    layer.weight = sf.nn.Parameter(sf.zeros(2, 2))
    for _ in range(2):
        assert g(given).tolist() == [[0.0, 0.0]]


def test_values_that_python_reads_are_looked_at_each_time() -> None:
    n = sf.tensor(2)
    f = sf.jit(lambda a: a * n.item())
    x = sf.ones(2)
    for _ in range(2):
        assert f(x).tolist() == [2.0, 2.0]
    n.fill_(5)
    for _ in range(2):
        assert f(x).tolist() == [5.0, 5.0]


def test_more_sizes_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jitting, "_MOST_MET", 3)
    f = sf.jit(lambda a: a.sum())
    for n in [*range(2, 9), *range(2, 9)]:
        assert f(sf.ones(n)).item() == n
    assert f.trace_count == 1 and len(f._met) <= 3


def test_changed_arguments_change_each_time() -> None:
    def add_one(a: Any) -> Any:
        a.add_(1)
        return a

    f = sf.jit(add_one)
    x = sf.zeros(2)
    for n in range(1, 4):
        assert f(x) is x and x.tolist() == [n, n]
