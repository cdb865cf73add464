"""Fractional max-pooling: windows by plain loops, gradients by finite differences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.autograd import gradcheck

F = nn.functional
POOLS = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}
CASES = [
    ((2, 3, 9, 11), (2, 3), (5, 4)),
    ((2, 3, 9, 11), (2, 2), (1, 10)),
    ((1, 2, 6, 7, 8), (2, 1, 3), (3, 7, 2)),
]


def begins(size: int, count: int, width: int, draw: float) -> list[int]:
    """Where windows begin along a dim, as Graham's paper draws them."""
    if count == 1:
        return [size - width]
    apart = (size - width) / (count - 1)
    inner = [math.floor((i + draw) * apart) - math.floor(draw * apart) for i in range(count - 1)]
    return [*inner, size - width]


def plain(x: Any, kernel: Any, counts: Any, samples: Any) -> tuple[Any, Any]:
    """The largest elements and their places, window by window."""
    rank, shape = len(counts), x.shape[:2]
    out, places = np.empty((*shape, *counts), x.dtype), np.empty((*shape, *counts), np.int64)
    for n, c in np.ndindex(*shape):
        draws = samples[n, c][::-1] if rank == 2 else samples[n, c]
        starts = [
            begins(*at) for at in zip(x.shape[2:], counts, kernel, map(float, draws), strict=True)
        ]
        for window in np.ndindex(*counts):
            corner = [s[i] for s, i in zip(starts, window, strict=True)]
            ranges = [range(a, a + k) for a, k in zip(corner, kernel, strict=True)]
            at = max(itertools.product(*ranges), key=lambda p, n=n, c=c: x[(n, c, *p)])
            out[(n, c, *window)] = x[(n, c, *at)]
            places[(n, c, *window)] = np.ravel_multi_index(at, x.shape[2:])
    return out, places


@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows_are_those_of_plain_loops(case: Any) -> None:
    shape, kernel, counts = case
    rng = np.random.default_rng(shape)
    x, samples = rng.standard_normal(shape), rng.random((*shape[:2], len(kernel)))
    wanted, places = plain(x, kernel, counts, samples)
    pool = POOLS[len(kernel)]
    given = sf.tensor(samples)
    found, at = pool(sf.tensor(x), kernel, counts, return_indices=True, _random_samples=given)
    assert found.tolist() == wanted.tolist() and at.tolist() == places.tolist()
    kind = {2: nn.FractionalMaxPool2d, 3: nn.FractionalMaxPool3d}[len(kernel)]
    layer = kind(kernel, counts, _random_samples=given)
    open_shape = (*shape[:2], *(None for _ in kernel))
    p = sf.placeholder(open_shape, "float64", "p")
    assert sf.compile([p], layer(p))(x).tolist() == wanted.tolist()

    def call(x: Any) -> Any:
        return pool(x, kernel, counts, _random_samples=given)

    assert gradcheck(call, (sf.tensor(x, requires_grad=True),))


def test_draws_are_of_the_generator_and_each_channel_has_its_own() -> None:
    x = sf.arange(400.0).expand(1, 8, 400)[..., None].expand(1, 8, 400, 3)
    sf.manual_seed(3)
    first = F.fractional_max_pool2d(x, (1, 3), output_size=(250, 1))
    sf.manual_seed(3)
    assert F.fractional_max_pool2d(x, (1, 3), output_size=(250, 1)).tolist() == first.tolist()
    assert len({tuple(row) for row in first[0, :, :, 0].tolist()}) == 8
    program = sf.jit(lambda x: F.fractional_max_pool2d(x, (1, 3), output_size=(250, 1)))
    assert program(x).tolist() != program(x).tolist()


def test_a_ratio_is_of_the_size() -> None:
    assert F.fractional_max_pool2d(sf.ones(3, 9, 8), 2, output_ratio=0.5).shape == (3, 4, 4)
    layer = nn.FractionalMaxPool3d(2, output_ratio=(0.3, 0.5, 0.6), return_indices=True)
    assert [v.shape for v in layer(sf.ones(1, 2, 10, 8, 5))] == [(1, 2, 3, 4, 3)] * 2
    assert [v.shape for v in layer(sf.ones(0, 2, 10, 8, 5))] == [(0, 2, 3, 4, 3)] * 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "give either output_size or output_ratio"),
        ({"output_size": 2, "output_ratio": 0.5}, "give either output_size or output_ratio"),
        ({"output_ratio": 1.0}, "a number between 0 and 1, or 2 of them"),
        ({"output_ratio": 0.1}, "output_ratio times the size"),
        ({"output_size": 8}, "8 windows of 2 elements need as many and 1 more"),
        ({"output_size": 2, "_random_samples": sf.ones(1, 3, 3)}, "_random_samples has shape"),
    ],
)
def test_wrong_calls(options: Any, says: str) -> None:
    with pytest.raises(sf.StaticflowError, match=says):
        F.fractional_max_pool2d(sf.ones(1, 3, 8, 8), 2, **options)


def test_a_ratio_of_an_open_size_is_refused() -> None:
    x = sf.placeholder((1, 3, None, 8), name="x")
    with pytest.raises(sf.ShapeError, match="output_ratio is of sizes that are known"):
        F.fractional_max_pool2d(x, 2, output_ratio=0.5)
