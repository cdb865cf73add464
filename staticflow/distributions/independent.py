"""Dims of a batch as dims of one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution
from staticflow.errors import ArgumentError
from staticflow.graph.articles import with_article
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.random.sampling import Source

__all__ = ["Independent", "must_be_distribution", "sum_of_last"]


def must_be_distribution(what: str, given: Any, kind: type = Distribution) -> None:
    """Raise `ArgumentError` unless ``given``, called ``what``, is a distribution of a ``kind``."""
    if not isinstance(given, kind):
        raise ArgumentError(
            f"{what}: {type(given).__name__} was given, and must be {with_article(kind)} of "
            f"sf.distributions, at {format_locs(here())}"
        )


def sum_of_last(x: Any, count: int) -> Any:
    """The sum of ``x`` over its last ``count`` dims."""
    return x.sum(tuple(range(-count, 0))) if count else x


class Independent(Distribution):
    """The distributions of ``base_distribution``, whose last ``reinterpreted_batch_ndims`` dims of
    the batch become dims of one event: log probabilities are added along them.

    >>> import staticflow as sf
    >>> d = sf.distributions.Independent(sf.distributions.Normal(sf.zeros(2, 3), 1.0), 1)
    >>> d.batch_shape, d.event_shape, d.log_prob(sf.zeros(2, 3)).shape
    ((2,), (3,), (2,))
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        must_be_distribution("Independent", base_distribution)
        count, batch = reinterpreted_batch_ndims, base_distribution.batch_shape
        if not 0 <= count <= len(batch):
            raise ArgumentError(
                f"Independent: {count} dims of the batch were asked for, and the batch "
                f"{list(batch)} has {len(batch)}; give a number from 0 to {len(batch)}, at "
                f"{format_locs(here())}"
            )
        own = len(batch) - count
        event = (*batch[own:], *base_distribution.event_shape)
        super().__init__(batch[:own], event, None, validate_args)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        self.has_rsample = base_distribution.has_rsample

    @property
    def mean(self) -> Any:
        """Each mean is that of the base."""
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        """Each mode is that of the base."""
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        """Each variance is that of the base."""
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Draws of the base, without a gradient."""
        return self.base_dist.sample(sample_shape, generator=generator)

    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Draws of the base with their gradient."""
        return self.base_dist.rsample(sample_shape, generator=generator)

    def log_prob(self, value: Any) -> Any:
        """The sum of the log probabilities of the base along the dims of the event."""
        return sum_of_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """The sum of the entropies of the base along the dims of the event."""
        return sum_of_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def expand(self, batch_shape: Sequence[Size]) -> Any:
        """Repeats the distributions to a larger batch."""
        count = self.reinterpreted_batch_ndims
        shape = (*as_sizes(batch_shape), *self._event_shape[:count])
        return Independent(self.base_dist.expand(shape), count)._validating(self._validates)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
