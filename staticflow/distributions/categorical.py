"""Distributions of the numbers of classes: their samples have no gradient, their log
probabilities do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from staticflow.distributions.distribution import Distribution, as_tensors, one_of
from staticflow.distributions.probabilities import clamp_probs, values_along_first
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.cumulative import cumsum
from staticflow.ops.along.extremes import argmax
from staticflow.ops.along.softmax import logsumexp, softmax
from staticflow.ops.basics.arithmetic import cast, clamp, logical_and
from staticflow.ops.basics.expand import broadcast_tensors, expand
from staticflow.ops.elementwise.maths import floor, log
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.random.draws import real_dtype
from staticflow.ops.random.sampling import Source, gives_back, rand_like
from staticflow.ops.tensors.queries import finfo

__all__ = ["Categorical"]


class Categorical(Distribution):
    """Distributions of the numbers of classes: of class i with the probability ``probs[..., i]``.

    ``probs`` are numbers not below 0, divided by their sum; ``logits`` are logarithms of
    probabilities up to a constant. One of them is given, and its last dim is that of the classes.

    >>> import staticflow as sf
    >>> d = sf.distributions.Categorical(probs=sf.tensor([1.0, 3.0]))
    >>> d.probs, d.log_prob(sf.tensor(1)).exp()
    (tensor([0.2500, 0.7500]), tensor(0.7500))
    """

    has_enumerate_support = True
    own_dims: ClassVar[Mapping[str, int]] = {"probs": 1, "logits": 1}

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name = one_of("Categorical", probs=probs, logits=logits)
        (given,) = as_tensors("Categorical", probs if logits is None else logits)
        if given.ndim < 1:
            raise ShapeError(
                f"Categorical: {name} has no dims, and its last dim must be that of the classes, "
                f"at {format_locs(here())}"
            )
        super().__init__(given.shape[:-1], (), {name: given}, validate_args)
        if name == "probs":
            total = given.sum(-1, keepdim=True)
            fair = logical_and(given >= 0, total > 0)
            given = self._check(given, fair, "probs", "0 or more, with a sum above 0")
            self._probs, self._logits = given / total, None
        else:
            given = self._check(given, given == given, "logits", "numbers")
            self._probs, self._logits = None, given - logsumexp(given, -1, keepdim=True)

    @property
    def probs(self) -> Any:
        """The probabilities, whose sum is 1."""
        return softmax(self._logits, -1) if self._probs is None else self._probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities, finite also for those that were given as 0."""
        return log(clamp_probs(self._probs)) if self._logits is None else self._logits

    @property
    def param_shape(self) -> tuple[Size, ...]:
        """The shape of the parameter that was given."""
        return tuple(next(iter(self._params.values())).shape)

    @property
    def mean(self) -> Any:
        """NaN: numbers of classes have no mean."""
        return self._no_number()

    @property
    def variance(self) -> Any:
        """NaN: numbers of classes have no variance."""
        return self._no_number()

    def _no_number(self) -> Any:
        return self.probs.sum(-1) * float("nan")

    @property
    def mode(self) -> Any:
        """The number of the class of the highest probability, int64."""
        return argmax(self.probs, -1)

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Numbers of classes, int64, by the inverse of the running sums of the probabilities."""
        probs = self.probs.detach()
        below = cumsum(cast(probs, dtype=real_dtype(probs.dtype)), -1)
        total = expand(below[..., -1], self._extended_shape(sample_shape))
        chosen = rand_like(total, generator=generator) * total
        return (below <= chosen.unsqueeze(-1)).sum(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of the class ``value``, a whole number."""
        value, logits = broadcast_tensors(self._value_of_class(value).unsqueeze(-1), self.logits)
        return gather(logits, -1, value[..., :1]).squeeze(-1)

    def _value_of_class(self, value: Any) -> Any:
        x = self._value(value) if not hasattr(value, "__sf_mode__") else value
        classes = self.param_shape[-1]
        whole = logical_and(logical_and(x >= 0, x < classes), x == floor(x))
        must = f"the number of a class, from 0 to before {classes}"
        return cast(self._check(x, whole, "value", must), dtype=int64)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability, in nats."""
        logits = self.logits
        return -(clamp(logits, min=finfo(logits.dtype).min) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """The numbers of all classes along a new first dim, int64."""
        return values_along_first(
            self.probs, self.param_shape[-1], int64, self._batch_shape, expand
        )
