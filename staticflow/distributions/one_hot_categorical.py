"""Distributions of classes as vectors of one 1: samples have no gradient, log probabilities do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from staticflow.distributions.categorical import Categorical
from staticflow.distributions.distribution import Distribution
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.ops.along.extremes import argmax
from staticflow.ops.basics.arithmetic import cast, logical_and, logical_or
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import expand as expand_to
from staticflow.ops.random.sampling import Source, gives_back

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """Distributions of vectors (..., classes) of one 1 among zeros, which stands at the class i
    with the probability ``probs[..., i]``; ``probs`` or ``logits`` are as in `Categorical`.

    >>> import staticflow as sf
    >>> d = sf.distributions.OneHotCategorical(probs=sf.tensor([1.0, 3.0]))
    >>> d.log_prob(sf.tensor([0.0, 1.0])).exp()
    tensor(0.7500)
    """

    has_enumerate_support = True
    own_dims: ClassVar[Mapping[str, int]] = {"probs": 1, "logits": 1}

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._one = Categorical(probs, logits, validate_args)
        classes = self._one.param_shape[-1:]
        super().__init__(self._one.batch_shape, classes, self._one._params, validate_args)

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
        """``probs``."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The vector of the class of the highest probability."""
        return self._as_vectors(self._one.mode)

    @property
    def variance(self) -> Any:
        """``probs * (1 - probs)``."""
        return self.probs * (1 - self.probs)

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Vectors in the dtype of the parameter, without a gradient."""
        return self._as_vectors(self._one.sample(sample_shape, generator=generator))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of a vector of one 1 among zeros."""
        x = self._value(value)
        fair = logical_and(logical_or(x == 0, x == 1).all(-1), x.sum(-1) == 1).unsqueeze(-1)
        x = self._check(x, fair, "value", "0, but for one 1 in each vector")
        return self._one.log_prob(argmax(x, -1))

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability, in nats."""
        return self._one.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        """The vectors of all classes along a new first dim."""
        found = self._as_vectors(self._one.enumerate_support(expand=False))
        if not expand:
            return found
        return expand_to(found, (found.shape[0], *self._batch_shape, *self._event_shape))

    def _as_vectors(self, classes: Any) -> Any:
        numbers = iota.beside(classes, shape=self.param_shape[-1:], dim=0, dtype=int64)
        return cast(classes.unsqueeze(-1) == numbers, dtype=self.probs.dtype)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples have the gradient of their probabilities (Y. Bengio,
    N. Léonard, A. Courville, *Estimating or propagating gradients through stochastic neurons*,
    2013).

    >>> import staticflow as sf
    >>> logits = sf.zeros(3, requires_grad=True)
    >>> d = sf.distributions.OneHotCategoricalStraightThrough(logits=logits)
    >>> d.rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Vectors of one 1 among zeros, with the gradient of ``probs``, which is not their own."""
        probs = self.probs
        return self.sample(sample_shape, generator=generator) + (probs - probs.detach())
