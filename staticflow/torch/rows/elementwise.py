"""Functions of single elements."""

from __future__ import annotations

from math import pi
from typing import Any

from staticflow.graph.dtypes import get_default_dtype
from staticflow.nn.functional import activations
from staticflow.ops.basics import arithmetic
from staticflow.ops.basics.arithmetic import clamp, clone, where
from staticflow.ops.basics.creation import full_like
from staticflow.ops.basics.view import reshape
from staticflow.ops.elementwise import (
    bessel,
    bits,
    compare,
    floats,
    gamma,
    maths,
    pairs,
    special,
    trig,
    variants,
)
from staticflow.ops.elementwise.activation import threshold
from staticflow.ops.elementwise.fake_quantize import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from staticflow.ops.elementwise.maths import round
from staticflow.ops.elementwise.synonyms import sgn
from staticflow.ops.indexing.mask_ops import masked_fill
from staticflow.ops.tensors.shortcuts import ldexp
from staticflow.special import ndtri
from staticflow.torch.rows.row import Rows, cast_to, each, later, scalar_for

__all__ = ["ELEMENTWISE"]

_UNARY = {
    maths: (
        "abs", "ceil", "exp", "exp2", "expm1", "floor", "frac", "isfinite", "isinf", "isnan", "log",
        "log10", "log1p", "log2", "reciprocal", "relu", "rsqrt", "sigmoid", "sign", "sqrt",
        "square", "trunc",
    ),
    trig: (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan",
        "tanh",
    ),
    special: ("erf", "erfc", "erfinv"),
    bessel: ("i0",),
    gamma: ("digamma", "lgamma"),
    arithmetic: ("neg", "logical_not"),
    bits: ("bitwise_not",),
}  # fmt: skip
_BINARY = {
    arithmetic: ("eq", "ge", "gt", "le", "lt", "ne", "remainder"),
    bits: ("bitwise_and", "bitwise_or", "bitwise_xor"),
    pairs: ("fmod",),
}  # fmt: skip
_OF_TWO_TENSORS = {
    arithmetic: ("logical_and", "logical_or", "logical_xor", "maximum", "minimum"),
    trig: ("atan2",),
    pairs: (
        "copysign",
        "fmax",
        "gcd",
        "lcm",
        "fmin",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "heaviside",
    ),
}


def _unary() -> Rows:
    found = {n: getattr(where_it_is, n) for where_it_is, names in _UNARY.items() for n in names}
    return {f"aten.{n}.default": fn for n, fn in found.items()}


def _binary() -> Rows:
    found = {n: getattr(room, n) for room, names in _BINARY.items() for n in names}
    both = {f"aten.{n}.{kind}": fn for n, fn in found.items() for kind in ("Tensor", "Scalar")}
    two = {n: getattr(room, n) for room, names in _OF_TWO_TENSORS.items() for n in names}
    return both | {f"aten.{n}.default": fn for n, fn in two.items()}


def _add(x: Any, other: Any, alpha: Any = 1) -> Any:
    return variants.add(x, other, alpha=alpha)


def _sub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return variants.sub(x, other, alpha=alpha)


def _rsub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return variants.rsub(x, other, alpha=alpha)


def _mul(x: Any, other: Any) -> Any:
    return x * other


def _div(x: Any, other: Any, rounding_mode: str | None = None) -> Any:
    return variants.div(x, other, rounding_mode=rounding_mode)


def _pow(x: Any, exponent: Any) -> Any:
    return maths.pow(x, exponent)


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    return clamp(x, min, max)


def _elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    negative = maths.expm1(clamp(x * input_scale, max=0.0)) * (alpha * scale)
    return where(x > 0, x * scale, negative)


def _gelu(x: Any, approximate: str = "none") -> Any:
    return activations.gelu(x, approximate)


def _leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    return activations.leaky_relu(x, negative_slope)


