"""Geometric distributions: their samples have no gradient, their log probabilities do.

Formulas: N. L. Johnson, S. Kotz, A. W. Kemp, *Univariate Discrete Distributions*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors, one_of
from staticflow.distributions.probabilities import log_odds_of, probs_of
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import float64
from staticflow.nn.functional.losses import binary_cross_entropy_with_logits
from staticflow.ops.basics.arithmetic import cast, logical_and
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import floor, log, log1p
from staticflow.ops.random.sampling import Source, draw_exponential, gives_back
from staticflow.special import xlog1py

__all__ = ["Geometric"]


class Geometric(Distribution):
    """Distributions of how often a trial fails before it succeeds, with the probability ``probs``,
    above 0 and 1 at most; ``logits`` are the logarithms of the odds. One of them is given.

    >>> import staticflow as sf
    >>> sf.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name = one_of("Geometric", probs=probs, logits=logits)
        (given,) = as_tensors("Geometric", probs if logits is None else logits)
        super().__init__(given.shape, (), {name: given}, validate_args)
        if name == "probs":
            given = self._check(given, logical_and(given > 0, given <= 1), "probs", "in (0, 1]")
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
        """``log(probs / (1 - probs))``, finite also for 1."""
        return log_odds_of(self._probs, self._logits)

    @property
    def mean(self) -> Any:
        """``1 / probs - 1``."""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        """0."""
        return self.probs * 0

    @property
    def variance(self) -> Any:
        """``(1 / probs - 1) / probs``."""
        return (1 / self.probs - 1) / self.probs

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Counts of failures in the dtype of the parameter, without a gradient."""
        p = expand(self.probs.detach(), self._extended_shape(sample_shape))
        p = cast(p, dtype=float64)
        return cast(floor(draw_exponential(p, generator) / -log1p(-p)), dtype=self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of ``value``, a whole number that is not negative."""
        x = self._value(value)
        x = self._check(x, logical_and(x >= 0, x == floor(x)), "value", "whole and 0 or more")
        return xlog1py(x, -self.probs) + log(self.probs)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability, in nats."""
        each = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return each / self.probs
