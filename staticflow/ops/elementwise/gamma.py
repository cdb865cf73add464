"""The logarithm of the gamma function and its derivatives. Integers become float32 first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.declaring.declare import elementwise, real_function
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.elementwise.special import by_python

__all__ = ["digamma", "lgamma", "mvlgamma", "polygamma"]


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # of 0, -1, -2, ... and of what is very large
        return math.inf


def _digamma(x: float) -> float:
    """The digamma function by the recurrence ``digamma(x + 1) = digamma(x) + 1 / x`` up to where
    its asymptotic series serves (Abramowitz and Stegun, 6.3.18)."""
    if x == 0 or math.isnan(x):
        return math.copysign(math.inf, -x) if x == 0 else x
    if x < 0:
        if math.isinf(x) or x == math.floor(x):
            return math.nan
        return _digamma(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    steps = [-1 / (x + i) for i in range(max(0, 16 - int(x)) if x < 16 else 0)]
    y = x + len(steps)
    t = 1 / (y * y)
    series = t * (1 / 12 - t * (1 / 120 - t * (1 / 252 - t * (1 / 240 - t / 132))))
    return math.fsum([*steps, math.log(y), -0.5 / y, -series])


lgamma = real_function(
    "lgamma", "The logarithm of ``|gamma(x)|``: infinite at 0, -1, -2, ....",
    by_python("gammaln", _lgamma),
    lambda ct, out, x: ct * digamma(x),
    numpy="slower",
)  # fmt: skip
digamma: Op = real_function(
    "digamma", "The derivative of `lgamma`: ``-inf`` at 0, NaN at -1, -2, ....",
    by_python("digamma", _digamma),
    lambda ct, out, x: ct * polygamma(1, x),
    numpy="slower",
)  # fmt: skip


def _zeta(s: int, q: float) -> float:
    """The sum of ``(q + i)**-s``, 32 terms and then the formula of Euler and Maclaurin."""
    terms = [(q + i) ** -s for i in range(32)]
    w = q + 32
    terms += [w ** (1 - s) / (s - 1), w**-s / 2]
    rising = s * w ** (-s - 1)
    for j, bernoulli in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600)):
        terms.append(bernoulli * rising)
        rising *= (s + 2 * j + 1) * (s + 2 * j + 2) / (w * w)
    return math.fsum(terms)


def _polygamma(x: float, n: int) -> float:
    if math.isnan(x) or x == -math.inf:
        return math.nan
    sign = -1 if n % 2 == 0 else 1
    if x == 0:
        return sign * math.inf
    if x > 0:
        return sign * math.factorial(n) * _zeta(n + 1, x)
    if x == math.floor(x):
        return sign * math.inf
    # the sum from x on, past the pole that lies nearest: the terms below 0 one by one
    below = math.ceil(-x)
    terms = [(x + i) ** -(n + 1) for i in range(below)]
    return sign * math.factorial(n) * math.fsum([*terms, _zeta(n + 1, x + below)])


def _polygamma_reference(xp: Any, x: Any, *, n: int) -> Any:
    if xp is not np:
        from cupyx.scipy import special

        return special.polygamma(xp.asarray(n), x).astype(x.dtype)  # which may be float64
    each = np.frompyfunc(lambda v: _polygamma(v, n), 1, 1)
    return np.asarray(each(np.asarray(x, np.float64))).astype(x.dtype)


def _polygamma_type(facts: Facts, x: TensorType, *, n: int) -> TensorType:
    if not 1 <= n <= _MOST_DERIVATIVES:
        raise ArgumentError(
            f"polygamma: n is {n}; its factorial, by which the result grows, is beyond float64 for "
            f"n above {_MOST_DERIVATIVES}, and below 1 there is digamma, at {format_locs(here())}"
        )
    return x


polygamma_op: Op = elementwise(
    "polygamma", "The ``n``-th derivative of `digamma`, ``n >= 1``.",
    _polygamma_reference,
    lambda k, x, *, n: k.polygamma(x, n),
    (lambda ct, out, x, *, n: ct * polygamma_op(x, n=n + 1),),
    kinds="f", promote="float", numpy="slower", infer=_polygamma_type,
)  # fmt: skip


def polygamma(n: int, input: Any) -> Any:
    """The ``n``-th derivative of `digamma` (``0 <= n <= 170``: of more the factorial is beyond
    float64).

    Raises `ArgumentError` for another ``n``.

    >>> import staticflow as sf
    >>> sf.polygamma(1, sf.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    n = as_size(n)
    if n < 0:
        raise ArgumentError(f"polygamma: n must not be negative, not {n}, at {format_locs(here())}")
    return polygamma_op(input, n=n) if n else digamma(input)


def polygamma_method(input: Any, n: int) -> Any:
    """`polygamma` with its arguments as a method has them."""
    return polygamma(n, input)


_MOST_DERIVATIVES = 170
_MOST_DIMS = 1 << 10  # of `mvlgamma`


def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the gamma function of ``p`` dims:
    ``p (p - 1) / 4 log(pi) + sum(lgamma(x - i / 2) for i in range(p))``, each of which is an op:
    ``p`` is 1024 at most.

    >>> import staticflow as sf
    >>> sf.mvlgamma(sf.tensor([3.0]), 2)
    tensor([1.5502])
    """
    if not 1 <= p <= _MOST_DIMS:
        raise ArgumentError(
            f"mvlgamma: p must be from 1 to {_MOST_DIMS}, not {p}, at {format_locs(here())}"
        )
    total = lgamma(input) + p * (p - 1) / 4 * math.log(math.pi)
    for i in range(1, p):
        total = total + lgamma(input - i / 2)
    return total
