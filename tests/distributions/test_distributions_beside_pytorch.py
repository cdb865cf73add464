"""Every distribution and transform of both: PyTorch's values, shapes, words and divergences."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="whose distributions are beside ours")
theirs, ours = torch.distributions, sf.distributions

BOTH = sorted(
    name
    for name in theirs.__all__
    if hasattr(ours, name)
    and inspect.isclass(getattr(theirs, name))
    and issubclass(getattr(theirs, name), theirs.Distribution)
)
RNG = np.random.default_rng(0)


def _positive(*shape: int) -> Any:
    return RNG.uniform(0.4, 3, shape)


def _real(*shape: int) -> Any:
    return RNG.normal(size=shape)


def _chance(*shape: int) -> Any:
    return RNG.uniform(0.1, 0.9, shape)


def _shares(*shape: int) -> Any:
    x = _positive(*shape)
    return x / x.sum(-1, keepdims=True)


def _counts(*shape: int) -> Any:
    return RNG.integers(0, 5, shape).astype(float)


HOT = np.eye(3)[[0, 1, 2, 0, 1]]
PARAMS: dict[str, Any] = {
    "Bernoulli": lambda: ((_chance(5),), _counts(5).clip(0, 1)),
    "Beta": lambda: ((_positive(5) + 1, _positive(5) + 1), _chance(5)),
    "Binomial": lambda: ((7, _chance(5)), _counts(5)),
    "Categorical": lambda: ((_shares(5, 3),), np.array([0, 1, 2, 0, 1])),
    "Cauchy": lambda: ((_real(5), _positive(5)), _real(5)),
    "Chi2": lambda: ((_positive(5),), _positive(5)),
    "Dirichlet": lambda: ((_positive(5, 3) + 1,), _shares(5, 3)),
    "Exponential": lambda: ((_positive(5),), _positive(5)),
    "Gamma": lambda: ((_positive(5), _positive(5)), _positive(5)),
    "Geometric": lambda: ((_chance(5),), _counts(5)),
    "Gumbel": lambda: ((_real(5), _positive(5)), _real(5)),
    "HalfCauchy": lambda: ((_positive(5),), _positive(5)),
    "HalfNormal": lambda: ((_positive(5),), _positive(5)),
    "InverseGamma": lambda: ((_positive(5) + 2, _positive(5)), _positive(5)),
    "Laplace": lambda: ((_real(5), _positive(5)), _real(5)),
    "LogNormal": lambda: ((_real(5), _positive(5)), _positive(5)),
    "Multinomial": lambda: ((4, _shares(5, 3)), np.tile([1.0, 2.0, 1.0], (5, 1))),
    "MultivariateNormal": lambda: ((_real(5, 3), np.tile(np.eye(3) * 2, (5, 1, 1))), _real(5, 3)),
    "NegativeBinomial": lambda: ((_positive(5), _chance(5)), _counts(5)),
    "Normal": lambda: ((_real(5), _positive(5)), _real(5)),
    "OneHotCategorical": lambda: ((_shares(5, 3),), HOT),
    "OneHotCategoricalStraightThrough": lambda: ((_shares(5, 3),), HOT),
    "Poisson": lambda: ((_positive(5) * 4,), _counts(5)),
    "RelaxedBernoulli": lambda: ((np.array(0.7), _chance(5)), _chance(5)),
    "RelaxedOneHotCategorical": lambda: ((np.array(0.7), _shares(5, 3)), _shares(5, 3)),
    "StudentT": lambda: ((_positive(5) + 2.1, _real(5), _positive(5)), _real(5)),
    "Uniform": lambda: ((-_positive(5), _positive(5)), RNG.uniform(-0.3, 0.3, 5)),
}
COMPOSED = {"Distribution", "Independent", "MixtureSameFamily", "TransformedDistribution"}


def test_every_class_of_both_has_parameters() -> None:
    assert set(BOTH) - COMPOSED == set(PARAMS)


def pair(name: str, params: Any) -> tuple[Any, Any]:
    """The distribution of each library, of the same parameters."""
    return tuple(
        getattr(room, name)(*(library.tensor(p) if hasattr(p, "shape") else p for p in params))
        for room, library in ((theirs, torch), (ours, sf))
    )


@pytest.mark.parametrize("name", PARAMS)
def test_values_are_pytorchs(name: str) -> None:
    params, value = PARAMS[name]()
    there, here = pair(name, params)
    assert tuple(here.batch_shape) == tuple(there.batch_shape)
    assert tuple(here.event_shape) == tuple(there.event_shape)
    assert (here.has_rsample, here.has_enumerate_support) == (
        there.has_rsample, there.has_enumerate_support,
    )  # fmt: skip
    assert here.sample((2,)).shape == tuple(there.sample((2,)).shape)
    assert here.expand((2, 5)).sample().shape == tuple(there.expand((2, 5)).sample().shape)
    arguments = {"log_prob": (value,), "cdf": (value,), "icdf": (_chance(5),), "entropy": ()}
    for what in ("log_prob", "cdf", "icdf", "entropy", "mean", "mode", "variance", "stddev"):
        try:
            wanted = getattr(there, what)
            if what in arguments:
                wanted = wanted(*map(torch.tensor, arguments[what]))
        except NotImplementedError:
            continue
        found = getattr(here, what)
        if what in arguments:
            found = found(*map(sf.tensor, arguments[what]))
        np.testing.assert_allclose(
            found.numpy(), wanted.numpy(), rtol=1e-7, atol=1e-11, err_msg=f"{name}.{what}"
        )


@pytest.mark.parametrize("name", PARAMS)
def test_divergences_are_pytorchs(name: str) -> None:
    first, second = PARAMS[name]()[0], PARAMS[name]()[0]
    if name == "Uniform":
        second = (first[0] - 1, first[1] + 1)
    (p, our_p), (q, our_q) = pair(name, first), pair(name, second)
    try:
        wanted = theirs.kl_divergence(p, q)
    except NotImplementedError:
        pytest.skip("PyTorch has no formula of these")
    found = ours.kl_divergence(our_p, our_q)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-8, atol=1e-11)


CHANGES: dict[str, Any] = {
    "exp": lambda room, number: [room.ExpTransform()],
    "falling": lambda room, number: [room.AffineTransform(1.0, -2.0), room.SigmoidTransform()],
    "tanh": lambda room, number: [room.TanhTransform(cache_size=1)],
    "power": lambda room, number: [room.SoftplusTransform(), room.PowerTransform(number(2.0))],
    "falling power": lambda room, number: [room.ExpTransform(), room.PowerTransform(number(-1.5))],
    "of vectors": lambda room, number: room.AffineTransform(
        number([1.0, 2, 3, 4]), number([1.0, 2, 3, -4]), event_dim=1
    ),
    "composed": lambda room, number: [
        room.ComposeTransform([room.ExpTransform(), room.AffineTransform(0.0, 3.0)]),
        room.ExpTransform().inv,
    ],
    "none": lambda room, number: [],
}


@pytest.mark.parametrize("name", CHANGES)
def test_transforms_are_pytorchs(name: str) -> None:
    base = (_real(4), _positive(4))
    there = theirs.TransformedDistribution(
        theirs.Normal(*map(torch.tensor, base)),
        CHANGES[name](theirs, lambda x: torch.tensor(x, dtype=torch.float64)),
    )
    here = ours.TransformedDistribution(
        ours.Normal(*map(sf.tensor, base)),
        CHANGES[name](ours, lambda x: sf.tensor(x, dtype=sf.float64)),
    )
    assert tuple(here.batch_shape) == tuple(there.batch_shape)
    assert tuple(here.event_shape) == tuple(there.event_shape)
    y = there.sample((3,)).numpy()
    found = here.log_prob(sf.tensor(y)).numpy()
    np.testing.assert_allclose(found, there.log_prob(torch.tensor(y)).numpy(), rtol=1e-8)
    u = _chance(4)
    for what, x in (("cdf", y), ("icdf", u)) if not here.event_shape else ():
        found = getattr(here, what)(sf.tensor(x)).numpy()
        wanted = getattr(there, what)(torch.tensor(x)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-8)
    divergence = ours.kl_divergence(here, here)
    assert (divergence == 0).all() and divergence.shape == here.batch_shape


@pytest.mark.parametrize("name", CHANGES)
def test_transforms_stretch_as_their_derivative_says(name: str) -> None:
    x = _real(4)
    change = ours.ComposeTransform(
        [
            t
            for given in [CHANGES[name](ours, lambda x: sf.tensor(x, dtype=sf.float64))]
            for t in (given if isinstance(given, list) else [given])
        ]
    )
    leaf = sf.tensor(x)
    y = change(leaf)
    np.testing.assert_allclose(change.inv(y).numpy(), x, rtol=1e-8)
    derivative = sf.vmap(sf.func.grad(lambda v: v))(leaf) if name == "none" else None
    matrix = sf.func.jacrev(change)(leaf)
    each = matrix.diagonal().abs().log()
    wanted = each.sum() if change.event_dim else each
    if derivative is None:
        sf.testing.assert_close(change.log_abs_det_jacobian(leaf, y), wanted)
    else:
        sf.testing.assert_close(change.log_abs_det_jacobian(leaf, y), leaf * 0)
