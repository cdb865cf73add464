"""Special functions by the names of `torch.special`.

>>> import staticflow as sf
>>> sf.special.ndtr(sf.tensor([0.0]))
tensor([0.5000])
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

from staticflow.ops.along.softmax import log_softmax, logsumexp, softmax
from staticflow.ops.basics.arithmetic import eq, logical_and, logical_or, where
from staticflow.ops.basics.creation import new_full
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.promote import as_number, is_number, result_type
from staticflow.ops.elementwise.bessel import i0, i0e, i1, i1e
from staticflow.ops.elementwise.bessel import i0 as modified_bessel_i0
from staticflow.ops.elementwise.bessel import i1 as modified_bessel_i1
from staticflow.ops.elementwise.gamma import digamma, polygamma
from staticflow.ops.elementwise.gamma import digamma as psi
from staticflow.ops.elementwise.gamma import lgamma as gammaln
from staticflow.ops.elementwise.gamma import mvlgamma as multigammaln
from staticflow.ops.elementwise.maths import exp2, expm1, log1p
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
    `ndtr`; less exact next to 0, where ``1 - 2 * input`` is rounded."""
    return erfinv(1 - input * 2) * -sqrt(2)


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
