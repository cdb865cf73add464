"""Second derivatives of straight pieces are zeros, and not None, as PyTorch's are: what is
differentiated twice reaches every parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F

STRAIGHT: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "rrelu": F.rrelu,
    "max_pool1d": lambda x: F.max_pool1d(x[None], 2),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[None], 2),
}


@pytest.mark.parametrize("name", STRAIGHT)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_second_derivative_is_zeros(name: str, dtype: str) -> None:
    x = sf.tensor([[-2.3, -0.3, 0.7], [0.2, 1.7, 7.0]], dtype=dtype, requires_grad=True)
    (slope,) = sf.autograd.grad(STRAIGHT[name](x).sum(), x, create_graph=True)
    assert slope.requires_grad
    (second,) = sf.autograd.grad(slope.sum(), x)
    assert second.dtype is x.dtype and second.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("activation", [nn.ReLU, nn.LeakyReLU, nn.Hardtanh])
def test_a_penalty_on_gradients_reaches_the_biases(activation: type[nn.Module]) -> None:
    """As the critic of a WGAN-GP is trained (Gulrajani et al. 2017, arXiv:1704.00028)."""
    sf.manual_seed(0)
    critic = nn.Sequential(nn.Linear(2, 8), activation(), nn.Linear(8, 4), activation())
    optimizer = sf.optim.Adam(critic.parameters(), lr=0.05)
    draw = np.random.default_rng(0)
    x = sf.tensor(draw.standard_normal((6, 2)).astype(np.float32), requires_grad=True)
    norms = []
    for _ in range(60):
        scores = critic(x)
        (slope,) = sf.autograd.grad(scores, x, sf.ones_like(scores), create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        found = sf.autograd.grad(penalty, list(critic.parameters()), retain_graph=True)
        assert found[1].tolist() == [0] * 8 and found[3].tolist() == [0] * 4
        optimizer.zero_grad()
        penalty.backward()
        assert all(p.grad is not None for p in critic.parameters())
        optimizer.step()
        norms.append(penalty.item())
    assert norms[-1] < norms[0] / 5


def test_nothing_is_recorded_that_nobody_asked_for() -> None:
    x = sf.tensor([1.0, -1.0], requires_grad=True)
    (slope,) = sf.autograd.grad(F.relu(x).sum(), x)
    assert not slope.requires_grad
    w = sf.ones(2)  # no gradient of it is wanted
    (slope,) = sf.autograd.grad((F.relu(w) * x).sum(), x, create_graph=True)
    assert slope.tolist() == [1, 1] and not slope.requires_grad
