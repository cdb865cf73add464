"""Loops run over dims as they lie in memory, whatever their order is called: reductions of arrays in
any order of dims load vectors of neighbours, and values are NumPy's."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

SIZES = (32, 48, 64)
ORDERS = [*itertools.permutations(range(3))]
ALL: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean(), "prod": lambda x: x.prod(),
    "amax": lambda x: x.amax(), "any": lambda x: (x > 1).any(), "var": lambda x: x.var(),
    "norm": lambda x: x.norm(),
}  # fmt: skip
OF_NUMPY: dict[str, Callable[[Any], Any]] = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max,
    "any": lambda x: np.any(x > 1), "var": lambda x: np.var(x, ddof=1), "norm": np.linalg.norm,
}  # fmt: skip

ARRAY = np.random.default_rng(0).uniform(0.99, 1.01, SIZES).astype(np.float32)


def far_apart(program: Any) -> list[str]:
    """The loads and stores of a program whose lanes are no neighbours, but for copies to arrays on
    the stack, which are made once for many pairs."""
    source = program.source("kernels")
    copies = r"let (%\w+): \w+ = load [^\n]*\n *store \w+_row\[[^\n]* = \1\n"
    return re.findall(r"\[[^]]*\d\*lane[^]]*\]", re.sub(copies, "", source))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_a_reduction_of_all_loads_neighbours_in_one_loop(name: str, order: tuple[int, ...]) -> None:
    x = sf.placeholder(SIZES, name="x")
    program = sf.compile([x], ALL[name](x.permute(order)))
    assert not far_apart(program)
    assert "%" not in "".join(re.findall(r"\[[^]]*\]", program.source("kernels")))  # no division
    found = program(ARRAY).numpy()
    flat = np.float64(1) * ARRAY.reshape(-1)
    np.testing.assert_allclose(found, OF_NUMPY[name](flat), 1e-4)


@pytest.mark.parametrize("open_size", [False, True])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)], ids=str)
def test_a_reduction_of_some_dims_loads_neighbours(
    dims: tuple[int, ...], order: tuple[int, ...], open_size: bool
) -> None:
    x = sf.placeholder((None, *SIZES[1:]) if open_size else SIZES, name="x")
    program = sf.compile([x], x.permute(order).sum(dims))
    loads = [p for p in far_apart(program) if "load" in p]
    assert not loads
    expected = np.float64(1) * ARRAY.transpose(order)
    np.testing.assert_allclose(program(ARRAY).numpy(), expected.sum(dims), 1e-4)


@pytest.mark.parametrize("order", ORDERS[1:], ids=str)
def test_the_sum_is_that_of_the_array_as_it_lies(order: tuple[int, ...]) -> None:
    x = sf.placeholder(SIZES, name="x")
    program = sf.compile([x], [x.permute(order).sum(), x.sum()])
    turned, plain = program(ARRAY)
    assert turned.numpy() == plain.numpy()
    eager = sf.from_numpy(ARRAY.copy()).permute(order).sum()
    np.testing.assert_allclose(eager.numpy(), plain.numpy(), 1e-6)


def test_distances_divide_once_a_pair_and_load_neighbours() -> None:
    a, b = (sf.placeholder((64, 32), name=n) for n in "ab")
    program = sf.compile([a, b], sf.grad(sf.cdist(a, b).sum(), [a, b]))
    assert not far_apart(program)
    source = program.source("kernels")
    assert source.count(" = div(") == 1
    innermost = re.findall(r"for [^{]*\{([^{}]*)\}", source)
    assert innermost and "div(" not in "".join(innermost)  # none for each element of a difference


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_is_written_decides_in_which_order_elements_are_computed(count: int) -> None:
    xs = [sf.placeholder(SIZES[:2], name=f"x{i}") for i in range(count)]
    out = sum((x.t() for x in xs[1:]), xs[0].t() * 2)
    program = sf.compile(xs, out)
    source = program.source("kernels")
    assert source.count("kernel ") == 1
    assert not re.findall(r"store [^\n]*\d\*lane", source)
    arrays = [ARRAY[:, :, i].copy() for i in range(count)]
    expected = sum((a.T for a in arrays[1:]), arrays[0].T * 2)
    np.testing.assert_array_equal(program(*arrays).numpy(), expected)
