"""Distributions of 0 and 1, and of classes, that are made continuous by a temperature.

C. J. Maddison, A. Mnih, Y. W. Teh, *The concrete distribution* (2017); E. Jang, S. Gu, B. Poole,
*Categorical reparameterization with Gumbel-softmax* (2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from staticflow.distributions.bernoulli import Bernoulli
from staticflow.distributions.categorical import Categorical
from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.errors import ArgumentError
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.activations import sigmoid
from staticflow.ops.along.softmax import log_softmax, logsumexp
from staticflow.ops.basics.arithmetic import clamp, logical_and
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.activation import softplus
from staticflow.ops.elementwise.gamma import lgamma
from staticflow.ops.elementwise.maths import exp, log, log1p
from staticflow.ops.random.sampling import Source, draw_exponential, gives_back
from staticflow.ops.tensors.queries import finfo

__all__ = ["RelaxedBernoulli", "RelaxedOneHotCategorical"]


def _temperature(what: str, given: Any) -> Any:
    (given,) = as_tensors(what, given)
    if given.ndim:
        raise ArgumentError(
            f"{what}: the temperature has the shape {list(given.shape)}; it must be one number, at "
            f"{format_locs(here())}"
        )
    return given


class _Relaxed(Distribution):
    has_rsample = True
    kind: ClassVar[type[Bernoulli | Categorical]]
    temperature: Any

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._sharp = self.kind(probs, logits, validate_args)
        shape = self._sharp.batch_shape
        event = self._event_of()
        given = {"temperature": _temperature(type(self).__name__, temperature)}
        super().__init__(shape, event, {**given, **self._sharp._params}, validate_args)
        t = given["temperature"]
        self.temperature = self._check(t, t > 0, "temperature", "above 0")

    def _event_of(self) -> tuple[Size, ...]:
        return ()

    def expand(self, batch_shape: Sequence[Size]) -> Any:
        """Repeats the distributions to a larger batch, without a copy of the parameters."""
        sharp = self._sharp.expand(batch_shape)
        made = type(self)(self.temperature, **sharp._params, validate_args=False)
        return made._validating(self._validates)

    @property
    def probs(self) -> Any:
        """The probabilities of the distribution that is relaxed."""
        return self._sharp.probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities, or of the odds."""
        return self._sharp.logits


class RelaxedBernoulli(_Relaxed):
    """Distributions of numbers between 0 and 1, closer to them the lower the ``temperature`` is, a
    number above 0; ``probs`` or ``logits`` are those of `Bernoulli`.

    >>> import staticflow as sf
    >>> sf.distributions.RelaxedBernoulli(0.5, probs=0.5).log_prob(0.5)
    tensor(-0.6931)
    """

    kind = Bernoulli

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``sigmoid((logits + noise) / temperature)`` of logistic noise, with that gradient; never
        0 or 1."""
        logits = expand(self.logits, self._extended_shape(sample_shape))
        noise = log(draw_exponential(logits, generator)) - log(draw_exponential(logits, generator))
        limits = finfo(logits.dtype)
        found = sigmoid((logits + noise) / self.temperature)
        return clamp(found, limits.tiny, 1 - limits.eps / 2)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of a value between 0 and 1."""
        x = self._value(value)
        x = self._check(x, logical_and(x > 0, x < 1), "value", "between 0 and 1")
        away = self.logits - (log(x) - log1p(-x)) * self.temperature
        density = log(self.temperature) + away - softplus(away) * 2
        return density - log(x) - log1p(-x)


class RelaxedOneHotCategorical(_Relaxed):
    """Distributions of shares (..., classes), which are above 0 and add up to 1, closer to one
    class the lower the ``temperature`` is, a number above 0; ``probs`` or ``logits`` are those of
    `Categorical`.

    >>> import staticflow as sf
    >>> d = sf.distributions.RelaxedOneHotCategorical(0.5, probs=sf.tensor([0.2, 0.8]))
    >>> d.rsample((5,)).shape
    (5, 2)
    """

    kind = Categorical
    own_dims: ClassVar[Mapping[str, int]] = {"probs": 1, "logits": 1}

    def _event_of(self) -> tuple[Size, ...]:
        return tuple(self.logits.shape[-1:])

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``softmax((logits + noise) / temperature)`` of Gumbel's noise, with that gradient."""
        logits = expand(self.logits, self._extended_shape(sample_shape))
        noise = -log(draw_exponential(logits, generator))
        return exp(log_softmax((logits + noise) / self.temperature, -1))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density of shares (..., classes)."""
        x = self._value(value)
        fair = logical_and((x > 0).all(-1), (x.sum(-1) - 1).abs() < finfo(x.dtype).eps * 64)
        x = self._check(x, fair.unsqueeze(-1), "value", "above 0, with a sum of 1")
        classes = self.logits.shape[-1]
        away = self.logits - log(x) * self.temperature
        scale = lgamma(self.temperature * 0 + classes) + log(self.temperature) * (classes - 1)
        return (away - logsumexp(away, -1, keepdim=True)).sum(-1) - log(x).sum(-1) + scale
