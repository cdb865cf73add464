"""Mantissas and exponents of floats in LLVM text: AVX-512 has an instruction for either."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from staticflow.codegen.llvm.text import FunctionText
from staticflow.codegen.llvm.values import Value, apply, bitcast, cast, constant
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, float32, float64, int32, int64

__all__ = ["PARTS", "float_part", "in_pieces"]

PARTS = ("mantissa", "exponent")
"""The primitives that are here."""


def float_part(text: FunctionText, op: str, a: Value, instructions: bool) -> Value:
    """A primitive of `PARTS`, by the ``instructions`` for it if the machine has them."""
    if a.dtype not in _FORMATS:
        return cast(text, float_part(text, op, cast(text, a, float32), instructions), a.dtype)
    bits = a.lanes * a.dtype.bits
    if not instructions or bits < 128 or bits & (bits - 1):
        return _mantissa(text, a) if op == "mantissa" else _exponent(text, a)
    by = _mantissa_at_once if op == "mantissa" else _exponent_at_once
    return in_pieces(text, by, a, min(bits, 512) // a.dtype.bits)


def in_pieces(
    text: FunctionText, fn: Callable[[FunctionText, Value], Value], a: Value, lanes: int
) -> Value:
    """``fn`` of ``lanes`` of ``a`` at a time, which has a power of two times as many."""
    pieces = [fn(text, _lanes(text, a, i, i + lanes)) for i in range(0, a.lanes, lanes)]
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [_join_lanes(text, low, high) for low, high in pairs]
    return pieces[0]


# -- by instructions of AVX-512 ----------------------------------------------------------------

_BALANCED = 0b1111
"""What vgetmant takes: an interval from 3/4 to 3/2, NaN below zero, +1 for -0."""

_CURRENT_ROUNDING = 4


def _mantissa_at_once(text: FunctionText, a: Value) -> Value:
    return _call_masked(text, "getmant", a, f"i32 {_BALANCED}, ")


def _exponent_at_once(text: FunctionText, a: Value) -> Value:
    """vgetexp gives the exponents of numbers from 1 to 2, of which those from 3/2 belong to the
    next one here: their mantissas have -1."""
    found = _call_masked(text, "getexp", a, "")
    return apply(text, "sub", found, _call_masked(text, "getexp", _mantissa_at_once(text, a), ""))


def _call_masked(text: FunctionText, name: str, a: Value, option: str) -> Value:
    bits = a.lanes * a.dtype.bits
    kind = "ps" if a.dtype is float32 else "pd"
    mask = max(a.lanes, 8)
    rounding = f", i32 {_CURRENT_ROUNDING}" if bits == 512 else ""
    found = text.op(
        f"call {a.type} @llvm.x86.avx512.mask.{name}.{kind}.{bits}"
        f"({a.type} {a.name}, {option}{a.type} zeroinitializer, i{mask} -1{rounding})"
    )
    return Value(found, a.dtype, a.lanes)


def _lanes(text: FunctionText, a: Value, first: int, end: int) -> Value:
    if end - first == a.lanes:
        return a
    found = text.shuffle(a.type, a.name, "poison", list(range(first, end)))
    return Value(found, a.dtype, end - first)


def _join_lanes(text: FunctionText, low: Value, high: Value) -> Value:
    lanes = 2 * low.lanes
    found = text.shuffle(low.type, low.name, high.name, list(range(lanes)))
    return Value(found, low.dtype, lanes)


# -- by the bits -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Format:
    """How floats are written: the integer of as many bits, the bits that their fraction takes,
    3/4 as such an integer, and the smallest number with a full fraction."""

    integer: DType
    fraction: int
    lowest: int
    smallest_normal: float


_FORMATS = {
    float32: _Format(int32, 23, 0x3F400000, 2.0**-126),
    float64: _Format(int64, 52, 0x3FE8000000000000, 2.0**-1022),
}


def _like(a: Value, value: float) -> Value:
    return constant(value, a.dtype, a.lanes)


def _choose(text: FunctionText, where: Value, a: Value, b: Value) -> Value:
    return apply(text, "select", where, a, b)


def _mantissa(text: FunctionText, a: Value) -> Value:
    m, _ = _split(text, a)
    end = _choose(text, apply(text, "ge", a, _like(a, 0.0)), _like(a, 1.0), _like(a, nan))
    return _choose(text, _is_regular(text, a), m, end)


def _exponent(text: FunctionText, a: Value) -> Value:
    _, e = _split(text, a)
    zero = _like(a, 0.0)
    end = _choose(text, apply(text, "eq", a, zero), _like(a, -inf), _like(a, nan))
    end = _choose(text, apply(text, "gt", a, zero), a, end)
    return _choose(text, _is_regular(text, a), e, end)


def _is_regular(text: FunctionText, a: Value) -> Value:
    above = apply(text, "gt", a, _like(a, 0.0))
    return apply(text, "and", above, apply(text, "lt", a, _like(a, inf)))


def _split(text: FunctionText, a: Value) -> tuple[Value, Value]:
    """Mantissa and exponent of positive finite numbers; of others they mean nothing."""
    layout = _FORMATS[a.dtype]

    def integer(value: int) -> Value:
        return constant(value, layout.integer, a.lanes)

    denormal = apply(text, "lt", a, _like(a, layout.smallest_normal))
    up = _choose(text, denormal, _like(a, 2.0**layout.fraction), _like(a, 1.0))
    bits = bitcast(text, apply(text, "mul", a, up), layout.integer)
    above = apply(text, "sub", bits, integer(layout.lowest))
    whole = apply(text, "and", above, integer(-1 << layout.fraction))
    m = bitcast(text, apply(text, "sub", bits, whole), a.dtype)
    # few machines turn vectors of int64 into floats
    low = cast(text, apply(text, "shr", above, integer(layout.fraction)), int32)
    back = _choose(text, denormal, _like(a, float(layout.fraction)), _like(a, 0.0))
    return m, apply(text, "sub", cast(text, low, a.dtype), back)
