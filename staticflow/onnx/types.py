"""What runtimes compute in which dtype, and what stands in for the others."""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.graph.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

__all__ = ["KIND", "computed_in", "dtype_of_code", "element_type"]

KIND = "staticflow.kind"
"""The key under which an initializer says that it is a parameter, a buffer or a constant."""

_CODES: Mapping[DType, int] = {
    float32: 1, uint8: 2, int8: 3, int16: 5, int32: 6, int64: 7, bool_: 9, float16: 10,
    float64: 11, bfloat16: 16,
}  # fmt: skip
"""``TensorProto.DataType`` of ONNX."""

_DTYPES: Mapping[int, DType] = {code: dtype for dtype, code in _CODES.items()}

_ALL = frozenset(DTYPES)
_REALS = frozenset((float16, float32, float64))
_USUAL = _REALS | {int32, int64}
_NUMBERS = _USUAL | {uint8, int8, int16}
_COMPARED = _NUMBERS - {int16}

_OWN: Mapping[str, frozenset[DType]] = {
    **dict.fromkeys(
        (
            "Cast", "Concat", "ConstantOfShape", "Gather", "GatherElements", "GatherND", "Identity",
            "Reshape", "ScatterElements", "ScatterND", "Shape", "Slice", "Squeeze", "Transpose",
            "Unsqueeze", "BitCast",
        ),
        _ALL,
    ),
    **dict.fromkeys(("Expand", "Tile"), _ALL - {bfloat16}),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Abs", "Mod"), _NUMBERS),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _NUMBERS),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), _NUMBERS - _REALS),
    **dict.fromkeys(("And", "Or", "Xor", "Not"), frozenset((bool_,))),
    **dict.fromkeys(("IsNaN", "IsInf"), _REALS | {bfloat16}),
    **dict.fromkeys(("Max", "Min", "Clip", "Where", "ArgMax", "ArgMin"), _COMPARED),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _COMPARED | {bool_}),
    **dict.fromkeys(("Neg", "TopK"), _NUMBERS - {uint8}),
    **dict.fromkeys(("Conv", "ConvTranspose", "AveragePool", "GlobalAveragePool", "Gemm"), _REALS),
    "Equal": _NUMBERS | {bool_},
    "MaxPool": _REALS | {uint8, int8},
    "Pad": _ALL - {int16},
    "Relu": _REALS | {int32, int8},
    "Trilu": _USUAL | {bool_},
}  # fmt: skip
"""For each operator of ONNX the dtypes that it is written in; of one that is not here `_USUAL`. The
standard allows more, and runtimes have fewer: these are what both have, but for float64, which few
have everywhere."""

_WIDE: Mapping[DType, DType] = {
    bool_: int32, uint8: int32, int8: int32, int16: int32, bfloat16: float32, float16: float32,
}  # fmt: skip
"""The dtype that holds all values of another."""


def element_type(dtype: DType) -> int:
    """The number that ONNX has for a dtype."""
    return _CODES[dtype]


def dtype_of_code(code: int) -> DType | None:
    """The dtype that ONNX has a number for; None for one that is not ours."""
    return _DTYPES.get(code)


def computed_in(kind: str, dtype: DType) -> DType:
    """The dtype in which the operator ``kind`` is written for operands of ``dtype``, which holds
    all of their values."""
    if dtype in _OWN.get(kind, _USUAL):
        return dtype
    return _WIDE.get(dtype, dtype)
