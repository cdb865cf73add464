"""Kernels of many members that are checked, and of many operations on an element down columns."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

import staticflow as sf
from staticflow.passes.down_columns import _OPERATIONS
from staticflow.passes.fuse import _MOST_CHECKS

F = sf.nn.functional


@pytest.mark.parametrize("count", [1, 2, _MOST_CHECKS, _MOST_CHECKS + 1, 2 * _MOST_CHECKS + 3])
def test_each_of_many_indices_is_checked_and_named(count: int) -> None:
    rng = np.random.default_rng(count)
    values = rng.random(9)
    x = sf.placeholder((None,), "float64", name="x")
    names = [f"at{i}" for i in range(count)]
    at = [sf.placeholder((4,), "int64", name=n) for n in names]
    total = functools.reduce(operator.add, [x[i] * (k + 1) for k, i in enumerate(at)])
    program = sf.compile([x, *at], total)
    indices = [rng.integers(-9, 9, 4) for _ in at]
    wanted = sum(values[i] * (k + 1) for k, i in enumerate(indices))
    np.testing.assert_allclose(program(values, *indices).numpy(), wanted, 1e-12)
    for bad in {0, count // 2, count - 1}:
        wrong = [i.copy() for i in indices]
        wrong[bad][2] = 9 if bad % 2 else -10
        with pytest.raises(sf.IndexRangeError, match=rf"{wrong[bad][2]}, at \[2\]"):
            program(values, *wrong)
    np.testing.assert_allclose(program(values, *indices).numpy(), wanted, 1e-12)


@pytest.mark.parametrize("extra", [0, 1, _OPERATIONS - 1, _OPERATIONS, 2 * _OPERATIONS])
@pytest.mark.parametrize("shape", [(2, 5, 7), (3, 4, 33, 2), (2, None, None)], ids=str)
def test_what_is_behind_a_softmax_of_channels(shape: tuple[int | None, ...], extra: int) -> None:
    values = np.random.default_rng(0).standard_normal([n or 6 for n in shape])

    def function(x: sf.Tensor) -> list[sf.Tensor]:
        y = F.softmax(x, 1)
        for i in range(extra):
            y = (y + 0.5 * (i + 1)) / (1 + y * y)
        return [y, sf.grad((y * x).sum(), [x])[0]]

    x = sf.placeholder(shape, "float64", name="x")
    found = sf.compile([x], function(x))(values)
    leaf = sf.tensor(values, requires_grad=True)
    for got, exact in zip(found, function(leaf), strict=True):
        np.testing.assert_allclose(got.numpy(), exact.detach().numpy(), 1e-10, 1e-12)