def _hardtanh(x: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    return clamp(x, scalar_for(x, min_val), scalar_for(x, max_val))


def _softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    return activations.softplus(x, beta, threshold)


def _fill(x: Any, value: Any) -> Any:
    return full_like(x, value)


def _to_copy(x: Any, dtype: Any = None) -> Any:
    return cast_to(x, dtype)


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return masked_fill(x, mask, value)


def _threshold_backward(grad_output: Any, x: Any, threshold: Any) -> Any:
    return where(x > threshold, grad_output, 0.0)


def _nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    return compare.nan_to_num(x, 0.0 if nan is None else nan, posinf, neginf)


def _angle(x: Any) -> Any:
    """The angle of a real number as a complex one: 0 or pi, NaN of NaN."""
    x = x if x.dtype.is_floating else cast_to(x, get_default_dtype())
    return where(maths.isnan(x), x, where(x < 0, pi, 0.0).to(x.dtype))


def _itself(x: Any) -> Any:
    return x


def _fake_quantize(x: Any, scale: Any, zero: Any, low: int, high: int) -> tuple[Any, Any]:
    """What rounds to steps gives, and the mask by which PyTorch's derivative multiplies."""
    return fake_quantize_per_tensor_affine(x, scale, zero, low, high), later(
        _is_within, x, scale, zero, low, high
    )


def _fake_quantize_by_tensor(
    x: Any, scale: Any, zero: Any, enabled: Any, low: int, high: int
) -> tuple[Any, Any]:
    value, mask = _fake_quantize(x, scale, zero, low, high)
    return where(enabled != 0, value, x), mask


def _fake_quantize_channels(
    x: Any, scale: Any, zero: Any, axis: int, low: int, high: int
) -> tuple[Any, Any]:
    value = fake_quantize_per_channel_affine(x, scale, zero, axis, low, high)
    behind = (1,) * (x.ndim - axis - 1)
    each, zeros = (reshape(v, (-1, *behind)) for v in (scale, zero))
    return value, later(_is_within, x, each, zeros, low, high)


def _is_within(x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    steps = round(x * (1 / scale)) + zero
    return (steps >= low) & (steps <= high)


ELEMENTWISE: Rows = {
    "aten.fake_quantize_per_tensor_affine_cachemask.default": _fake_quantize,
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default": (
        _fake_quantize_by_tensor
    ),
    "aten.fake_quantize_per_channel_affine_cachemask.default": _fake_quantize_channels,
    "aten.detach_copy.default": lambda x: clone(x.detach()),
    **_unary(),
    **_binary(),
    **each(("add.Tensor", "add.Scalar"), _add),
    **each(("sub.Tensor", "sub.Scalar"), _sub),
    **each(("rsub.Tensor", "rsub.Scalar"), _rsub),
    **each(("mul.Tensor", "mul.Scalar"), _mul),
    **each(
        ("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor"),
        _div,
    ),
    **each(("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"), _pow),
    **each(("clamp.default", "clamp.Tensor"), _clamp),
    **each(("masked_fill.Scalar", "masked_fill.Tensor"), _masked_fill),
    "aten.floor_divide.default": arithmetic.floor_divide,
    "aten.xlogy.Tensor": pairs.xlogy,
    **each(
        (
            "bitwise_left_shift.Tensor",
            "bitwise_left_shift.Tensor_Scalar",
            "__lshift__.Scalar",
            "__lshift__.Tensor",
        ),
        bits.bitwise_left_shift,
    ),
    **each(
        (
            "bitwise_right_shift.Tensor",
            "bitwise_right_shift.Tensor_Scalar",
            "__rshift__.Scalar",
            "__rshift__.Tensor",
        ),
        bits.bitwise_right_shift,
    ),
    "aten.clamp_min.default": lambda x, min: clamp(x, min=min),
    "aten.clamp_max.default": lambda x, max: clamp(x, max=max),
    "aten.round.default": lambda x: variants.round(x),
    "aten.round.decimals": lambda x, decimals: variants.round(x, decimals=decimals),
    "aten.angle.default": _angle,
    "aten.copysign.Tensor": pairs.copysign,
    "aten.frexp.Tensor": lambda x: tuple(floats.frexp(x)),
    "aten.ldexp.Tensor": ldexp,
    "aten.nextafter.default": floats.nextafter,
    "aten.polygamma.default": gamma.polygamma,
    "aten.signbit.default": compare.signbit,
    "aten.special_erfcx.default": special.erfcx,
    "aten.special_i0e.default": bessel.i0e,
    "aten.special_i1.default": bessel.i1,
    "aten.special_i1e.default": bessel.i1e,
    "aten.special_modified_bessel_i0.default": bessel.i0,
    "aten.special_modified_bessel_i1.default": bessel.i1,
    "aten.special_ndtri.default": ndtri,
    "aten.sgn.default": sgn,
    "aten.elu.default": _elu,
    "aten.gelu.default": _gelu,
    "aten.leaky_relu.default": _leaky_relu,
    "aten.hardtanh.default": _hardtanh,
    "aten.softplus.default": _softplus,
    "aten.threshold.default": threshold,
    "aten.threshold_backward.default": _threshold_backward,
    "aten.nan_to_num.default": _nan_to_num,
    "aten.where.self": where,
    "aten.fill.Scalar": _fill,
    "aten.fill.Tensor": lambda x, value: arithmetic.clone((x * 0).to(x.dtype) + value).to(x.dtype),
    "aten.copy.default": lambda x, src: cast_to(src, x.dtype).expand(x.shape),
    "aten._to_copy.default": _to_copy,
    "aten.view.dtype": lambda x, dtype: x.view(dtype),
    **each(("clone.default", "lift_fresh_copy.default"), arithmetic.clone),
    **each(("alias.default", "contiguous.default"), _itself),
    "aten.detach.default": lambda x: x.detach(),
    "prims.convert_element_type.default": cast_to,
    "prims.fma.default": lambda a, b, c: a * b + c,  # rounded twice, as PyTorch's eager optimisers
}
"""Rows of functions of single elements."""
