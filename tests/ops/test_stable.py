"""The ways round a stable sort give its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from staticflow.graph.dtypes import DTYPES, bfloat16
from staticflow.ops import OPS
from staticflow.ops.along import stable
from staticflow.ops.along.stable import stable_order


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable, "_FEW", 1)


def drawn(dtype: Any, shape: tuple[int, ...], apart: bool) -> Any:
    """Elements of which many are equal, or no two."""
    rng = np.random.default_rng(0)
    count = int(np.prod(shape))
    if apart and dtype.itemsize > 1:
        x = (rng.permutation(count) - (0 if dtype.kind == "u" else count // 2)).astype(dtype)
    else:
        x = (rng.integers(-9, 9, count) if dtype.kind in "if" else rng.integers(0, 9, count)) / 2
        x = x.astype(dtype)
    if dtype.kind == "f":
        x[::17], x[1::31] = np.inf, -np.inf
        if not apart:
            x[::7], x[3::11], x[1::5], x[2::5] = np.nan, -np.nan, 0.0, -0.0
    return x.reshape(shape)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(70,), (9, 8), (3, 5, 4), (1, 6), (6, 1)], ids=str)
def test_the_order_is_that_of_a_stable_sort(dtype: Any, shape: tuple[int, ...]) -> None:
    for apart in (False, True):
        x = drawn(dtype.numpy, shape, apart)
        for dim in range(x.ndim):
            up = np.argsort(x, axis=dim, kind="stable")
            flipped = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
            down = np.flip(x.shape[dim] - 1 - flipped, dim)
            for descending, wanted in ((False, up), (True, down)):
                found = stable_order(np, x, dim, descending)
                assert found.dtype == np.int64 and found.flags.c_contiguous
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["few differ", "many differ", "equal", "negative", "uint64"])
def test_elements_that_begin_alike(name: str) -> None:
    """Leading bits that are the same, of elements that do not fit in beside their places."""
    rng = np.random.default_rng(0)
    wide = rng.integers(-(2**63), 2**63 - 1, 300)
    x: Any = {
        "few differ": np.concatenate([wide, wide[:9] ^ 1, wide[20:25] ^ 3]),
        "many differ": (rng.integers(-4, 4, 300) << 60) + rng.integers(0, 512, 300),
        "equal": np.repeat(wide, 3),
        "negative": -np.abs(wide) - 1,
        "uint64": wide.astype(np.uint64),
    }[name]
    for a in (x, rng.permutation(x), x[:300].reshape(20, 15)):
        for dim in range(a.ndim):
            found = stable_order(np, a, dim, False)
            np.testing.assert_array_equal(found, np.argsort(a, axis=dim, kind="stable"))


def test_integers_from_end_to_end() -> None:
    for dtype in (np.int64, np.uint64, np.int32, np.uint32):
        limits = np.iinfo(dtype)
        x = np.array([limits.max, 0, limits.min, limits.max, 5, limits.min], dtype)
        np.testing.assert_array_equal(stable_order(np, x, 0, False), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iuf"], ids=str)
def test_the_kth_is_that_of_a_sort(dtype: Any) -> None:
    x = drawn(np.dtype(np.float32) if dtype is bfloat16 else dtype.numpy, (6, 20), apart=False)
    x = x.astype(dtype.numpy)
    for dim, n in ((1, 20), (0, 6)):
        values, places = OPS["sort"].reference(np, x, dim=dim, descending=False)
        for k in range(1, n + 1):
            found = OPS["kthvalue"].reference(np, x, k=k, dim=dim, keepdim=True)
            np.testing.assert_array_equal(found[1], np.take(places, [k - 1], dim))
            np.testing.assert_array_equal(
                found[0].astype(np.float64), np.take(values, [k - 1], dim).astype(np.float64)
            )
