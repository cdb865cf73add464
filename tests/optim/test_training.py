"""Training in both modes: the same losses for 50 steps for each layer in a small model, also where
the modes take turns on the same parameters, state and generator. In float64, since Adam makes a
whole step of the rounding of a gradient that is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn

STEPS = 50


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0][-1]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(4, 2, dropout=0.1)

    def forward(self, x: Any) -> Any:
        return self.layer(x, x, x)[0].mean(0)


class Cells(nn.Module):
    """A cell along a sequence of a known length, in Python."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        state = None
        for t in range(5):
            state = self.cell(x[t], state)
        return state[0] if isinstance(state, tuple) else state


class Average(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mean(0)


SEQUENCE, ROWS, IMAGES, TOKENS = (5, 6, 4), (6, 4), (6, 2, 6, 6), (6, 5)
Model = Callable[[], nn.Module]
MODELS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "Linear": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), ROWS),
    "PReLU": (lambda: nn.Sequential(nn.Linear(4, 8), nn.PReLU(8), nn.Linear(8, 3)), ROWS),
    "GLU": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GLU(), nn.Linear(4, 3)), ROWS),
    "Dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3)), ROWS),
    "LayerNorm": (lambda: nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)), ROWS),
    "GroupNorm": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(2, 8), nn.Linear(8, 3)), ROWS,
    ),
    "BatchNorm1d": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), ROWS,
    ),
    "Conv2d": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(4),
            nn.AvgPool2d(3), nn.Flatten(), nn.Linear(4, 3),
        ),
        IMAGES,
    ),
    "Embedding": (
        lambda: nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(20, 3)), TOKENS,
    ),
    "RNN": (lambda: nn.Sequential(Last(nn.RNN(4, 8)), nn.Linear(8, 3)), SEQUENCE),
    "LSTM": (
        lambda: nn.Sequential(Last(nn.LSTM(4, 8, 2, bidirectional=True)), nn.Linear(16, 3)),
        SEQUENCE,
    ),
    "GRU": (lambda: nn.Sequential(Last(nn.GRU(4, 8, 2, dropout=0.2)), nn.Linear(8, 3)), SEQUENCE),
    "RNNCell": (lambda: nn.Sequential(Cells(nn.RNNCell(4, 3))), SEQUENCE),
    "LSTMCell": (lambda: nn.Sequential(Cells(nn.LSTMCell(4, 3))), SEQUENCE),
    "GRUCell": (lambda: nn.Sequential(Cells(nn.GRUCell(4, 3))), SEQUENCE),
    "MultiheadAttention": (lambda: nn.Sequential(Attention(), nn.Linear(4, 3)), SEQUENCE),
    "TransformerEncoderLayer": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8), Average(), nn.Linear(4, 3)),
        SEQUENCE,
    ),
}  # fmt: skip


def losses(name: str, static: Callable[[int], bool], optimiser: str = "Adam") -> list[float]:
    """Those of ``STEPS`` steps, each in the mode that ``static`` says."""
    sf.manual_seed(3)
    make, shape = MODELS[name]
    model, criterion = make().double(), nn.CrossEntropyLoss()
    opt = getattr(sf.optim, optimiser)(model.parameters(), lr=0.02)
    schedule = sf.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    random = np.random.default_rng(0)
    tokens = name == "Embedding"
    x = random.integers(0, 7, shape) if tokens else random.standard_normal(shape)
    t = random.integers(0, 3, 6)
    program = None
    found = []
    for step in range(STEPS):
        if static(step):
            if program is None:
                xs = sf.placeholder(shape, x.dtype, name="x")
                ts = sf.placeholder((6,), "int64", name="t")
                loss = criterion(model(xs), ts)
                program = sf.compile([xs, ts], loss, updates=opt.minimize(loss))
            found.append(program(x, t).item())
        else:
            opt.zero_grad()
            loss = criterion(model(sf.from_numpy(x)), sf.from_numpy(t))
            loss.backward()
            opt.step()
            found.append(loss.item())
        schedule.step()
    return found


@pytest.mark.parametrize("name", MODELS)
def test_the_modes_give_the_same_losses(name: str) -> None:
    eager = losses(name, lambda step: False)
    assert eager[-1] < eager[0]
    np.testing.assert_allclose(losses(name, lambda step: True), eager, rtol=1e-8)
    np.testing.assert_allclose(losses(name, lambda step: step // 5 % 2 == 1), eager, rtol=1e-8)


def test_a_step_of_an_embedding_touches_the_rows_of_the_batch_alone() -> None:
    rows, which = 5000, np.array([3, 7, 3, 4999, 0])
    targets = np.random.default_rng(0).standard_normal((len(which), 8)).astype(np.float32)
    layers = [sf.nn.Embedding(rows, 8, padding_idx=0) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    optimizers = [sf.optim.SGD(layer.parameters(), lr=0.5) for layer in layers]
    i, t = sf.placeholder(("N",), "int64", name="i"), sf.placeholder(("N", 8), name="t")
    loss = sf.nn.functional.mse_loss(layers[0](i), t, reduction="sum")
    step = sf.compile([i, t], loss, updates=optimizers[0].minimize(loss))
    for _ in range(3):
        eager = sf.nn.functional.mse_loss(
            layers[1](sf.tensor(which)), sf.tensor(targets), reduction="sum"
        )
        optimizers[1].zero_grad()
        eager.backward()
        optimizers[1].step()
        np.testing.assert_allclose(step(which, targets).numpy(), eager.detach().numpy(), 1e-5)
        found, expected = (layer.weight.detach().numpy() for layer in layers)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    small = 4 * 8 * len(which)
    assert all(kernel.bytes < 10 * small for kernel in step.work(N=len(which)))
    with pytest.raises(sf.IndexRangeError):
        step(np.array([rows, 1, 2, 3, 4]), targets)
    np.testing.assert_array_equal(layers[0].weight.detach().numpy(), found)
