"""Integrals over the tails of gamma distributions: the distribution function, and the derivative of
a draw by the concentration.

A draw x of the concentration a, at a fixed probability, has the derivative ``-(dP / da) /
(dP / dx)`` of the distribution function P (M. Figurnov, S. Mohamed, A. Mnih, *Implicit
reparameterization gradients*, 2018). In ``t = x exp(v)`` it is an integral over the shorter of the
tails beside x,

    dx / da = x * integral of (log x + v - digamma(a)) exp(a v - x (exp v - 1)) dv,

from 0 to infinity where x is above a, and the negative from minus infinity to 0 else; that of the
exponential alone, times ``x`` and the density, is the probability of the tail. The rule of Gauss
and Legendre sums it, in float64.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from staticflow.eager.creation import tensor
from staticflow.graph.dtypes import float64
from staticflow.ops.basics.arithmetic import cast, minimum, where
from staticflow.ops.elementwise.gamma import digamma, lgamma
from staticflow.ops.elementwise.maths import abs, exp, expm1, log, log1p, sqrt

__all__ = ["gamma_below", "log_gamma_slope"]

_NODES = 32
"""Nodes of the quadrature. Relative errors at concentrations from 1 to 1e5 are 3e-13 at most, and
5e-9 with 24."""

_REACH = 38.0
"""The integrand is left where it has fallen to ``exp(-38)``, below the digits of float64."""


def _nodes() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Nodes and weights from 0 to 1, closer to each other near 0: those of Gauss and Legendre,
    squared."""
    at, weights = np.polynomial.legendre.leggauss(_NODES)
    u = (at + 1) / 2
    return u * u, weights * u


_AT, _WEIGHTS = _nodes()


def log_gamma_slope(a: Any, log_draw: Any) -> Any:
    """The derivative by ``a``, which is 1 or more, of the logarithm of a draw of the gamma
    distribution of rate 1, at a fixed probability; computed in float64.

    >>> import staticflow as sf
    >>> log_gamma_slope(sf.tensor(1.0), sf.tensor(2.0).log())
    tensor(0.8158)
    """
    a, log_x = cast(a, dtype=float64), cast(log_draw, dtype=float64)
    x = exp(log_x)
    v, side, weights = _nodes_of_tail(a, x)
    inside = (log_x.unsqueeze(-1) + v - digamma(a).unsqueeze(-1)) * _integrand(a, x, v)
    return (side * (inside * weights).sum(-1)).to(log_draw.dtype)


def gamma_below(a: Any, x: Any) -> Any:
    """The probability that a number of the gamma distribution of the concentration ``a``, which is
    above 0, and rate 1 is ``x`` or less, within 1e-13; computed in float64.

    >>> import staticflow as sf
    >>> gamma_below(sf.tensor(1.0), sf.tensor(2.0))
    tensor(0.8647)
    """
    given = x.dtype
    a, x = cast(a, dtype=float64), cast(x, dtype=float64)
    is_small = a < 1
    raised = where(is_small, a + 1, a)
    is_inside = (x > 0).logical_and(x < float("inf"))
    at = where(is_inside, x, 1.0)
    log_x = log(at)
    v, side, weights = _nodes_of_tail(raised, at)
    # x times the density
    scale = exp(_log_density(raised, at, log_x))
    tail = scale * (_integrand(raised, at, v) * weights).sum(-1)
    below = where(side < 0, tail, 1 - tail)
    # P(a, x) = P(a + 1, x) + x**a exp(-x) / Gamma(a + 1)
    below = below + where(is_small, scale / at, 0.0)
    outside = where(x > 0, 1.0, where(x == x, 0.0, float("nan"))).to(float64)
    return where(is_inside, below, outside).to(given)


def _log_density(a: Any, x: Any, log_x: Any) -> Any:
    """``a log x - x - log Gamma(a)``; from 100 on by Stirling's series, as its terms cancel."""
    away = x / a - 1
    series = (1 / 12 - (1 / 360 - (1 / 1260) / a.square()) / a.square()) / a
    by_series = a * (log1p(away) - away) + log(a / (2 * pi)) * 0.5 - series
    return where(a < 100, a * log_x - x - lgamma(a), by_series)


def _nodes_of_tail(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """The nodes in v, whether they lie below x (-1) or above it (1), and their weights."""
    is_below = x <= a
    # where the integrand has fallen away
    root = sqrt(80 / x)
    far = where(is_below, root + 40 / x, log1p(root + 60 / x))
    far = minimum(far, _REACH / (abs(a - x) + sqrt(x))).unsqueeze(-1)
    side = where(is_below, -1.0, 1.0).to(float64)
    return side.unsqueeze(-1) * far * tensor(_AT), side, far * tensor(_WEIGHTS)


def _integrand(a: Any, x: Any, v: Any) -> Any:
    return exp(a.unsqueeze(-1) * v - x.unsqueeze(-1) * expm1(v))
