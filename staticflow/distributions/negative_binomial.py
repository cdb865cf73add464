"""Negative binomial distributions: their samples have no gradient, their log probabilities do.

Formulas: N. L. Johnson, S. Kotz, A. W. Kemp, *Univariate Discrete Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors, one_of
from staticflow.distributions.gamma_draws import draw_log_gamma
from staticflow.distributions.poisson import draw_counts
from staticflow.distributions.probabilities import log_odds_of, probs_of
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import float64
from staticflow.nn.functional.activations import sigmoid
from staticflow.ops.basics.arithmetic import cast, logical_and
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.gamma import lgamma
from staticflow.ops.elementwise.maths import exp, floor
from staticflow.ops.random.sampling import Source, gives_back

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Distribution):
    """Distributions of how often a trial succeeds, with the probability ``probs``, before it has
    failed ``total_count`` times, a number above 0 that need not be whole; ``logits`` are the
    logarithms of the odds. One of the two is given.

    >>> import staticflow as sf
    >>> sf.distributions.NegativeBinomial(2.0, 0.75).mean
    tensor(6.)
    """

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name = one_of("NegativeBinomial", probs=probs, logits=logits)
        given = probs if logits is None else logits
        count, given = as_tensors("NegativeBinomial", total_count, given)
        super().__init__(count.shape, (), {"total_count": count, name: given}, validate_args)
        self.total_count = self._check(count, count > 0, "total_count", "above 0")
        if name == "probs":
            given = self._check(given, logical_and(given >= 0, given < 1), "probs", "in [0, 1)")
        else:
            given = self._check(given, given == given, "logits", "numbers")
        self._probs: Any = given if name == "probs" else None
        self._logits: Any = given if name == "logits" else None

    @property
    def probs(self) -> Any:
        """The probability that a trial succeeds."""
        return probs_of(self._probs, self._logits)

    @property
    def logits(self) -> Any:
        """``log(probs / (1 - probs))``, finite also for 0."""
        return log_odds_of(self._probs, self._logits)

    @property
    def mean(self) -> Any:
        """``total_count * probs / (1 - probs)``."""
        return self.total_count * exp(self.logits)

    @property
    def mode(self) -> Any:
        """``(total_count - 1) * probs / (1 - probs)`` without its fraction, and 0 at least."""
        return floor((self.total_count - 1) * exp(self.logits)).relu()

    @property
    def variance(self) -> Any:
        """``mean / (1 - probs)``."""
        return self.mean / sigmoid(-self.logits)

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Counts of Poisson's distributions, whose means are drawn of gamma distributions."""
        shape = self._extended_shape(sample_shape)
        count = cast(expand(self.total_count.detach(), shape), dtype=float64)
        odds = cast(self.logits.detach(), dtype=float64)
        rate = exp(draw_log_gamma(count, generator) + odds)
        return cast(draw_counts(rate, generator), dtype=self.total_count.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of ``value``, a whole number that is not negative."""
        x = self._value(value)
        x = self._check(x, logical_and(x >= 0, x == floor(x)), "value", "whole and 0 or more")
        count, logits = self.total_count, self.logits
        ways = lgamma(count + x) - lgamma(x + 1) - lgamma(count)
        return count * logsigmoid(-logits) + x * logsigmoid(logits) + ways
