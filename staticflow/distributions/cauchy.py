"""Cauchy's distributions, and those of the distance from their middle.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log as log_of
from math import pi
from typing import Any

from staticflow.distributions.distribution import Distribution, LocationScale, as_tensors
from staticflow.graph.dims import Size
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import abs, log, log1p
from staticflow.ops.elementwise.trig import atan, tan
from staticflow.ops.random.draws import real_dtype
from staticflow.ops.random.sampling import Source, gives_back, rand_like

__all__ = ["Cauchy", "HalfCauchy"]


class Cauchy(LocationScale):
    """Cauchy's distributions around ``loc``, stretched by ``scale``, which is above 0.

    >>> import staticflow as sf
    >>> sf.distributions.Cauchy(0.0, 1.0).cdf(1.0)
    tensor(0.7500)
    """

    @property
    def mean(self) -> Any:
        """NaN: there is none."""
        return self.loc * float("nan")

    @property
    def variance(self) -> Any:
        """Infinite."""
        return self.scale * float("inf")

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``loc + scale * tan(pi * (u - 1 / 2))`` of uniform draws u, with that gradient."""
        loc = expand(self.loc, self._extended_shape(sample_shape))
        drawn = rand_like(loc, generator=generator, dtype=real_dtype(loc.dtype)) - 0.5
        return loc + tan(drawn * pi).to(loc.dtype) * self.scale

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        x = self._value(value)
        x = self._check(x, x == x, "value", "a number")
        return -log1p(((x - self.loc) / self.scale).square()) - log(self.scale) - log_of(pi)

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        return atan((self._value(value) - self.loc) / self.scale) / pi + 0.5

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return tan((self._value(value) - 0.5) * pi) * self.scale + self.loc

    def entropy(self) -> Any:
        """``log(4 pi scale)``."""
        return log(self.scale) + log_of(4 * pi)


class HalfCauchy(Distribution):
    """Distributions of the absolute values of numbers of Cauchy's distributions around 0, stretched
    by ``scale``, which is above 0.

    >>> import staticflow as sf
    >>> sf.distributions.HalfCauchy(2.0).cdf(2.0)
    tensor(0.5000)
    """

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (scale,) = as_tensors("HalfCauchy", scale)
        super().__init__(scale.shape, (), {"scale": scale}, validate_args)
        self.scale = self._check(scale, scale > 0, "scale", "above 0")

    @property
    def mean(self) -> Any:
        """Infinite."""
        return self.scale * float("inf")

    @property
    def mode(self) -> Any:
        """0."""
        return self.scale * 0

    @property
    def variance(self) -> Any:
        """Infinite."""
        return self.scale * float("inf")

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Absolute values of draws of Cauchy's distributions, with that gradient."""
        return abs(self._whole().rsample(sample_shape, generator=generator))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value that is not negative."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        return self._whole().log_prob(x) + log_of(2)

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``, which is not negative."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        return atan(x / self.scale) * (2 / pi)

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return tan(self._value(value) * (pi / 2)) * self.scale

    def entropy(self) -> Any:
        """``log(2 pi scale)``."""
        return log(self.scale) + log_of(2 * pi)

    def _whole(self) -> Cauchy:
        return Cauchy(self.scale * 0, self.scale, validate_args=False)
