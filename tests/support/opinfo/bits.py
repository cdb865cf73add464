"""Bits of integers and bools."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.arithmetic import pairwise, sized_unary, unary
from opinfo.core import INTEGERS, Array, Failure, OpInfo, Sample, pointwise, wrap
from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DTYPES, bool_
from staticflow.ops import OPS

__all__ = ["ROWS"]

_WHOLE = (*INTEGERS, bool_)
_NO_FLOAT = Failure(Sample((np.ones(2), np.ones(2))), DTypeError, "not defined for float64")


def _bitwise(name: str, call: Callable[..., Any]) -> OpInfo:
    return pairwise(
        OPS[name], call, expect=pointwise(call), dtypes=_WHOLE, exact=True,
        failures=(_NO_FLOAT,),
    )  # fmt: skip


def _shifted(left: bool) -> Callable[..., Array]:
    """By Python's integers; a shift by a negative number is one by a very large one."""

    def expect(x: Any, n: Any) -> Array:
        dtype = next(d for d in DTYPES if d.numpy in {getattr(a, "dtype", None) for a in (x, n)})

        def one(a: int, b: int) -> int:
            by = b if 0 <= b < dtype.bits else dtype.bits
            return wrap(a << by, dtype) if left else a >> by

        return pointwise(one)(x, n)

    return expect


ROWS = (
    _bitwise("bitwise_and", operator.and_),
    _bitwise("bitwise_or", operator.or_),
    _bitwise("bitwise_xor", operator.xor),
    OpInfo(
        OPS["bitwise_not"], sf.bitwise_not,
        pointwise(lambda x: not x if isinstance(x, bool) else ~x), unary(), _WHOLE,
        grad=False, sized=sized_unary, exact=True,
        failures=(Failure(Sample((np.ones(2),)), DTypeError, "not defined for float64"),),
    ),
    pairwise(
        OPS["bitwise_left_shift"], sf.bitwise_left_shift, expect=_shifted(True), dtypes=INTEGERS,
        exact=True, failures=(_NO_FLOAT,),
    ),
    pairwise(
        OPS["bitwise_right_shift"], sf.bitwise_right_shift, expect=_shifted(False), dtypes=INTEGERS,
        exact=True, failures=(_NO_FLOAT,),
    ),
)  # fmt: skip
