"""A search in sorted elements, of which the values are sought some at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf

SHAPES = [(), (0,), (1,), (7,), (8,), (9,), (16,), (31,), (67,), (3, 5), (2, 8), (4, 1), (0, 3)]
COUNTS = [0, 1, 2, 3, 7, 8, 100]


def arrays(dtype: str, count: int, shape: tuple[int, ...], rows: bool) -> tuple[Any, Any]:
    """Sorted elements, some of them equal, and values among, before and behind them."""
    draw = np.random.default_rng(count)
    lowest = 0 if dtype == "uint8" else -5
    edges = draw.integers(lowest, 6, (*shape[:-1], count) if rows else count).astype(dtype)
    values = draw.integers(lowest, 9, shape).astype(dtype)
    if edges.dtype.kind == "f":
        edges[..., ::5], edges[..., 1::5] = np.nan, -np.inf
        values.reshape(-1)[::4] = np.nan
    return np.sort(edges, -1), values


def expected(edges: Any, values: Any, side: Any) -> Any:
    out = np.empty(values.shape, np.int64)
    for at in np.ndindex(values.shape):
        out[at] = np.searchsorted(edges[at[:-1]] if edges.ndim > 1 else edges, values[at], side)
    return out


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [*(("float32", s) for s in SHAPES), *((d, (9,)) for d in ("float64", "float16", "int64", "int32", "uint8"))],
    ids=str,
)  # fmt: skip
def test_values_are_found_where_numpy_finds_them(
    dtype: str, shape: tuple[int, ...], side: str
) -> None:
    for rows in (False, True) if shape else (False,):
        a = sf.placeholder((None,) * len(shape) if rows else (None,), dtype)
        programs = [
            sf.compile([a, b], sf.searchsorted(a, b, side=side))
            for b in (sf.placeholder(sizes, dtype) for sizes in (shape, (None,) * len(shape)))
        ]
        for count in COUNTS:
            edges, values = arrays(dtype, count, shape, rows)
            wanted = expected(edges, values, side)
            tensors = map(sf.from_numpy, (edges, values))
            for found in (p(edges, values) for p in programs):
                assert np.array_equal(np.asarray(found), wanted)
            assert np.array_equal(sf.searchsorted(*tensors, side=side).numpy(), wanted)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_a_search_among_integers_has_nothing_that_llvm_makes_a_branch_of(dtype: str) -> None:
    a, b = (sf.placeholder((None,), dtype) for _ in range(2))
    assert "select(" not in sf.compile([a, b], sf.searchsorted(a, b)).source("kernels")
