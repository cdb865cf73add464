"""Exponential distributions.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.graph.dims import Size
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import expm1, log1p
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.random.sampling import (
    Source,
    draw_exponential,
    gives_back,
)

__all__ = ["Exponential"]


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
