"""A classifier of handwritten digits: what ``python -m staticflow compare`` compares by default.

An ordinary file of a model: a class of modules, and beside it the inputs, the data, the loss and
the optimiser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import staticflow as sf
from staticflow import nn
from staticflow.tools.digits import CLASSES, PIXELS, load_digits, shuffle_batches

BATCH = 64

example_inputs = (f"images: f32[N={BATCH}, {PIXELS}]", f"labels: i64[N] < {CLASSES}")


class Perceptron(nn.Module):
    """A perceptron with one hidden layer: images (N, 64) to scores (N, 10)."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, hidden)
        self.fc2 = nn.Linear(hidden, CLASSES)

    def forward(self, images: Any) -> Any:
        """The scores of each class."""
        return self.fc2(nn.functional.relu(self.fc1(images)))


def batches(seed: int) -> Iterator[tuple[Any, Any]]:
    """Images and labels without end; the last batch of an epoch is as small as what is left."""
    digits = load_digits(seed=seed)
    for rows in shuffle_batches(len(digits.train_labels), BATCH, seed):
        yield digits.train_images[rows], digits.train_labels[rows]


def loss(scores: Any, labels: Any) -> Any:
    """The cross entropy of the scores."""
    return nn.functional.cross_entropy(scores, labels)


def optimizer(parameters: Iterable[Any]) -> sf.optim.Optimizer:
    """Stochastic gradient descent with momentum."""
    return sf.optim.SGD(parameters, lr=0.1, momentum=0.9)


def evaluate(model: Any, seed: int) -> dict[str, float]:
    """The share of the held-out images whose class has the highest score."""
    digits = load_digits(model.fc1.weight.dtype, seed)
    chosen = model(sf.tensor(digits.test_images)).argmax(dim=1).numpy()
    return {"held-out accuracy": float((chosen == digits.test_labels).mean())}
