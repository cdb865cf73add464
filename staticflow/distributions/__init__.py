"""Distributions of random numbers, under the names of `torch.distributions`.

A distribution is made of tensors or symbols, and gives samples, log probabilities, moments and
divergences in the mode of these. Samples come of the counters of a generator: one stream for both
modes. The files have the names of PyTorch's.
"""

from staticflow.distributions import transforms
from staticflow.distributions.bernoulli import Bernoulli
from staticflow.distributions.beta import Beta
from staticflow.distributions.binomial import Binomial
from staticflow.distributions.categorical import Categorical
from staticflow.distributions.cauchy import Cauchy, HalfCauchy
from staticflow.distributions.dirichlet import Dirichlet
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.exponential import Exponential
from staticflow.distributions.gamma import Chi2, Gamma, InverseGamma
from staticflow.distributions.geometric import Geometric
from staticflow.distributions.gumbel import Gumbel
from staticflow.distributions.half_normal import HalfNormal
from staticflow.distributions.independent import Independent
from staticflow.distributions.kl import kl_divergence, register_kl
from staticflow.distributions.laplace import Laplace
from staticflow.distributions.log_normal import LogNormal
from staticflow.distributions.mixture_same_family import MixtureSameFamily
from staticflow.distributions.multinomial import Multinomial
from staticflow.distributions.multivariate_normal import MultivariateNormal
from staticflow.distributions.negative_binomial import NegativeBinomial
from staticflow.distributions.normal import Normal
from staticflow.distributions.one_hot_categorical import (
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from staticflow.distributions.poisson import Poisson
from staticflow.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from staticflow.distributions.student_t import StudentT
from staticflow.distributions.transformed_distribution import TransformedDistribution
from staticflow.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from staticflow.distributions.uniform import Uniform
from staticflow.ops.declaring.foreign import (
    refuses_foreign_in,
    refuses_foreign_in_classes,
    refuses_foreign_to_make,
)

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Laplace",
    "LogNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial",
    "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson", "PowerTransform",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "SigmoidTransform", "SoftplusTransform",
    "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform",
    "identity_transform", "kl_divergence", "register_kl", "transforms",
]  # fmt: skip

refuses_foreign_in(globals())
refuses_foreign_to_make(Distribution)
refuses_foreign_in_classes(Distribution)
