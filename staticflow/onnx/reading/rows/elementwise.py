"""Functions of single elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DType, bool_, float64
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.types import dtype_of_code
from staticflow.ops.basics.arithmetic import (
    clamp,
    eq,
    ge,
    gt,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    remainder,
)  # fmt: skip
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.view import view
from staticflow.ops.elementwise.activation import celu, elu
from staticflow.ops.elementwise.bits import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)  # fmt: skip
from staticflow.ops.elementwise.compare import isneginf, isposinf
from staticflow.ops.elementwise.maths import (
    abs,
    ceil,
    exp,
    floor,
    isinf,
    isnan,
    log,
    pow,
    reciprocal,
    relu,
    round,
    sigmoid,
    sign,
    sqrt,
)  # fmt: skip
from staticflow.ops.elementwise.pairs import fmod as fmod_of
from staticflow.ops.elementwise.special import erf
from staticflow.ops.elementwise.trig import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)  # fmt: skip
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.data_dependent import where

__all__ = ["ELEMENTWISE", "dtype_wanted"]


def dtype_wanted(code: int) -> DType:
    """The dtype that an attribute says by its number in ONNX.

    Raises `DTypeError` for one that is not ours.
    """
    found = dtype_of_code(code)
    if found is None:
        raise DTypeError(
            f"a result is to be of the dtype of number {code} of ONNX, which is none of "
            f"staticflow's, at {format_locs(here())}"
        )
    return found


def _div(a: Any, b: Any) -> Any:
    return div(a, b) if a.dtype.is_floating else div(a, b, rounding_mode="trunc")


def _pow(a: Any, b: Any) -> Any:
    if a.dtype is b.dtype:
        return pow(a, b)
    wide = float64 if b.dtype.is_floating and not a.dtype.is_floating else a.dtype
    return cast(pow(cast(a, wide), cast(b, wide)), a.dtype)


def _mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    return fmod_of(a, b) if fmod else remainder(a, b)


def _clip(x: Any, *, min: Any = None, max: Any = None) -> Any:
    if not (hasattr(min, "dtype") or hasattr(max, "dtype")):
        return x if min is None and max is None else clamp(x, min, max)
    # bounds are tensors; where they cross it is the upper one
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


def _of_many(function: Any) -> Any:
    """A function of two as one of any number."""

    def run(*xs: Any) -> Any:
        found = xs[0]
        for x in xs[1:]:
            found = function(found, x)
        return found

    return run


def _mean(*xs: Any) -> Any:
    return div(_of_many(add)(*xs), len(xs))


def _is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    if detect_negative and detect_positive:
        return isinf(x)
    if not (detect_negative or detect_positive):
        return cast(zeros_like(x), bool_)
    return isposinf(x) if detect_positive else isneginf(x)


def _shift(x: Any, by: Any, *, direction: str) -> Any:
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"the direction is {direction!r}, and must be LEFT or RIGHT")
    by = cast(by, x.dtype)
    return (bitwise_left_shift if direction == "LEFT" else bitwise_right_shift)(x, by)


def _cast_like(x: Any, like: Any) -> Any:
    return cast(x, like.dtype)


def _bit_cast(x: Any, *, to: int) -> Any:
    wanted = dtype_wanted(to)
    return cast(x, wanted) if x.dtype is bool_ else view(x, dtype=wanted)


def _hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return clamp(add(mul(x, alpha), beta), 0, 1)


def _selu(x: Any, *, alpha: float = 1.67326, gamma: float = 1.0507) -> Any:
    return mul(elu(x, alpha), gamma)


def _elu_old(x: Any, *, alpha: float = 1.0) -> Any:
    return elu(x, alpha)


def _prelu(x: Any, slope: Any) -> Any:
    return where(lt(x, 0), mul(x, slope), x)


def _shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    zero = zeros_like(x)
    low = lt(x, -lambd)
    return where(
        low, cast(add(x, bias), x.dtype), where(gt(x, lambd), cast(sub(x, bias), x.dtype), zero)
    )


def _threshold(x: Any, *, alpha: float = 1.0) -> Any:
    return where(gt(x, alpha), x, zeros_like(x))


def _swish(x: Any, *, alpha: float = 1.0) -> Any:
    return mul(x, sigmoid(mul(x, alpha)))


def _gelu(x: Any, *, approximate: str = "none") -> Any:
    return F.gelu(x, approximate=approximate)


def _leaky(x: Any, *, alpha: float = 0.01) -> Any:
    return F.leaky_relu(x, alpha)


def _round(x: Any) -> Any:
    return round(x)


def _same(x: Any) -> Any:
    return x


def _where(condition: Any, x: Any, y: Any) -> Any:
    return where(condition, x, y)


def _one(function: Any) -> Row:
    """A row of a function of one tensor."""
    return row(lambda x: function(x), ignored="consumed_inputs")


def _two(function: Any, since: int = 7) -> Row:
    """A row of a function of two tensors, which broadcast as here from ``since`` on."""
    return row(lambda a, b: function(a, b), since=since)


_ONE: Mapping[str, Any] = {
    "Abs": abs, "Acos": acos, "Acosh": acosh, "Asin": asin, "Asinh": asinh, "Atan": atan,
    "Atanh": atanh, "Ceil": ceil, "Cos": cos, "Cosh": cosh, "Erf": erf, "Exp": exp,
    "Floor": floor, "HardSwish": F.hardswish, "IsNaN": isnan, "Log": log, "Mish": F.mish,
    "Neg": neg, "Not": logical_not, "Reciprocal": reciprocal, "Relu": relu, "Round": round,
    "Sigmoid": sigmoid, "Sign": sign, "Sin": sin, "Sinh": sinh,
    "Softplus": lambda x: F.softplus(x, threshold=1e9), "Softsign": F.softsign, "Sqrt": sqrt,
    "Tan": tan, "Tanh": tanh, "BitwiseNot": bitwise_not, "Identity": _same,
}  # fmt: skip

_TWO: Mapping[str, Any] = {
    "Add": add, "And": logical_and, "Div": _div, "Equal": eq, "Greater": gt,
    "GreaterOrEqual": ge, "Less": lt, "LessOrEqual": le, "Mul": mul, "Or": logical_or,
    "Pow": _pow, "Sub": sub, "Xor": logical_xor, "BitwiseAnd": bitwise_and,
    "BitwiseOr": bitwise_or, "BitwiseXor": bitwise_xor,
}  # fmt: skip

ELEMENTWISE: Mapping[str, Row] = {
    **{name: _one(function) for name, function in _ONE.items()},
    **{name: _two(function) for name, function in _TWO.items()},
    "BitShift": row(_shift),
    "BitCast": row(_bit_cast),
    "Cast": row(lambda x, *, to: cast(x, dtype_wanted(to)), since=6, ignored="saturate round_mode"),
    "CastLike": row(_cast_like, ignored="saturate round_mode"),
    "Celu": row(lambda x, *, alpha=1.0: celu(x, alpha)),
    "Clip": row(_clip, fixed="min max", ignored="consumed_inputs"),
    "Elu": row(_elu_old, ignored="consumed_inputs"),
    "Gelu": row(_gelu),
    "HardSigmoid": row(_hard_sigmoid, ignored="consumed_inputs"),
    "IsInf": row(_is_inf),
    "LeakyRelu": row(_leaky, ignored="consumed_inputs"),
    "Max": row(_of_many(maximum)),
    "Mean": row(_mean),
    "Min": row(_of_many(minimum)),
    "Mod": row(_mod),
    "PRelu": row(_prelu, since=7),
    "Selu": row(_selu, ignored="consumed_inputs"),
    "Shrink": row(_shrink),
    "Sum": row(_of_many(add)),
    "Swish": row(_swish),
    "ThresholdedRelu": row(_threshold),
    "Where": row(_where),
}
"""Rows by operator."""
