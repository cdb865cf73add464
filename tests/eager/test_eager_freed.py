"""What a program of tensors leaves behind: nothing that only the garbage collector can free."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn, optim
from staticflow.autograd import functional, grad
from staticflow.nn import functional as F
from staticflow.utils.checkpoint import checkpoint

X, CLASSES = sf.arange(32.0).view(4, 8) / 32, sf.tensor([0, 2, 1, 0])
MODEL = nn.Sequential(
    nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3)
)
LAYERS = {
    "RNN": nn.RNN(8, 8), "LSTM": nn.LSTM(8, 8, bidirectional=True), "GRU": nn.GRU(8, 8),
    "LSTMCell": nn.LSTMCell(8, 8),
}  # fmt: skip
ATTENTION, ENCODER = nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2, 16)
OPTIMIZERS = [optim.SGD(MODEL.parameters(), 0.1, momentum=0.9), optim.Adam(MODEL.parameters())]


def leaf() -> sf.Tensor:
    return sf.tensor([0.5, 1.0, 2.0], requires_grad=True)


class Double(sf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return ct * 2 + 0 * ctx.saved_tensors[0]


def training() -> None:
    for optimiser in OPTIMIZERS:
        optimiser.zero_grad()
        F.cross_entropy(MODEL(X), CLASSES).backward()
        nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0)
        optimiser.step()


def hooked() -> None:
    y = leaf() * 2
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.sum().backward()
    handle = MODEL.register_full_backward_hook(lambda *_: None)
    MODEL(X).sum().backward()
    handle.remove()


def refused(*calls: Callable[[sf.Tensor], Any]) -> None:
    for call in calls:
        failed = False
        try:  # not pytest.raises, which keeps the frames
            call(leaf())
        except (RuntimeError, ValueError, IndexError):
            failed = True
        assert failed


def changed() -> None:
    y = leaf() * 2
    y[:2].mul_(3)
    y[0] = 1.0
    y[y > 1] = 0.0
    y.sum().backward()


def second(f: Callable[[sf.Tensor], Any]) -> None:
    x = leaf()
    (g,) = grad(f(x).sum(), x, create_graph=True)
    grad((g * g).sum(), x)


COMPILED = sf.jit(lambda x: x.sin() * 2)


def packed(f: Callable[[sf.Tensor], sf.Tensor]) -> sf.Tensor:
    with sf.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), sf.from_numpy):
        y = f(leaf())
    y.sum().backward()
    return y


def chained_views(x: sf.Tensor, length: int) -> sf.Tensor:
    y = x * 1.0
    for _ in range(length):
        y = y.unsqueeze(0)[0]
        y.mul_(1.0)
    return y


PROGRAMS: dict[str, Callable[[], Any]] = {
    "a training step": training,
    "hooks": hooked,
    "errors": lambda: refused(
        lambda w: w.add_(1), lambda w: w + sf.ones(2), lambda w: w.backward(), lambda w: w[5]
    ),
    "changes in place": changed,
    "parts": lambda: (leaf() * 2).chunk(3)[1].sum().backward(),
    "masks and indices": lambda: (
        leaf()[sf.tensor([0, 0])].sum() + leaf()[leaf() > 0].sum()
    ).backward(),
    "sums in order": lambda: leaf().cumprod(0).sort()[0].max(0)[0].backward(),
    "einsum": lambda: sf.einsum("i,i,j->j", leaf(), leaf(), leaf()).sum().backward(),
    "second derivatives": lambda: second(lambda x: x**3),
    "a function of the user": lambda: second(lambda x: Double.apply(x) ** 2),
    "a checkpoint": lambda: checkpoint(lambda x: (x.exp() * x).sin(), leaf()).sum().backward(),
    "jacobians": lambda: functional.hessian(lambda x: (x**3).sum(), leaf()),
    "scan": lambda: sf.scan(lambda c, x: (c * x, c), leaf(), sf.ones(3, 3))[0].sum().backward(),
    "while": lambda: sf.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, leaf()).sum().backward(),
    "cond": lambda: (
        sf.cond(leaf().sum() > 0, lambda a: a * 2, lambda a: a, leaf()).sum().backward()
    ),
    "attention": lambda: (ATTENTION(X, X, X)[0].sum() + ENCODER(X).sum()).backward(),
    "a packed batch": lambda: (
        LAYERS["GRU"](nn.utils.rnn.pack_sequence([X, X[:2]]))[1].sum().backward()
    ),
    "saved tensors in other hands": lambda: packed(lambda x: (x * x).exp()),
    "a compiled function": lambda: second(lambda x: COMPILED(x * x) * x),
    "views of views, changed": lambda: chained_views(leaf(), 20).sum().backward(),
    "random numbers": lambda: (
        sf.randn(3),
        sf.randint(0, 3, (3,)),
        sf.randperm(3),
        sf.bernoulli(X),
    ),
    "modes": lambda: sf.no_grad()(sf.inference_mode()(lambda: leaf() * 2))(),
    "copies": lambda: (copy.deepcopy(MODEL), pickle.loads(pickle.dumps(MODEL))),
    "state": lambda: MODEL.load_state_dict(MODEL.state_dict()),
    "text": lambda: (repr(X), repr(MODEL), X._repr_html_()),
    "NumPy": lambda: np.exp(leaf()),
    **{
        name: lambda layer=layer: sf.cat([*map(sf.ravel, layer(X)[:1])]).sum().backward()
        for name, layer in LAYERS.items()
    },
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_left_to_the_collector(name: str, no_collector: None) -> None:
    run = PROGRAMS[name]
    for _ in range(3):  # what is compiled and remembered once
        run()
    gc.collect()
    run()
    assert gc.collect() == 0


LONG = 40_000


def repeated(step: Callable[[sf.Tensor], sf.Tensor], length: int = LONG) -> Any:
    def run(x: sf.Tensor) -> sf.Tensor:
        for _ in range(length):
            x = step(x)
        return x

    return run


def with_hook(x: sf.Tensor) -> sf.Tensor:
    y = x * 1.0
    y.register_hook(lambda g: g)
    return y


def with_packed(x: sf.Tensor) -> sf.Tensor:
    with sf.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), sf.from_numpy):
        return repeated(lambda y: y * x)(x)


CHAINS: dict[str, Callable[[sf.Tensor], sf.Tensor]] = {
    "products": repeated(lambda x: x * 1.0),
    "views": repeated(lambda x: x.unsqueeze(0)[0]),
    "changes in place": lambda x: repeated(lambda y: y.mul_(1.0))(x * 1.0),
    "views that are changed": lambda x: chained_views(x, 300),
    "functions of the user": repeated(Double.apply, LONG // 4),
    "compiled functions": repeated(sf.jit(lambda x: x * 1.0), LONG // 4),
    "hooks": repeated(with_hook),
    "saved tensors in other hands": with_packed,
    "derivatives": lambda x: grad(repeated(lambda y: y * x, 4000)(x).sum(), x, create_graph=True)[
        0
    ],
}


@pytest.mark.parametrize("walked", [True, False], ids=["after backward", "without"])
@pytest.mark.parametrize("name", CHAINS)
def test_long_chains_are_freed(name: str, walked: bool, no_collector: None) -> None:
    """By reference counts, without recursion, and with what hangs on the first of them."""

    def run() -> list[weakref.ref[Any]]:
        x = leaf()
        y = CHAINS[name](x)
        if walked:
            y.sum().backward()
            assert x.grad is not None
        return [weakref.ref(x), weakref.ref(y.grad_fn)]

    assert [r() for r in run()] == [None, None]
