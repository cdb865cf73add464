"""Distributions of what a change of variables makes of random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution
from staticflow.distributions.independent import must_be_distribution, sum_of_last
from staticflow.distributions.transforms import ComposeTransform, Transform
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import bool_
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.random.sampling import Source

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distributions of what ``transforms``, one or a list, the first one first, make of numbers
    of ``base_distribution``; they keep the shape of a value.

    >>> import staticflow as sf
    >>> D = sf.distributions
    >>> d = D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()])
    >>> d.log_prob(2.0), D.LogNormal(0.0, 1.0).log_prob(2.0)
    (tensor(-1.8523), tensor(-1.8523))
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        must_be_distribution("TransformedDistribution", base_distribution)
        given = [transforms] if isinstance(transforms, Transform) else list(transforms)
        whole = ComposeTransform(given)
        base = base_distribution
        shape = (*base.batch_shape, *base.event_shape)
        event = max(len(base.event_shape), whole.event_dim)
        super().__init__(
            shape[: len(shape) - event], shape[len(shape) - event :], None, validate_args
        )
        self.base_dist, self.transforms = base, given
        self._own_dims = event
        self.has_rsample = base.has_rsample

    def expand(self, batch_shape: Sequence[Size]) -> Any:
        """Repeats the distributions to a larger batch."""
        more = self._own_dims - len(self.base_dist.event_shape)
        shape = (*as_sizes(batch_shape), *self._event_shape[:more])
        made = type(self)(self.base_dist.expand(shape), self.transforms)
        return made._validating(self._validates)

    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Images of draws of the base, without a gradient."""
        x = self.base_dist.sample(sample_shape, generator=generator)
        return self._image(x).detach()

    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Images of draws of the base, with gradients by its parameters and those of the
        transforms."""
        return self._image(self.base_dist.rsample(sample_shape, generator=generator))

    def _image(self, x: Any) -> Any:
        for one in self.transforms:
            x = one(x)
        return x

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density: that of the base at the preimage, less the logarithms of
        how much the transforms stretch there."""
        y, stretched = self._beside(value), None
        for one in reversed(self.transforms):
            x = one._back(y)
            each = sum_of_last(one.log_abs_det_jacobian(x, y), self._own_dims - one.event_dim)
            stretched = each if stretched is None else stretched + each
            y = x
        density = self.base_dist.log_prob(y)
        density = sum_of_last(density, self._own_dims - len(self.base_dist.event_shape))
        return density if stretched is None else density - stretched

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        y = self._beside(value)
        for one in reversed(self.transforms):
            y = one._back(y)
        return self._chance_below(self.base_dist.cdf(y))

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``."""
        return self._image(self.base_dist.icdf(self._chance_below(self._beside(value))))

    def _chance_below(self, chance: Any) -> Any:
        """The chance, or that of the opposite where the transforms fall."""
        grows = ComposeTransform(self.transforms).sign
        if isinstance(grows, int):
            return chance if grows > 0 else 1 - chance
        return where((grows > 0).to(bool_), chance, 1 - chance)

    def _beside(self, value: Any) -> Any:
        if hasattr(value, "__sf_mode__"):
            return value
        base: Any = self.base_dist
        while not base._params:
            base = base.base_dist
        return base._value(value)

    def __repr__(self) -> str:
        return f"TransformedDistribution({self.base_dist!r}, {self.transforms!r})"
