"""Activation functions with parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opinfo.arithmetic import sized_unary, unary
from opinfo.core import FLOATS, NUMBERS, Failure, OpInfo, Sample, pointwise, special, values
from opinfo.maths import NO_BOOL, saturating, sigmoid
from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS
from staticflow.ops.elementwise import activation

__all__ = ["ROWS"]

inf = math.inf
_NO_INTEGERS = (
    Failure(Sample((np.array([1]),)), DTypeError, "not defined for int64"),
)  # fmt: skip


def _samples(*attrs: dict[str, Any]) -> Callable[[DType, bool], Iterator[Sample]]:
    """Away from kinks at 0, 1/2, 1, 3 and the like if smooth; and with each of ``attrs``."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        yield from unary(0.05, 0.45)(dtype, smooth)
        if smooth:
            for low, high in ((-0.45, -0.05), (1.1, 2.9), (-2.9, -1.1), (3.1, 5)):
                yield Sample((values((4,), dtype, low, high),))
        for kwargs in attrs:
            numbers = values((2, 3), dtype, 1.1, 2.9) if smooth else special(dtype)
            yield Sample((numbers,), kwargs)

    return samples


def _row(
    name: str,
    fn: Callable[..., float],
    *attrs: dict[str, Any],
    **row: Any,
) -> OpInfo:
    row.setdefault("failures", _NO_INTEGERS)
    return OpInfo(
        OPS[name], getattr(activation, name), pointwise(fn), _samples(*attrs), FLOATS,
        grad=True, sized=sized_unary, zeros=False, **row,
    )  # fmt: skip


_exp = saturating(math.exp)


def _silu(x: float) -> float:
    return x * sigmoid(x) if not x < -700 else math.nan if x == -inf else -0.0


def _gelu(x: float) -> float:
    return max(x, -1e4) * 0.5 * math.erfc(-x * math.sqrt(0.5))


def _gelu_tanh(x: float, approximate: str) -> float:
    u = 2 * math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)
    return x * sigmoid(u) if not u < -700 else math.nan if x == -inf else -0.0


def _softplus(x: float, beta: float = 1, threshold: float = 20) -> float:
    z = x * beta
    return x if z > threshold else (max(z, 0) + math.log1p(_exp(-abs(z)))) / beta if z == z else z


def _elu(x: float, alpha: float = 1) -> float:
    return x if x > 0 else alpha * math.expm1(x)


def _held(x: float, low: float, high: float) -> float:
    return low if x < low else high if x > high else x


def _threshold_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for sample in _samples({})(dtype, smooth):
        yield Sample((*sample.args, 1, 7))


_THRESHOLD = OpInfo(
    OPS["threshold"], activation.threshold, pointwise(lambda x, t, v: v if x <= t else x),
    _threshold_samples, NUMBERS, grad=True, exact=True,
    sized=lambda dtype, n: Sample((*sized_unary(dtype, n).args, 1, 5)),
    failures=(Failure(Sample((np.array([True]), 1, 7)), DTypeError, "not defined for bool"),),
)  # fmt: skip

_GELU_TANH = OpInfo(
    OPS["gelu_tanh"], activation.gelu, pointwise(_gelu_tanh),
    lambda dtype, smooth: (
        Sample(s.args, {"approximate": "tanh"}) for s in _samples()(dtype, smooth)
    ),
    FLOATS, grad=True, absolute=1, zeros=False, failures=_NO_INTEGERS,
    sized=lambda dtype, n: Sample(sized_unary(dtype, n).args, {"approximate": "tanh"}),
)  # fmt: skip

ROWS = (
    _THRESHOLD,
    _GELU_TANH,
    _row("silu", _silu),
    _row("gelu", _gelu, absolute=1),
    _row("softplus", _softplus, {"beta": 2.0, "threshold": 3.0}),
    _row("logsigmoid", lambda x: min(x, 0) - math.log1p(_exp(-abs(x))) if x == x else x),
    _row("mish", lambda x: x * math.tanh(_softplus(x, threshold=700))),
    _row("elu", _elu, {"alpha": 0.5}),
    _row("leaky_relu", lambda x, negative_slope=0.01: x if x > 0 else x * negative_slope,
         {"negative_slope": 0.2}),
    _row("hardtanh", lambda x, min_val=-1, max_val=1: _held(x, min_val, max_val),
         {"min_val": -2, "max_val": 0.5}, failures=NO_BOOL),
    _row("hardsigmoid", lambda x: _held(x + 3, 0, 6) / 6),
    _row("hardswish", lambda x: x * (_held(x + 3, 0, 6) / 6)),
    _row("hardshrink", lambda x, lambd=0.5: 0 if abs(x) <= lambd else x, {"lambd": 0.0}),
    _row("softshrink", lambda x, lambd=0.5: x - _held(x, -lambd, lambd), {"lambd": 0.0}),
)  # fmt: skip
