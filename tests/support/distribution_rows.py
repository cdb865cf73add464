"""Distributions with SciPy's beside them, and values that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import staticflow as sf

D = sf.distributions
RNG = np.random.default_rng(3)
_START = RNG.bit_generator.state


def begin_again() -> None:
    """Have the numbers of rows be the same whatever was drawn before."""
    RNG.bit_generator.state = _START


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.4, 2.0, shape)


def factor(*shape: int) -> np.ndarray:
    lower = np.tril(real(*shape))
    i = np.arange(shape[-1])
    lower[..., i, i] = positive(*shape[:-1])
    return lower


class Row(NamedTuple):
    """A distribution: its class, what makes parameters for a batch, SciPy's, values, and what it
    does not define or SciPy defines otherwise."""

    make: Callable[..., Any]
    params: Callable[[int], tuple[np.ndarray, ...]]
    scipy: Callable[..., Any]
    values: Callable[[int], np.ndarray]
    continuous: bool = True
    lacks: tuple[str, ...] = ()


ROWS = {
    "normal": Row(
        D.Normal,
        lambda n: (real(n), positive(n)),
        lambda loc, scale: stats.norm(loc, scale),
        lambda n: real(n),
    ),
    "log_normal": Row(
        D.LogNormal,
        lambda n: (real(n), positive(n)),
        lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc)),
        lambda n: positive(n),
    ),
    "laplace": Row(
        D.Laplace,
        lambda n: (real(n), positive(n)),
        lambda loc, scale: stats.laplace(loc, scale),
        lambda n: real(n),
    ),
    "exponential": Row(
        D.Exponential,
        lambda n: (positive(n),),
        lambda rate: stats.expon(scale=1 / rate),
        lambda n: positive(n),
    ),
    "uniform": Row(
        D.Uniform,
        lambda n: (-positive(n), positive(n)),
        lambda low, high: stats.uniform(low, high - low),
        lambda n: RNG.uniform(-0.3, 0.3, n),
    ),
    "bernoulli": Row(
        D.Bernoulli,
        lambda n: (RNG.uniform(0.1, 0.4, n),),
        lambda p: stats.bernoulli(p),
        lambda n: RNG.integers(0, 2, n).astype(float),
        continuous=False,
    ),
    "bernoulli_of_logits": Row(
        lambda logits: D.Bernoulli(logits=logits),
        lambda n: (real(n),),
        lambda logits: stats.bernoulli(1 / (1 + np.exp(-logits))),
        lambda n: RNG.integers(0, 2, n).astype(float),
        continuous=False,
    ),
    "gamma": Row(
        D.Gamma,
        lambda n: (positive(n), positive(n)),
        lambda a, rate: stats.gamma(a, scale=1 / rate),
        lambda n: positive(n),
        lacks=("icdf",),
    ),
    "gamma_of_few": Row(
        D.Gamma,
        lambda n: (RNG.uniform(0.02, 0.9, n), positive(n)),
        lambda a, rate: stats.gamma(a, scale=1 / rate),
        lambda n: positive(n),
        lacks=("icdf",),
    ),
    "gamma_of_many": Row(
        D.Gamma,
        lambda n: (RNG.uniform(50, 5000, n), positive(n)),
        lambda a, rate: stats.gamma(a, scale=1 / rate),
        lambda n: RNG.uniform(100, 3000, n),
        lacks=("icdf",),
    ),
    "chi2": Row(
        D.Chi2, lambda n: (positive(n),), stats.chi2, lambda n: positive(n), lacks=("icdf",)
    ),
    "inverse_gamma": Row(
        D.InverseGamma,
        lambda n: (positive(n) + 4, positive(n)),
        lambda a, rate: stats.invgamma(a, scale=rate),
        lambda n: positive(n),
        lacks=("icdf",),
    ),
    "beta": Row(
        D.Beta,
        lambda n: (positive(n), positive(n)),
        stats.beta,
        lambda n: RNG.uniform(0.05, 0.95, n),
        lacks=("cdf", "icdf"),
    ),
    "student_t": Row(
        D.StudentT,
        lambda n: (positive(n) + 4, real(n), positive(n)),
        stats.t,
        lambda n: real(n),
        lacks=("cdf", "icdf"),
    ),
    "cauchy": Row(
        D.Cauchy,
        lambda n: (real(n), positive(n)),
        stats.cauchy,
        lambda n: real(n),
        lacks=("mean", "variance", "stddev"),
    ),
    "half_cauchy": Row(
        D.HalfCauchy,
        lambda n: (positive(n),),
        lambda scale: stats.halfcauchy(scale=scale),
        lambda n: positive(n),
        lacks=("mean", "variance", "stddev"),
    ),
    "half_normal": Row(
        D.HalfNormal,
        lambda n: (positive(n),),
        lambda scale: stats.halfnorm(scale=scale),
        lambda n: positive(n),
    ),
    "gumbel": Row(
        D.Gumbel,
        lambda n: (real(n), positive(n)),
        stats.gumbel_r,
        lambda n: real(n),
    ),
    "poisson": Row(
        D.Poisson,
        lambda n: (RNG.uniform(0.1, 9.9, n),),
        stats.poisson,
        lambda n: RNG.integers(0, 9, n).astype(float),
        continuous=False,
        lacks=("entropy",),
    ),
    "poisson_of_many": Row(
        D.Poisson,
        lambda n: (RNG.uniform(10, 500, n),),
        stats.poisson,
        lambda n: RNG.integers(0, 500, n).astype(float),
        continuous=False,
        lacks=("entropy",),
    ),
    "geometric": Row(
        D.Geometric,
        lambda n: (RNG.uniform(0.1, 0.9, n),),
        lambda p: stats.geom(p, loc=-1),
        lambda n: RNG.integers(0, 9, n).astype(float),
        continuous=False,
    ),
    "geometric_of_logits": Row(
        lambda logits: D.Geometric(logits=logits),
        lambda n: (real(n),),
        lambda logits: stats.geom(1 / (1 + np.exp(-logits)), loc=-1),
        lambda n: RNG.integers(0, 9, n).astype(float),
        continuous=False,
    ),
    "negative_binomial": Row(
        D.NegativeBinomial,
        lambda n: (positive(n) * 5, RNG.uniform(0.1, 0.9, n)),
        lambda count, p: stats.nbinom(count, 1 - p),
        lambda n: RNG.integers(0, 9, n).astype(float),
        continuous=False,
        lacks=("entropy",),
    ),
    "binomial": Row(
        lambda p: D.Binomial(7, p),
        lambda n: (RNG.uniform(0.1, 0.9, n),),
        lambda p: stats.binom(7, p),
        lambda n: RNG.integers(0, 8, n).astype(float),
        continuous=False,
    ),
    "binomial_of_logits": Row(
        lambda logits: D.Binomial(7, logits=logits),
        lambda n: (real(n),),
        lambda logits: stats.binom(7, 1 / (1 + np.exp(-logits))),
        lambda n: RNG.integers(0, 8, n).astype(float),
        continuous=False,
    ),
}

REPARAMETRIZED = (
    "normal", "log_normal", "laplace", "exponential", "uniform", "cauchy", "half_cauchy",
    "half_normal", "gumbel",
)  # fmt: skip
"""Those whose draws, for one state of the generator, are differentiable functions of the
parameters. The others' are so at a fixed probability only, since they reject."""


def of_scipy(d: Any, continuous: bool, what: str, values: Any, chances: Any) -> Any:
    """What SciPy has by the name ``what`` of ours."""
    return {
        "log_prob": lambda: (d.logpdf if continuous else d.logpmf)(values),
        "mean": d.mean,
        "variance": d.var,
        "stddev": d.std,
        "entropy": d.entropy,
        "cdf": lambda: d.cdf(values),
        "icdf": lambda: d.ppf(chances),
    }[what]()
