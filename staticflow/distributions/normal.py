"""Normal distributions.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log, pi, sqrt
from typing import Any

from staticflow.distributions.distribution import LocationScale
from staticflow.graph.dims import Size
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.elementwise.special import erfinv, ndtr
from staticflow.ops.random.sampling import (
    Source,
    gives_back,
    randn_like,
)

__all__ = ["Normal"]


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
