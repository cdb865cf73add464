"""Gradients of tensors of which parts were used: those of the whole arrays that are zeros but for a
part, added up; in either walk, and without such arrays."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager.costs import LARGE, SMALL
from staticflow.eager.mode import EAGER
from staticflow.eager.tape import WALK

EAGER.prepare()
NATIVE = WALK.form

SHAPES = ((SMALL,), (80, 70), (8, 40, 30), (1, LARGE), (300, 250))


@pytest.fixture(params=["native", "python"])
def _walk(request: pytest.FixtureRequest) -> Iterator[None]:
    WALK.form = NATIVE if request.param == "native" else None
    yield
    WALK.form = NATIVE


def subscripts(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Any]:
    """Subscripts of one or two dims: neighbours, positions, and every second or third."""
    found: list[Any] = []
    for _ in range(int(rng.integers(1, 9))):
        at: list[Any] = [slice(None)] * len(shape)
        for dim in rng.permutation(len(shape))[: rng.choice([1, 1, 1, 2])]:
            a, b = sorted(rng.integers(0, shape[dim] + 1, 2).tolist())
            step = int(rng.choice([1, 1, 1, 2, 3]))
            one = rng.random() < 0.3
            at[dim] = int(rng.integers(0, shape[dim])) if one else slice(a, b, step)
        found.append(tuple(at))
    return found


def gradient_by_parts(x: Any, ats: list[Any], weights: list[Any], inner: bool) -> Any:
    y = x * 2 if inner else x
    parts = [y[at] for at in ats]
    sf.autograd.backward(parts, [sf.from_numpy(w) for w in weights])
    return x.grad.numpy()


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize("inner", [False, True], ids=["leaf", "inner"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_is_the_sum_of_whole_arrays(shape: tuple[int, ...], inner: bool) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = sf.zeros(*shape, requires_grad=True)
        ats = subscripts(rng, shape)
        weights = [rng.standard_normal(np.zeros(shape)[at].shape, np.float32) for at in ats]
        total = np.zeros(shape, np.float32)
        for at, w in zip(reversed(ats), reversed(weights), strict=True):  # as a walk meets them
            total[at] += w
        found = gradient_by_parts(x, ats, weights, inner)
        np.testing.assert_array_equal(found, total * 2 if inner else total)


WAYS: dict[str, Callable[[Any], Any]] = {
    "unbind": lambda x: sum(p * p * float(i) for i, p in enumerate(x.unbind(1))),
    "split": lambda x: sum((p * p).sum() * float(i) for i, p in enumerate(x.split(9))),
    "beside the whole": lambda x: (x[1:] * x[:-1]).sum() + (x * x).sum() + x[3].sum(),
    "the whole among parts": lambda x: x[2] * (x * x).sum() * x[1],
    "parts of parts": lambda x: x[2:40][1:, 3][::2] * x[5:40][1, 1],
    "a part twice": lambda x: (lambda p: (p * p + p).sum() + p.exp().sum())(x[1:9]),
    "through an expansion": lambda x: (x[:, None].expand(80, 3, 70)[:, 1, :5] * x[:, :5]).sum(),
}


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize("name", WAYS)
def test_it_is_that_of_the_recorded_gradient(name: str) -> None:
    values = sf.from_numpy(np.random.default_rng(0).standard_normal((80, 70)))
    x = values.clone().requires_grad_()
    y = WAYS[name](x).sum()
    (recorded,) = sf.autograd.grad(y, [x], create_graph=True)  # which adds whole arrays
    (found,) = sf.autograd.grad(y, [x], retain_graph=True)
    np.testing.assert_allclose(found.numpy(), recorded.detach().numpy(), 1e-13, 1e-13)
    assert recorded.requires_grad
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), found.numpy())


@pytest.mark.usefixtures("_walk")
def test_hooks_and_who_asks_get_the_whole() -> None:
    seen: list[Any] = []
    x = sf.zeros(80, 70, requires_grad=True)
    y = x * 1.0
    x.register_hook(lambda g: seen.append(("x", tuple(g.shape))))
    y.register_hook(lambda g: seen.append(("y", tuple(g.shape))))
    y.retain_grad()
    sf.autograd.backward([*y.unbind()], [sf.ones(70)] * 80)
    assert seen == [("y", (80, 70)), ("x", (80, 70))]
    assert y.grad.tolist() == x.grad.tolist() == np.ones((80, 70)).tolist()
    (of_y,) = sf.autograd.grad((y[1:] - y[:-1]).sum(), [y])
    assert of_y.sum(1).tolist() == [-70.0, *[0.0] * 78, 70.0]


@pytest.mark.usefixtures("_walk")
def test_gradients_of_two_leaves_are_no_views_of_one_memory() -> None:
    x, y = (sf.zeros(80, 70, requires_grad=True) for _ in range(2))
    weight = sf.ones(80, 70)
    sf.autograd.backward([x[:], y[:]], [weight, weight])
    x.grad.zero_()
    assert y.grad.sum().item() == weight.sum().item() == 5600
    sf.autograd.backward([x[0:40]], [sf.ones(40, 70)])
    assert x.grad.sum().item() == 2800


@pytest.mark.parametrize("parts", ["rows", "windows"])
def test_no_whole_array_for_each_part(parts: str) -> None:
    x = sf.zeros(300, 1000, requires_grad=True)
    whole = x._data.nbytes
    weight = sf.ones(1000) if parts == "rows" else sf.ones(250, 1000)
    taken = [*x.unbind()] if parts == "rows" else [x[i : i + 250] for i in range(50)]
    weights = [weight] * len(taken)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sf.autograd.backward(taken, weights)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert x.grad.sum().item() == sum(w.numel() for w in weights)
    assert peak - before < 1.5 * whole


def test_parts_that_overlap_again_and_again_are_not_kept() -> None:
    x = sf.zeros(100, 1000, requires_grad=True)
    y = x * 1.0
    taken = [y[i : i + 50] * 2.0 for i in range(50)]  # each with a cotangent of its own
    loss = sum(t.sum() for t in taken)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        loss.backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert x.grad.sum().item() == 50 * 50 * 1000 * 2
    assert peak - before < 6 * x._data.nbytes
