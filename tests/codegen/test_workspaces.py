"""Memory that threads work in is for as many as there are processors, and is never left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import staticflow as sf
from staticflow.runtime import recipe, threads
from staticflow.static.compile import Program


def product() -> Program:
    """A product that copies what it multiplies."""
    x, y = (sf.placeholder((None, None), name=n) for n in "xy")
    return sf.compile([x, y], (x.T @ y).relu())


def products() -> Program:
    """A batch of small products, each of which one thread computes."""
    x, y = (sf.placeholder((None, None, None), name=n) for n in "xy")
    return sf.compile([x, y], x.mT @ y)


def attention() -> Program:
    """Attention with its gradient."""
    q = sf.placeholder((8, None, 64), name="q")
    out = sf.nn.functional.scaled_dot_product_attention(q, q, q)
    return sf.compile([q], sf.grad(out.sin().sum(), q))


def convolution() -> Program:
    """A strided convolution, which copies its windows."""
    x, w = sf.placeholder((None, 32, 15, 15), name="x"), sf.placeholder((64, 32, 3, 3), name="w")
    return sf.compile([x, w], sf.nn.functional.conv2d(x, w, stride=2))


def weight_gradient() -> Program:
    """The gradient of a convolution by its weight, a product over positions."""
    x, w = sf.placeholder((None, 32, 8, 8), name="x"), sf.placeholder((64, 32, 3, 3), name="w")
    loss = sf.nn.functional.conv2d(x, w, padding=1).square().sum()
    return sf.compile([x, w], sf.grad(loss, w))


SHAPES: dict[Callable[[], Program], tuple[Sequence[int], ...]] = {
    product: ((300, 700), (300, 500)),
    products: ((40, 90, 80), (40, 90, 70)),
    attention: ((8, 150, 64),),
    convolution: ((30, 32, 15, 15), (64, 32, 3, 3)),
    weight_gradient: ((30, 32, 8, 8), (64, 32, 3, 3)),
}


@pytest.mark.parametrize("make", SHAPES)
def test_memory_grows_with_the_workers(
    make: Callable[[], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = []
    for workers in (1, 2, 16):
        monkeypatch.setattr(recipe, "most_workers", lambda n=workers: n)
        plans.append(make().plan)
    peaks = [plan.arena_bytes(**{s.name: 512 for s in plan.unknown}) for plan in plans]
    assert peaks[0] < peaks[1] < peaks[2]
    assert peaks[2] - peaks[1] > 3 * (peaks[1] - peaks[0])


@pytest.mark.parametrize("workers", [1, 2, 16])
@pytest.mark.parametrize("make", SHAPES)
def test_more_threads_than_there_is_memory_for_change_nothing(
    make: Callable[[], Program], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that has memory for a few workers runs on no more, however many are wanted later."""
    monkeypatch.setattr(recipe, "most_workers", lambda: workers)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in SHAPES[make]]
    step = make()
    before = sf.get_num_threads()
    try:
        sf.set_num_threads(1)
        expected = step(*arrays).numpy()
        for wanted in (2, 3, 8, 20):
            sf.set_num_threads(wanted)
            for _ in range(3):
                np.testing.assert_array_equal(step(*arrays).numpy(), expected)
    finally:
        sf.set_num_threads(before)
    if make is product:
        x, y = arrays
        np.testing.assert_allclose(expected, np.maximum(x.T @ y, 0), rtol=1e-3, atol=1e-3)


def test_programs_are_made_for_the_threads_that_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_processors", 2)
    before = sf.get_num_threads()
    try:
        for wanted, workers in ((1, 2), (4, 4), (1000, threads.MOST_WORKERS)):
            sf.set_num_threads(wanted)
            assert threads.most_workers() == workers
    finally:
        sf.set_num_threads(before)
