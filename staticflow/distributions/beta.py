"""Beta distributions.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.distributions.gamma_draws import draw_log_gamma
from staticflow.graph.dims import Size
from staticflow.nn.functional.activations import sigmoid
from staticflow.ops.basics.arithmetic import clamp, logical_and, where
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.gamma import digamma, lgamma
from staticflow.ops.elementwise.pairs import xlogy
from staticflow.ops.random.sampling import Source, gives_back
from staticflow.ops.tensors.queries import finfo
from staticflow.special import xlog1py

__all__ = ["Beta"]


class Beta(Distribution):
    """Beta distributions of numbers from 0 to 1, with the density ``x**(concentration1 - 1) *
    (1 - x)**(concentration0 - 1)`` up to a constant; both parameters are above 0.

    >>> import staticflow as sf
    >>> sf.distributions.Beta(3.0, 1.0).mean
    tensor(0.7500)
    """

    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        one, zero = as_tensors("Beta", concentration1, concentration0)
        given = {"concentration1": one, "concentration0": zero}
        super().__init__(one.shape, (), given, validate_args)
        self.concentration1 = self._check(one, one > 0, "concentration1", "above 0")
        self.concentration0 = self._check(zero, zero > 0, "concentration0", "above 0")

    @property
    def mean(self) -> Any:
        """``concentration1 / (concentration1 + concentration0)``."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        """The value of the highest density where both parameters are 1 or more; else 0 or 1, on the
        side of the smaller one, and NaN where the two are equal."""
        one, zero = self.concentration1 - 1, self.concentration0 - 1
        ends = where(one > zero, 1.0, where(one < zero, 0.0, float("nan"))).to(one.dtype)
        return where(logical_and(one >= 0, zero >= 0), one / (one + zero), ends)

    @property
    def variance(self) -> Any:
        """``mean * (1 - mean) / (concentration1 + concentration0 + 1)``."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """The share of one of two draws of gamma distributions, with gradients by both parameters;
        never 0 or 1."""
        shape = self._extended_shape(sample_shape)
        one = draw_log_gamma(expand(self.concentration1, shape), generator)
        zero = draw_log_gamma(expand(self.concentration0, shape), generator)
        limits = finfo(one.dtype)
        return clamp(sigmoid(one - zero), limits.tiny, 1 - limits.eps / 2)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value from 0 to 1."""
        x = self._value(value)
        x = self._check(x, logical_and(x >= 0, x <= 1), "value", "from 0 to 1")
        powers = xlogy(self.concentration1 - 1, x) + xlog1py(self.concentration0 - 1, -x)
        return powers - self._log_constant()

    def entropy(self) -> Any:
        """The expected negative logarithm of the density, in nats."""
        one, zero = self.concentration1, self.concentration0
        rest = (one + zero - 2) * digamma(one + zero)
        return self._log_constant() - (one - 1) * digamma(one) - (zero - 1) * digamma(zero) + rest

    def _log_constant(self) -> Any:
        one, zero = self.concentration1, self.concentration0
        return lgamma(one) + lgamma(zero) - lgamma(one + zero)
