"""Derivatives of draws that are made by rejection: those at a fixed probability, to any order, in
both modes and under ``vmap``; draws of vectors; and the integrals behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import staticflow as sf
from staticflow.distributions.gamma_draws import draw_log_gamma
from staticflow.distributions.gamma_integral import gamma_below, log_gamma_slope

D = sf.distributions
CONCENTRATIONS = (1.0, 1.2, 1.5, 2.0, 5.0, 8.2, 30.0, 1e3, 1e5)


def at_fixed_probability(a: float, u: float, h: float) -> float:
    """The derivative of the logarithm of the quantile of ``u``, by differences of SciPy's."""
    ends = [np.log(special.gammaincinv(a + s * h, u)) for s in (-2, -1, 1, 2)]
    return (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)


@pytest.mark.parametrize("a", CONCENTRATIONS)
def test_the_slope_of_a_draw_is_that_at_its_probability(a: float) -> None:
    chances = np.array([1e-9, 1e-4, 0.01, 0.3, 0.5, 0.9, 0.99, 1 - 1e-6])
    drawn = np.log(special.gammaincinv(a, chances))
    wanted = [at_fixed_probability(a, u, 2e-3 * np.sqrt(a)) for u in chances]
    found = log_gamma_slope(sf.full((8,), a, dtype=sf.float64), sf.tensor(drawn))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-8)
    narrow = log_gamma_slope(sf.full((8,), a), sf.tensor(drawn).float())
    np.testing.assert_allclose(narrow.numpy(), wanted, rtol=1e-3 if a > 1e3 else 1e-4)


def test_the_probability_below_is_scipys() -> None:
    rng = np.random.default_rng(1)
    a = np.exp(rng.uniform(-6, 14, 3000))
    away = np.exp(rng.normal(size=3000) * rng.choice([0, 0.1, 1, 3], 3000))
    x = np.maximum(rng.gamma(a) * away, 1e-300)
    found = gamma_below(sf.tensor(a), sf.tensor(x)).numpy()
    np.testing.assert_allclose(found, special.gammainc(a, x), rtol=0, atol=1e-12)
    ends = sf.tensor([0.0, float("inf"), float("nan")])
    np.testing.assert_array_equal(gamma_below(sf.ones(3) * 0.5, ends).numpy(), [0, 1, np.nan])
    shape, at = sf.tensor([0.4, 3.0]).double(), sf.tensor([0.5, 2.0]).double()
    assert sf.autograd.gradcheck(gamma_below, [shape.requires_grad_(), at.requires_grad_()])


def draws(make: Any, count: int, seed: int, *params: Any) -> Any:
    """Draws of a distribution, and its parameters, which are leaves."""
    leaves = [sf.tensor(p, dtype=sf.float64, requires_grad=True) for p in params]
    d = make(*leaves)
    return d.rsample((count,), generator=sf.Generator().manual_seed(seed)), leaves


MOMENTS: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "gamma": (D.Gamma, (2.0, 3.0), lambda d: d.mean),
    "gamma of few": (D.Gamma, (0.3, 1.0), lambda d: d.mean),
    "inverse gamma": (D.InverseGamma, (6.0, 3.0), lambda d: d.mean),
    "beta": (D.Beta, (0.5, 2.0), lambda d: d.mean),
    "beta of many": (D.Beta, (20.0, 3.0), lambda d: d.mean),
    "dirichlet": (D.Dirichlet, ([0.2, 1.0, 3.0],), lambda d: d.mean),
    "student": (lambda *p: D.StudentT(9.0, *p), (1.0, 2.0), lambda d: d.mean),
    "chi2": (D.Chi2, (3.0,), lambda d: d.mean),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_the_mean_gradient_is_that_of_the_mean(name: str) -> None:
    """At 5 deviations, for the draws, and for their squares."""
    make, params, mean = MOMENTS[name]
    for power in (1, 2):
        leaves = [sf.tensor(p, dtype=sf.float64, requires_grad=True) for p in params]
        d = make(*leaves)
        wanted = mean(d) if power == 1 else d.variance + d.mean.square()
        exact = sf.autograd.grad(wanted.sum(), leaves, allow_unused=True)
        count, groups = 4000, 50
        parts = []
        for seed in range(groups):
            drawn, leaves = draws(make, count, seed, *params)
            of_mean = drawn.pow(power).mean(0).sum()
            parts.append([g.numpy() for g in sf.autograd.grad(of_mean, leaves)])
        for i, wanted in enumerate(exact):
            if wanted is None:  # the mean of Student's distribution by the scale
                continue
            each = np.array([p[i] for p in parts])
            spread = each.std(0) / np.sqrt(groups)
            assert (np.abs(each.mean(0) - wanted.numpy()) < 5 * spread + 1e-12).all()


