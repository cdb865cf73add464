"""The error function and its kin, sinc, and the gamma function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.special

import staticflow as sf
from opinfo.arithmetic import unary
from opinfo.core import ALL, Failure, OpInfo, Sample, pointwise, values
from opinfo.maths import OPS, real
from staticflow.graph.dtypes import DType

__all__ = ["ROWS"]


def _erfinv(x: float) -> float:
    """By bisection."""
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if abs(x) < 1e-8:
        return x * (math.sqrt(math.pi) / 2)
    a = abs(x)
    low, high = 0.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        below = math.erf(middle) < a if a < 0.5 else math.erfc(middle) > 1 - a
        low, high = (middle, high) if below else (low, middle)
    return math.copysign(middle, x)


def _sinc(x: float) -> float:
    if x == 0 or not math.isfinite(x):
        return 1.0 if x == 0 else math.nan
    return math.sin(math.pi * x) / (math.pi * x)


def _moderate(dtype: DType, smooth: bool) -> Iterator[Sample]:
    """Without numbers of which pi times as much overflows or has lost its fraction."""
    for sample in unary(0.3, 2.7)(dtype, smooth):
        (x,) = sample.args
        moderate = ~(abs(x.astype(np.float64)) > 100)
        yield sample if moderate.all() else Sample((x[moderate],))


def _digamma(x: float) -> float:
    """SciPy's, reflected here for a negative x, next to whose poles it loses digits."""
    if not x < 0 or math.isinf(x) or x == round(x):
        return float(scipy.special.digamma(x))
    return float(scipy.special.digamma(1 - x)) - math.pi / math.tan(math.pi * (x - round(x)))


def _polygamma(n: int, x: float) -> float:
    """SciPy's, which is for positive x; of a negative one the terms up to 0 are added here."""
    if not x < 0:
        return float(scipy.special.polygamma(n, x))
    if x == math.floor(x):
        return math.nan if math.isinf(x) else math.inf * (-1) ** (n + 1)
    terms = [(x + i) ** -(n + 1) for i in range(math.ceil(-x))]
    sign = (-1) ** (n + 1) * math.factorial(n)
    return sign * math.fsum(terms) + float(scipy.special.polygamma(n, x + len(terms)))


def _bessel(name: str) -> Callable[[float], float]:
    """SciPy's, with the limits at infinity and the sign of zero, which it has not."""
    limit = 0.0 if name.endswith("e") else math.inf

    def at(x: float) -> float:
        y = limit if math.isinf(x) else float(getattr(scipy.special, name)(x))
        return math.copysign(y, x) if "1" in name else y

    return at


def _orders(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for n in (1, 2, 3):
        for sample in unary(0.3, 3)(dtype, smooth):
            (x,) = sample.args
            # the powers of others leave the range, or are of numbers that are almost integers
            with np.errstate(invalid="ignore"):
                tame = (abs(x) > 1e-2) & (abs(x) < 100) if dtype.is_floating else x < 100
            yield Sample((x if tame.all() else x[tame], n))


def _logit(x: float, eps: float | None) -> float:
    if eps is not None and x == x:
        x = min(max(x, eps), 1 - eps)
    if x in (0, 1) or not 0 < x < 1:
        return math.inf * (x - 0.5) if x in (0, 1) else math.nan
    return math.log(x) - math.log1p(-x)


def _probabilities(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for sample in unary(0.1, 0.9)(dtype, smooth):
        for eps in (None, 0.0625):
            yield Sample(sample.args, {"eps": eps})


ROWS = (
    OpInfo(
        OPS["logit"],
        sf.logit,
        lambda x, eps: pointwise(lambda v: _logit(float(v), eps), real=True)(x),
        _probabilities,
        ALL,
        grad=True,
        sized=lambda dtype, n: Sample(
            (values((n, 3), dtype, 0.1, 0.9 if dtype.is_floating else 1),), {"eps": None}
        ),
        failures=(),
        absolute=4,
        zeros=False,
    ),
    real("erf", math.erf),
    real("erfc", math.erfc),
    replace(
        real("erfc", lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)), absolute=1),
        op=OPS["ndtr"],
        call=sf.special.ndtr,
    ),
    replace(real("erfc", scipy.special.erfcx), op=OPS["erfcx"], call=sf.special.erfcx),
    replace(real("erfc", scipy.special.log_ndtr), op=OPS["log_ndtr"], call=sf.special.log_ndtr),
    real("erfinv", _erfinv, -0.8, 0.8),
    replace(real("sinc", _sinc, absolute=4, zeros=False), samples=_moderate),
    real(
        "lgamma",
        lambda x: scipy.special.gammaln(abs(x) if math.isinf(x) else x),
        0.3,
        absolute=8,
        zeros=False,
    ),
    *(
        replace(
            real("i0", _bessel(name), ulps=16),
            op=OPS[name],
            call=getattr(sf.special, name),
        )
        for name in ("i0", "i0e", "i1", "i1e")
    ),
    real("digamma", _digamma, 0.3, absolute=8, zeros=False),
    OpInfo(
        OPS["polygamma"],
        lambda x, n: sf.polygamma(n, x),
        lambda x, n: pointwise(lambda v: _polygamma(n, float(v)), real=True)(x),
        _orders,
        ALL,
        grad=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype, 0.3), 1)),
        failures=(Failure(Sample((np.ones(2, "f4"), -1)), sf.ArgumentError, "must not be"),),
        ulps=32,
        absolute=64,
    ),
)
