"""Rare branches are functions, each once in a kernel, however many operations may take it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import staticflow as sf


def repeated(fn: Callable[..., sf.Symbol], count: int, dtype: str = "float32") -> sf.Program:
    """``fn``, so many times in a chain, with numbers between."""
    x = sf.placeholder((None,), dtype, name="x")
    y = x
    for i in range(count):
        y = fn(y) * (1.5 + i)
    return sf.compile([x], y)


RARE: list[Callable[..., sf.Symbol]] = [
    sf.sin, sf.cos, sf.tan, lambda x: x % 0.7, lambda x: sf.floor_divide(x, 0.7),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fn", RARE)
def test_a_rare_branch_is_in_a_kernel_once(fn: Callable[..., sf.Symbol], dtype: str) -> None:
    few, many = (repeated(fn, count, dtype).source("llvm") for count in (2, 12))
    assert few.count(" cold willreturn") == many.count(" cold willreturn") > 0
    more = (many.count("\n") - few.count("\n")) / 10
    apart = few.split(" cold willreturn", 1)[1].split("\n}", 1)[0]
    assert more < few.count("\n") / 2
    assert apart.count("\n") > 8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 37, 64, 101])
def test_near_and_far_angles_side_by_side(size: int, dtype: str) -> None:
    rng = np.random.default_rng(size)
    x = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 20, size)
    x[: size // 5] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan] * size)[: size // 5]
    given = x.astype(dtype)
    v = sf.placeholder((None,), dtype, name="v")
    step = sf.compile([v], [v.sin(), v.cos(), v.tan(), (v.sin() * 1e9).cos()])
    rtol = 1e-6 if dtype == "float32" else 1e-14
    with np.errstate(all="ignore"):
        wide = given.astype(np.float64)
        s, c, t = np.sin(wide), np.cos(wide), np.tan(wide)
    for got, wanted in zip(step(given)[:3], (s, c, t), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.astype(dtype), rtol=4 * rtol, atol=0)
    alone = sf.compile([v], v.cos())
    inner = (step(given)[0] * 1e9).numpy()
    np.testing.assert_array_equal(step(given)[3].numpy(), alone(inner).numpy())


def test_what_branches_on_memory_stays_where_it_is() -> None:
    """A gather checks its indices in the kernel itself."""
    x, i = sf.placeholder((None,), name="x"), sf.placeholder((None,), "int64", name="i")
    assert " cold willreturn" not in sf.compile([x, i], x[i] + 1).source("llvm")
