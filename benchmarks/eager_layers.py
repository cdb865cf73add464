"""What eager layers, losses, optimisers and whole training steps cost beside PyTorch's.

Layers and losses on small and on usual sizes, forward without a tape and forward with backward; of
optimisers a step on ten parameters; of small models a step of training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, brief, eager_libraries

MODES = ("forward", "with backward")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of ``nn``, and the shapes of what it is called with, a small and a usual one; of a
    layer that takes integers below how many they are. What ``is_random`` is not compared."""

    make: Callable[[Any, int], Any]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    words: int = 0
    is_random: bool = False


LAYERS: dict[str, Layer] = {
    "Linear": Layer(lambda nn, n: nn.Linear(n, n), ((16, 16), (64, 256))),
    "Embedding": Layer(lambda nn, n: nn.Embedding(1000, n), ((4, 16), (32, 64)), 1000),
    "LayerNorm": Layer(lambda nn, n: nn.LayerNorm(n), ((16, 16), (1024, 256))),
    "BatchNorm1d": Layer(lambda nn, n: nn.BatchNorm1d(n), ((16, 16), (256, 256))),
    "BatchNorm2d": Layer(lambda nn, n: nn.BatchNorm2d(4), ((2, 4, 8, 8), (32, 4, 32, 32))),
    "Dropout": Layer(lambda nn, n: nn.Dropout(0.5), ((16, 16), (256, 256)), is_random=True),
    "Conv1d": Layer(lambda nn, n: nn.Conv1d(4, 8, 3), ((2, 4, 16), (32, 4, 256))),
    "Conv2d": Layer(lambda nn, n: nn.Conv2d(4, 8, 3), ((2, 4, 8, 8), (32, 4, 32, 32))),
    "MaxPool2d": Layer(lambda nn, n: nn.MaxPool2d(2), ((2, 4, 8, 8), (32, 4, 32, 32))),
    "AvgPool2d": Layer(lambda nn, n: nn.AvgPool2d(2), ((2, 4, 8, 8), (32, 4, 32, 32))),
    "ReLU": Layer(lambda nn, n: nn.ReLU(), ((16, 16), (256, 256))),
    "GELU": Layer(lambda nn, n: nn.GELU(), ((16, 16), (256, 256))),
    "Softmax": Layer(lambda nn, n: nn.Softmax(-1), ((16, 16), (256, 256))),
    "MultiheadAttention": Layer(
        lambda nn, n: Called(
            nn.MultiheadAttention(n, 4, batch_first=True),
            lambda attend, x: attend(x, x, x, need_weights=False),
        ),
        ((2, 8, 16), (8, 128, 256)),
    ),
    "TransformerEncoderLayer": Layer(
        lambda nn, n: nn.TransformerEncoderLayer(n, 4, 4 * n, dropout=0.0, batch_first=True),
        ((2, 8, 16), (8, 128, 256)),
    ),
    "LSTM": Layer(lambda nn, n: nn.LSTM(n, n), ((10, 4, 16), (50, 32, 64))),
    "LSTM, two layers": Layer(lambda nn, n: nn.LSTM(n, n, 2), ((10, 4, 16), (50, 32, 64))),
    "GRU": Layer(lambda nn, n: nn.GRU(n, n), ((10, 4, 16), (50, 32, 64))),
    "RNN": Layer(lambda nn, n: nn.RNN(n, n), ((10, 4, 16), (50, 32, 64))),
    "LSTMCell": Layer(
        lambda nn, n: Called(nn.LSTMCell(n, n), lambda cell, x: cell(x, (x, x))),
        ((4, 16), (32, 128)),
    ),
}


@dataclass(frozen=True, slots=True)
class Called:
    """A layer that takes more than one argument."""

    module: Any
    call: Callable[[Any, Any], Any]

    def parameters(self) -> Any:
        """Those of the layer."""
        return self.module.parameters()

    def __call__(self, x: Any) -> Any:
        return self.call(self.module, x)


@dataclass(frozen=True, slots=True)
class Scores:
    """What a loss is of: two tensors of scores in (0, 1), a class for each row, and signs."""

    x: Any
    y: Any
    classes: Any
    signs: Any


Loss = Callable[[Any, Scores], Any]

