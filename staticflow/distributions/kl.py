"""How far one distribution is from another: the divergence of Kullback and Leibler."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, TypeVar

from staticflow.distributions.bernoulli import Bernoulli
from staticflow.distributions.beta import Beta
from staticflow.distributions.binomial import Binomial
from staticflow.distributions.categorical import Categorical
from staticflow.distributions.cauchy import Cauchy, HalfCauchy
from staticflow.distributions.dirichlet import Dirichlet
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.exponential import Exponential
from staticflow.distributions.gamma import Gamma, InverseGamma
from staticflow.distributions.geometric import Geometric
from staticflow.distributions.gumbel import EULER_GAMMA, Gumbel
from staticflow.distributions.half_normal import HalfNormal
from staticflow.distributions.independent import Independent, sum_of_last
from staticflow.distributions.laplace import Laplace
from staticflow.distributions.log_normal import LogNormal
from staticflow.distributions.multivariate_normal import MultivariateNormal
from staticflow.distributions.normal import Normal
from staticflow.distributions.one_hot_categorical import OneHotCategorical
from staticflow.distributions.poisson import Poisson
from staticflow.distributions.transformed_distribution import TransformedDistribution
from staticflow.distributions.uniform import Uniform
from staticflow.errors import ArgumentError, UndefinedError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.losses import binary_cross_entropy_with_logits
from staticflow.ops.basics.arithmetic import logical_and, where
from staticflow.ops.basics.expand import broadcast_tensors, expand
from staticflow.ops.elementwise.gamma import digamma, lgamma
from staticflow.ops.elementwise.maths import abs, exp, log
from staticflow.ops.elementwise.pairs import xlogy
from staticflow.ops.matrices.triangular import solve_triangular
from staticflow.special import xlog1py

__all__ = ["kl_divergence", "register_kl"]

F = TypeVar("F", bound=Callable[[Any, Any], Any])

_formulas: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """A decorator: the function is the formula of `kl_divergence` for these two classes and those
    below them that have none of their own.

    Raises `ArgumentError` for what are no classes of distributions.
    """
    for cls in (type_p, type_q):
        if not (isinstance(cls, type) and issubclass(cls, Distribution)):
            raise ArgumentError(
                f"register_kl: {cls!r} must be a class of distributions, at {format_locs(here())}"
            )

    def register(fn: F) -> F:
        _formulas[type_p, type_q] = fn
        return fn

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The expected ``log p(x) - log q(x)`` of a draw ``x`` of ``p``, for each distribution of the
    batch.

    Raises `UndefinedError` where no formula is registered for the two classes.

    >>> import staticflow as sf
    >>> D = sf.distributions
    >>> D.kl_divergence(D.Normal(1.0, 1.0), D.Normal(0.0, 1.0))
    tensor(0.5000)
    """
    # the nearest class of p comes first
    for cls in type(p).__mro__:
        for other in type(q).__mro__:
            if (cls, other) in _formulas:
                return _formulas[cls, other](p, q)
    raise UndefinedError(
        f"kl_divergence: no formula is registered for {type(p).__name__} and {type(q).__name__}; "
        f"write one with register_kl, at {format_locs(here())}"
    )


@register_kl(Normal, Normal)
def _of_normals(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale).square()
    return (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - log(ratio)) * 0.5


@register_kl(LogNormal, LogNormal)
def _of_log_normals(p: LogNormal, q: LogNormal) -> Any:
    return _of_normals(p, q)


@register_kl(LogNormal, Normal)
@register_kl(Normal, LogNormal)
def _of_normal_and_log_normal(p: Normal, q: Normal) -> Any:
    raise UndefinedError(
        f"kl_divergence: no formula is registered for {type(p).__name__} and {type(q).__name__}; "
        f"write one with register_kl, at {format_locs(here())}"
    )


@register_kl(Laplace, Laplace)
def _of_laplaces(p: Laplace, q: Laplace) -> Any:
    apart = abs(p.loc - q.loc)
    inside = p.scale / q.scale * exp(-apart / p.scale)
    return log(q.scale / p.scale) + apart / q.scale + inside - 1


