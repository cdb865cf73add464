"""Distributions of the absolute values of normal numbers.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log, pi, sqrt
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.graph.dims import Size
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import abs
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.elementwise.special import erf, erfinv
from staticflow.ops.random.sampling import Source, gives_back, randn_like

__all__ = ["HalfNormal"]


class HalfNormal(Distribution):
    """Distributions of the absolute values of normal numbers of the mean 0 and the standard
    deviation ``scale``, which is above 0.

    >>> import staticflow as sf
    >>> sf.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (scale,) = as_tensors("HalfNormal", scale)
        super().__init__(scale.shape, (), {"scale": scale}, validate_args)
        self.scale = self._check(scale, scale > 0, "scale", "above 0")

    @property
    def mean(self) -> Any:
        """``scale * sqrt(2 / pi)``."""
        return self.scale * sqrt(2 / pi)

    @property
    def mode(self) -> Any:
        """0."""
        return self.scale * 0

    @property
    def variance(self) -> Any:
        """``scale**2 * (1 - 2 / pi)``."""
        return self.scale.square() * (1 - 2 / pi)

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Absolute values of normal draws, times ``scale``, with that gradient."""
        scale = expand(self.scale, self._extended_shape(sample_shape))
        return abs(randn_like(scale, generator=generator)) * scale

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value that is not negative."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        return (x / self.scale).square() * -0.5 - log_of(self.scale) + log(2 / pi) / 2

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``, which is not negative."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        return erf(x / (self.scale * sqrt(2)))

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return erfinv(self._value(value)) * self.scale * sqrt(2)

    def entropy(self) -> Any:
        """``log(scale * sqrt(pi e / 2))``."""
        return log_of(self.scale) + log(pi * e / 2) / 2