LOSSES: dict[str, Loss] = {
    "mse_loss": lambda F, t: F.mse_loss(t.x, t.y),
    "l1_loss": lambda F, t: F.l1_loss(t.x, t.y),
    "smooth_l1_loss": lambda F, t: F.smooth_l1_loss(t.x, t.y),
    "huber_loss": lambda F, t: F.huber_loss(t.x, t.y),
    "cross_entropy": lambda F, t: F.cross_entropy(t.x, t.classes),
    "cross_entropy of probabilities": lambda F, t: F.cross_entropy(t.x, t.y),
    "nll_loss": lambda F, t: F.nll_loss(t.x, t.classes),
    "bce": lambda F, t: F.binary_cross_entropy(t.x, t.y),
    "bce_with_logits": lambda F, t: F.binary_cross_entropy_with_logits(t.x, t.y),
    "kl_div": lambda F, t: F.kl_div(t.x, t.y, reduction="batchmean"),
    "poisson_nll_loss": lambda F, t: F.poisson_nll_loss(t.x, t.y),
    "gaussian_nll_loss": lambda F, t: F.gaussian_nll_loss(t.x, t.y, t.y),
    "cosine_embedding_loss": lambda F, t: F.cosine_embedding_loss(t.x, t.y, t.signs[:, 0]),
    "hinge_embedding_loss": lambda F, t: F.hinge_embedding_loss(t.x, t.signs),
    "margin_ranking_loss": lambda F, t: F.margin_ranking_loss(t.x, t.y, t.signs),
    "soft_margin_loss": lambda F, t: F.soft_margin_loss(t.x, t.signs),
    "triplet_margin_loss": lambda F, t: F.triplet_margin_loss(t.x, t.signs, t.y),
    "multi_margin_loss": lambda F, t: F.multi_margin_loss(t.x, t.classes),
}

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "SGD, momentum": ("SGD", {"momentum": 0.9}),
    "SGD, momentum, decay": ("SGD", {"momentum": 0.9, "weight_decay": 0.01}),
    "Adam": ("Adam", {}),
    "AdamW": ("AdamW", {}),
    "RMSprop": ("RMSprop", {}),
    "Adagrad": ("Adagrad", {}),
}


def drawn(names: Any, seed: int, *shape: int, low: float = -1.0) -> Any:
    """A tensor of the library of uniform numbers, the same for all."""
    values = np.random.default_rng(seed).uniform(low, 1.0, shape)
    return names.from_numpy(values.astype(np.float32))


def settled(names: Any, model: Any) -> Any:
    """The model, with the same parameters in each library."""
    with names.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(drawn(names, i, *p.shape) / p.shape[-1] ** 0.5)
    return model


def first(result: Any) -> Any:
    """The output of a layer that gives its state, too."""
    while isinstance(result, tuple):
        result = result[0]
    return result


def layer(names: Any, of: Layer, size: int, mode: str) -> Contestant:
    """A layer on one input."""
    shape = of.shapes[size]
    module = settled(names, of.make(names.nn, shape[-1]))
    if of.words:
        rng = np.random.default_rng(0)
        x = names.from_numpy(rng.integers(0, of.words, shape))
    else:
        x = drawn(names, 0, *shape).requires_grad_(mode == "with backward")
    made = timed(names, lambda: first(module(x)), [*module.parameters(), x], mode)
    return Contestant(made.run, lambda: ()) if of.is_random else made


def loss(names: Any, of: Loss, shape: tuple[int, int], mode: str) -> Contestant:
    """A loss of what all of them take."""
    given = Scores(
        drawn(names, 0, *shape, low=0.1).requires_grad_(mode == "with backward"),
        drawn(names, 1, *shape, low=0.1),
        names.from_numpy(np.arange(shape[0]) % shape[1]),
        names.from_numpy((-1.0) ** np.indices(shape, np.float32).sum(0)),
    )
    return timed(names, lambda: of(names.nn.functional, given), [given.x], mode)


def timed(names: Any, call: Callable[[], Any], leaves: Any, mode: str) -> Contestant:
    """``call`` in one of the modes; compared are its result or the gradients of the leaves."""
    leaves = [t for t in leaves if t.requires_grad]
    result = call()
    ct = drawn(names, 2, *result.shape)

    def forward(n: int) -> None:
        nonlocal result
        with names.no_grad():
            for _ in range(n):
                result = call()

    def backward(n: int) -> None:
        for _ in range(n):
            for t in leaves:
                t.grad = None
            call().backward(ct)

    if mode == "forward":
        return Contestant(forward, lambda: [result.detach().numpy()])
    return Contestant(backward, lambda: [t.grad.numpy() for t in leaves])


