"""Distinct elements, counts and places of what is not zero, eagerly: as in a graph and as NumPy's,
on both sides of each threshold, however the elements lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.graph import mask_indices
from staticflow.ops.along.counts import _MANY as MANY_COUNTED
from staticflow.ops.indexing import data_dependent as distinct

Array = np.ndarray[Any, Any]

COUNTS = (0, 1, 2, 7, distinct._MANY - 1, distinct._MANY, distinct._MANY + 1)


def integers(dtype: str) -> Iterator[Array]:
    """Few and many different numbers, in a range that is counted and in one that is sorted."""
    rng = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    for n in COUNTS:
        for low, high in ((0, 3), (5, 120), (limits.min, limits.max)):
            yield rng.integers(low, high, n, dtype, endpoint=True)
    n = distinct._MANY
    for span in (distinct._SPREAD * n - 1, distinct._SPREAD * n):  # the largest that is counted
        if limits.max > span:
            yield np.append(np.arange(n - 1), span)[::-1].astype(dtype)


def floats(dtype: str) -> Iterator[Array]:
    """With zeros of both signs, of which either is first, and with NaN."""
    rng = np.random.default_rng(1)
    for n in (*COUNTS, 3000):
        some = rng.integers(-3, 4, n).astype(dtype) / 2
        yield some
        yield np.where(rng.random(n) < 0.3, -0.0, some).astype(dtype)
        yield np.where(rng.random(n) < 0.1, np.nan, some).astype(dtype)


def lying_otherwise(x: Array) -> Iterator[Array]:
    yield x
    yield x[::-1]
    yield x[::2]
    if x.size % 2 == 0:
        yield x.reshape(2, -1).T


def as_arrays(found: Any) -> list[Array]:
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


SAMPLES = {
    **{dtype: integers for dtype in ("int64", "int32", "int8", "uint8")},
    **{dtype: floats for dtype in ("float32", "float64")},
}  # fmt: skip


@pytest.mark.parametrize("dtype", SAMPLES)
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_unique_as_numpy_has_it(dtype: str, inverse: bool, counts: bool) -> None:
    for sample in SAMPLES[dtype](dtype):
        for x in lying_otherwise(sample):
            if inverse and np.isnan(x).any():  # which NumPy numbers in any order
                continue
            found = as_arrays(sf.unique(sf.from_numpy(x), True, inverse, counts))
            wanted = np.unique(x, False, inverse, counts, equal_nan=False)
            several = wanted if isinstance(wanted, tuple) else (wanted,)
            assert len(found) == len(several)
            for a, b in zip(found, several, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b.reshape(a.shape))


@pytest.mark.parametrize("dtype", SAMPLES)
def test_unique_as_a_graph_has_it(dtype: str) -> None:
    """To the bits, signs of zeros included."""
    for counts in (False, True):
        jitted = sf.jit(lambda x, counts=counts: sf.unique(x, True, counts, counts))
        for sample in SAMPLES[dtype](dtype):
            x = sf.from_numpy(sample)
            eager = as_arrays(sf.unique(x, True, counts, counts))
            for a, b in zip(eager, as_arrays(jitted(x)), strict=True):
                assert a.tobytes() == b.tobytes() and a.shape == b.shape


def test_unique_of_what_requires_a_gradient_has_one() -> None:
    x = sf.tensor([3.0, 1.0, 3.0], requires_grad=True)
    sf.unique(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]
    with sf.no_grad():
        assert not sf.unique(x).requires_grad


def test_bincount() -> None:
    rng = np.random.default_rng(2)
    for n in (0, 1, 100, 5000):
        for dtype in ("int64", "int32", "uint8"):
            x = rng.integers(0, 9, n).astype(dtype)
            for least in (0, 4, 20):
                found = sf.bincount(sf.from_numpy(x), minlength=least)
                wanted = np.bincount(x, minlength=least)
                assert found.dtype is sf.int64 and found.tolist() == wanted.tolist()
    with pytest.raises(sf.ShapeError, match=r"a number below 0, at .*test_distinct"):
        sf.bincount(sf.tensor([2, -1]))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_places_of_what_is_not_zero(rank: int) -> None:
    rng = np.random.default_rng(3)
    for n in (0, 1, 3, 8, 12, 40):
        x = rng.integers(0, 2, (n,) * (rank - 1) + (mask_indices._SMALL // 40,)).astype(bool)
        for part in (x, x.T, x[..., ::3], x[::-1], ~x & False, x | True):
            wanted = np.argwhere(part)
            assert sf.nonzero(sf.from_numpy(part)).numpy().tobytes() == wanted.tobytes()
            np.testing.assert_array_equal(mask_indices._rows_at_once(part), wanted)


def test_rows_that_numpy_makes_otherwise_are_joined() -> None:
    class Apart:
        """A mask whose places come as arrays of their own."""

        ndim = 2

        def nonzero(self) -> Any:
            return np.array([0, 2]), np.array([1, 1])

    assert mask_indices._rows_at_once(Apart()).tolist() == [[0, 1], [2, 1]]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_few_and_many_are_counted(dtype: str) -> None:
    """By NumPy, and by kernels: also where integers lie apart, and where ``minlength`` is less than
    the largest."""
    for n in (MANY_COUNTED - 1, MANY_COUNTED, MANY_COUNTED + 1):
        a = np.random.default_rng(n).integers(0, 200, 2 * n).astype(dtype)
        for part in (a[:n], a[::2], a[n:][::-1]):
            for least in (0, 100, 300):
                found = sf.bincount(sf.from_numpy(part.copy()), minlength=least)
                assert found.dtype is sf.int64
                np.testing.assert_array_equal(found.numpy(), np.bincount(part, minlength=least))
        strided = sf.from_numpy(a)[::2]
        np.testing.assert_array_equal(sf.bincount(strided).numpy(), np.bincount(a[::2]))
        if dtype != "uint8":
            a[n - 1] = -1
            with pytest.raises(sf.ShapeError, match=r"bincount.*: a number below 0"):
                sf.bincount(sf.from_numpy(a[:n]))
