"""Values of one element in kernels with others of other ranks: of every kind of kernel, in a program of
known sizes and of unknown ones, as results and as updates."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

F = sf.nn.functional

MADE: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: x.reshape(-1)[:1].exp(),
    "a sum": lambda x: x.sum(),
    "a sum that keeps its dims": lambda x: (x * x).sum((0, 1), keepdim=True),
    "a row": lambda x: F.softmax(x.reshape(1, -1), 1).amax(1),
    "a product": lambda x: x.reshape(1, -1) @ x.reshape(-1, 1),
    "a product of batches": lambda x: x.reshape(1, 1, -1) @ x.reshape(1, -1, 1),
    "a convolution": lambda x: F.conv1d(x.reshape(1, 1, -1), x.reshape(1, 1, -1)),
    "a variance": lambda x: x.var(),
    "an element that an index names": lambda x: x.reshape(-1)[(x.reshape(-1)[:1] > 9).long()],
    "an element that is found": lambda x: x.reshape(1, -1)[:, :1].mode(1).values.fmod(0.75),
    "a running total": lambda x: x.reshape(-1).cumsum(0)[-1:],
}
"""One element of a matrix of some."""

RANKS = list(itertools.permutations(range(4), 3))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (None, 3)], ids=str)
@pytest.mark.parametrize("name", MADE)
def test_one_element_of_any_rank(name: str, shape: tuple[int | None, ...]) -> None:
    values = np.random.default_rng(0).random((shape[0] or 4, shape[1])) + 0.5

    def outs(x: Any) -> list[Any]:
        found = []
        for first, second, third in RANKS:
            y = MADE[name](x).reshape((1,) * first) * 2
            z = (y.reshape((1,) * second) + 1).tanh()
            w = z.reshape((1,) * third) - 3
            found += [y, z, w, (w * x).sum()]
        return found

    if name == "a variance" and shape == (1, 1):
        return  # of which there is none
    wanted = [v.numpy() for v in outs(sf.tensor(values))]
    x = sf.placeholder(shape, "float64", name="x")
    found = sf.compile([x], outs(x))(values)
    for got, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), exact, 1e-12)
        assert got.numpy().shape == exact.shape


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("rank", range(3))
def test_one_element_updates_another_of_another_rank(name: str, rank: int) -> None:
    values = np.random.default_rng(0).random((2, 3)) + 0.5
    state = sf.full((1,) * rank, 0.25, dtype="float64").requires_grad_()
    x = sf.placeholder((2, 3), "float64", name="x")
    for other in range(4):
        more = MADE[name](x).reshape((1,) * other)
        updated = (state.reshape((1,) * other) * 2 + more).reshape((1,) * rank)
        before = state.detach().clone()
        step = sf.compile([x], more, updates={state: updated})
        wanted = before.numpy() * 2 + step(values).numpy().reshape((1,) * rank)
        np.testing.assert_allclose(state.detach().numpy(), wanted, 1e-12)
