"""The first NaN of a program is found: op, element, iteration, line."""

from __future__ import annotations

import numpy as np
import pytest

import staticflow as sf
from staticflow.config import config


def test_the_op_and_its_operands_are_named() -> None:
    x = sf.placeholder((None,), name="x")
    f = sf.compile([x], (x / (x - 1)).log().sum())
    f.check_nan(np.array([2.0, 3.0], np.float32))
    with pytest.raises(
        sf.NanError, match=r"log\(f32\[x_0\]\) makes the first NaN at \[1\] of -1\.0, at .*:14"
    ):
        f.check_nan(np.array([2.0, 0.5], np.float32))


def test_the_iteration_of_the_loop_is_named() -> None:
    x = sf.placeholder((None,), name="x")
    last, roots = sf.scan(lambda c, row: (c - row, c.sqrt()), x[0], x)
    f = sf.compile([x], (last, roots))
    f.check_nan(np.array([3.0, 1.0], np.float32))
    with pytest.raises(
        sf.NanError, match=r"sqrt\(f32\[\]\) .* of -1.0, .*, in iteration 2 of the scan at"
    ):
        f.check_nan(np.array([3.0, 1.0, 5.0, 1.0], np.float32))


def test_a_nan_that_comes_in_is_said_to() -> None:
    w = sf.nn.Parameter([1.0, float("nan")])
    x = sf.placeholder((2,), name="x")
    with pytest.raises(
        sf.NanError, match=r"captured \(f32\[2\]\) has a NaN at \[1\] to begin with"
    ):
        sf.compile([x], x * w).check_nan(np.ones(2, np.float32))


def test_every_call_is_checked_and_nothing_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "check_nan", True)
    w = sf.ones(2)
    x = sf.placeholder((2,), name="x")
    step = sf.compile([x], x.sum(), updates={w: w * x.sqrt()})
    step(np.full(2, 4, np.float32))
    assert w.tolist() == [2, 2]
    with pytest.raises(sf.NanError, match="sqrt"):
        step(np.full(2, -4, np.float32))
    assert w.tolist() == [2, 2]
