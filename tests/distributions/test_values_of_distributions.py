"""Distributions: SciPy's values in both modes, one stream of samples, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distribution_rows import (
    REPARAMETRIZED,
    RNG,
    ROWS,
    Row,
    begin_again,
    factor,
    of_scipy,
    positive,
    real,
)
from scipy import stats

import staticflow as sf

D = sf.distributions

VALUES = ("log_prob", "mean", "variance", "stddev", "entropy")


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    begin_again()


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_values_are_scipys_in_both_modes(row: Row) -> None:
    params, values, chances = row.params(5), row.values(5), RNG.uniform(0.05, 0.95, 5)

    names = [n for n in (*VALUES, *(("cdf", "icdf") * row.continuous)) if n not in row.lacks]

    def compute(value: Any, chance: Any, *params: Any) -> list[Any]:
        d = row.make(*params)
        takes = {"log_prob": (value,), "cdf": (value,), "icdf": (chance,), "entropy": ()}
        return [getattr(d, n)(*takes[n]) if n in takes else getattr(d, n) for n in names]

    want = row.scipy(*params)
    expected = [of_scipy(want, row.continuous, n, values, chances) for n in names]
    given = [sf.tensor(v) for v in (values, chances, *params)]
    symbols = [sf.placeholder((None,), dtype=sf.float64, name=f"v{i}") for i in range(len(given))]
    for results in (compute(*given), sf.compile(symbols, list(compute(*symbols)))(*given)):
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_samples_are_one_stream_of_either_mode_with_the_moments(row: Row) -> None:
    params = [sf.tensor(p) for p in row.params(2)]
    symbols = [sf.placeholder((None,), dtype=sf.float64, name=f"p{i}") for i in range(len(params))]
    eager, static = (sf.Generator().manual_seed(5) for _ in range(2))
    d = row.make(*params)
    program = sf.compile(symbols, row.make(*symbols).sample((20000,), generator=static))
    for _ in range(2):
        drawn = d.sample((20000,), generator=eager)
        np.testing.assert_allclose(program(*params).numpy(), drawn.numpy(), rtol=1e-12, atol=1e-14)
    assert drawn.shape == (20000, 2)
    assert not drawn.requires_grad
    if "mean" not in row.lacks:
        spread = d.stddev.numpy() / np.sqrt(20000)
        assert (np.abs(drawn.numpy().mean(0) - d.mean.numpy()) < 5 * spread).all()
    if row.continuous:
        for i in range(2):
            of_one = row.scipy(*(p.numpy()[i] for p in params))
            assert stats.kstest(drawn.numpy()[:, i], of_one.cdf).pvalue > 1e-6
    else:
        check_counts(drawn.numpy(), [row.scipy(*(p.numpy()[i] for p in params)) for i in (0, 1)])


def check_counts(drawn: Any, of: Any) -> None:
    """How often each count was drawn is by chance, at 5 deviations."""
    for column, d in zip(drawn.T, of, strict=True):
        for count in range(int(column.max()) + 1):
            p, n = float(d.pmf(count)), len(column)
            assert abs((column == count).sum() - n * p) < 5 * np.sqrt(n * p * (1 - p)) + 3


@pytest.mark.parametrize("name", REPARAMETRIZED)
def test_gradients_go_through_samples(name: str) -> None:
    row = ROWS[name]
    params = [sf.tensor(p, requires_grad=True) for p in row.params(3)]

    def draw(*params: Any) -> Any:
        return row.make(*params).rsample((2,), generator=sf.Generator().manual_seed(1))

    assert sf.autograd.gradcheck(draw, params)
    value = sf.tensor(row.values(3))
    assert sf.autograd.gradcheck(
        lambda *p: row.make(*p, validate_args=False).log_prob(value), params
    )


@pytest.mark.parametrize("name", ["probs", "logits"])
def test_categorical(name: str) -> None:
    given = RNG.uniform(0.1, 1.0, (4, 3))
    p = given / given.sum(-1, keepdims=True) if name == "probs" else np.exp(given)
    p = p / p.sum(-1, keepdims=True)
    classes = np.array([0, 2, 1, 1])

    def compute(x: Any, value: Any) -> list[Any]:
        d = D.Categorical(**{name: x})
        return [d.probs, d.logits, d.log_prob(value), d.entropy(), d.mode, d.enumerate_support()]

    x, value = sf.placeholder((None, 3), dtype=sf.float64), sf.placeholder((None,), dtype=sf.int64)
    args = sf.tensor(given), sf.tensor(classes)
    expected = [
        p, np.log(p), np.log(p[np.arange(4), classes]), stats.entropy(p, axis=-1), p.argmax(-1),
        np.tile(np.arange(3)[:, None], (1, 4)),
    ]  # fmt: skip
    for results in (compute(*args), sf.compile([x, value], compute(x, value))(*args)):
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12)
    drawn = D.Categorical(**{name: args[0]}).sample((20000,))
    assert drawn.shape == (20000, 4) and drawn.dtype is sf.int64
    for c in range(3):
        share = (drawn.numpy() == c).mean(0)
        assert (np.abs(share - p[:, c]) < 5 * np.sqrt(p[:, c] / 20000)).all()
    leaf = sf.tensor(given, requires_grad=True)
    assert sf.autograd.gradcheck(lambda x: compute(x, args[1])[2], [leaf])


def test_multinomial() -> None:
    given = RNG.uniform(0.1, 1.0, (4, 3))
    p = given / given.sum(-1, keepdims=True)
    values = RNG.multinomial(5, [0.2, 0.3, 0.5], 4).astype(float)
    each = [stats.multinomial(5, q) for q in p]
    expected = [
        [d.logpmf(v) for d, v in zip(each, values, strict=True)],
        [d.entropy() for d in each],
        5 * p,
        5 * p * (1 - p),
    ]

    def compute(x: Any, value: Any) -> list[Any]:
        d = D.Multinomial(5, x, validate_args=False)
        return [d.log_prob(value), d.entropy(), d.mean, d.variance]

    x, value = (sf.placeholder((None, 3), dtype=sf.float64) for _ in range(2))
    args = sf.tensor(given), sf.tensor(values)
    for results in (compute(*args), sf.compile([x, value], compute(x, value))(*args)):
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9)
    leaf = sf.tensor(given, requires_grad=True)
    assert sf.autograd.gradcheck(lambda x: compute(x, args[1])[:2], [leaf])
    d = D.Multinomial(5, args[0]).expand((2, 4))
    assert (d.total_count, d.batch_shape, d.event_shape) == (5, (2, 4), (3,))
    drawn = d.sample((4000,), generator=sf.Generator().manual_seed(3))
    assert drawn.shape == (4000, 2, 4, 3) and (drawn.sum(-1) == 5).all()
    spread = np.sqrt(5 * p * (1 - p) / 4000)
    assert (np.abs(drawn.numpy().mean(0) - 5 * p) < 5 * spread).all()
    many = D.Multinomial(1000, sf.tensor([1.0, 3.0])).entropy()
    assert many.item() == pytest.approx(stats.multinomial(1000, [0.25, 0.75]).entropy(), rel=1e-6)
    never = D.Multinomial(2, sf.tensor([0.0, 1.0])).sample((100,))
    assert never.sum(0).tolist() == [0, 200]


def test_what_is_impossible_is_never_drawn() -> None:
    drawn = D.Categorical(probs=sf.tensor([0.0, 0.3, 0.0, 0.7, 0.0])).sample((5000,))
    assert set(drawn.tolist()) == {1, 3}
    assert set(D.Bernoulli(probs=sf.tensor([0.0, 1.0])).sample((500,)).sum(0).tolist()) == {0, 500}


def test_multivariate_normal() -> None:
    loc, lower, values = real(4, 3), factor(4, 3, 3), real(4, 3)
    covariance = lower @ lower.swapaxes(-1, -2)
    each = [stats.multivariate_normal(m, c) for m, c in zip(loc, covariance, strict=True)]
    density = [d.logpdf(v) for d, v in zip(each, values, strict=True)]

    def compute(loc: Any, value: Any, **of: Any) -> list[Any]:
        d = D.MultivariateNormal(loc, **of)
        return [d.log_prob(value), d.entropy(), d.covariance_matrix, d.variance, d.rsample((2,))]

    for name, matrix in {
        "scale_tril": lower,
        "covariance_matrix": covariance,
        "precision_matrix": np.linalg.inv(covariance),
    }.items():
        args = [sf.tensor(v) for v in (loc, values, matrix)]
        m = sf.placeholder((None, 3), dtype=sf.float64)
        v = sf.placeholder((None, 3), dtype=sf.float64)
        c = sf.placeholder((None, 3, 3), dtype=sf.float64)
        sf.manual_seed(2)
        eager = compute(*args[:2], **{name: args[2]})
        program = sf.compile([m, v, c], compute(m, v, **{name: c}))
        sf.manual_seed(2)
        for ours, static in zip(eager, program(*args), strict=True):
            np.testing.assert_allclose(static.numpy(), ours.numpy(), rtol=1e-9)
        np.testing.assert_allclose(eager[0].numpy(), density, rtol=1e-9)
        np.testing.assert_allclose(eager[1].numpy(), [d.entropy() for d in each], rtol=1e-9)
        np.testing.assert_allclose(eager[2].numpy(), covariance, rtol=1e-9)
    one = D.MultivariateNormal(sf.tensor(loc[0]), scale_tril=sf.tensor(lower[0]))
    drawn = one.expand((2,)).sample((20000,))
    assert drawn.shape == (20000, 2, 3)
    np.testing.assert_allclose(np.cov(drawn[:, 0].numpy().T), covariance[0], rtol=0.2, atol=0.1)


# -- composed ---------------------------------------------------------------------------------------


def test_independent_adds_along_the_event() -> None:
    base = D.Normal(sf.tensor(real(4, 2, 3)), 0.5)
    d = D.Independent(base, 2)
    assert (d.batch_shape, d.event_shape) == ((4,), (2, 3))
    x = sf.tensor(real(4, 2, 3))
    sf.testing.assert_close(d.log_prob(x), base.log_prob(x).sum((1, 2)))
    sf.testing.assert_close(d.entropy(), base.entropy().sum((1, 2)))
    assert d.expand((5, 4)).sample((7,)).shape == (7, 5, 4, 2, 3)
    assert D.Independent(base, 0).log_prob(x).shape == (4, 2, 3)
    with pytest.raises(sf.ArgumentError, match="Independent: 4 dims of the batch were asked for"):
        D.Independent(base, 4)


def test_mixtures_of_unknown_batches() -> None:
    weights, means = RNG.uniform(0.2, 1.0, (4, 3)), real(4, 3)
    values = real(4)
    shares = weights / weights.sum(-1, keepdims=True)

    def compute(w: Any, m: Any, x: Any) -> list[Any]:
        d = D.MixtureSameFamily(D.Categorical(probs=w), D.Normal(m, 0.5))
        return [d.log_prob(x), d.cdf(x), d.mean, d.variance, d.sample((3,))]

    args = [sf.tensor(v) for v in (weights, means, values)]
    w, m = (sf.placeholder((None, 3), dtype=sf.float64) for _ in range(2))
    x = sf.placeholder((None,), dtype=sf.float64)
    parts = stats.norm(means, 0.5)
    mean = (shares * means).sum(-1)
    expected = [
        np.log((shares * parts.pdf(values[:, None])).sum(-1)),
        (shares * parts.cdf(values[:, None])).sum(-1),
        mean,
        (shares * (0.25 + (means - mean[:, None]) ** 2)).sum(-1),
    ]
    sf.manual_seed(4)
    eager = compute(*args)
    program = sf.compile([w, m, x], compute(w, m, x))
    sf.manual_seed(4)
    static = program(*args)
    for ours, other, theirs in zip(eager, static, expected, strict=False):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9)
        np.testing.assert_allclose(other.numpy(), theirs, rtol=1e-9)
    np.testing.assert_allclose(eager[4].numpy(), static[4].numpy(), rtol=1e-12)
    assert D.MixtureSameFamily(D.Categorical(probs=args[0]), D.Normal(args[1], 0.5)).expand(
        (2, 4)
    ).sample((5,)).shape == (5, 2, 4)


# -- divergence -------------------------------------------------------------------------------------

PAIRS = {
    "normal": lambda a, b: D.Normal(a, b),
    "log_normal": lambda a, b: D.LogNormal(a, b),
    "laplace": lambda a, b: D.Laplace(a, b),
    "exponential": lambda a, b: D.Exponential(b),
    "uniform": lambda a, b: D.Uniform(-b, b + a.abs()),
    "bernoulli": lambda a, b: D.Bernoulli(logits=a),
    "categorical": lambda a, b: D.Categorical(logits=sf.stack([a, b], -1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergence_is_the_mean_of_the_difference(name: str) -> None:
    p = PAIRS[name](sf.tensor(real(3) * 0.5), sf.tensor([0.5, 0.6, 0.7], dtype=sf.float64))
    q = PAIRS[name](
        sf.tensor([0.6, 2.0, 2.0], dtype=sf.float64), sf.tensor([1.0, 2.0, 3.0], dtype=sf.float64)
    )
    found = D.kl_divergence(p, q).numpy()
    if p.has_enumerate_support:
        x = p.enumerate_support()
        mean = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).sum(0).numpy()
        np.testing.assert_allclose(found, mean, rtol=1e-9)
        return
    # the mean over quantiles in the middle of equal shares
    share = (np.arange(200_000) + 0.5) / 200_000
    x = p.icdf(sf.tensor(np.repeat(share[:, None], 3, 1)))
    mean = (p.log_prob(x) - q.log_prob(x)).mean(0).numpy()
    np.testing.assert_allclose(found, mean, rtol=2e-3, atol=1e-4)
    sf.testing.assert_close(
        D.kl_divergence(D.Independent(p, 1), D.Independent(q, 1)), D.kl_divergence(p, q).sum()
    )


def test_divergence_of_vectors_is_that_of_their_elements() -> None:
    a, b = (sf.tensor(real(4, 3)) for _ in range(2))
    s, t = (sf.tensor(positive(4, 3)) for _ in range(2))
    p, q = (D.MultivariateNormal(m, scale_tril=sf.diag_embed(d)) for m, d in ((a, s), (b, t)))
    each = D.kl_divergence(D.Normal(a, s), D.Normal(b, t))
    sf.testing.assert_close(D.kl_divergence(p, q), each.sum(-1))


def test_divergence_where_q_cannot_be() -> None:
    inf = float("inf")
    assert D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)).item() == inf
    assert D.kl_divergence(D.Bernoulli(0.5), D.Bernoulli(1.0)).item() == inf
    assert D.kl_divergence(D.Bernoulli(1.0), D.Bernoulli(1.0)).item() == pytest.approx(0, abs=1e-6)
    p, q = (D.Categorical(probs=sf.tensor(x)) for x in ([0.0, 1.0], [0.5, 0.5]))
    assert D.kl_divergence(p, q).item() == pytest.approx(np.log(2))
    assert D.kl_divergence(q, p).item() == inf


def test_a_formula_of_ones_own() -> None:
    class Shifted(D.Normal):
        pass

    p = Shifted(0.0, 1.0)
    assert D.kl_divergence(p, D.Normal(0.0, 1.0)).item() == 0  # that of its base
    D.register_kl(Shifted, D.Normal)(lambda p, q: 7)
    assert D.kl_divergence(p, D.Normal(0.0, 1.0)) == 7
    with pytest.raises(sf.UndefinedError, match="no formula is registered for Laplace and Normal"):
        D.kl_divergence(D.Laplace(0.0, 1.0), D.Normal(0.0, 1.0))
    with pytest.raises(sf.ArgumentError, match="must be a class of distributions"):
        D.register_kl(int, D.Normal)


# -- arguments --------------------------------------------------------------------------------------

WRONG = {
    "scale": (lambda: D.Normal(0.0, -1.0), "Normal: the scale must be above 0 everywhere"),
    "loc": (lambda: D.Laplace(float("nan"), 1.0), "Laplace: the loc must be a number"),
    "low": (lambda: D.Uniform(2.0, 1.0), "Uniform: the low must be below high"),
    "probs": (lambda: D.Bernoulli(1.5), "Bernoulli: the probs must be from 0 to 1"),
    "both": (lambda: D.Bernoulli(0.5, 0.0), "Bernoulli: probs and logits of probs, logits were"),
    "neither": (lambda: D.Categorical(), "Categorical: neither of probs, logits were given"),
    "no dims": (lambda: D.Categorical(0.5), "Categorical: probs has no dims"),
    "no sum": (lambda: D.Categorical(sf.zeros(2)), "with a sum above 0"),
    "integers": (lambda: D.Normal(sf.tensor([1]), 1.0), "Normal: a parameter is int64"),
    "a list": (lambda: D.Normal([1.0], 1.0), "Normal: a parameter is list"),
    "value": (lambda: D.Exponential(1.0).log_prob(sf.tensor(-1.0)), "the value must be 0 or more"),
    "class": (
        lambda: D.Categorical(sf.ones(3)).log_prob(sf.tensor(3)),
        "the number of a class, from 0 to before 3",
    ),
    "no matrix": (lambda: D.MultivariateNormal(sf.zeros(2), sf.ones(2)), "a vector and a matrix"),
    "count": (lambda: D.Multinomial(-1, sf.ones(2)), "total_count is -1; it must be an integer"),
    "other sum": (
        lambda: D.Multinomial(2, sf.ones(2)).log_prob(sf.tensor([1.0, 2.0])),
        "whole numbers, 0 or more, whose sum is 2",
    ),
    "uneven": (
        lambda: D.MultivariateNormal(sf.zeros(2), sf.tensor([[2.0, 1.0], [0.0, 2.0]])),
        "covariance_matrix must be symmetric",
    ),
    "no mean": (lambda: D.Distribution().mean, "Distribution.mean is not defined"),
    "no gradient": (lambda: D.Bernoulli(0.5).rsample(), "Bernoulli.rsample is not defined: its"),
    "components": (
        lambda: D.MixtureSameFamily(D.Categorical(sf.ones(3)), D.Normal(sf.zeros(2), 1.0)),
        "must end with the number of classes of the mixture, 3",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(sf.StaticflowError, match=message):
        call()


def test_values_of_a_graph_are_checked_as_it_runs() -> None:
    scale = sf.placeholder((None,), name="scale")
    program = sf.compile([scale], D.Normal(0.0, scale).log_prob(1.0))
    program(sf.ones(3))
    with pytest.raises(sf.ArgumentError, match="Normal: the scale must be above 0 everywhere"):
        program(sf.tensor([1.0, 0.0]))
    unchecked = sf.compile([scale], D.Normal(0.0, scale, validate_args=False).log_prob(1.0))
    assert unchecked(sf.tensor([1.0, 0.0])).isfinite().tolist() == [True, False]


def test_checks_may_be_left_away() -> None:
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1
    finally:
        D.Distribution.set_default_validate_args(True)


def test_numbers_and_names_as_pytorch_has_them() -> None:
    d = D.Normal(0, 1)
    assert d.batch_shape == d.event_shape == () and d.loc.dtype is sf.float32
    assert D.Normal(sf.zeros(3, 1), sf.ones(2)).batch_shape == (3, 2)
    assert repr(D.Normal(sf.zeros(3), 1.0)) == (
        "Normal(loc: tensor of shape [3], scale: tensor of shape [3])"
    )
    assert d.perplexity().item() == pytest.approx(np.sqrt(2 * np.pi * np.e))
    assert D.Normal(sf.zeros(2), 1.0).expand((3, 2)).sample().shape == (3, 2)
    assert d.sample(sample_shape=[2]).shape == (2,)
    for dtype in (sf.float16, sf.bfloat16):
        half = D.Normal(sf.zeros(2, dtype=dtype), 1.0)
        assert half.sample().dtype is half.log_prob(sf.zeros(2, dtype=dtype)).dtype is dtype