def test_derivatives_of_any_order_are_those_of_the_quantile() -> None:
    """The second derivative of a quantile by the concentration, in both modes."""
    a = np.array([0.3, 1.0, 2.5, 40.0])

    def log_draw(a: Any) -> Any:
        return draw_log_gamma(a, sf.Generator().manual_seed(3))

    leaf = sf.tensor(a, requires_grad=True)
    drawn = log_draw(leaf)
    (first,) = sf.autograd.grad(drawn.sum(), leaf, create_graph=True)
    (second,) = sf.autograd.grad(first.sum(), leaf)
    p = sf.placeholder((None,), sf.float64, name="a")
    of_p = sf.grad(log_draw(p).sum(), p)
    program = sf.compile([p], [log_draw(p), of_p, sf.grad(of_p.sum(), p)])
    for ours, other in zip((drawn, first, second), program(sf.tensor(a)), strict=True):
        np.testing.assert_allclose(other.numpy(), ours.detach().numpy(), rtol=1e-11)
    for i in (1, 2, 3):  # below 1 a second draw takes part
        u = special.gammainc(a[i], np.exp(drawn[i].item()))
        np.testing.assert_allclose(
            first[i].item(), at_fixed_probability(a[i], u, 2e-3 * np.sqrt(a[i])), rtol=1e-6
        )
        h = 1e-3 * a[i]
        ends = [at_fixed_probability(a[i] + s * h, u, 2e-3 * np.sqrt(a[i])) for s in (-1, 1)]
        np.testing.assert_allclose(second[i].item(), (ends[1] - ends[0]) / (2 * h), rtol=1e-4)


def test_rows_of_vmap_draw_their_own() -> None:
    for kind in ("same", "different"):
        rows = sf.vmap(
            lambda a: D.Gamma(a, 1.0).rsample((3,)).sum() + D.Poisson(a).sample(), randomness=kind
        )(sf.ones(2))
        assert (rows[0] == rows[1]).item() is (kind == "same")
    slopes = sf.vmap(sf.func.grad(lambda a: D.Beta(a, 2.0).rsample()), randomness="different")
    assert (slopes(sf.ones(5)) > 0).all()


@pytest.mark.parametrize("dtype", [sf.float16, sf.bfloat16, sf.float32, sf.float64])
def test_draws_of_extreme_parameters_are_numbers_of_the_dtype(dtype: Any) -> None:
    least, much = sf.tensor([1e-4, 100.0], dtype=dtype), sf.tensor([0.5, 2.0], dtype=dtype)
    for d in (
        D.Gamma(least, much), D.Beta(least, much), D.Chi2(least), D.StudentT(much + 4),
        D.Dirichlet(least), D.Dirichlet(sf.full((3,), 1e-4, dtype=dtype)), D.Gumbel(least, much),
        D.RelaxedBernoulli(0.1, logits=least), D.RelaxedOneHotCategorical(0.5, probs=much),
    ):  # fmt: skip
        x = d.rsample((2000,))
        assert x.dtype is dtype and x.isfinite().all(), d
        density = d.log_prob(x) if not isinstance(d, D.RelaxedOneHotCategorical) else x
        assert not density.isnan().any(), d


def test_large_and_no_counts() -> None:
    g = sf.Generator().manual_seed(1)
    rates = sf.tensor([0.0, 9.999, 10.0, 1e8], dtype=sf.float64)
    drawn = D.Poisson(rates).sample((20000,), generator=g)
    assert drawn[:, 0].sum() == 0
    spread = (rates / 20000).sqrt()
    assert ((drawn.mean(0) - rates).abs() <= 5 * spread).all()
    np.testing.assert_allclose(drawn.var(0)[1:].numpy(), rates[1:].numpy(), rtol=0.06)
    assert (drawn == drawn.floor()).all()
    assert D.Geometric(1.0).sample((100,), generator=g).sum() == 0
    assert D.Binomial(3, sf.tensor([0.0, 1.0])).sample((9,), generator=g).sum(0).tolist() == [0, 27]
    assert D.NegativeBinomial(1.0, 0.0).sample((50,), generator=g).sum() == 0


