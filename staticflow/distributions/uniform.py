"""Uniform distributions.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.graph.dims import Size
from staticflow.ops.basics.arithmetic import clamp, logical_and, where
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.random.sampling import (
    Source,
    gives_back,
    rand_like,
)

__all__ = ["Uniform"]


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
