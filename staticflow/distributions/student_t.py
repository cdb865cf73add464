"""Student's distributions.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Continuous Univariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma as lgamma_of
from math import pi
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.distributions.gamma_draws import draw_log_gamma
from staticflow.graph.dims import Size
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.gamma import digamma, lgamma
from staticflow.ops.elementwise.maths import exp, log, log1p
from staticflow.ops.random.sampling import Source, gives_back, randn_like

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's distributions of ``df`` degrees of freedom around ``loc``, stretched by ``scale``;
    ``df`` and ``scale`` are above 0.

    >>> import staticflow as sf
    >>> sf.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        df, loc, scale = as_tensors("StudentT", df, loc, scale)
        super().__init__(df.shape, (), {"df": df, "loc": loc, "scale": scale}, validate_args)
        self.df = self._check(df, df > 0, "df", "above 0")
        self.loc = self._check(loc, loc == loc, "loc", "a number")
        self.scale = self._check(scale, scale > 0, "scale", "above 0")

    @property
    def mean(self) -> Any:
        """``loc``, and NaN for a ``df`` of 1 and less."""
        return where(self.df > 1, self.loc, float("nan"))

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """``scale**2 * df / (df - 2)``; infinite for a ``df`` of 2 and less, NaN of 1 and less."""
        found = self.scale.square() * self.df / (self.df - 2)
        none = where(self.df > 1, float("inf"), float("nan")).to(found.dtype)
        return where(self.df > 2, found, none)

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Normal draws divided by roots of gamma draws, with gradients by all parameters."""
        half = expand(self.df, self._extended_shape(sample_shape)) * 0.5
        z = randn_like(half, generator=generator)
        spread = exp((log(half) - draw_log_gamma(half, generator)) * 0.5)
        return self.loc + self.scale * z * spread

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        x = self._value(value)
        x = self._check(x, x == x, "value", "a number")
        z, half = (x - self.loc) / self.scale, self.df * 0.5
        constant = lgamma(half + 0.5) - lgamma(half) - log(self.scale)
        powers = (half + 0.5) * log1p(z.square() / self.df)
        return constant - log(self.df * pi) * 0.5 - powers

    def entropy(self) -> Any:
        """The expected negative logarithm of the density, in nats."""
        half = self.df * 0.5
        log_beta = lgamma(half) + lgamma_of(0.5) - lgamma(half + 0.5)
        of_df = (half + 0.5) * (digamma(half + 0.5) - digamma(half))
        return of_df + log(self.df) * 0.5 + log_beta + log(self.scale)
