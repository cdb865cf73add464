"""Distributions of random numbers, under the names of `torch.distributions`.

A distribution is made of tensors or symbols, and gives samples, log probabilities, moments and
divergences in the mode of these. Samples come of the counters of a generator: one stream for both
modes.
"""

from staticflow.distributions.composed import Independent, MixtureSameFamily
from staticflow.distributions.discrete import Bernoulli, Categorical
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.divergence import kl_divergence, register_kl
from staticflow.distributions.multivariate import MultivariateNormal
from staticflow.distributions.real import Exponential, Laplace, LogNormal, Normal, Uniform
from staticflow.ops.declaring.foreign import (
    refuses_foreign_in,
    refuses_foreign_in_classes,
    refuses_foreign_to_make,
)

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace",
    "LogNormal", "MixtureSameFamily", "MultivariateNormal", "Normal", "Uniform", "kl_divergence",
    "register_kl",
]  # fmt: skip

refuses_foreign_in(globals())
refuses_foreign_to_make(Distribution)
refuses_foreign_in_classes(Distribution)
