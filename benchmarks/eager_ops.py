"""What single eager operations on small tensors cost beside PyTorch's: not recorded, recorded, and
with a backward of their own; and the parts of a training step that are not operations.

An operation that makes its own tensor, that changes one, or that is not differentiable, has one
row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, brief, eager_libraries

Call = Callable[[Any], Any]

MODES = ("not recorded", "recorded", "with backward")


class Operands:
    """Small tensors of a library, by the names of the operations below."""

    def __init__(self, names: Any, wants_gradient: bool) -> None:
        rng = np.random.default_rng(0)
        self.lib, self.nn = names, names.nn.functional
        tensor = names.from_numpy
        floats = {
            n: tensor(rng.uniform(0.5, 1.5, shape).astype(np.float32))
            for n, shape in {"x": (16, 16), "y": (16, 16), "m": (64, 64), "b": (16,)}.items()
        }
        self.x, self.y, self.m, self.b = (t.requires_grad_(wants_gradient) for t in floats.values())
        self.mask = tensor(np.arange(256).reshape(16, 16) % 3 == 0)
        self.indices = tensor(np.arange(16)[::-1].copy() % 7)
        self.wide = tensor(np.arange(256).reshape(16, 16) % 16)
        self.row = tensor(np.ones((1, 16), np.float32)).requires_grad_(wants_gradient)
        self.number = tensor(np.ones(1, np.float32))
        self.target = tensor(np.ones((16, 16), np.float32))
        self.scratch = tensor(np.ones((16, 16), np.float32))
        self.array = np.ones((16, 16), np.float32)
        self.leaves = [self.x, self.y, self.m, self.b, self.row]


DIFFERENTIABLE: dict[str, Call] = {
    "x * y": lambda t: t.x * t.y,
    "x + 1": lambda t: t.x + 1.0,
    "x + b": lambda t: t.x + t.b,
    "-x": lambda t: -t.x,
    "exp": lambda t: t.x.exp(),
    "relu": lambda t: t.x.relu(),
    "pow(2)": lambda t: t.x.pow(2),
    "clamp(min=1)": lambda t: t.x.clamp(min=1),
    "where": lambda t: t.lib.where(t.mask, t.x, t.y),
    "m @ m, 64 x 64": lambda t: t.m @ t.m,
    "x.mm(y.t())": lambda t: t.x.mm(t.y.t()),
    "linear": lambda t: t.nn.linear(t.x, t.y, t.b),
    "t()": lambda t: t.x.t(),
    "view": lambda t: t.x.view(4, 64),
    "reshape(-1)": lambda t: t.x.reshape(-1),
    "permute": lambda t: t.x.permute(1, 0),
    "unsqueeze": lambda t: t.x.unsqueeze(0),
    "expand": lambda t: t.row.expand(16, 16),
    "x[3]": lambda t: t.x[3],
    "x[1:3]": lambda t: t.x[1:3],
    "x[:, 0]": lambda t: t.x[:, 0],
    "x[None, ..., 2:]": lambda t: t.x[None, ..., 2:],
    "x[mask]": lambda t: t.x[t.mask],
    "sum()": lambda t: t.x.sum(),
    "sum(1)": lambda t: t.x.sum(1),
    "mean()": lambda t: t.x.mean(),
    "max(1)": lambda t: t.x.max(1)[0],
    "softmax": lambda t: t.x.softmax(1),
    "log_softmax": lambda t: t.x.log_softmax(1),
    "mse_loss": lambda t: t.nn.mse_loss(t.x, t.target),
    "cross_entropy": lambda t: t.nn.cross_entropy(t.x, t.indices),
    "cat": lambda t: t.lib.cat([t.x, t.y]),
    "stack": lambda t: t.lib.stack([t.x, t.y]),
    "gather": lambda t: t.x.gather(1, t.wide),
    "index_select": lambda t: t.x.index_select(0, t.indices),
}

OTHERS: dict[str, Call] = {
    "dropout": lambda t: t.nn.dropout(t.x, 0.5),
    "x > 1": lambda t: t.x > 1.0,
    "x == y": lambda t: t.x == t.y,
    "argmax(1)": lambda t: t.x.argmax(1),
    "sort": lambda t: t.x.sort(),
    "x[indices]": lambda t: t.x[t.indices],
    "topk(3)": lambda t: t.x.topk(3),
    "median": lambda t: t.x.median(),
    "dot": lambda t: t.b.dot(t.b),
    "trace": lambda t: t.x.trace(),
    "solve_triangular": lambda t: t.lib.linalg.solve_triangular(t.m, t.m, upper=True),
    "repeat_interleave": lambda t: t.x.repeat_interleave(2, 1),
    "split(4)": lambda t: t.x.split(4),
    "unbind": lambda t: t.x.unbind(),
    "clone": lambda t: t.x.clone(),
    "to(float64)": lambda t: t.x.to(t.lib.float64),
    # made of sizes, of data and of numbers at random
    "zeros(16, 16)": lambda t: t.lib.zeros(16, 16),
    "ones(16, 16)": lambda t: t.lib.ones(16, 16),
    "full((16, 16), 2)": lambda t: t.lib.full((16, 16), 2.0),
    "empty(16, 16)": lambda t: t.lib.empty(16, 16),
    "zeros_like": lambda t: t.lib.zeros_like(t.x),
    "arange(16)": lambda t: t.lib.arange(16),
    "tensor([1, 2, 3])": lambda t: t.lib.tensor([1.0, 2.0, 3.0]),
    "from_numpy": lambda t: t.lib.from_numpy(t.array),
    "randn(3)": lambda t: t.lib.randn(3),
    "randn(16, 16)": lambda t: t.lib.randn(16, 16),
    "rand(16, 16)": lambda t: t.lib.rand(16, 16),
    "randint(10, (16,))": lambda t: t.lib.randint(10, (16,)),
    "bernoulli": lambda t: t.lib.bernoulli(t.number),
    # in place
    "add_": lambda t: t.scratch.add_(t.target),
    "add_(alpha=0.5)": lambda t: t.scratch.add_(t.target, alpha=0.5),
    "mul_(1.0)": lambda t: t.scratch.mul_(1.0),
    "clamp_(0, 1)": lambda t: t.scratch.clamp_(0, 1),
    "zero_": lambda t: t.scratch.zero_(),
    "fill_(1.0)": lambda t: t.scratch.fill_(1.0),
    "copy_": lambda t: t.scratch.copy_(t.target),
    "uniform_": lambda t: t.scratch.uniform_(),
    "x[0] = 1": lambda t: t.scratch.__setitem__(0, 1.0),
    "x[mask] = 1": lambda t: t.scratch.__setitem__(t.mask, 1.0),
    # no more than a look
    "detach": lambda t: t.x.detach(),
    "item": lambda t: t.number.item(),
    "tolist": lambda t: t.b.tolist(),
    "numpy": lambda t: t.x.numpy(),
}


def single(names: Any, operation: Call, mode: str) -> Contestant:
    """An operation in a library that has PyTorch's names."""
    t = Operands(names, mode != "not recorded")
    like = operation(t)
    ct = None
    if mode == "with backward":
        slope = np.linspace(0.5, 1.5, like.numel(), dtype=np.float32)
        ct = names.from_numpy(slope.reshape(tuple(like.shape)))
    last: Any = None

    def forward(n: int) -> None:
        nonlocal last
        for _ in range(n):
            last = operation(t)

    def backward(n: int) -> None:
        for _ in range(n):
            for leaf in t.leaves:
                leaf.grad = None
            operation(t).backward(ct)

    def result() -> Any:
        if ct is None:
            return ()
        return [leaf.grad.numpy() for leaf in t.leaves if leaf.grad is not None]

    return Contestant(forward if ct is None else backward, result)