@register_kl(Exponential, Exponential)
def _of_exponentials(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - log(ratio)


@register_kl(Gamma, Gamma)
def _of_gammas(p: Gamma, q: Gamma) -> Any:
    apart = (p.concentration - q.concentration) * digamma(p.concentration)
    constants = lgamma(q.concentration) - lgamma(p.concentration)
    rates = q.concentration * log(p.rate / q.rate) + (q.rate - p.rate) * p.mean
    return rates + constants + apart


@register_kl(InverseGamma, InverseGamma)
def _of_inverse_gammas(p: InverseGamma, q: InverseGamma) -> Any:
    """The divergence of the gamma distributions whose reciprocals they are."""
    of_p, of_q = (Gamma(d.concentration, d.rate, validate_args=False) for d in (p, q))
    return _of_gammas(of_p, of_q)


@register_kl(Beta, Beta)
def _of_betas(p: Beta, q: Beta) -> Any:
    one, zero = p.concentration1, p.concentration0
    by_one = (one - q.concentration1) * digamma(one)
    by_zero = (zero - q.concentration0) * digamma(zero)
    rest = q.concentration1 + q.concentration0 - one - zero
    constants = q._log_constant() - p._log_constant()
    return constants + by_one + by_zero + rest * digamma(one + zero)


@register_kl(Dirichlet, Dirichlet)
def _of_dirichlets(p: Dirichlet, q: Dirichlet) -> Any:
    total = p.concentration.sum(-1, keepdim=True)
    apart = p.concentration - q.concentration
    each = apart * (digamma(p.concentration) - digamma(total))
    return q._log_constant() - p._log_constant() + each.sum(-1)


@register_kl(Cauchy, Cauchy)
def _of_cauchys(p: Cauchy, q: Cauchy) -> Any:
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return log(apart / (p.scale * q.scale * 4))


@register_kl(HalfCauchy, HalfCauchy)
def _of_half_cauchys(p: HalfCauchy, q: HalfCauchy) -> Any:
    return _of_cauchys(p._whole(), q._whole())


@register_kl(HalfNormal, HalfNormal)
def _of_half_normals(p: HalfNormal, q: HalfNormal) -> Any:
    ratio = (p.scale / q.scale).square()
    return (ratio - 1 - log(ratio)) * 0.5


@register_kl(Gumbel, Gumbel)
def _of_gumbels(p: Gumbel, q: Gumbel) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    overlap = exp(lgamma(ratio + 1) - apart)
    return apart - log(ratio) + EULER_GAMMA * (ratio - 1) + overlap - 1


@register_kl(Poisson, Poisson)
def _of_poissons(p: Poisson, q: Poisson) -> Any:
    each = xlogy(p.rate, p.rate) - xlogy(p.rate, q.rate)
    return each - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _of_geometrics(p: Geometric, q: Geometric) -> Any:
    return xlog1py(1 - 1 / p.probs, -q.probs) - log(q.probs) - p.entropy()


@register_kl(Binomial, Binomial)
def _of_binomials(p: Binomial, q: Binomial) -> Any:
    if p.total_count != q.total_count:
        raise UndefinedError(
            f"kl_divergence: the one Binomial is of {p.total_count} trials and the other of "
            f"{q.total_count}; they must be equal, at {format_locs(here())}"
        )
    return _of_bernoullis(p._one, q._one) * p.total_count


@register_kl(OneHotCategorical, OneHotCategorical)
def _of_one_hot_categoricals(p: OneHotCategorical, q: OneHotCategorical) -> Any:
    return _of_categoricals(p._one, q._one)


@register_kl(TransformedDistribution, TransformedDistribution)
def _of_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Any:
    """The divergence of the bases, as equal transforms change both alike."""
    if p.event_shape != q.event_shape or any(
        a is not b for a, b in zip_longest(p.transforms, q.transforms)
    ):
        raise UndefinedError(
            "kl_divergence: two TransformedDistribution must be made by the same transforms, the "
            f"same objects, at {format_locs(here())}"
        )
    each = kl_divergence(p.base_dist, q.base_dist)
    return sum_of_last(each, len(p.event_shape) - len(p.base_dist.event_shape))


@register_kl(Uniform, Uniform)
def _of_uniforms(p: Uniform, q: Uniform) -> Any:
    within = logical_and(q.low <= p.low, p.high <= q.high)
    return where(within, log((q.high - q.low) / (p.high - p.low)), float("inf"))


@register_kl(Bernoulli, Bernoulli)
def _of_bernoullis(p: Bernoulli, q: Bernoulli) -> Any:
    probs, of_p, of_q = broadcast_tensors(p.probs, p.logits, q.logits)
    across = binary_cross_entropy_with_logits(of_q, probs, reduction="none")
    own = binary_cross_entropy_with_logits(of_p, probs, reduction="none")
    never = logical_and(probs > 0, q.probs == 0)
    always = logical_and(probs < 1, q.probs == 1)
    impossible = never.logical_or(always)
    return where(impossible, float("inf"), across - own)


@register_kl(Categorical, Categorical)
def _of_categoricals(p: Categorical, q: Categorical) -> Any:
    each = p.probs * (p.logits - q.logits)
    each = where(q.probs == 0, float("inf"), each)
    return where(p.probs == 0, 0.0, each).sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _of_multivariate_normals(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    apart = p.loc - q.loc
    shape = (*apart.shape, apart.shape[-1])
    own, factor = expand(p.scale_tril, shape), expand(q.scale_tril, shape)
    between = solve_triangular(factor, own, upper=False)
    z = solve_triangular(factor, apart.unsqueeze(-1), upper=False).squeeze(-1)
    rest = q._log_scale() - p._log_scale()
    return rest + (between.square().sum(-1) + z.square() - 1).sum(-1) * 0.5


@register_kl(Independent, Independent)
def _of_independents(p: Independent, q: Independent) -> Any:
    count = p.reinterpreted_batch_ndims
    if count != q.reinterpreted_batch_ndims:
        raise ArgumentError(
            f"kl_divergence: an event has {count} dims of the base in the one and "
            f"{q.reinterpreted_batch_ndims} in the other; they must be equal, at "
            f"{format_locs(here())}"
        )
    each = kl_divergence(p.base_dist, q.base_dist)
    return each.sum(tuple(range(-count, 0))) if count else each
