"""An update rule on symbols is run once for all parameters of one kind, and means the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.optim.group import as_symbol


class Counting(sf.optim.Adam):
    """Adam that counts how often its rule is run."""

    runs = 0

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        Counting.runs += 1
        return super().update(param, grad, state, hyper)


class Noisy(sf.optim.SGD):
    """Gradient descent with noise on each parameter."""

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        return super().update(param, grad + sf.randn_like(param), state, hyper)


def draw(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [sf.nn.Parameter(sf.from_numpy(random.standard_normal(s).astype("f"))) for s in shapes]


SHAPES = [(3, 4), (4,), (3, 4), (4,), (), (3, 4), ()]


def test_the_rule_is_run_once_for_each_kind() -> None:
    weights = draw(*SHAPES)
    x = sf.placeholder((), name="x")
    loss = sum((x * w * w).sum() for w in weights)
    Counting.runs = 0
    Counting(weights).minimize(loss)
    assert Counting.runs == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda ws: sf.optim.Adam(ws, lr=0.1, amsgrad=True, weight_decay=0.01),
        lambda ws: sf.optim.SGD(ws, lr=0.1, momentum=0.9, nesterov=True),
        lambda ws: sf.optim.Adam([{"params": ws[:3]}, {"params": ws[3:], "lr": 0.5}], lr=0.1),
    ],
    ids=["adam", "momentum", "groups"],
)
def test_each_parameter_has_its_own_step(make: Any) -> None:
    """As the steps that run eagerly, three times."""
    ours, theirs = draw(*SHAPES), draw(*SHAPES)
    x = sf.placeholder((), name="x")
    loss = sum((i + 1) * (x * w * w).sum() for i, w in enumerate(ours))
    step = sf.compile([x], loss, updates=make(ours).minimize(loss))
    eager = make(theirs)
    for _ in range(3):
        step(np.float32(0.3))
        eager.zero_grad()
        sum((i + 1) * (0.3 * w * w).sum() for i, w in enumerate(theirs)).backward()
        eager.step()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-6)


def test_a_gradient_that_is_the_parameter_itself() -> None:
    """Where two of what the rule is given are one node, it is run for itself."""
    u, v, w = draw((3,), (3,), (3,))
    before = [p.detach().numpy().copy() for p in (u, v, w)]
    opt = sf.optim.SGD([u, v, w], lr=0.5)
    x = sf.placeholder((3,), name="x")
    grads = {u: as_symbol(u), v: v * x, w: x}
    sf.compile([x], None, updates=opt.updates(grads))(np.full(3, 2.0, "f"))
    wanted = before[0] * 0.5, before[1] * 0, before[2] - 1.0
    for p, value in zip((u, v, w), wanted, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), value, rtol=1e-6)


def test_a_rule_that_draws_gives_each_parameter_its_own_noise() -> None:
    weights = [sf.nn.Parameter(sf.zeros(5)) for _ in range(3)]
    x = sf.placeholder((), name="x")
    loss = sum((x * w).sum() for w in weights)
    updates = Noisy(weights, lr=1.0).minimize(loss)
    sf.compile([x], loss, updates=updates)(np.float32(0))
    values = {tuple(w.detach().numpy().tolist()) for w in weights}
    assert len(values) == 3
