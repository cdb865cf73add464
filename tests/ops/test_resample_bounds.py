"""Positions outside of what is resampled, which no interpolation asks for, are the nearest inside."""

from __future__ import annotations

import numpy as np
import pytest

import staticflow as sf
from staticflow.ops import OPS


@pytest.mark.parametrize("position", [-(10**9), -1, 8, 10**9, 2**62])
@pytest.mark.parametrize("size", [8, None])
def test_positions_are_held_inside(position: int, size: int | None) -> None:
    x = sf.placeholder((1, 1, size, 1), name="x")
    i = sf.placeholder((1, 1, 16), "int64", name="i")
    step = sf.compile([x, i], OPS["resample"](x, i, count=1))
    values = np.arange(8, dtype=np.float32).reshape(1, 1, 8, 1)
    found = step(values, np.full((1, 1, 16), position))
    assert (found.numpy() == (0 if position < 0 else 7)).all()
    y = sf.placeholder((1, 1, 16, 1), name="y")
    back = sf.compile([y, i], OPS["unresample"](y, i, count=1, size=8))
    total = back(np.ones((1, 1, 16, 1), np.float32), np.full((1, 1, 16), position)).numpy()
    assert total.ravel()[0 if position < 0 else 7] == 16 and total.sum() == 16
