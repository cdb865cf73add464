"""Sorting by digits: every dtype, both directions, equal elements, lengths at which the way
changes, threads."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.ops.along.order import NETWORK, SHORT
from staticflow.ops.indexing.radix import _MOST_PARTS, _PART

RNG = np.random.default_rng(0)
DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
)  # fmt: skip
SIZES = (0, 1, 2, 100, 1000, *(SHORT + more for more in (-1, 0, 1)))


def row(n: int, dtype: str) -> np.ndarray:
    """Elements of which many are equal, the least and the largest there are among them."""
    if dtype == "bool":
        return RNG.integers(0, 2, n).astype(bool)
    if dtype[0] != "f":
        info = np.iinfo(dtype)
        x = RNG.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        x[::3] //= info.max // 5
        return x
    x = (RNG.standard_normal(n) * 3).astype(dtype)
    x[::7] = np.round(x[::7])
    special = np.array([np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, -0.0], dtype)
    x[1::5][: len(special)] = special[: len(x[1::5])]
    return x


def order_of(x: np.ndarray, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, kind="stable")
    return (len(x) - 1 - np.argsort(x[::-1], kind="stable"))[::-1]


@functools.cache
def program(n: int | None, dtype: str, descending: bool) -> sf.Program:
    x = sf.placeholder((n,), dtype, name="x")
    return sf.compile([x], list(x.sort(descending=descending)))


def check(sort: sf.Program, x: np.ndarray, descending: bool) -> None:
    values, positions = sort(x)
    wanted = order_of(x, descending)
    np.testing.assert_array_equal(positions.numpy(), wanted)
    assert values.numpy().tobytes() == x[wanted].tobytes()  # with the signs of zeros and of NaN


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(dtype: str, descending: bool) -> None:
    for n in SIZES:
        check(program(None, dtype, descending), row(n, dtype), descending)
    check(program(300, dtype, descending), row(300, dtype), descending)


@pytest.mark.parametrize("n", [_PART - 1, 2 * _PART, (_MOST_PARTS + 2) * _PART + 5])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_rows_in_parts(dtype: str, n: int) -> None:
    x, found = row(n, dtype), []
    for threads in (1, 2, 3):
        sf.set_num_threads(threads)
        check(program(None, dtype, False), x, False)
        found.append(program(None, dtype, True)(x)[1].numpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("low", [0, 7, -(1 << 40)])
@pytest.mark.parametrize("most", [0, 200, 1 << 17, 1 << 33])
def test_digits_that_all_have_in_common(low: int, most: int) -> None:
    """Rounds are left out, of which the last ones are those of the sign."""
    x = low + RNG.integers(0, most + 1, 500)
    check(program(None, "int64", False), x, False)
    check(program(None, "int64", True), x, True)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
def test_every_dim_of_views(dim: int, is_open: bool) -> None:
    a = row(3 * 150 * 140, "float32").reshape(3, 150, 140)
    x = sf.placeholder((None, None, None) if is_open else a.shape, name="x")

    def turned(x: Any) -> Any:
        return x.flip(1).permute(2, 0, 1)[::2]

    values, positions = sf.compile([x], list(turned(x).sort(dim)))(a)
    b = np.flip(a, 1).transpose(2, 0, 1)[::2]
    wanted = np.argsort(b, dim, kind="stable")
    np.testing.assert_array_equal(positions.numpy(), wanted)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(b, wanted, dim))


def test_what_is_made_of_sorted_rows() -> None:
    a = row(5000, "float64")
    a[np.isnan(a)] = 0.5
    x = sf.placeholder((None,), "float64", name="x")
    found = sf.compile([x], [*sf.topk(x, 100), x.median(), x.quantile(0.3)])(a)
    np.testing.assert_array_equal(found[0].numpy(), np.sort(a)[::-1][:100])
    np.testing.assert_array_equal(found[1].numpy(), order_of(a, True)[:100])
    assert found[2].item() == np.sort(a)[2499]
    np.testing.assert_allclose(found[3].item(), np.quantile(a, 0.3), 1e-15)


def test_the_gradient_goes_where_elements_came_from() -> None:
    a = row(1000, "float64")
    x = sf.placeholder((None,), "float64", name="x")
    weights = sf.tensor(np.arange(1000.0))
    sorted_sum = (x.sort()[0] * weights)[:900].sum()
    gradient = sf.compile([x], sf.grad(sorted_sum, [x])[0])(a).numpy()
    wanted = np.zeros(1000)
    wanted[order_of(a, False)] = np.where(np.arange(1000) < 900, np.arange(1000.0), 0)
    np.testing.assert_array_equal(gradient, wanted)


def test_short_rows_are_counted() -> None:
    """They need no spare row and no counters of digits, which is what else is in working memory."""
    for n, has in ((SHORT, False), (SHORT + 1, True)):
        x = sf.placeholder((3, n), name="x")
        text = str(sf.compile([x], list(x.sort(1))).source("llvm"))
        assert ("scratch2" in text) is has


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_rows_that_are_counted_are_stable(dim: int, dtype: str) -> None:
    """Of unknown length and known, one behind the other and apart, on both sides of the change."""
    for n in (NETWORK + 1, 31, 64, SHORT - 1, SHORT, SHORT + 1):
        rows = np.stack([row(n, dtype) for _ in range(5)])
        given = rows if dim == 1 else np.ascontiguousarray(rows.T)
        for shape in ((None, None), given.shape):
            x = sf.placeholder(shape, dtype, name="x")
            for descending in (False, True):
                sort = sf.compile([x], list(x.sort(dim, descending)))
                values, positions = (y.numpy() for y in sort(given))
                if dim == 0:
                    values, positions = values.T, positions.T
                for one, value, position in zip(rows, values, positions, strict=True):
                    wanted = order_of(one, descending)
                    np.testing.assert_array_equal(position, wanted)
                    assert value.tobytes() == one[wanted].tobytes()
