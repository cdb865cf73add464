"""Distributions of how often each class is drawn: their samples have no gradient, their log
probabilities do.

Formulas: N. L. Johnson, S. Kotz, N. Balakrishnan, *Discrete Multivariate Distributions*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from staticflow.distributions.categorical import Categorical
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.probabilities import check_total_count, clamp_probs
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import float64, int64
from staticflow.ops.basics.arithmetic import cast, logical_and, where
from staticflow.ops.basics.creation import iota
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.elementwise.gamma import lgamma
from staticflow.ops.elementwise.maths import exp, floor, log, log1p
from staticflow.ops.random.sampling import Source, gives_back

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """Distributions of how often each class comes in ``total_count`` independent draws, an integer,
    of the class i with the probability ``probs[..., i]``; ``probs`` or ``logits`` are as in
    `Categorical`. A value is (..., classes): whole numbers whose sum is ``total_count``.

    >>> import staticflow as sf
    >>> d = sf.distributions.Multinomial(4, probs=sf.tensor([1.0, 3.0]))
    >>> d.mean, d.log_prob(sf.tensor([1.0, 3.0])).exp()
    (tensor([1., 3.]), tensor(0.4219))
    """

    own_dims: ClassVar[Mapping[str, int]] = {"probs": 1, "logits": 1}

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.total_count = check_total_count("Multinomial", total_count)
        self._one = Categorical(probs, logits, validate_args)
        classes = self._one.param_shape[-1:]
        super().__init__(self._one.batch_shape, classes, self._one._params, validate_args)

    def expand(self, batch_shape: Sequence[Size]) -> Any:
        """Repeats the distributions to a larger batch, without a copy of the parameters."""
        one = self._one.expand(batch_shape)
        made = type(self)(self.total_count, **one._params, validate_args=False)
        return made._validating(self._validates)

    @property
    def probs(self) -> Any:
        """The probabilities of the classes, whose sum is 1."""
        return self._one.probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities, finite also for those that were given as 0."""
        return self._one.logits

    @property
    def param_shape(self) -> tuple[Size, ...]:
        """The shape of the parameter that was given."""
        return self._one.param_shape

    @property
    def mean(self) -> Any:
        """``total_count * probs``."""
        return self.total_count * self.probs

    @property
    def variance(self) -> Any:
        """``total_count * probs * (1 - probs)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability, in nats. Of each class, how often it
        comes is binomial, by which the expected logarithms of factorials are sums over all counts,
        in float64, since large ones cancel.
        """
        probs = clamp_probs(self.probs)
        n, p = self.total_count, cast(probs, dtype=float64).unsqueeze(-1)
        counts = iota.beside(p, shape=(n + 1,), dim=0, dtype=p.dtype)
        factorials = lgamma(counts + 1)
        ways = lgamma(n + 1.0 + 0 * counts) - factorials - lgamma(n - counts + 1)
        chances = exp(ways + counts * log(p) + (n - counts) * log1p(-p))
        expected = (chances * factorials).sum(-1).sum(-1)
        of_one = -(p * log(p)).squeeze(-1).sum(-1)
        return cast(n * of_one - factorials[-1] + expected, dtype=probs.dtype)

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """How often each class comes, in the dtype of the parameter, without a gradient."""
        drawn = self._one.sample((self.total_count, *as_sizes(sample_shape)), generator=generator)
        numbers = iota.beside(drawn, shape=self.param_shape[-1:], dim=0, dtype=int64)
        counts = cast(drawn.unsqueeze(-1) == numbers, dtype=int64).sum(0)
        return cast(counts, dtype=self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of the numbers ``value`` (..., classes)."""
        x = self._value(value)
        counts = logical_and(x >= 0, x == floor(x)).all(-1)
        right = logical_and(counts, x.sum(-1) == self.total_count).unsqueeze(-1)
        must = f"whole numbers, 0 or more, whose sum is {self.total_count}"
        x = self._check(x, right, "value", must)
        never = logical_and(x == 0, self.logits == -float("inf"))
        each = where(never, 0.0, self.logits) * x
        return lgamma(x.sum(-1) + 1) - lgamma(x + 1).sum(-1) + each.sum(-1)
