"""Distributions of real numbers, whose samples are functions of uniform or normal draws.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log, pi, sqrt
from typing import Any

from staticflow.distributions.distribution import Distribution, Symmetric, as_tensors
from staticflow.graph.dims import Size
from staticflow.ops.basics.arithmetic import clamp, logical_and, where
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import abs, exp, expm1, log1p, sign
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.elementwise.special import erfinv, ndtr
from staticflow.ops.random.sampling import (
    Source,
    draw_exponential,
    gives_back,
    rand_like,
    randn_like,
)

__all__ = ["Exponential", "Laplace", "LogNormal", "Normal", "Uniform"]


class LocationScale(Symmetric):
    """Distributions that are one around 0, stretched by ``scale``, which is above 0, and moved to
    ``loc``."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        loc, scale = as_tensors(type(self).__name__, loc, scale)
        super().__init__(loc.shape, (), {"loc": loc, "scale": scale}, validate_args)
        self.loc = self._check(loc, loc == loc, "loc", "a number")
        self.scale = self._check(scale, scale > 0, "scale", "above 0")


class Normal(LocationScale):
    """Normal distributions of the mean ``loc`` and the standard deviation ``scale``, which is
    above 0.

    >>> import staticflow as sf
    >>> sf.distributions.Normal(0.0, 1.0).log_prob(sf.tensor(0.0))
    tensor(-0.9189)
    """

    @property
    def stddev(self) -> Any:
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Any:
        """``scale ** 2``."""
        return self.scale.square()

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``loc + scale * z`` of standard normal draws ``z``, with that gradient."""
        loc = expand(self.loc, self._extended_shape(sample_shape))
        return loc + randn_like(loc, generator=generator) * self.scale

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        x = self._value(value)
        x = self._check(x, x == x, "value", "a number")
        z = (x - self.loc) / self.scale
        return z * z * -0.5 - log_of(self.scale) - log(2 * pi) / 2

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        return ndtr((self._value(value) - self.loc) / self.scale)

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return self.loc + self.scale * erfinv(self._value(value) * 2 - 1) * sqrt(2)

    def entropy(self) -> Any:
        """``log(scale * sqrt(2 pi e))``."""
        return log_of(self.scale) + log(2 * pi * e) / 2


class LogNormal(Normal):
    """Distributions of the exponentials of normal numbers of mean ``loc`` and deviation ``scale``.

    >>> import staticflow as sf
    >>> sf.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    @property
    def mean(self) -> Any:
        """``exp(loc + scale**2 / 2)``."""
        return exp(self.loc + self.scale.square() / 2)

    @property
    def mode(self) -> Any:
        """``exp(loc - scale**2)``."""
        return exp(self.loc - self.scale.square())

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        """``(exp(scale**2) - 1) * exp(2 loc + scale**2)``."""
        square = self.scale.square()
        return expm1(square) * exp(self.loc * 2 + square)

    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """The exponentials of normal draws, with that gradient."""
        return exp(super().rsample(sample_shape, generator=generator))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value above 0."""
        x = self._value(value)
        logarithm = log_of(self._check(x, x > 0, "value", "above 0"))
        return super().log_prob(logarithm) - logarithm

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        return super().cdf(log_of(self._value(value)))

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return exp(super().icdf(value))

    def entropy(self) -> Any:
        """Entropy of the normal distribution, plus ``loc``."""
        return super().entropy() + self.loc


class Laplace(LocationScale):
    """Laplace's distributions around ``loc``, whose distance from it has the mean ``scale``.

    >>> import staticflow as sf
    >>> sf.distributions.Laplace(0.0, 2.0).variance
    tensor(8.)
    """

    @property
    def variance(self) -> Any:
        """``2 scale**2``."""
        return self.scale.square() * 2

    @property
    def stddev(self) -> Any:
        """``sqrt(2) scale``."""
        return self.scale * sqrt(2)

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``loc`` and an exponential draw of either sign, with that gradient."""
        loc = expand(self.loc, self._extended_shape(sample_shape))
        side = where(rand_like(loc, generator=generator) < 0.5, -1.0, 1.0).to(loc.dtype)
        return loc + side * draw_exponential(loc, generator) * self.scale

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        x = self._value(value)
        x = self._check(x, x == x, "value", "a number")
        return -abs(x - self.loc) / self.scale - log_of(self.scale * 2)

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        z = (self._value(value) - self.loc) / self.scale
        return 0.5 - sign(z) * expm1(-abs(z)) * 0.5

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        centred = self._value(value) - 0.5
        return self.loc - self.scale * sign(centred) * log1p(abs(centred) * -2)

    def entropy(self) -> Any:
        """``1 + log(2 scale)``."""
        return log_of(self.scale * 2) + 1


class Exponential(Distribution):
    """Exponential distributions of waiting times whose mean is ``1 / rate``.

    >>> import staticflow as sf
    >>> sf.distributions.Exponential(4.0).mean
    tensor(0.2500)
    """

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (rate,) = as_tensors("Exponential", rate)
        super().__init__(rate.shape, (), {"rate": rate}, validate_args)
        self.rate = self._check(rate, rate > 0, "rate", "above 0")

    @property
    def mean(self) -> Any:
        """``1 / rate``."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        """0."""
        return self.rate * 0

    @property
    def stddev(self) -> Any:
        """``1 / rate``."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        """``1 / rate**2``."""
        return self.rate.square().reciprocal()

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Draws of rate 1, divided by ``rate``, with that gradient."""
        rate = expand(self.rate, self._extended_shape(sample_shape))
        return draw_exponential(rate, generator) / rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value that is not negative."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        return log_of(self.rate) - self.rate * x

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        return -expm1(-self.rate * x)

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return -log1p(-self._value(value)) / self.rate

    def entropy(self) -> Any:
        """``1 - log(rate)``."""
        return 1.0 - log_of(self.rate)


class Uniform(Distribution):
    """Uniform distributions from ``low`` to before ``high``, which is above it.

    >>> import staticflow as sf
    >>> sf.distributions.Uniform(0.0, 4.0).mean
    tensor(2.)
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        low, high = as_tensors("Uniform", low, high)
        super().__init__(low.shape, (), {"low": low, "high": high}, validate_args)
        self.low = self._check(low, low < high, "low", "below high")
        self.high = high

    @property
    def mean(self) -> Any:
        """``(low + high) / 2``."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        """NaN: no value is more probable than another."""
        return self.low * float("nan")

    @property
    def stddev(self) -> Any:
        """``(high - low) / sqrt(12)``."""
        return (self.high - self.low) / sqrt(12)

    @property
    def variance(self) -> Any:
        """``(high - low)**2 / 12``."""
        return (self.high - self.low).square() / 12

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``low + u * (high - low)`` of draws ``u`` from [0, 1), with that gradient."""
        low = expand(self.low, self._extended_shape(sample_shape))
        return low + rand_like(low, generator=generator) * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density; -inf at ``high``, which is no value of it."""
        x = self._value(value)
        x = self._check(x, logical_and(x >= self.low, x <= self.high), "value", "in [low, high]")
        inside = logical_and(x >= self.low, x < self.high)
        return where(inside, -log_of(self.high - self.low), float("-inf"))

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        return clamp((self._value(value) - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return self._value(value) * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        """``log(high - low)``."""
        return log_of(self.high - self.low)
