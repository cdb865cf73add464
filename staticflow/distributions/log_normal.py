"""Distributions of numbers whose logarithms are normal.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.normal import Normal
from staticflow.graph.dims import Size
from staticflow.ops.elementwise.maths import exp, expm1
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.random.sampling import (
    Source,
)

__all__ = ["LogNormal"]


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
