"""Gumbel's distributions.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from staticflow.distributions.distribution import LocationScale
from staticflow.graph.dims import Size
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import exp, log
from staticflow.ops.random.sampling import Source, draw_exponential, gives_back

__all__ = ["EULER_GAMMA", "Gumbel"]

EULER_GAMMA = 0.5772156649015329
"""The mean of Gumbel's distribution around 0 of the scale 1."""


class Gumbel(LocationScale):
    """Gumbel's distributions of the largest of many numbers around ``loc``, stretched by ``scale``,
    which is above 0.

    >>> import staticflow as sf
    >>> sf.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    @property
    def mean(self) -> Any:
        """``loc + 0.5772... * scale``."""
        return self.loc + self.scale * EULER_GAMMA

    @property
    def variance(self) -> Any:
        """``(pi * scale)**2 / 6``."""
        return self.scale.square() * (pi**2 / 6)

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``loc - scale * log(w)`` of exponential draws w, with that gradient."""
        loc = expand(self.loc, self._extended_shape(sample_shape))
        return loc - log(draw_exponential(loc, generator)) * self.scale

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        x = self._value(value)
        x = self._check(x, x == x, "value", "a number")
        z = (x - self.loc) / self.scale
        return -z - exp(-z) - log(self.scale)

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        return exp(-exp((self.loc - self._value(value)) / self.scale))

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return self.loc - log(-log(self._value(value))) * self.scale

    def entropy(self) -> Any:
        """``log(scale) + 1.5772...``."""
        return log(self.scale) + (1 + EULER_GAMMA)
