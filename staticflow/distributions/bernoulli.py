"""Distributions of 0 and 1: their samples have no gradient, their log probabilities do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors, one_of
from staticflow.distributions.probabilities import log_odds_of, probs_of, values_along_first
from staticflow.graph.dims import Size
from staticflow.nn.functional.losses import binary_cross_entropy_with_logits
from staticflow.ops.basics.arithmetic import cast, logical_and, logical_or, where
from staticflow.ops.basics.expand import broadcast_tensors, expand
from staticflow.ops.random.draws import real_dtype
from staticflow.ops.random.sampling import Source, gives_back, rand_like

__all__ = ["Bernoulli"]


class Bernoulli(Distribution):
    """Distributions of 1, with the probability ``probs``, and 0; ``logits`` are the logarithms of
    the odds. One of them is given.

    >>> import staticflow as sf
    >>> sf.distributions.Bernoulli(probs=sf.tensor([0.25, 0.5])).variance
    tensor([0.1875, 0.2500])
    """

    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name = one_of("Bernoulli", probs=probs, logits=logits)
        (given,) = as_tensors("Bernoulli", probs if logits is None else logits)
        super().__init__(given.shape, (), {name: given}, validate_args)
        if name == "probs":
            fair = logical_and(given >= 0, given <= 1)
            given = self._check(given, fair, "probs", "from 0 to 1")
        else:
            given = self._check(given, given == given, "logits", "numbers")
        self._probs: Any = given if name == "probs" else None
        self._logits: Any = given if name == "logits" else None

    @property
    def probs(self) -> Any:
        """The probability of 1."""
        return probs_of(self._probs, self._logits)

    @property
    def logits(self) -> Any:
        """``log(probs / (1 - probs))``, finite also for 0 and 1."""
        return log_odds_of(self._probs, self._logits)

    @property
    def mean(self) -> Any:
        """``probs``."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The value of the higher probability; NaN where both are 0.5."""
        p = self.probs
        return where(p == 0.5, float("nan"), cast(p >= 0.5, dtype=p.dtype))

    @property
    def variance(self) -> Any:
        """``probs * (1 - probs)``."""
        return self.probs * (1 - self.probs)

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Zeros and ones in the dtype of the parameter, without a gradient."""
        p = expand(self.probs, self._extended_shape(sample_shape))
        drawn = rand_like(p, generator=generator, dtype=real_dtype(p.dtype))
        return cast(drawn < p, dtype=p.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of ``value``, which is 0 or 1."""
        x = self._value(value)
        x = self._check(x, logical_or(x == 0, x == 1), "value", "0 or 1")
        logits, x = broadcast_tensors(self.logits, x)
        return -binary_cross_entropy_with_logits(logits, x, reduction="none")

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability, in nats."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 and 1 along a new first dim."""
        p = self.probs
        return values_along_first(p, 2, p.dtype, self._batch_shape, expand)