VECTORS: dict[str, Any] = {
    "dirichlet": lambda x: D.Dirichlet(x.exp()),
    "one hot": lambda x: D.OneHotCategorical(logits=x),
    "straight through": lambda x: D.OneHotCategoricalStraightThrough(logits=x),
    "relaxed": lambda x: D.RelaxedOneHotCategorical(0.7, logits=x),
    "relaxed bernoulli": lambda x: D.RelaxedBernoulli(0.7, logits=x),
    "transformed": lambda x: D.TransformedDistribution(
        D.Independent(D.Normal(x, 0.5), 1), [D.TanhTransform(cache_size=1)]
    ),
    "affine": lambda x: D.TransformedDistribution(
        D.Gumbel(x, 0.5), [D.AffineTransform(x, x.exp(), event_dim=1), D.SigmoidTransform()]
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_unknown_batches_are_one_stream(name: str) -> None:
    x = np.random.default_rng(2).normal(size=(4, 3))

    def compute(x: Any) -> list[Any]:
        d = VECTORS[name](x)
        drawn = d.rsample((2,)) if d.has_rsample else d.sample((2,))
        more = d.expand((5, *d.batch_shape)).sample()
        return [drawn, more, d.log_prob(drawn.detach())]

    p = sf.placeholder((None, 3), sf.float64, name="x")
    program = sf.compile([p], compute(p))
    sf.manual_seed(2)
    eager = compute(sf.tensor(x))
    sf.manual_seed(2)
    static = program(sf.tensor(x))
    for a, b in zip(eager, static, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-13)
    assert eager[0].shape == (2, 4, 3) and eager[1].shape == (5, 4, 3)


def test_the_straight_way_has_the_gradient_of_the_probabilities() -> None:
    logits = sf.tensor([0.1, 0.7, -1.0], requires_grad=True)
    d = D.OneHotCategoricalStraightThrough(logits=logits)
    weights = sf.tensor([1.0, 2.0, 5.0])
    drawn = d.rsample()
    assert sorted(drawn.tolist()) == [0, 0, 1]
    (found,) = sf.autograd.grad((drawn * weights).sum(), logits)
    (wanted,) = sf.autograd.grad((logits.softmax(-1) * weights).sum(), logits)
    sf.testing.assert_close(found, wanted)
    assert D.OneHotCategorical(logits=logits).enumerate_support().tolist() == sf.eye(3).tolist()


def test_an_action_that_tanh_rounds_to_1_keeps_its_density() -> None:
    """As actors draw it: the inverse of 1 is infinite, and is not asked for."""
    loc = sf.full((3,), 30.0, requires_grad=True)
    d = D.TransformedDistribution(D.Normal(loc, 1.0), D.TanhTransform(cache_size=1))
    action = d.rsample()
    assert (action == 1).all()
    density = d.log_prob(action)
    assert density.isfinite().all()
    density.sum().backward()
    assert loc.grad is not None and loc.grad.isfinite().all()
    without = D.TransformedDistribution(D.Normal(loc, 1.0), D.TanhTransform())
    assert (
        not D.TransformedDistribution(D.Normal(loc, 1.0, validate_args=False), D.TanhTransform())
        .log_prob(action)
        .isfinite()
        .all()
    )
    assert without.sample().shape == (3,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: D.Gamma(-1.0, 1.0), "Gamma: the concentration must be above 0"),
        (lambda: D.Gamma(1.0, 0.0), "Gamma: the rate must be above 0"),
        (lambda: D.Chi2(0.0), "Chi2: the df must be above 0"),
        (lambda: D.Beta(1.0, -2.0), "Beta: the concentration0 must be above 0"),
        (lambda: D.Beta(1.0, 2.0).log_prob(1.5), "Beta: the value must be from 0 to 1"),
        (lambda: D.Dirichlet(1.0), "Dirichlet: the concentration has no dims"),
        (
            lambda: D.Dirichlet(sf.ones(2)).log_prob(sf.ones(2)),
            "Dirichlet: the value must be 0 or more, with a sum of 1",
        ),
        (lambda: D.Poisson(-1.0), "Poisson: the rate must be 0 or more"),
        (lambda: D.Poisson(1.0).log_prob(0.5), "Poisson: the value must be whole and 0 or more"),
        (lambda: D.Poisson(1.0).rsample(), "Poisson.rsample is not defined: its samples have no"),
        (lambda: D.Geometric(0.0), r"Geometric: the probs must be in \(0, 1\]"),
        (lambda: D.Binomial(2.5, 0.5), "Binomial: 'total_count' must be int, not float"),
        (lambda: D.Binomial(2, 0.5).log_prob(3.0), "the value must be whole, from 0 to 2"),
        (lambda: D.StudentT(0.0), "StudentT: the df must be above 0"),
        (lambda: D.RelaxedBernoulli(0.0, 0.5), "the temperature must be above 0"),
        (lambda: D.RelaxedBernoulli(sf.ones(2), 0.5), "the temperature has the shape"),
        (lambda: D.TanhTransform(cache_size=2), "cache_size is 2, and must be 0 or 1"),
        (lambda: D.ComposeTransform([3]), "a part is an int, and must be a Transform"),
        (lambda: D.TransformedDistribution(3, []), "int was given, and must be a Distribution"),
        (
            lambda: D.OneHotCategorical(sf.ones(2)).log_prob(sf.ones(2)),
            "0, but for one 1 in each vector",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(sf.StaticflowError, match=f"{message}.*, at .*test_gradients_of_draws"):
        call()


def test_draws_follow_scipys_distributions() -> None:
    """Of what the rows of values cannot say: the shares of vectors."""
    a = np.array([0.3, 1.0, 4.0])
    drawn = D.Dirichlet(sf.tensor(a)).sample((20000,), generator=sf.Generator().manual_seed(4))
    for i in range(3):
        of_one = stats.beta(a[i], a.sum() - a[i])
        assert stats.kstest(drawn.numpy()[:, i], of_one.cdf).pvalue > 1e-6


def test_a_transform_without_a_rule_says_which() -> None:
    class Half(sf.distributions.transforms.Transform):
        pass

    x = sf.ones(2)
    for name, call in {
        "_call": lambda: Half()(x),
        "_inverse": lambda: Half().inv(x),
        "log_abs_det_jacobian": lambda: Half().log_abs_det_jacobian(x, x),
    }.items():
        with pytest.raises(NotImplementedError, match=f"Half does not define {name}; write it"):
            call()