def tiny_graph(names: Any) -> Contestant:
    """The backward of three operations, with the gradient of one leaf."""
    t = Operands(names, wants_gradient=True)

    def run(n: int) -> None:
        for _ in range(n):
            t.x.grad = None
            (t.x * t.target).exp().sum().backward()

    return Contestant(run, lambda: [t.x.grad.numpy()])


def step(names: Any, optimizer: str, phase: str) -> Contestant:
    """A step of an optimizer on ten small parameters, or ``zero_grad``."""
    tensors = [names.ones(16, 16, requires_grad=True) for _ in range(10)]
    for x in tensors:
        x.grad = names.ones(16, 16)
    options = {"foreach": False} if names.__name__ == "torch" else {}
    made = getattr(names.optim, optimizer)(tensors, lr=1e-3, **options)

    def run(n: int) -> None:
        for _ in range(n):
            made.step() if phase == "step" else made.zero_grad()

    return Contestant(run, lambda: [x.detach().numpy() for x in tensors])


def two_layers(names: Any, part: str) -> Contestant:
    """A two-layer net of nn modules on 16 rows: its forward, or a whole step of SGD."""
    model = names.nn.Sequential(
        names.nn.Linear(16, 16), names.nn.ReLU(), names.nn.Linear(16, 4)
    )  # fmt: skip
    rng = np.random.default_rng(0)
    with names.no_grad():
        for p in model.parameters():
            p.copy_(names.from_numpy(rng.uniform(-0.3, 0.3, tuple(p.shape)).astype(np.float32)))
    x, y = (names.ones(16, n) for n in (16, 4))
    options = {"foreach": False} if names.__name__ == "torch" else {}
    optimizer = names.optim.SGD(model.parameters(), lr=1e-3, **options)
    loss: Any = None

    def forward(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = names.nn.functional.mse_loss(model(x), y)

    def whole(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            optimizer.zero_grad()
            loss = names.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()

    run = forward if part == "forward" else whole
    return Contestant(run, lambda: [loss.detach().numpy()])


def rows() -> Mapping[str, Mapping[str, Any]]:
    """The contestants of each row."""
    makes: dict[str, Callable[[Any], Contestant]] = {
        f"{name}, {mode}": partial(single, operation=operation, mode=mode)
        for name, operation in DIFFERENTIABLE.items()
        for mode in MODES
    }
    for name, operation in OTHERS.items():
        makes[name] = partial(single, operation=operation, mode=MODES[0])
    makes["backward of three operations"] = tiny_graph
    for optimizer in ("SGD", "Adam"):
        makes[f"{optimizer}, step"] = partial(step, optimizer=optimizer, phase="step")
    makes["zero_grad"] = partial(step, optimizer="SGD", phase="zero_grad")
    for part in ("forward", "whole step"):
        makes[f"two-layer net, {part}"] = partial(two_layers, part=part)
    return {title: eager_libraries(make) for title, make in makes.items()}


if __name__ == "__main__":
    brief(__doc__, rows())
