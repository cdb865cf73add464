"""Functions that are made of several ops, distributions, layers whose sizes come with the first
batch, and optimisers: on a GPU what they are on the CPU, with their gradients, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpus import assert_agree, gpu, there

import staticflow as sf
from staticflow import distributions, nn, optim
from staticflow.pytree import flatten

__all__ = ["gpu"]

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def definite(x: Any) -> Any:
    return x @ x.mT + 4 * sf.eye(x.shape[-1], device=x.device)


def whole(x: Any) -> Any:
    return (x.abs() * 3).long()


WITH_GRADIENT: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "matrix_exp": (sf.matrix_exp, (2, 3, 3)),
    "vander": (sf.vander, (5,)),
    "linalg.vander": (lambda x: sf.linalg.vander(x, N=4), (5,)),
    "householder_product": (lambda x: sf.linalg.householder_product(x, x[0, :3]), (5, 3)),
    "cholesky_inverse": (lambda x: sf.cholesky_inverse(sf.linalg.cholesky(definite(x))), (3, 3)),
    "qr": (lambda x: tuple(sf.linalg.qr(x)), (5, 3)),
    "pinv": (sf.linalg.pinv, (5, 3)),
    "det": (sf.linalg.det, (2, 3, 3)),
    "lstsq": (lambda x: sf.linalg.lstsq(x, x[:, :2] * 2 + 1).solution, (5, 3)),
    "topk": (lambda x: tuple(sf.topk(x, 3)), (4, 20)),
}

WITHOUT: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "histogram": (lambda x: tuple(sf.histogram(x, 5)), (40,)),
    "nonzero_static": (lambda x: sf.nonzero_static(x > 0, size=10), (4, 5)),
    "unravel_index": (lambda x: sf.unravel_index(whole(x), (4, 5)), (6,)),
    "kaiser_window": (lambda x: sf.kaiser_window(9, device=x.device) * x, (9,)),
    "unique": (lambda x: sf.unique(whole(x), return_counts=True), (20,)),
    "unique_consecutive": (lambda x: sf.unique_consecutive(whole(x)), (20,)),
    "bincount": (lambda x: sf.bincount(whole(x), minlength=4), (20,)),
}


@pytest.mark.parametrize("name", [*WITH_GRADIENT, *WITHOUT])
def test_functions(gpu: str, name: str) -> None:
    fn, shape = (WITH_GRADIENT | WITHOUT)[name]
    x = normal(*shape)
    results = []
    for device in ("cuda", "cpu"):
        given = there(x, device, requires_grad=name in WITH_GRADIENT)
        found = fn(given)
        if name in WITH_GRADIENT:
            sum((t * t).sum() for t in flatten(found)[0] if t.dtype.is_floating).backward()
            found = found, given.grad
        results.append(found)
    assert_agree(*results, name)


DRAWS = ("log_normal_", "cauchy_", "exponential_", "normal_", "uniform_", "bernoulli_")


@pytest.mark.parametrize("name", [*DRAWS, "geometric_"])
def test_draws_in_place(gpu: str, name: str) -> None:
    found = []
    for device in ("cuda", "cpu"):
        sf.manual_seed(3)
        x = sf.zeros(20, device=device)
        found.append(x.geometric_(0.3) if name == "geometric_" else getattr(x, name)())
    assert_agree(*found, name)


def probabilities(device: str) -> Any:
    return sf.tensor([0.2, 0.3, 0.5], device=device)


DISTRIBUTIONS: dict[str, Callable[[Any], Any]] = {
    "Multinomial": lambda p: distributions.Multinomial(10, probs=p),
    "Categorical": lambda p: distributions.Categorical(probs=p),
    "Bernoulli": lambda p: distributions.Bernoulli(probs=p),
    "Normal": lambda p: distributions.Normal(p, p),
    "LogNormal": lambda p: distributions.LogNormal(p, p),
    "Laplace": lambda p: distributions.Laplace(p, p),
    "Uniform": lambda p: distributions.Uniform(p, p + 1),
    "MultivariateNormal": lambda p: distributions.MultivariateNormal(p, sf.eye(3, device=p.device)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(gpu: str, name: str) -> None:
    found = []
    for device in ("cuda", "cpu"):
        sf.manual_seed(5)
        made = DISTRIBUTIONS[name](probabilities(device))
        sample = made.sample((4,))
        found.append((sample, made.log_prob(sample)))
    assert_agree(*found, name)


LAZY: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "LazyLinear": (lambda: nn.LazyLinear(3), (4, 5)),
    "LazyConv1d": (lambda: nn.LazyConv1d(3, 2), (2, 4, 7)),
    "LazyConv2d": (lambda: nn.LazyConv2d(3, 2), (2, 4, 7, 7)),
    "LazyConvTranspose2d": (lambda: nn.LazyConvTranspose2d(3, 2), (2, 4, 5, 5)),
    "LazyBatchNorm2d": (lambda: nn.LazyBatchNorm2d(), (4, 5, 3, 3)),
}


@pytest.mark.parametrize("is_moved_first", [True, False])
@pytest.mark.parametrize("name", LAZY)
def test_sizes_that_come_with_the_first_batch(gpu: str, name: str, is_moved_first: bool) -> None:
    make, shape = LAZY[name]
    found = []
    for device in ("cuda", "cpu"):
        sf.manual_seed(1)
        layer = make()
        if not is_moved_first:
            layer(sf.tensor(normal(*shape)))
            sf.manual_seed(1)
        layer.to(device)
        out = layer(sf.tensor(normal(*shape), device=device))
        out.pow(2).sum().backward()
        found.append((out, [(p, p.grad) for p in layer.parameters()]))
    assert_agree(*found, name)


OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    name: lambda parameters, name=name: getattr(optim, name)(parameters, lr=0.01)
    for name in ("SGD", "Adam", "Rprop", "ASGD", "Adafactor", "Muon")
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_rows_of_a_table(gpu: str, name: str) -> None:
    """An embedding's gradient is of the rows that were looked up."""
    found = []
    for device in ("cuda", "cpu"):
        sf.manual_seed(2)
        table = nn.Embedding(50, 4).to(device)
        optimiser = OPTIMISERS[name](table.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            table(sf.tensor([1, 3, 1, 0], device=device)).pow(2).sum().backward()
            optimiser.step()
        found.append((table.weight, table.weight.grad))
    assert_agree(*found, name)
