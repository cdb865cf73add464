"""Integers that stand for floats: quantized and back, and products of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dtypes import DType, float32, float64, int32, uint8
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.rows.elementwise import dtype_wanted
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.shapes import axis_of
from staticflow.onnx.reading.rows.windows import convolve
from staticflow.ops.basics.arithmetic import clamp, mul
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.basics.view import reshape
from staticflow.ops.elementwise.maths import round
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.roll_repeat import repeat_interleave
from staticflow.ops.matrices.contract import matmul

__all__ = ["QUANTIZED"]


def _beside(x: Any, value: Any, axis: int, block: int) -> Any:
    """A scale or zero point, of all, of each element of a dim, or of each block along it."""
    if value is None or value.ndim == 0:
        return value
    axis = axis_of(axis, x.ndim)
    if block:
        if value.ndim != x.ndim:
            raise ShapeError(
                f"scales in blocks have the dims of {list(x.shape)}, not {list(value.shape)}, at "
                f"{format_locs(here())}"
            )
        return part_of(repeat_interleave(value, block, axis), axis, 0, x.shape[axis])
    if value.ndim != 1:
        raise ShapeError(
            f"a scale is a number or a vector, not {list(value.shape)}, at {format_locs(here())}"
        )
    if type(value.shape[0]) is int and value.shape[0] == 1:
        return reshape(value, ())
    shape = [1] * x.ndim
    shape[axis] = value.shape[0]
    return reshape(value, tuple(shape))


def _into(x: Any, zero: Any, dtype: DType) -> Any:
    """Rounded floats as integers of ``dtype``, those that do not fit as the nearest."""
    low = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
    high = (1 << (dtype.bits if dtype.kind == "u" else dtype.bits - 1)) - 1
    found = round(x)
    found = found if zero is None else add(found, cast(zero, found.dtype))
    return cast(clamp(found, low, high), dtype)


def _quantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0,
) -> Any:  # fmt: skip
    dtype = uint8 if zero is None else zero.dtype
    dtype = dtype_wanted(output_dtype) if output_dtype else dtype
    wide = x if x.dtype.is_floating else cast(x, float32)
    scale, zero = (_beside(x, v, axis, block_size) for v in (scale, zero))
    return _into(div(wide, cast(scale, wide.dtype)), zero, dtype)


def _dequantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Any:  # fmt: skip
    dtype = dtype_wanted(output_dtype) if output_dtype else scale.dtype
    scale, zero = (_beside(x, v, axis, block_size) for v in (scale, zero))
    wide = cast(x, int32)
    wide = wide if zero is None else sub(wide, cast(zero, int32))
    return cast(mul(cast(wide, scale.dtype), scale), dtype)


def _away(x: Any, zero: Any, axis: int) -> Any:
    """Integers without their zero point, which may be one for each element of a dim."""
    wide = cast(x, int32)
    if zero is None:
        return wide
    if zero.ndim == 1 and not (type(zero.shape[0]) is int and zero.shape[0] == 1):
        shape = [1] * x.ndim
        shape[axis] = zero.shape[0]
        zero = reshape(zero, tuple(shape))
    elif zero.ndim == 1:
        zero = reshape(zero, ())
    return sub(wide, cast(zero, int32))


def _matmul_integer(a: Any, b: Any, *, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    rows, columns = a.ndim - 2, b.ndim - 1
    return matmul(_away(a, a_zero_point, rows), _away(b, b_zero_point, columns))


def _linear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any
) -> Any:
    found = matmul(_away(a, a_zero, a.ndim - 2), _away(b, b_zero, b.ndim - 1))
    factor = div(mul(cast(a_scale, float32), cast(b_scale, float32)), cast(scale, float32))
    return _into(mul(cast(found, float32), factor), zero, zero.dtype)


def _conv_integer(
    x: Any, w: Any, *, x_zero_point: Any = None, w_zero_point: Any = None,
    kernel_shape: Any = None, strides: Any = None, pads: Any = None, dilations: Any = None,
    group: int = 1, auto_pad: str = "NOTSET",
) -> Any:  # fmt: skip
    # products of integers of 8 bits, which float64 adds up exactly
    x, w = (cast(v, float64) for v in (_away(x, x_zero_point, 1), _away(w, w_zero_point, 0)))
    found = convolve(
        x, w, strides=strides, pads=pads, dilations=dilations, group=group, auto_pad=auto_pad
    )
    return cast(found, int32)


def _linear_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, scale: Any, zero: Any,
    bias: Any = None, *, kernel_shape: Any = None, strides: Any = None, pads: Any = None,
    dilations: Any = None, group: int = 1, auto_pad: str = "NOTSET",
) -> Any:  # fmt: skip
    found = _conv_integer(
        x, w, x_zero_point=x_zero, w_zero_point=w_zero, strides=strides, pads=pads,
        dilations=dilations, group=group, auto_pad=auto_pad,
    )  # fmt: skip
    wide = (1, -1) + (1,) * (x.ndim - 2)
    if bias is not None:
        found = add(found, reshape(bias, wide))
    if w_scale.ndim:
        w_scale = reshape(w_scale, wide)
    factor = div(mul(reshape(x_scale, ()), w_scale), reshape(scale, ()))
    return _into(mul(cast(found, float32), factor), reshape(zero, ()), zero.dtype)


QUANTIZED: Mapping[str, Row] = {
    "ConvInteger": row(_conv_integer),
    "DequantizeLinear": row(_dequantize, fixed="scale zero"),
    "MatMulInteger": row(_matmul_integer),
    "QLinearConv": row(_linear_conv, fixed="x_scale w_scale scale"),
    "QLinearMatMul": row(_linear_matmul, fixed="a_scale b_scale scale"),
    "QuantizeLinear": row(_quantize, fixed="scale zero", ignored="saturate"),
}
"""Rows by operator."""
