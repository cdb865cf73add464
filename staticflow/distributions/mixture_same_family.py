"""Mixtures of distributions of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.categorical import Categorical
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.independent import must_be_distribution
from staticflow.eager.grad_mode import no_grad
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, same_shape
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.softmax import logsumexp
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.random.sampling import Source, gives_back

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Mixtures of distributions of one kind: a draw is one of the component that a draw of
    ``mixture_distribution`` names. The last dim of the batch of ``component_distribution`` is that
    of the components.

    >>> import staticflow as sf
    >>> D = sf.distributions
    >>> weights = D.Categorical(probs=sf.tensor([0.5, 0.5]))
    >>> D.MixtureSameFamily(weights, D.Normal(sf.tensor([-1.0, 3.0]), 1.0)).mean
    tensor(1.)
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        must_be_distribution("MixtureSameFamily", mixture_distribution, Categorical)
        must_be_distribution("MixtureSameFamily", component_distribution)
        batch, weights = component_distribution.batch_shape, mixture_distribution.param_shape
        if not batch or not same_shape(batch[-1:], weights[-1:]):
            raise ShapeError(
                f"MixtureSameFamily: the batch of the components {list(batch)} must end with the "
                f"number of classes of the mixture, {weights[-1]}, at {format_locs(here())}"
            )
        event = component_distribution.event_shape
        super().__init__(batch[:-1], event, None, validate_args)
        self.mixture_distribution = mixture_distribution.expand(batch[:-1])
        self.component_distribution = component_distribution

    def _weigh(self, x: Any) -> Any:
        """The mean over the components, whose dim lies before those of the event."""
        ones = (1,) * len(self._event_shape)
        probs = self.mixture_distribution.probs
        return (probs.reshape((*probs.shape, *ones)) * x).sum(-1 - len(ones))

    @property
    def mean(self) -> Any:
        """The weighted mean of the means."""
        return self._weigh(self.component_distribution.mean)

    @property
    def variance(self) -> Any:
        """The mean of the variances and the variance of the means."""
        means = self.component_distribution.mean
        apart = means - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._weigh(self.component_distribution.variance + apart.square())

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the weighted sum of the densities."""
        if hasattr(value, "__sf_mode__"):
            value = value.unsqueeze(-1 - len(self._event_shape))
        of_components = self.component_distribution.log_prob(value)
        return logsumexp(of_components + self.mixture_distribution.logits, -1)

    def cdf(self, value: Any) -> Any:
        """The weighted sum of the probabilities of no more than ``value``."""
        if hasattr(value, "__sf_mode__"):
            value = value.unsqueeze(-1)
        return self._weigh(self.component_distribution.cdf(value))

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Draws, without a gradient: of all components, of which one each is taken."""
        event = self._event_shape
        with no_grad():
            chosen = self.mixture_distribution.sample(sample_shape, generator=generator)
            drawn = self.component_distribution.sample(sample_shape, generator=generator)
            places = chosen.reshape((*chosen.shape, 1, *(1,) * len(event)))
            places = expand(places, (*chosen.shape, 1, *event))
            dim = -1 - len(event)
            return gather(drawn, dim, places).squeeze(dim)

    def expand(self, batch_shape: Sequence[Size]) -> Any:
        """Repeats the mixtures to a larger batch."""
        shape, components = as_sizes(batch_shape), self.component_distribution
        wide = components.expand((*shape, components.batch_shape[-1]))
        return MixtureSameFamily(self.mixture_distribution.expand(shape), wide)._validating(
            self._validates
        )

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self.mixture_distribution!r}, {self.component_distribution!r})"
