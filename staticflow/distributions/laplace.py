"""Laplace distributions.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from staticflow.distributions.distribution import LocationScale
from staticflow.graph.dims import Size
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import abs, expm1, log1p, sign
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.random.sampling import (
    Source,
    draw_exponential,
    gives_back,
    rand_like,
)

__all__ = ["Laplace"]


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
