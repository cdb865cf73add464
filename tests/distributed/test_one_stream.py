"""What is drawn and what is normalised is of the whole batch: shuffled data, rows that a program picks
in an order of its own, and BatchNorm are the same on any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.measure.messages import messages_of
from staticflow.utils.data import DataLoader, TensorDataset

RANKS = (2, 3, 4)
ROWS = 22
"""Of which the last batch has two rows: fewer than ranks."""


def examples() -> TensorDataset:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, 5))
    return TensorDataset(sf.from_numpy(x), sf.from_numpy(x[:, :2].sum(1, keepdims=True)))


class Loss(nn.Module):
    """Of a net with BatchNorm on the rows; if ``is_picked``, on 20 of them, drawn anew in each call."""

    def __init__(self, is_picked: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        self.is_picked = is_picked

    def forward(self, x: Any, y: Any) -> Any:
        if self.is_picked:
            order = sf.randperm(ROWS)[:20]
            x, y = x[order], y[order]
        x, y = (shard(v, "data", None) for v in (x, y))
        return ((self.net(x) - y) ** 2).mean()


def build(mesh: Any, is_picked: bool = False) -> tuple[Any, Any]:
    """A net and its step."""
    net = Loss(is_picked).to(sf.float64)
    x = sf.placeholder(("B", 5), sf.float64, name="x")
    y = sf.placeholder(("B", 1), sf.float64, name="y")
    loss = net(x, y)
    updates = sf.optim.SGD(net.parameters(), lr=0.05, momentum=0.9).minimize(loss)
    return net, sf.compile([x, y], loss, updates=updates, mesh=mesh)


def train_shuffled(mesh: Any = None) -> list[np.ndarray]:
    sf.manual_seed(3)
    net, step = build(mesh)
    loader = DataLoader(examples(), batch_size=5, shuffle=True)
    losses = [step(x, y).item() for _ in range(4) for x, y in loader]
    return [np.array(losses), *(t.numpy() for t in net.state_dict().values())]


def train_picked(mesh: Any = None) -> list[np.ndarray]:
    sf.manual_seed(3)
    net, step = build(mesh, is_picked=True)
    x, y = examples().tensors
    losses = [step(x, y).item() for _ in range(6)]
    return [np.array(losses), *(t.numpy() for t in net.state_dict().values())]


@pytest.mark.parametrize("train", [train_shuffled, train_picked])
def test_shuffled_rows_and_statistics_are_those_of_one_process(train: Any) -> None:
    alone = train()
    assert len({*np.round(alone[0], 6)}) > 4  # each step has rows of its own
    for ranks in RANKS:
        for found in distributed.simulate(lambda: train(distributed.mesh(data=-1)), ranks):
            for a, b in zip(found, alone, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_batch_norm_costs_four_sums_a_step(ranks: int) -> None:
    """Of its mean and variance and of their gradients: each of as many numbers as there are channels
    goes to each other process. Its weight and bias go with the other gradients."""
    channels = 6

    def run(norms: int) -> tuple[int, int]:
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(0)
        layers = [nn.BatchNorm1d(channels) for _ in range(norms)]
        net = nn.Sequential(nn.Linear(8, channels), *layers, nn.Linear(channels, 4))
        x, y = sf.placeholder((12, 8), name="x"), sf.placeholder((12,), sf.int64, name="y")
        loss = nn.functional.cross_entropy(net(shard(x, "data", None)), shard(y, "data"))
        updates = sf.optim.SGD(net.parameters(), lr=0.1).minimize(loss)
        step = sf.compile([x, y], loss, updates=updates, mesh=mesh)
        found = messages_of(step.plan.routine.steps, int)
        return sum(m.messages for m in found), sum(m.bytes for m in found)

    without, one, two = (distributed.simulate(lambda n=n: run(n), ranks)[0] for n in range(3))
    others, of_gradients = ranks - 1, 4 * 2 * channels
    for more, less in ((one, without), (two, one)):
        assert more[0] - less[0] == 4 * others
        assert more[1] - less[1] == (4 * 4 * channels + of_gradients) * others
