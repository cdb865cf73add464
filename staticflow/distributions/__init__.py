"""Distributions of random numbers, under the names of `torch.distributions`.

A distribution is made of tensors or symbols, and gives samples, log probabilities, moments and
divergences in the mode of these. Samples come of the counters of a generator: one stream for both
modes. The files have the names of PyTorch's.
"""

from staticflow.distributions.bernoulli import Bernoulli
from staticflow.distributions.categorical import Categorical
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.exponential import Exponential
from staticflow.distributions.independent import Independent
from staticflow.distributions.kl import kl_divergence, register_kl
from staticflow.distributions.laplace import Laplace
from staticflow.distributions.log_normal import LogNormal
from staticflow.distributions.mixture_same_family import MixtureSameFamily
from staticflow.distributions.multinomial import Multinomial
from staticflow.distributions.multivariate_normal import MultivariateNormal
from staticflow.distributions.normal import Normal
from staticflow.distributions.uniform import Uniform
from staticflow.ops.declaring.foreign import (
    refuses_foreign_in,
    refuses_foreign_in_classes,
    refuses_foreign_to_make,
)

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace",
    "LogNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "Normal", "Uniform",
    "kl_divergence", "register_kl",
]  # fmt: skip

refuses_foreign_in(globals())
refuses_foreign_to_make(Distribution)
refuses_foreign_in_classes(Distribution)
