"""Poisson's distributions: their samples have no gradient, their log probabilities do.

Formulas: N. L. Johnson, S. Kotz, A. W. Kemp, *Univariate Discrete Distributions*. Large counts are
drawn by W. Hörmann, *The transformed rejection method for generating Poisson random variables*
(1993, algorithm PTRS).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.distributions.distribution import Distribution, as_tensors
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import float64
from staticflow.ops.basics.arithmetic import cast, logical_and, logical_or, where
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.gamma import lgamma
from staticflow.ops.elementwise.maths import abs, floor, log, sqrt
from staticflow.ops.elementwise.pairs import xlogy
from staticflow.ops.loops.while_loop import fori_loop
from staticflow.ops.random.sampling import Source, draw_exponential, gives_back, rand_like

__all__ = ["Poisson", "draw_counts"]

_FEW = 10.0
"""Below this mean a count is how many waiting times there are; PTRS is for 10 and more."""

_WAITS = 50
"""At a mean of 10 there are as many waiting times or more with a probability of 1.9e-19."""

_ATTEMPTS = 20
"""PTRS takes 4 of 5 attempts at least: all of them are rejected in 1 of 1e14 elements at most."""


class Poisson(Distribution):
    """Poisson's distributions of counts with the mean ``rate``, which is 0 or more.

    >>> import staticflow as sf
    >>> sf.distributions.Poisson(2.0).log_prob(0.0)
    tensor(-2.)
    """

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (rate,) = as_tensors("Poisson", rate)
        super().__init__(rate.shape, (), {"rate": rate}, validate_args)
        self.rate = self._check(rate, rate >= 0, "rate", "0 or more")

    @property
    def mean(self) -> Any:
        """``rate``."""
        return self.rate

    @property
    def mode(self) -> Any:
        """``rate`` without its fraction."""
        return floor(self.rate)

    @property
    def variance(self) -> Any:
        """``rate``."""
        return self.rate

    @gives_back
    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Counts in the dtype of the parameter, without a gradient."""
        rate = expand(self.rate.detach(), self._extended_shape(sample_shape))
        return draw_counts(rate, generator)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of ``value``, a whole number that is not negative."""
        x = self._value(value)
        x = self._check(x, logical_and(x >= 0, x == floor(x)), "value", "whole and 0 or more")
        return xlogy(x, self.rate) - self.rate - lgamma(x + 1)


def draw_counts(rate: Any, generator: Source | None) -> Any:
    """Counts of Poisson's distributions of the means ``rate``, in its shape and dtype."""
    wide = cast(rate, dtype=float64)
    few = _count_waits(where(wide < _FEW, wide, 0.0), generator)
    many = _transformed_rejection(where(wide < _FEW, _FEW, wide), generator)
    return cast(where(wide < _FEW, few, many), dtype=rate.dtype)


def _count_waits(rate: Any, generator: Source | None) -> Any:
    """How many exponential waiting times of the mean 1 end within ``rate``."""

    def wait(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        time, count = carry
        time = time + draw_exponential(rate, generator)
        return time, count + cast(time <= rate, dtype=float64)

    return fori_loop(0, _WAITS, wait, (rate * 0, rate * 0))[1]


def _transformed_rejection(rate: Any, generator: Source | None) -> Any:
    root = sqrt(rate)
    b = root * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    inverse_alpha = 1.1328 / (b - 3.4) + 1.1239
    v_r = 0.9277 - 3.6224 / (b - 2)
    log_rate = log(rate)

    def attempt() -> tuple[Any, Any]:
        u = rand_like(rate, generator=generator) - 0.5
        # above 0, as it has a logarithm
        v = 1 - rand_like(rate, generator=generator)
        us = 0.5 - abs(u)
        k = floor((a * 2 / us + b) * u + rate + 0.43)
        is_inside = logical_and(us >= 0.07, v <= v_r)
        is_outside = logical_or(k < 0, logical_and(us < 0.013, v > us))
        hat = log(v) + log(inverse_alpha) - log(a / us.square() + b)
        is_below = hat <= k * log_rate - rate - lgamma(where(k < 0, 0.0, k) + 1)
        is_taken = logical_or(is_inside, logical_and(is_outside.logical_not(), is_below))
        return where(k < 0, 0.0, k), is_taken

    def again(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        found, done = carry
        k, is_taken = attempt()
        return where(done, found, k), logical_or(done, is_taken)

    return fori_loop(1, _ATTEMPTS, again, attempt())[0]
