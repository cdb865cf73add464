"""Sizes that are computed of others: one that comes out negative, or divides by 0, is an error that
names it, before anything is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf


def two() -> tuple[Any, Any]:
    return sf.placeholder((None,), name="x"), sf.placeholder((None,), name="y")


def ones(n: int) -> Any:
    return np.ones(n, np.float32)


def filled(x: Any, y: Any) -> Any:
    return sf.cat([sf.full((x.shape[0] - y.shape[0],), 1.0), sf.full((y.shape[0],), 2.0)])


NEGATIVE = {
    "filled": filled,
    "stretched": lambda x, y: x.sum().expand(x.shape[0] - y.shape[0]).cumsum(0),
    "drawn": lambda x, y: sf.rand(x.shape[0] - y.shape[0], 3).sum(0),
    "of several": lambda x, y: sf.zeros(2, 2 * x.shape[0] - y.shape[0] - 1).sum(1),
}


@pytest.mark.parametrize("name", NEGATIVE)
@pytest.mark.parametrize("rows", [5, 1000, 1_000_000])
def test_a_negative_size_is_refused(name: str, rows: int) -> None:
    x, y = two()
    step = sf.compile([x, y], NEGATIVE[name](x, y))
    for _ in range(3):
        with pytest.raises(sf.ShapeError, match=rf"a size of .* must be at least 0.*{rows}"):
            step(ones(1), ones(rows))
    step(ones(5), ones(3))


def test_sizes_that_fit_are_as_before() -> None:
    x, y = two()
    step = sf.compile([x, y], filled(x, y))
    for n, m in ((4, 3), (4, 4), (4, 0), (0, 0)):
        assert step(ones(n), ones(m)).numpy().tolist() == [1.0] * (n - m) + [2.0] * m


def test_a_division_by_0_is_refused() -> None:
    x, y = two()
    step = sf.compile([x, y], sf.full((x.shape[0] // y.shape[0],), 1.0))
    for n in range(100, 120):
        with pytest.raises(sf.ShapeError, match="is divided by: y_0 must be at least 1"):
            step(ones(n), ones(0))
    assert step(ones(7), ones(2)).shape == (3,)


def test_jit_refuses_them_too() -> None:
    f = sf.jit(lambda x, y: sf.zeros(x.shape[0] - y.shape[0]).sum() + x.sum())
    assert f(sf.ones(5), sf.ones(3)).item() == 5
    for n, m in ((6, 2), (7, 3), (8, 4), (9, 5)):
        assert f(sf.ones(n), sf.ones(m)).item() == n
    with pytest.raises(sf.ShapeError):
        f(sf.ones(3), sf.ones(6))


def test_what_is_proved_is_not_checked() -> None:
    x = sf.placeholder((1, 1, None, None), name="x")
    c = sf.nn.Conv2d(1, 2, 3, stride=2)(x)
    step = sf.compile([x], [c, sf.grad(c.sum(), x), x[:, :, 1:], x.flatten()])
    assert not any("a size of" in e.reason for e in step.graph.equalities)
