"""Special functions by the names of `torch.special`.

>>> import staticflow as sf
>>> sf.special.ndtr(sf.tensor([0.0]))
tensor([0.5000])
"""

from __future__ import annotations

import functools
from math import inf
from typing import Any

from staticflow.ops.along.softmax import log_softmax, logsumexp, softmax
from staticflow.ops.basics.arithmetic import eq, logical_and, logical_not, logical_or, where
from staticflow.ops.basics.creation import new_full
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.promote import as_number, is_number, result_type
from staticflow.ops.elementwise.bessel import i0, i0e, i1, i1e
from staticflow.ops.elementwise.bessel import i0 as modified_bessel_i0
from staticflow.ops.elementwise.bessel import i1 as modified_bessel_i1
from staticflow.ops.elementwise.gamma import digamma, polygamma
from staticflow.ops.elementwise.gamma import digamma as psi
from staticflow.ops.elementwise.gamma import lgamma as gammaln
from staticflow.ops.elementwise.gamma import mvlgamma as multigammaln
from staticflow.ops.elementwise.maths import exp2, expm1, log, log1p
from staticflow.ops.elementwise.maths import sigmoid as expit
from staticflow.ops.elementwise.maths import sqrt as root
from staticflow.ops.elementwise.pairs import logit, xlogy
from staticflow.ops.elementwise.special import erf, erfc, erfcx, erfinv, log_ndtr, ndtr, sinc
from staticflow.ops.elementwise.variants import round

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0",
    "i0e", "i1", "i1e", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp",
    "modified_bessel_i0", "modified_bessel_i1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "round", "sinc", "softmax", "xlog1py", "xlogy",
]  # fmt: skip


def ndtri(input: Any) -> Any:
    """The number that a standard normal one is below with the probability ``input``, the inverse of
    `ndtr`: -inf of 0, NaN below, and so on the other side of 1/2."""
    return _ndtri(input)


@fused("SpecialNdtriBackward0")
def _ndtri(p: Any) -> Any:
    q = p - 0.5
    is_near = q.abs() <= 0.425
    near = where(is_near, q, 0.0)
    middle = near * _quotient(0.180625 - near * near, *_MIDDLE)
    # of the nearer end; where the middle or nothing is meant some number that has a derivative
    end = where(q < 0, p, 1 - p)
    is_inside = logical_and(logical_not(is_near), end > 0)
    r = root(-log(where(is_inside, end, 0.1)))
    far = where(r <= 5, _quotient(r - 1.6, *_END), _quotient(r - 5, *_FAR_END))
    far = where(is_inside, far, -log(where(is_inside, 1.0, end)))  # inf, NaN, and as steep
    return where(is_near, middle, where(q < 0, -far, far))


def _quotient(x: Any, above: tuple[float, ...], below: tuple[float, ...]) -> Any:
    """A polynomial of ``x`` by another, coefficients of high powers first."""
    return functools.reduce(lambda y, c: y * x + c, above) / functools.reduce(
        lambda y, c: y * x + c, below
    )


# Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution", to 1e-16:
# numerators and denominators for |p - 1/2| up to 0.425, then for r = sqrt(-log(p)) up to 5, then
# above.
_MIDDLE = (
    (
        2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
        13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
    ),
    (
        5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
    ),
)  # fmt: skip
_END = (
    (
        7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
        1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
        4.6303378461565452959, 1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
        0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
        2.05319162663775882187, 1.0,
    ),
)  # fmt: skip
_FAR_END = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
        0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
        5.4637849111641143699, 6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
        7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
        0.59983220655588793769, 1.0,
    ),
)  # fmt: skip


def entr(input: Any) -> Any:
    """``-x log(x)``, 0 at 0, where its slope is infinite, and -inf below."""
    at_zero = root(where(eq(input, 0), input, 1.0))  # is 0 there, and as steep
    return where(input < 0, -inf, where(eq(input, 0), at_zero, -xlogy(input, input)))


def _as_tensor(x: Any, beside: Any) -> Any:
    """A number beside a tensor as one of no dims."""
    x = as_number(x)
    if not is_number(x) or is_number(beside):
        return x
    return new_full(beside, (), x, dtype=result_type([x, beside]))


def xlog1py(input: Any, other: Any) -> Any:
    """``x * log(1 + y)``, which is 0 where ``x`` is, unless ``y`` is NaN. One of them may be a
    number."""
    input, other = _as_tensor(input, other), _as_tensor(other, input)
    endless = logical_or(other <= -1, eq(other, inf))  # the logarithm is
    return where(logical_and(eq(input, 0), endless), 0.0, input * log1p(other))


refuses_foreign_in(globals())