def optimizer(names: Any, kind: str, options: Mapping[str, Any], shape: Any) -> Contestant:
    """A step of an optimiser on ten parameters."""
    tensors = [drawn(names, i, *shape).requires_grad_() for i in range(10)]
    for i, x in enumerate(tensors):
        x.grad = drawn(names, 10 + i, *shape)
    made = getattr(names.optim, kind)(tensors, lr=1e-3, **options)

    def run(n: int) -> None:
        for _ in range(n):
            made.step()

    return Contestant(run, lambda: [x.detach().numpy() for x in tensors])


def clipping(names: Any) -> Contestant:
    """``clip_grad_norm_`` of ten parameters."""
    tensors = [drawn(names, i, 16, 16).requires_grad_() for i in range(10)]
    for i, x in enumerate(tensors):
        x.grad = drawn(names, 10 + i, 16, 16)

    def run(n: int) -> None:
        for _ in range(n):
            names.nn.utils.clip_grad_norm_(tensors, 1.0)

    return Contestant(run, lambda: [x.grad.numpy() for x in tensors])


@dataclass(frozen=True, slots=True)
class Model:
    """A small model, the shape of its input, and how many classes it tells apart."""

    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    classes: int = 10


def of_layers(*layers: tuple[Any, ...]) -> Callable[[Any], Any]:
    """A ``Sequential`` of layers: names and arguments."""
    return lambda nn: nn.Sequential(*(getattr(nn, name)(*args) for name, *args in layers))


MODELS: dict[str, Model] = {
    "MLP 16-16-4": Model(
        of_layers(("Linear", 16, 16), ("ReLU",), ("Linear", 16, 4)), (16, 16), 4
    ),
    "MLP 64-128-128-10": Model(
        of_layers(
            ("Linear", 64, 128), ("ReLU",), ("Linear", 128, 128), ("ReLU",), ("Linear", 128, 10)
        ),
        (64, 64),
    ),
    "convolutions with BatchNorm": Model(
        of_layers(
            ("Conv2d", 1, 8, 3), ("BatchNorm2d", 8), ("ReLU",), ("MaxPool2d", 2),
            ("Conv2d", 8, 16, 3), ("BatchNorm2d", 16), ("ReLU",), ("AdaptiveAvgPool2d", 1),
            ("Flatten",), ("Linear", 16, 10),
        ),
        (16, 1, 14, 14),
    ),
}  # fmt: skip


def training(names: Any, of: Model, kind: str) -> Contestant:
    """A step of training by an optimiser."""
    model = settled(names, of.make(names.nn))
    x = drawn(names, 0, *of.shape)
    y = names.from_numpy(np.arange(of.shape[0]) % of.classes)
    made = getattr(names.optim, kind)(model.parameters(), lr=1e-3)
    cross_entropy = names.nn.functional.cross_entropy
    result: Any = None

    def run(n: int) -> None:
        nonlocal result
        for _ in range(n):
            made.zero_grad()
            result = cross_entropy(model(x), y)
            result.backward()
            made.step()

    return Contestant(run, lambda: [result.detach().numpy()])


def rows() -> Mapping[str, Mapping[str, Any]]:
    """The contestants of each row."""
    makes: dict[str, Callable[[Any], Contestant]] = {}
    for name, of in LAYERS.items():
        for size, shape in enumerate(of.shapes):
            title = f"{name} {' x '.join(map(str, shape))}"
            for mode in MODES:
                makes[f"{title}, {mode}"] = partial(layer, of=of, size=size, mode=mode)
    for name, each in LOSSES.items():
        for shape in ((16, 8), (256, 64)):
            for mode in MODES:
                title = f"{name} {shape[0]} x {shape[1]}, {mode}"
                makes[title] = partial(loss, of=each, shape=shape, mode=mode)
    for name, (kind, options) in OPTIMIZERS.items():
        for shape in ((16, 16), (256, 128)):
            makes[f"{name} {shape[0]} x {shape[1]}, step"] = partial(
                optimizer, kind=kind, options=options, shape=shape
            )
    makes["clip_grad_norm_"] = clipping
    for name, model in MODELS.items():
        for kind in ("SGD", "Adam"):
            makes[f"{name}, {kind}, training"] = partial(training, of=model, kind=kind)
    return {title: eager_libraries(make) for title, make in makes.items()}


if __name__ == "__main__":
    brief(__doc__, rows())
