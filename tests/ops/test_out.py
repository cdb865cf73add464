"""``out=``: results are put into tensors that are there, as in PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

X = np.float32([[3, 1], [2, 4]])

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, **out: sf.add(x, x, **out),
    "mul": lambda x, **out: sf.mul(x, 2, **out),
    "exp": lambda x, **out: sf.exp(x, **out),
    "matmul": lambda x, **out: sf.matmul(x, x.T, **out),
    "cat": lambda x, **out: sf.cat([x, x], dim=1, **out),
    "sum": lambda x, **out: sf.sum(x, 1, **out),
    "mean": lambda x, **out: sf.mean(x, axis=0, **out),
    "clamp": lambda x, **out: sf.clamp(x, min=2, **out),
    "where": lambda x, **out: sf.where(x > 1, x, 0.0, **out),
    "div": lambda x, **out: sf.div(x, 2, rounding_mode="floor", **out),
    "arange": lambda x, **out: sf.arange(5, **out),
    "norm": lambda x, **out: sf.linalg.norm(x, **out),
    "erf": lambda x, **out: sf.special.erf(x, **out),
    "max": lambda x, **out: sf.max(x, **out),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_is_put_into_a_tensor(name: str) -> None:
    fn, x = FUNCTIONS[name], sf.tensor(X)
    wanted = fn(x)
    for _ in range(3):  # a call that was met before takes another way
        out = sf.zeros(wanted.shape, dtype=sf.float64)
        version = out._version
        assert fn(x, out=out) is out and out._version == version + 1
        assert out.dtype is sf.float64 and out.tolist() == wanted.tolist()
    assert fn(x, out=None).tolist() == wanted.tolist()


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "arange"])
def test_a_result_is_put_into_a_symbol(name: str) -> None:
    """The handle names another value, as with in-place forms."""
    s = sf.placeholder((2, 2), name="s")
    wanted = FUNCTIONS[name](sf.tensor(X))
    out = sf.zeros(wanted.shape) + s.sum() * 0
    assert FUNCTIONS[name](s, out=out) is out
    np.testing.assert_allclose(sf.compile([s], out)(X).numpy(), wanted.numpy(), rtol=1e-6)


def test_views_operands_and_several_results() -> None:
    x, base = sf.tensor(X), sf.zeros(3, 2)
    sf.add(x, 1, out=base[1:])
    assert base.tolist() == [[0, 0], [4, 2], [3, 5]]
    sf.mul(x, x, out=x)
    assert x.tolist() == [[9, 1], [4, 16]]
    values, places = sf.empty(0), sf.empty(0, dtype=sf.int64)
    found = sf.sort(x, 1, out=(values, places))
    assert found.values is values and found.indices is places
    assert values.tolist() == [[1, 9], [4, 16]] and places.tolist() == [[1, 0], [0, 1]]


def test_a_tensor_of_another_shape_takes_that_of_the_result() -> None:
    x, none, other = sf.tensor(X), sf.empty(0), sf.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sf.add(x, x, out=none).shape == (2, 2)
    with pytest.warns(UserWarning, match=r"out= had the shape \[3\] and takes \[2, 2\]"):
        assert sf.add(x, x, out=other).shape == (2, 2)


def test_what_cannot_be_put() -> None:
    x, w = sf.tensor(X), sf.ones(2, 2, requires_grad=True)
    with pytest.raises(TypeError, match="cannot put float32 into a tensor of int64"):
        sf.add(x, x, out=sf.zeros(2, 2, dtype=sf.int64))
    with pytest.raises(TypeError, match="add: out= must be a tensor, not int"):
        sf.add(x, x, out=3)
    with pytest.raises(TypeError, match="sort: out= must be 2 tensors"):
        sf.sort(x, out=x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        sf.is_tensor(x, out=x)
    for a, out in ((w, x), (x, w)):
        with pytest.raises(RuntimeError, match="add: what is put into out= has no gradient"):
            sf.add(a, x, out=out)
    with sf.no_grad():
        assert sf.add(w, x, out=x) is x
    with pytest.raises(RuntimeError, match="cannot change the shape"):
        sf.add(sf.placeholder((2,)), 1, out=sf.placeholder((3,)))
