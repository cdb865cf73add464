"""GPU workload b: steps of training, by SGD: a two-layer net, LeNet, a transformer block, an LSTM.

A step is a call: the loss, all gradients, all updates. The two-layer net is also NumPy's, on the
processor. An LSTM is a scan in staticflow, and cuDNN's in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, Maker, main
from gpu_contestants import filled, of_training

STEPS_CHECKED = 3


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def squares(names: Any, net: Any, x: Any, target: Any) -> Any:
    return ((net(x) - target) ** 2).mean()


def of_classes(names: Any, net: Any, x: Any, target: Any) -> Any:
    return names.nn.functional.cross_entropy(net(x), target)


def of_last_states(names: Any, net: Any, x: Any, target: Any) -> Any:
    return ((net(x)[0] - target) ** 2).mean()


def two_layers(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 10))


def lenet(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def numpy_two_layers(x: Any, target: Any, lr: float) -> Maker:
    """The step by hand, as `two_layer.py` has it, with biases."""

    def make() -> Contestant:
        w1, b1, w2, b2 = filled([(100, 1000), (100,), (10, 100), (10,)])
        loss: Any = None

        def run(n: int) -> None:
            nonlocal loss
            for _ in range(n):
                hidden = np.maximum(x @ w1.T + b1, 0)
                d = hidden @ w2.T + b2 - target
                loss = (d * d).mean()
                d *= np.float32(2 * lr / d.size)
                back = d @ w2
                back *= hidden > 0
                w2[...] -= d.T @ hidden
                b2[...] -= d.sum(0)
                w1[...] -= back.T @ x
                b1[...] -= back.sum(0)

        return Contestant(run, lambda: [loss, w1])

    return make


def tables(batch: int = 64, width: int = 512, places: int = 256) -> dict[str, dict[str, Maker]]:
    """The tables, of batches of that size, and of a transformer and an LSTM that are so wide."""
    rng = np.random.default_rng(0)
    x, target = normal(batch, 1000), normal(batch, 10, seed=1)
    net = of_training(two_layers, squares, [x, target], 0.01)
    net["NumPy"] = numpy_two_layers(x, target, 0.01)
    words = [normal(8, places, width, seed=s) for s in (3, 4)]

    def transformer(nn: Any) -> Any:
        return nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True
        )

    def lstm(nn: Any) -> Any:
        return nn.LSTM(width, width, batch_first=True)

    images = [normal(batch, 1, 28, 28, seed=2), rng.integers(0, 10, batch)]
    return {
        "a step of the two-layer net": net,
        "a step of LeNet": of_training(lenet, of_classes, images, 0.01),
        "a step of a transformer block": of_training(transformer, squares, words, 0.01),
        "a step of an LSTM": of_training(lstm, of_last_states, words, 0.01),
    }


if __name__ == "__main__":
    main(__doc__, tables(), checked_runs=STEPS_CHECKED, tolerance=1e-3)
