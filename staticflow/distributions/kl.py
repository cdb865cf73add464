"""How far one distribution is from another: the divergence of Kullback and Leibler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from staticflow.distributions.bernoulli import Bernoulli
from staticflow.distributions.categorical import Categorical
from staticflow.distributions.distribution import Distribution
from staticflow.distributions.exponential import Exponential
from staticflow.distributions.independent import Independent
from staticflow.distributions.laplace import Laplace
from staticflow.distributions.log_normal import LogNormal
from staticflow.distributions.multivariate_normal import MultivariateNormal
from staticflow.distributions.normal import Normal
from staticflow.distributions.uniform import Uniform
from staticflow.errors import ArgumentError, UndefinedError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.losses import binary_cross_entropy_with_logits
from staticflow.ops.basics.arithmetic import logical_and, where
from staticflow.ops.basics.expand import broadcast_tensors, expand
from staticflow.ops.elementwise.maths import abs, exp, log
from staticflow.ops.matrices.triangular import solve_triangular

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
