"""Dirichlet distributions.

Formulas: S. Kotz, N. Balakrishnan, N. L. Johnson, *Continuous Multivariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.distributions.gamma_draws import draw_log_gamma
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.softmax import softmax
from staticflow.ops.basics.arithmetic import logical_and
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.gamma import digamma, lgamma
from staticflow.ops.elementwise.maths import abs
from staticflow.ops.elementwise.pairs import xlogy
from staticflow.ops.random.sampling import Source, gives_back
from staticflow.ops.tensors.queries import finfo

__all__ = ["Dirichlet"]


class Dirichlet(Distribution):
    """Dirichlet distributions of shares (..., K), which are 0 or more and add up to 1; the
    parameter ``concentration`` (..., K) is above 0.

    >>> import staticflow as sf
    >>> sf.distributions.Dirichlet(sf.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    has_rsample = True
    own_dims: ClassVar[Mapping[str, int]] = {"concentration": 1}

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        (given,) = as_tensors("Dirichlet", concentration)
        if given.ndim < 1:
            raise ShapeError(
                "Dirichlet: the concentration has no dims, and its last dim must be that of the "
                f"shares, at {format_locs(here())}"
            )
        shape = given.shape
        super().__init__(shape[:-1], shape[-1:], {"concentration": given}, validate_args)
        self.concentration = self._check(given, given > 0, "concentration", "above 0")

    @property
    def mean(self) -> Any:
        """``concentration`` divided by its sum."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Any:
        """The shares of the highest density where no concentration is below 1; where one is, NaN:
        the density has no bound."""
        less = self.concentration - 1
        found = less / less.sum(-1, keepdim=True)
        return found.masked_fill((less < 0).any(-1, keepdim=True), float("nan"))

    @property
    def variance(self) -> Any:
        """``mean * (1 - mean) / (sum of concentration + 1)``."""
        mean = self.mean
        return mean * (1 - mean) / (self.concentration.sum(-1, keepdim=True) + 1)

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """The shares of draws of gamma distributions, with that gradient."""
        given = expand(self.concentration, self._extended_shape(sample_shape))
        return softmax(draw_log_gamma(given, generator), -1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of shares (..., K)."""
        x = self._value(value)
        slack = finfo(x.dtype).eps * 64
        fair = logical_and((x >= 0).all(-1), abs(x.sum(-1) - 1) < slack).unsqueeze(-1)
        x = self._check(x, fair, "value", "0 or more, with a sum of 1")
        return xlogy(self.concentration - 1, x).sum(-1) - self._log_constant()

    def entropy(self) -> Any:
        """The expected negative logarithm of the density, in nats."""
        given = self.concentration
        total, count = given.sum(-1), self._event_shape[0]
        of_each = ((given - 1) * digamma(given)).sum(-1)
        return self._log_constant() + (total - count) * digamma(total) - of_each

    def _log_constant(self) -> Any:
        given = self.concentration
        return lgamma(given).sum(-1) - lgamma(given.sum(-1))
