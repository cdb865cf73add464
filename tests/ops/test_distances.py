"""Distances between all rows of two matrices, on both sides of the number of rows from which on the
second one is turned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.autograd import gradcheck, gradgradcheck
from staticflow.errors import ShapeError
from staticflow.ops.statistics import distances

MANY = distances._MANY
SHAPES = {
    "fewer": ((5, 3), (MANY - 1, 3)), "as many": ((5, 3), (MANY, 3)), "more": ((70, 20), (90, 20)),
    "batches": ((2, 1, 5, 4), (3, MANY, 4)), "no columns": ((5, 0), (MANY, 0)),
    "no rows": ((0, 3), (MANY, 3)), "one column": ((4, 1), (MANY + 1, 1)),
}  # fmt: skip


def _drawn(name: str, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(len(name))
    return [rng.standard_normal(shape).astype(dtype) for shape in SHAPES[name]]


def _expected(x: Any, y: Any, p: float) -> Any:
    parts = np.abs(x[..., :, None, :] - y[..., None, :, :])
    return (parts**p).sum(-1) ** (1 / p)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("name", SHAPES)
def test_distances(name: str, p: float) -> None:
    x, y = _drawn(name)
    for _ in range(4):  # the function, and its plan
        found = sf.cdist(sf.from_numpy(x), sf.from_numpy(y), p)
        assert found.is_contiguous()
        np.testing.assert_allclose(found.numpy(), _expected(x, y, p), 1e-12)
    turned = sf.from_numpy(y.swapaxes(-1, -2).copy()).mT  # which needs no copy
    np.testing.assert_array_equal(sf.cdist(sf.from_numpy(x), turned, p).numpy(), found.numpy())


@pytest.mark.parametrize("name", ["fewer", "as many"])
@pytest.mark.parametrize("dtype", [sf.float16, sf.bfloat16], ids=str)
def test_distances_of_16_bits_are_rounded_once(dtype: Any, name: str) -> None:
    x, y = (sf.from_numpy(a).to(dtype) for a in _drawn(name))
    found, exact = sf.cdist(x, y), sf.cdist(x.float(), y.float())
    assert found.dtype is dtype
    np.testing.assert_array_equal(found.numpy(), exact.to(dtype).numpy())


@pytest.mark.parametrize("name", ["fewer", "as many"])
def test_derivatives(name: str) -> None:
    x, y = (sf.from_numpy(a).requires_grad_() for a in _drawn(name))
    assert gradcheck(sf.cdist, (x, y))
    few = [
        sf.from_numpy(a[:2]) if a.shape[0] < MANY - 1 else sf.from_numpy(a) for a in _drawn(name)
    ]
    assert gradgradcheck(sf.cdist, tuple(t.requires_grad_() for t in few))


def test_the_gradient_is_0_where_the_distance_is() -> None:
    x = sf.ones(MANY, 3, requires_grad=True)
    sf.cdist(x, x).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), 0.0)


@pytest.mark.parametrize("rows", [MANY - 1, MANY])
def test_near_points_keep_their_digits(rows: int) -> None:
    """Distances are made of the differences: the form by products has none left here."""
    x = sf.full((rows, 2), 1000.0) + sf.arange(rows).unsqueeze(1) * 2.0**-13
    found = sf.cdist(x, x).numpy()
    steps = np.abs(np.subtract.outer(np.arange(rows), np.arange(rows))) * 2.0**-13
    np.testing.assert_allclose(found, steps * np.sqrt(2), 1e-6)


@pytest.mark.parametrize("rows", [MANY - 1, MANY])
def test_what_differs_is_refused_alike(rows: int) -> None:
    with pytest.raises(ShapeError, match="cdist: the columns"):
        sf.cdist(sf.ones(5, 3), sf.ones(rows, 4))
