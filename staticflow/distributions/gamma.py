"""Gamma distributions, those of squares and of reciprocals among them.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.distributions.gamma_draws import draw_log_gamma
from staticflow.distributions.gamma_integral import gamma_below
from staticflow.graph.dims import Size
from staticflow.ops.basics.arithmetic import clamp, where
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.gamma import digamma, lgamma
from staticflow.ops.elementwise.maths import exp, log
from staticflow.ops.elementwise.pairs import xlogy
from staticflow.ops.random.sampling import Source, gives_back
from staticflow.ops.tensors.queries import finfo

__all__ = ["Chi2", "Gamma", "InverseGamma"]


class Gamma(Distribution):
    """Gamma distributions of the shape ``concentration`` and the ``rate``, both above 0.

    >>> import staticflow as sf
    >>> sf.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        shape, rate = as_tensors(type(self).__name__, concentration, rate)
        super().__init__(shape.shape, (), {"concentration": shape, "rate": rate}, validate_args)
        self.concentration = self._check(shape, shape > 0, "concentration", "above 0")
        self.rate = self._check(rate, rate > 0, "rate", "above 0")

    @property
    def mean(self) -> Any:
        """``concentration / rate``."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        """``(concentration - 1) / rate``, and 0 where the concentration is below 1."""
        return clamp(self.concentration - 1, min=0.0) / self.rate

    @property
    def variance(self) -> Any:
        """``concentration / rate**2``."""
        return self.concentration / self.rate.square()

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Draws with gradients by both parameters, to any order; none is smaller than the least
        normal number of the dtype."""
        shape = expand(self.concentration, self._extended_shape(sample_shape))
        drawn = exp(draw_log_gamma(shape, generator) - log(self.rate))
        return clamp(drawn, min=finfo(drawn.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value that is not negative."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        shape = self.concentration
        return xlogy(shape, self.rate) + xlogy(shape - 1, x) - self.rate * x - lgamma(shape)

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``, within 1e-13 in float64."""
        x = self._value(value)
        x = self._check(x, x >= 0, "value", "0 or more")
        return gamma_below(self.concentration, x * self.rate)

    def entropy(self) -> Any:
        """The expected negative logarithm of the density, in nats."""
        shape = self.concentration
        return shape - log(self.rate) + lgamma(shape) + (1.0 - shape) * digamma(shape)


class Chi2(Gamma):
    """Distributions of sums of ``df`` squares of standard normal numbers; ``df``, above 0, need not
    be a whole number.

    >>> import staticflow as sf
    >>> sf.distributions.Chi2(4.0).variance
    tensor(8.)
    """

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = as_tensors("Chi2", df)
        df = self._check(df, df > 0, "df", "above 0") if validate_args is not False else df
        super().__init__(df * 0.5, 0.5, validate_args=validate_args)
        self._params = {"df": df}

    @property
    def df(self) -> Any:
        """How many squares are added."""
        return self._params["df"]


class InverseGamma(Distribution):
    """Distributions of reciprocals of numbers of the gamma distributions of that ``concentration``
    and ``rate``, both above 0.

    >>> import staticflow as sf
    >>> sf.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        shape, rate = as_tensors("InverseGamma", concentration, rate)
        super().__init__(shape.shape, (), {"concentration": shape, "rate": rate}, validate_args)
        self.concentration = self._check(shape, shape > 0, "concentration", "above 0")
        self.rate = self._check(rate, rate > 0, "rate", "above 0")

    @property
    def mean(self) -> Any:
        """``rate / (concentration - 1)``, and infinite for a concentration of 1 and less."""
        excess = self.concentration - 1
        return where(excess > 0, self.rate / excess, float("inf"))

    @property
    def mode(self) -> Any:
        """``rate / (concentration + 1)``."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """``mean**2 / (concentration - 2)``, and infinite for a concentration of 2 and less."""
        shape = self.concentration
        found = (self.rate / (shape - 1)).square() / (shape - 2)
        return where(shape > 2, found, float("inf"))

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Reciprocals of draws of the gamma distribution, with gradients by both parameters."""
        shape = expand(self.concentration, self._extended_shape(sample_shape))
        return exp(log(self.rate) - draw_log_gamma(shape, generator))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value above 0."""
        x = self._value(value)
        x = self._check(x, x > 0, "value", "above 0")
        shape = self.concentration
        return shape * log(self.rate) - lgamma(shape) - (shape + 1) * log(x) - self.rate / x

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        x = self._value(value)
        x = self._check(x, x > 0, "value", "above 0")
        return 1.0 - gamma_below(self.concentration, self.rate / x)

    def entropy(self) -> Any:
        """The expected negative logarithm of the density, in nats."""
        shape = self.concentration
        return shape + log(self.rate) + lgamma(shape) - (shape + 1) * digamma(shape)
