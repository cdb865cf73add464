"""Models of sequences on simulated ranks, data parallel and tensor parallel: nothing is gathered, and
the losses are those of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_partition import collectives

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.nn import functional as F

WORDS, LENGTH = 11, 5


class Recurrent(nn.Module):
    """An LSTM that reads words."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=batch_first)
        self.out = nn.Linear(5, WORDS)

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(self.table(x))[0])


class Transformer(nn.Module):
    """A layer of a transformer that reads words, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, WORDS)

    def forward(self, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=sf.float64)
        return self.out(self.layer(self.table(x), src_mask=mask, is_causal=True))


MODELS: dict[str, tuple[Any, bool]] = {
    "lstm, time first": (lambda: Recurrent(False), False),
    "lstm, batch first": (lambda: Recurrent(True), True),
    "transformer": (Transformer, True),
}
SUMS = {"lstm, time first": 8, "lstm, batch first": 8, "transformer": 17}
"""The loss, the number of its words, and each gradient; that of the two biases of an LSTM is one."""


def words(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, WORDS, shape)


def train(name: str, rows: int | None, mesh: Any = None) -> tuple[list[float], dict[str, int]]:
    make, batch_first = MODELS[name]
    sf.manual_seed(0)
    net = make().to(sf.float64)
    shape: Any = (rows, LENGTH) if batch_first else (LENGTH, rows)
    spec = ("data", None) if batch_first else (None, "data")
    x, y = (sf.placeholder(shape, sf.int64, name=n) for n in "xy")
    scores = net(shard(x, *spec)).reshape(-1, WORDS)
    loss = F.cross_entropy(scores, shard(y, *spec).reshape(-1))
    updates = sf.optim.Adam(net.parameters(), lr=1e-2).minimize(loss)
    step = sf.compile([x, y], loss, updates=updates, mesh=mesh)
    sizes = tuple(7 if s is None else s for s in shape)
    losses = [step(words(sizes, i), words(sizes, i + 50)).item() for i in range(4)]
    return losses, collectives(step)


@pytest.mark.parametrize(
    ("name", "rows"), [("lstm, time first", None), ("lstm, batch first", 6), ("transformer", None)]
)
def test_sequences_in_parts_of_the_batch(name: str, rows: int | None) -> None:
    alone, _ = train(name, rows)
    for losses, counts in distributed.simulate(
        lambda: train(name, rows, distributed.mesh(data=-1)), 3
    ):
        np.testing.assert_allclose(losses, alone, rtol=1e-12)
        assert counts == {"all_reduce": SUMS[name]}


def layer(x: Any, p: dict[str, Any], split: Any) -> Any:
    """A layer of a transformer: heads and hidden units split over the axis of the model."""

    def heads(name: str) -> Any:
        y = x @ split(p[name], None, "model")
        return y.reshape(*x.shape[:2], 4, 2).transpose(1, 2)

    seen = F.scaled_dot_product_attention(*map(heads, ("q", "k", "v")), is_causal=True)
    joined = seen.transpose(1, 2).reshape(*x.shape[:2], 8)
    x = F.layer_norm(x + joined @ split(p["o"], "model", None), (8,))
    hidden = (x @ split(p["up"], None, "model")).relu()
    return F.layer_norm(x + hidden @ split(p["down"], "model", None), (8,))


SHAPES = {"q": (8, 8), "k": (8, 8), "v": (8, 8), "o": (8, 8), "up": (8, 16), "down": (16, 8)}


def test_a_transformer_split_by_heads_and_by_rows() -> None:
    """Two sums forward, two backward and one for each gradient; nothing is gathered but what the
    parameters are updated by."""

    def run(mesh: Any = None) -> tuple[list[float], dict[str, int], dict[str, int]]:
        rng = np.random.default_rng(2)
        p = {
            n: sf.tensor(rng.standard_normal(s) / 3, requires_grad=True) for n, s in SHAPES.items()
        }
        x = sf.placeholder((None, LENGTH, 8), sf.float64, name="x")

        def split(w: Any, *axes: Any) -> Any:
            return shard(sf.symbol(w), *axes)

        loss = (layer(shard(x, "data", None, None), p, split) ** 3).mean()
        grads = dict(zip(p, sf.grad(loss, list(p.values())), strict=True))
        updates = {w: sf.symbol(w) - 0.1 * grads[n] for n, w in p.items()}
        forward = sf.compile([x], loss, mesh=mesh)
        step = sf.compile([x], loss, updates=updates, mesh=mesh)
        given = [rng.standard_normal((6, LENGTH, 8)) for _ in range(3)]
        return [step(g).item() for g in given], collectives(forward), collectives(step)

    alone = run()[0]
    assert alone[-1] != alone[0]
    for losses, forward, step in distributed.simulate(
        lambda: run(distributed.mesh(data=2, model=2)), 4
    ):
        np.testing.assert_allclose(losses, alone, rtol=1e-12)
        assert forward == {"all_reduce": 3}  # with that of the loss
        assert step == {"all_reduce": 3 + 1 + 6, "all_gather": 6}
