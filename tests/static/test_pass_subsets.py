"""Programs without some of the passes, any of them, give what the interpreter gives of the graph
that was written: values, gradients and new values of variables."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from open_programs_layers import PROGRAMS
from slices import daily

import staticflow as sf
from staticflow import nn, pytree
from staticflow.graph.interpret import interpret_graph
from staticflow.nn import functional as F
from staticflow.ops.loops.region import trace_at_once
from staticflow.passes.order import PASSES

NEEDED = {"decompose", "copy_strided"}
OPTIONAL = [name for name in PASSES if name not in NEEDED]

Written = tuple[list[Any], list[Any], dict[Any, Any]]
"""The inputs of a program, its outputs, and its updates."""

rng = np.random.default_rng(4)


# -- steps of training ---------------------------------------------------------------------------


def train(model: nn.Module, optimizer: Any, *shape: int) -> tuple[Callable[[], Written], list[Any]]:
    """A step of training on rows of ``shape`` of four classes."""

    def write() -> Written:
        x = sf.placeholder((None, *shape), name="x")
        t = sf.placeholder((None,), "int64", name="t")
        loss = F.cross_entropy(model(x), t)
        return [x, t], [loss], dict(optimizer(model.parameters()).minimize(loss))

    return write, [rng.standard_normal((5, *shape), np.float32), rng.integers(0, 4, 5)]


class Recurrent(nn.Module):
    """An LSTM over rows of three numbers, and the class of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.cells(x)[0][:, -1])


def halvings() -> tuple[Callable[[], Written], list[Any]]:
    """How often numbers are halved until all are below one, and the derivative of what is left."""

    def write() -> Written:
        x, w = sf.placeholder((None,), name="x"), sf.placeholder((), name="w")
        left, count = sf.while_loop(
            lambda y, n: y.max() > 1, lambda y, n: (y * w.tanh(), n + 1), (x, 0)
        )
        return [x, w], [left, count, *sf.grad(left.sum(), [x, w])], {}

    return write, [np.array([3.0, 0.5, 9.0], np.float32), np.float32(0.5)]


sf.manual_seed(1)
STEPS: dict[str, tuple[Callable[[], Written], list[Any]]] = {
    "two layers": train(
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)),
        lambda ps: sf.optim.SGD(ps, lr=0.1, momentum=0.9),
        6,
    ),
    "convolutions": train(
        nn.Sequential(
            nn.Conv2d(1, 3, 3),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(27, 4),
        ),
        lambda ps: sf.optim.Adam(ps, lr=0.01, eps=0.1),
        1, 8, 8,
    ),
    "LSTM": train(Recurrent(), lambda ps: sf.optim.RMSprop(ps, lr=0.01, eps=0.1), 7, 3),
    "halvings": halvings(),
}  # fmt: skip


# -- the check -----------------------------------------------------------------------------------


def write_derived(name: str) -> tuple[list[Any], list[Any], list[Any]]:
    """One of `PROGRAMS` with its gradients, its sizes unknown."""
    f, given = PROGRAMS[name]
    draw = np.random.default_rng(2)
    arrays = [draw.standard_normal(a, np.float32) if isinstance(a, tuple) else a for a in given]
    inputs = [
        sf.placeholder((None,) * np.ndim(a), str(a.dtype), name=f"p{i}")
        for i, a in enumerate(arrays)
    ]
    outputs = pytree.flatten(trace_at_once(lambda: f(*inputs)))[0]
    floats = [o for o in outputs if o.dtype.is_floating]
    leaves = [x for x in inputs if x.dtype.is_floating]
    if floats and leaves:
        weighted = [(o * sf.arange(o.numel()).reshape(o.shape).cos()).sum() for o in floats]
        outputs += [g for g in sf.grad(sum(weighted), leaves, allow_unused=True) if g is not None]
    return inputs, outputs, arrays


def draw_passes(key: str) -> list[str]:
    """Names of passes that run, or to be left out, by chance: few, half, or most of them."""
    chance = random.Random(key)
    share = chance.choice((0.1, 0.5, 0.9))
    out = [name for name in OPTIONAL if chance.random() < share]
    if "relax" not in out or chance.random() < 0.5:
        return [f"-{name}" for name in out]
    return [name for name in OPTIONAL if name not in out]


def check(name: str, passes: list[str]) -> None:
    if name in STEPS:
        write, arrays = STEPS[name]
        inputs, outputs, updates = write()
    else:
        (inputs, outputs, arrays), updates = write_derived(name), {}
    program = sf.compile(inputs, outputs, updates, passes=passes)
    graph = program.graph
    variables = [p.attrs["source"] for p in graph.params[len(inputs) :]]
    given = [*arrays, *(v.detach().numpy().copy() for v in variables)]
    wanted = interpret_graph(graph, given)
    found = [*pytree.flatten(program(*arrays))[0]]
    found += program._caller.updated
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b, 2e-4, 2e-5)


CASES = [(name, i) for name in (*STEPS, *sorted(PROGRAMS)) for i in range(8)]
CASES += [(name, i) for name in STEPS for i in range(8, 60)]


def check_case(name: str, number: int) -> None:
    passes = draw_passes(f"{name} {number}")
    print(f"{name}: passes={passes}")
    check(name, passes)


@pytest.mark.parametrize(("name", "number"), daily(CASES, 2, "passes"))
def test_subsets(name: str, number: int) -> None:
    check_case(name, number)


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "number"), CASES)
def test_all_subsets(name: str, number: int) -> None:
    check_case(name, number)


@pytest.mark.parametrize("passes", [["-fuse"], []], ids=str)
def test_a_step_without_fusion(passes: list[str]) -> None:
    check("two layers", passes)


@pytest.mark.parametrize("passes", [(), ("fuse",), None], ids=str)
def test_regions_that_share_a_constant_leave_outputs_their_places(passes: Any) -> None:
    """The backward loop has the constant of the forward one, the same node: it is one array of the
    call, and what comes behind it are the outputs."""
    x = sf.placeholder((2, 3), "float64", name="x")
    y = sf.placeholder((2,), "float64", name="y")
    column = sf.constant(np.array([[0.5], [-1.0], [2.0]]))

    def body(_: Any, h: Any) -> Any:
        return sf.cond(y.sum() > 0, lambda: h.tanh(), lambda: h * 0.5 + (y + column).mean())

    h = sf.fori_loop(0, (y > -9).sum(), body, x)
    gradients = sf.grad((h.tanh() * h).sum(), [x, y])
    options = {} if passes is None else {"passes": passes}
    program = sf.compile([x, y], [h, *gradients], **options)
    arrays = [rng.standard_normal((2, 3)), np.array([0.5, -2.0])]
    wanted = interpret_graph(program.graph, arrays)
    for found, want in zip(program(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12)
