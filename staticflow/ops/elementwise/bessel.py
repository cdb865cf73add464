"""The modified Bessel functions of the first kind. Integers become float32 first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import eq, where
from staticflow.ops.declaring.declare import real_function
from staticflow.ops.elementwise.maths import sign
from staticflow.ops.elementwise.special import by_python

__all__ = ["i0", "i0e", "i1", "i1e"]


def _scaled_bessel(x: float, order: int) -> float:
    """``exp(-|x|) I_n(x)`` by the power series, whose terms are of one sign, and of a large x by
    Hankel's expansion (Abramowitz and Stegun, 9.6.10 and 9.7.1)."""
    if math.isnan(x):
        return x
    a = abs(x)
    if a < 40:
        half, terms = a / 2, [(a / 2) ** order]
        while terms[-1] > 1e-18 * terms[0] or len(terms) <= half:
            terms.append(terms[-1] * half * half / (len(terms) * (len(terms) + order)))
        value = math.fsum(terms) * math.exp(-a)
    else:
        terms = [1.0]
        while abs(terms[-1]) > 1e-18:
            i = 2 * len(terms) - 1
            terms.append(terms[-1] * (i * i - 4 * order * order) / (8 * len(terms) * a))
        value = math.fsum(terms) / math.sqrt(2 * math.pi) / math.sqrt(a)
    return math.copysign(value, x) if order else value


def _plain(x: float, order: int) -> float:
    root = math.exp(min(abs(x) / 2, 709.0))  # its square may overflow where the product does not
    value = _scaled_bessel(x, order) * root * root
    return math.copysign(math.inf, value) if math.isinf(x) else value


def _bessel(
    name: str,
    doc: str,
    function: Callable[[float, int], float],
    partial: Callable[..., Any],
) -> Op:
    order = int(name[1])
    return real_function(
        name, doc,
        by_python(name, lambda x: function(x, order)),
        partial, numpy="slower",
    )  # fmt: skip


def _ratio(out: Any, x: Any) -> Any:
    """``out / x``, whose limit at 0 is 1/2."""
    at_zero = eq(x, 0)
    return where(at_zero, 0.5, out / where(at_zero, 1.0, x))


i0: Op = _bessel(
    "i0", "The modified Bessel function of the first kind of order 0.",
    _plain, lambda ct, out, x: ct * i1(x),
)  # fmt: skip
i1: Op = _bessel(
    "i1", "The modified Bessel function of the first kind of order 1.",
    _plain, lambda ct, out, x: ct * (i0(x) - _ratio(out, x)),
)  # fmt: skip
i0e: Op = _bessel(
    "i0e", "``exp(-|x|) i0(x)``.",
    _scaled_bessel, lambda ct, out, x: ct * (i1e(x) - sign(x) * out),
)  # fmt: skip
i1e: Op = _bessel(
    "i1e", "``exp(-|x|) i1(x)``.",
    _scaled_bessel, lambda ct, out, x: ct * (i0e(x) - sign(x) * out - _ratio(out, x)),
)  # fmt: skip
