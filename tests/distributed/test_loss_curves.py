"""Training over a hundred steps: the losses of two, three and four ranks are those of one.

Ranks add up in another order, and what that rounds off differs. Small steps do not make it grow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from slices import daily

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.nn import functional as F

STEPS, ROWS, WORDS, LENGTH = 100, 10, 7, 6
RANKS = (2, 3, 4)


class Tagger(nn.Module):
    """An LSTM that says of each word which came before it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(WORDS, 12), nn.LSTM(12, 16, batch_first=True)
        self.out = nn.Linear(16, WORDS)

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(self.table(x))[0]).reshape(-1, WORDS)


class Transformer(nn.Module):
    """A layer of a transformer for the same task, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.place = nn.Embedding(WORDS, 16), nn.Parameter(sf.randn(LENGTH, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, WORDS)

    def forward(self, x: Any) -> Any:
        return self.out(self.layer(self.table(x) + self.place)).reshape(-1, WORDS)


def lenet() -> Any:
    """LeNet-5 for images of 16 x 16, with fewer channels."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(24, 20), nn.ReLU(), nn.Linear(20, WORDS),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], Any], float]] = {
    "lenet": (lenet, 0.1),
    "lstm": (Tagger, 0.5),
    "transformer": (Transformer, 0.1),
}


def batches(name: str) -> tuple[Any, Any]:
    """Four batches, that come again and again."""
    rng = np.random.default_rng(0)
    if name == "lenet":
        labels = rng.integers(0, WORDS, (4, ROWS))
        images = rng.standard_normal((4, ROWS, 1, 16, 16)) + labels[..., None, None, None] / 2
        return images.astype(np.float32), labels
    words = rng.integers(0, WORDS, (4, ROWS, LENGTH))
    return words, np.roll(words, 1, axis=2)


OPTIMISERS: dict[str, Callable[[Any, float], Any]] = {
    "sgd": lambda parameters, lr: sf.optim.SGD(parameters, lr=lr),
    "momentum": lambda parameters, lr: sf.optim.SGD(parameters, lr=lr / 5, momentum=0.9),
    "adam": lambda parameters, lr: sf.optim.Adam(parameters, lr=1e-3),
}
LIMITS = {"float32": 1e-5, "float64": 1e-12}


def train(name: str, optimiser: str, dtype: str, mesh: Any = None) -> list[float]:
    make, lr = MODELS[name]
    sf.manual_seed(0)
    net, (inputs, targets) = make().to(getattr(sf, dtype)), batches(name)
    inputs = inputs.astype(dtype) if name == "lenet" else inputs
    x = sf.placeholder(inputs.shape[1:], dtype if name == "lenet" else sf.int64, name="x")
    y = sf.placeholder(targets.shape[1:], sf.int64, name="y")
    rows, labels = (shard(v, "data", *(None,) * (v.ndim - 1)) for v in (x, y))
    loss = F.cross_entropy(net(rows), labels.reshape(-1))
    updates = OPTIMISERS[optimiser](net.parameters(), lr).minimize(loss)
    step = sf.compile([x, y], loss, updates=updates, mesh=mesh)
    return [step(inputs[i % 4], targets[i % 4]).item() for i in range(STEPS)]


TRAININGS = [*itertools.product(MODELS, OPTIMISERS, LIMITS)]


def check_ranks(name: str, optimiser: str, dtype: str, numbers: Iterable[int]) -> None:
    alone = train(name, optimiser, dtype)
    assert np.mean(alone[-4:]) < np.mean(alone[:4]) * 0.95  # it learns
    for ranks in numbers:
        for losses in distributed.simulate(
            lambda: train(name, optimiser, dtype, distributed.mesh(data=-1)), ranks
        ):
            np.testing.assert_allclose(losses, alone, rtol=LIMITS[dtype])


@pytest.mark.parametrize("name, optimiser, dtype", daily(TRAININGS, 5, "loss curves"))
def test_a_hundred_steps(name: str, optimiser: str, dtype: str) -> None:
    check_ranks(name, optimiser, dtype, daily(RANKS, 1, f"{name} {optimiser} {dtype}"))


@pytest.mark.campaign
@pytest.mark.parametrize("name, optimiser, dtype", TRAININGS)
def test_a_hundred_steps_of_all(name: str, optimiser: str, dtype: str) -> None:
    check_ranks(name, optimiser, dtype, RANKS)
