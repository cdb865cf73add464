"""Binomial distributions: their samples have no gradient, their log probabilities do.

Formulas: N. L. Johnson, S. Kotz, A. W. Kemp, *Univariate Discrete Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.bernoulli import Bernoulli
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.probabilities import check_total_count, values_along_first
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.ops.basics.arithmetic import cast, logical_and
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.elementwise.activation import softplus
from staticflow.ops.elementwise.gamma import lgamma
from staticflow.ops.elementwise.maths import exp, floor
from staticflow.ops.random.sampling import Source, gives_back

__all__ = ["Binomial"]


class Binomial(Distribution):
    """Distributions of how many of ``total_count`` trials, an integer, succeed, each with the
    probability ``probs``; ``probs`` or ``logits`` are as in `Bernoulli`.

    >>> import staticflow as sf
    >>> d = sf.distributions.Binomial(4, probs=0.5)
    >>> d.variance, d.log_prob(2.0).exp()
    (tensor(1.), tensor(0.3750))
    """

    has_enumerate_support = True

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.total_count = check_total_count("Binomial", total_count)
        self._one = Bernoulli(probs, logits, validate_args)
        super().__init__(self._one.batch_shape, (), self._one._params, validate_args)

    def expand(self, batch_shape: Sequence[Size]) -> Any:
        """Repeats the distributions to a larger batch, without a copy of the parameters."""
        one = self._one.expand(batch_shape)
        made = type(self)(self.total_count, **one._params, validate_args=False)
        return made._validating(self._validates)

    @property
    def probs(self) -> Any:
        """The probability of a success."""
        return self._one.probs

    @property
    def logits(self) -> Any:
        """``log(probs / (1 - probs))``, finite also for 0 and 1."""
        return self._one.logits

    @property
    def mean(self) -> Any:
        """``total_count * probs``."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        """``(total_count + 1) * probs`` without its fraction, and ``total_count`` at most."""
        return floor((self.total_count + 1) * self.probs).clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        """``total_count * probs * (1 - probs)``."""
        return self.total_count * self.probs * (1 - self.probs)

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Counts in the dtype of the parameter, without a gradient: each trial is drawn."""
        drawn = self._one.sample((self.total_count, *as_sizes(sample_shape)), generator=generator)
        return cast(cast(drawn, dtype=int64).sum(0), dtype=self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of ``value``, a whole number up to ``total_count``."""
        n, x = self.total_count, self._value(value)
        whole = logical_and(logical_and(x >= 0, x <= n), x == floor(x))
        x = self._check(x, whole, "value", f"whole, from 0 to {n}")
        ways = lgamma(x * 0 + (n + 1)) - lgamma(x + 1) - lgamma(n - x + 1)
        # which neither overflows nor cancels for large odds of either kind
        logits = self.logits
        return ways - x * softplus(-logits) - (n - x) * softplus(logits)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability, in nats: a sum over all counts."""
        each = self.log_prob(self.enumerate_support())
        return -(exp(each) * each).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All counts along a new first dim."""
        p = self.probs
        return values_along_first(p, self.total_count + 1, p.dtype, self._batch_shape, expand)
