"""Powers by numbers that are products, quotients and roots: out of place, in place and from plans,
on both sides of the size from which on kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager.costs import LARGE
from staticflow.eager.powers import power_by
from staticflow.graph.dtypes import float16, float32, float64, int64
from staticflow.ops.elementwise.maths import pow as pow_op

NUMBERS = [-2, -1, -0.5, 0.5, 2, 3, 4, 1.5, 0.25, 7]


def _elements(count: int, dtype: Any) -> Any:
    x = np.random.default_rng(count).standard_normal(count).astype(dtype)
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0]
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_power_is_the_same_in_place(number: float, dtype: Any) -> None:
    """`pow_` of a large tensor took logarithms where `pow` takes a root: six times as long, and not
    to the same bits."""
    for count in (LARGE - 1, LARGE, LARGE + 3):
        x = sf.from_numpy(_elements(count, dtype))
        with np.errstate(all="ignore"):
            expected = (x**number).numpy()
            changed = [x.clone() for _ in range(4)]
            for t in changed:
                assert t.pow_(number) is t
            for t in changed:
                np.testing.assert_array_equal(t.numpy(), expected)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_plan_gives_the_power_of_the_general_path(number: float) -> None:
    x = sf.from_numpy(_elements(LARGE + 5, np.float32))
    expected = pow_op(x, number).numpy()
    for view in (x, x.reshape(-1, 1), x[:-1].reshape(2, -1).t(), x[::2]):
        found = [(view**number).numpy() for _ in range(5)]
        lain = view.numpy().copy()
        by_rows = pow_op(sf.from_numpy(np.ascontiguousarray(lain)), number).numpy()
        for y in found:
            np.testing.assert_array_equal(y, by_rows)
    np.testing.assert_array_equal((x**number).numpy(), expected)


def test_powers_of_other_numbers_follow_each_other() -> None:
    """The program that overwrote last is not another number's."""
    x = _elements(LARGE, np.float32)
    for number in (1.7, 0.5, 2.3, 2, 1.7, -1):
        got = sf.from_numpy(x.copy()).pow_(number).numpy()
        np.testing.assert_array_equal(got, (sf.from_numpy(x) ** number).numpy())


def test_what_has_an_op_of_its_own() -> None:
    for dtype, numbers in {
        float32: {-2, -1, -0.5, 0.5, 2, 3, 4}, float64: {-2, -1, -0.5, 0.5, 2, 3, 4},
        float16: {-2, -1, -0.5, 0.5, 2, 3, 4}, int64: set(),
    }.items():  # fmt: skip
        assert {n for n in NUMBERS if power_by(n, dtype.numpy) is not None} == numbers
    assert power_by(np.float32(2).reshape(1), float32.numpy) is None


def test_a_power_is_recorded_as_before() -> None:
    x = sf.from_numpy(np.abs(_elements(LARGE, np.float32)) + 1).requires_grad_()
    for _ in range(4):
        x.grad = None
        y = x**0.5
        assert y.grad_fn.name() == "PowBackward0"
        y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 0.5 / np.sqrt(x.detach().numpy()), 1e-6)
