"""Primitives, casts and folds in LLVM text: tables from the word of the Kernel IR to instructions.

float16 and bfloat16 are computed in float32 and rounded back, which is the correctly rounded
result of add, sub, mul, div and sqrt (24 >= 2 * 11 + 2 bits; Figueroa 1995, "When is double
rounding innocuous?"). fma goes through float64: correctly rounded for float16, and for bfloat16
except where a term below 2**-53 of the other decides a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from staticflow.codegen.kernel import Const
from staticflow.codegen.llvm.text import (
    BasicBlock,
    FunctionText,
    Type,
    literal,
    phi,
    register_type,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, bfloat16, bool_, float16, float32, float64, int16, int32

__all__ = [
    "Value",
    "apply",
    "bitcast",
    "cast",
    "constant",
    "extend_half",
    "fold",
    "splat",
    "value_phi",
    "zip_lanes",
]


@dataclass(frozen=True, slots=True)
class Value:
    """An operand of an instruction: a register or literal, with ``const`` if it is the latter."""

    name: str
    dtype: DType
    lanes: int = 1
    const: bool | int | float | None = None

    @property
    def type(self) -> Type:
        """The type in LLVM."""
        return register_type(self.dtype, self.lanes)


def constant(value: bool | int | float, dtype: DType, lanes: int = 1) -> Value:
    """A literal in every lane."""
    return Value(literal(Const(value, dtype, lanes)), dtype, lanes, value)


def value_phi(result: Value, incoming: list[tuple[Value, BasicBlock]]) -> str:
    """The line that merges values where control flow meets."""
    return phi(result.name, result.type, [(value.name, block) for value, block in incoming])


# {t} is the type, {s} its suffix in names of intrinsics, {m} the mask type, {a} {b} {c} operands.
_BITS = {
    "and": "and {t} {a}, {b}",
    "or": "or {t} {a}, {b}",
    "xor": "xor {t} {a}, {b}",
    "not": "xor {t} {a}, {ones}",
    "eq": "icmp eq {t} {a}, {b}",
    "ne": "icmp ne {t} {a}, {b}",
}
_INT = _BITS | {
    "add": "add {t} {a}, {b}",
    "sub": "sub {t} {a}, {b}",
    "mul": "mul {t} {a}, {b}",
    "neg": "sub {t} {zero}, {a}",
    "shl": "shl {t} {a}, {b}",
}
_SIGNED = _INT | {
    "abs": "call {t} @llvm.abs.{s}({t} {a}, i1 false)",
    "shr": "ashr {t} {a}, {b}",
    "lt": "icmp slt {t} {a}, {b}",
    "le": "icmp sle {t} {a}, {b}",
    "gt": "icmp sgt {t} {a}, {b}",
    "ge": "icmp sge {t} {a}, {b}",
    "max": "call {t} @llvm.smax.{s}({t} {a}, {t} {b})",
    "min": "call {t} @llvm.smin.{s}({t} {a}, {t} {b})",
}
_ORDER = {
    "lt": "icmp ult {t} {a}, {b}",
    "le": "icmp ule {t} {a}, {b}",
    "gt": "icmp ugt {t} {a}, {b}",
    "ge": "icmp uge {t} {a}, {b}",
}
_UNSIGNED = (
    _INT
    | _ORDER
    | {
        "shr": "lshr {t} {a}, {b}",
        "max": "call {t} @llvm.umax.{s}({t} {a}, {t} {b})",
        "min": "call {t} @llvm.umin.{s}({t} {a}, {t} {b})",
    }
)
_BOOL = _BITS | _ORDER | {"max": _BITS["or"], "min": _BITS["and"]}
_FLOAT = {
    "add": "fadd {t} {a}, {b}",
    "sub": "fsub {t} {a}, {b}",
    "mul": "fmul {t} {a}, {b}",
    "div": "fdiv {t} {a}, {b}",
    "fma": "call {t} @llvm.fma.{s}({t} {a}, {t} {b}, {t} {c})",
    "neg": "fneg {t} {a}",
    "abs": "call {t} @llvm.fabs.{s}({t} {a})",
    "sqrt": "call {t} @llvm.sqrt.{s}({t} {a})",
    "floor": "call {t} @llvm.floor.{s}({t} {a})",
    "ceil": "call {t} @llvm.ceil.{s}({t} {a})",
    "trunc": "call {t} @llvm.trunc.{s}({t} {a})",
    "round": "call {t} @llvm.roundeven.{s}({t} {a})",
    "copysign": "call {t} @llvm.copysign.{s}({t} {a}, {t} {b})",
    "lt": "fcmp olt {t} {a}, {b}",
    "le": "fcmp ole {t} {a}, {b}",
    "gt": "fcmp ogt {t} {a}, {b}",
    "ge": "fcmp oge {t} {a}, {b}",
    "eq": "fcmp oeq {t} {a}, {b}",
    "ne": "fcmp une {t} {a}, {b}",
}
_INSTRUCTIONS = {"b": _BOOL, "i": _SIGNED, "u": _UNSIGNED, "f": _FLOAT}


# -- primitives --------------------------------------------------------------------------------


def apply(text: FunctionText, op: str, *args: Value) -> Value:
    """A primitive of `PRIMITIVES`."""
    first = args[0]
    special = _SPECIAL.get((op, first.dtype.kind))
    if first.dtype in _NARROW:
        return _OF_NARROW.get(op, _apply_widened)(text, op, *args)
    if special is not None:
        return special(text, op, *args)
    name = text.op(_instruction(_INSTRUCTIONS[first.dtype.kind][op], first.type, *args))
    return Value(name, bool_ if op in _COMPARISONS else first.dtype, first.lanes)


_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_NARROW = (float16, bfloat16)


def _instruction(template: str, type: Type, *args: Value) -> str:
    names = {letter: arg.name for letter, arg in zip("abc", args, strict=False)}
    ones = type.splat("true" if type.scalar == "i1" else "-1")
    return template.format(t=type, s=type.suffix, ones=ones, zero=type.splat("0"), **names)


_SIGN = -(1 << 15)


def _change_sign(text: FunctionText, op: str, *args: Value) -> Value:
    """A float of 16 bits with another sign, which is one bit of it."""
    first, *others = (bitcast(text, a, int16) for a in args)
    if op == "neg":
        bits = apply(text, "xor", first, constant(_SIGN, int16, first.lanes))
    else:
        bits = apply(text, "and", first, constant(~_SIGN, int16, first.lanes))
    for other in others:  # whose sign it takes
        sign = apply(text, "and", other, constant(_SIGN, int16, other.lanes))
        bits = apply(text, "or", bits, sign)
    return bitcast(text, bits, args[0].dtype)


def _apply_widened(text: FunctionText, op: str, *args: Value) -> Value:
    wide = float64 if op == "fma" else float32
    result = apply(text, op, *(cast(text, a, wide) for a in args))
    return result if op in _COMPARISONS else cast(text, result, args[0].dtype)


def _select(text: FunctionText, op: str, cond: Value, a: Value, b: Value) -> Value:
    name = text.op(f"select {cond.type} {cond.name}, {a.type} {a.name}, {b.type} {b.name}")
    return Value(name, a.dtype, a.lanes)


def _extreme(text: FunctionText, op: str, a: Value, b: Value) -> Value:
    """``a > b ? a : b`` is one instruction on x86 and gives b where either is NaN, which leaves
    only a NaN in a to be looked after; and nothing if a is a number."""
    if b.const is not None and b.const == b.const:
        a, b = b, a
    larger = apply(text, "gt" if op == "max" else "lt", a, b)
    result = _select(text, "select", larger, a, b)
    if a.const is not None and a.const == a.const:
        return result
    return _select(text, "select", apply(text, "ne", a, a), a, result)


def _divide(text: FunctionText, op: str, a: Value, b: Value) -> Value:
    """Division that cannot trap: where b is zero (lanes that are off) or the quotient would
    overflow (the least integer by -1) the division is by one, and what differs is put right."""
    one, zero, minus = (constant(n, b.dtype, b.lanes) for n in (1, 0, -1))
    signed = b.dtype.kind == "i"
    if b.const is None or b.const in (0, -1):
        bad = apply(text, "eq", b, zero)
        if signed:
            bad = apply(text, "or", bad, apply(text, "eq", b, minus))
        divisor = _select(text, "select", bad, one, b)
    else:
        divisor = b
    word = {"quotient": "div", "remainder": "rem"}[op]
    prefix = "s" if signed else "u"
    name = text.op(f"{prefix}{word} {a.type} {a.name}, {divisor.name}")
    result = replace(a, name=name, const=None)
    if divisor is b or not signed or op == "remainder":
        return result
    return _select(text, "select", apply(text, "eq", b, minus), apply(text, "neg", a), result)


_OF_NARROW: dict[str, Callable[..., Value]] = {
    "neg": _change_sign,
    "abs": _change_sign,
    "copysign": _change_sign,
    "max": _extreme,
    "min": _extreme,
}
"""Primitives whose result is one of their operands or differs from it in the sign: those of 16-bit
floats take the bits as they are, and need no float32 and no rounding back."""

_SPECIAL: dict[tuple[str, str], Callable[..., Value]] = {
    ("select", "b"): _select,
    ("max", "f"): _extreme,
    ("min", "f"): _extreme,
    ("quotient", "i"): _divide,
    ("quotient", "u"): _divide,
    ("remainder", "i"): _divide,
    ("remainder", "u"): _divide,
}


def splat(text: FunctionText, a: Value, lanes: int) -> Value:
    """One scalar in all of ``lanes``."""
    return Value(text.splat(a.type.wide(lanes), a.name), a.dtype, lanes)


def zip_lanes(text: FunctionText, half: str, a: Value, b: Value) -> Value:
    """The lanes of a half of both in turns."""
    first = 0 if half == "low" else a.lanes // 2
    lanes = [i for at in range(first, first + a.lanes // 2) for i in (at, at + a.lanes)]
    return Value(text.shuffle(a.type, a.name, b.name, lanes), a.dtype, a.lanes)


# -- folds -------------------------------------------------------------------------------------

_REDUCE = {
    "i": {"add": "add", "mul": "mul", "and": "and", "or": "or", "max": "smax", "min": "smin"},
    "u": {"add": "add", "mul": "mul", "and": "and", "or": "or", "max": "umax", "min": "umin"},
    "b": {"and": "and", "or": "or", "max": "or", "min": "and"},
}
_REDUCE_FLOAT = {"add": ("fadd", -0.0), "mul": ("fmul", 1.0)}


def fold(text: FunctionText, op: str, a: Value) -> Value:
    """All lanes combined by ``op``."""
    if a.lanes == 1:
        return a
    if a.dtype in _NARROW:
        return cast(text, fold(text, op, cast(text, a, float32)), a.dtype)
    scalar, type = register_type(a.dtype), a.type
    if not a.dtype.is_floating:
        word = _REDUCE[a.dtype.kind][op]
        name = text.call(f"vector.reduce.{word}.{type.suffix}", scalar, (type, a.name))
        return Value(name, a.dtype)
    if op in _REDUCE_FLOAT:
        word, start = _REDUCE_FLOAT[op]
        callee = f"@llvm.vector.reduce.{word}.{type.suffix}"
        first = constant(start, a.dtype).name
        name = text.op(f"call reassoc {scalar} {callee}({scalar} {first}, {type} {a.name})")
        return Value(name, a.dtype)
    return _fold_halves(text, op, a)


def _fold_halves(text: FunctionText, op: str, a: Value) -> Value:
    """The max or min of all lanes, which LLVM's reductions give without NaN or slowly with it. The
    halves of an odd number of lanes share one."""
    while a.lanes > 1:
        half = (a.lanes + 1) // 2
        low, high = (
            Value(text.shuffle(a.type, a.name, "poison", list(lanes)), a.dtype, half)
            for lanes in (range(half), range(a.lanes - half, a.lanes))
        )
        a = apply(text, op, low, high) if half > 1 else _fold_two(text, op, a)
    return a


def _fold_two(text: FunctionText, op: str, a: Value) -> Value:
    first, second = (
        Value(text.op(f"extractelement {a.type} {a.name}, i64 {i}"), a.dtype) for i in (0, 1)
    )
    return apply(text, op, first, second)


# -- casts -------------------------------------------------------------------------------------


def cast(text: FunctionText, a: Value, dtype: DType) -> Value:
    """The value in another dtype, as `Cast` says."""
    if a.dtype is dtype:
        return a
    if a.const is not None and a.dtype.is_floating and dtype.is_floating:
        return constant(float(np.asarray(a.const, a.dtype.numpy)), dtype, a.lanes)
    name = _CASTS[a.dtype.category, dtype.category](text, a, dtype)
    return Value(name, dtype, a.lanes)


def _convert(text: FunctionText, instruction: str, a: Value, dtype: DType) -> str:
    return text.convert(instruction, a.name, a.type, register_type(dtype).scalar)


def _from_bool(text: FunctionText, a: Value, dtype: DType) -> str:
    one, zero = constant(1, dtype, a.lanes), constant(0, dtype, a.lanes)
    return _select(text, "select", a, one, zero).name


def _to_bool(text: FunctionText, a: Value, dtype: DType) -> str:
    return apply(text, "ne", a, constant(0, a.dtype, a.lanes)).name


def _int_to_int(text: FunctionText, a: Value, dtype: DType) -> str:
    if a.dtype.bits == dtype.bits:
        return a.name
    extend = "sext" if a.dtype.kind == "i" else "zext"
    return _convert(text, "trunc" if a.dtype.bits > dtype.bits else extend, a, dtype)


def _int_to_float(text: FunctionText, a: Value, dtype: DType) -> str:
    if dtype in _NARROW:
        return cast(text, cast(text, a, float32), dtype).name
    return _convert(text, "sitofp" if a.dtype.kind == "i" else "uitofp", a, dtype)


def _float_to_int(text: FunctionText, a: Value, dtype: DType) -> str:
    """Through int32 if ``dtype`` is narrower, which hardware has; frozen, so that a number out of
    range gives some integer instead of undefined behaviour."""
    if a.dtype in _NARROW:
        a = cast(text, a, float32)
    whole = dtype if dtype.bits > 32 else int32
    frozen = text.op(f"freeze {register_type(whole, a.lanes)} {_convert(text, 'fptosi', a, whole)}")
    return cast(text, Value(frozen, whole, a.lanes), dtype).name


def _float_to_float(text: FunctionText, a: Value, dtype: DType) -> str:
    if (a.dtype, dtype) in _DIRECT:
        return _DIRECT[a.dtype, dtype](text, a, dtype)
    narrow = cast(text, _round_to_odd(text, a) if a.dtype is float64 else a, float32)
    if a.dtype is float64 and dtype is float16:
        narrow = replace(narrow, name=text.op(_instruction(_FENCE, narrow.type, narrow)))
    return cast(text, narrow, dtype).name


_FENCE = "call {t} @llvm.arithmetic.fence.{s}({t} {a})"
"""No instruction, but LLVM does not look through it: it would take the sign of a float16 from the
float64 that this is made of, by a function that processes lack, and of four lanes the one alone
that is read."""


def _extend(text: FunctionText, a: Value, dtype: DType) -> str:
    return _convert(text, "fpext", a, dtype)


def extend_half(text: FunctionText, a: Value) -> Value:
    """A float16 as a float32, among zeros. By itself LLVM 15 to 20 load one into the lowest lane of
    a register and keep the other lanes, of which nothing is read: so each load of a loop waits for
    what was in that register before, which takes a running sum from 1.5 to 7 ns for an element."""
    four = a.type.wide(4)
    among = text.op(f"insertelement {four} zeroinitializer, {a.type} {a.name}, i64 0")
    wide = Value(text.convert("fpext", among, four, "float"), float32, 4)
    fenced = text.op(_instruction(_FENCE, wide.type, wide))
    return Value(text.op(f"extractelement {wide.type} {fenced}, i64 0"), float32)


def _truncate(text: FunctionText, a: Value, dtype: DType) -> str:
    return _convert(text, "fptrunc", a, dtype)


def _round_to_odd(text: FunctionText, a: Value) -> Value:
    """A float64 cut to the 24 bits of a float32, the last of them set if anything was lost, so
    that rounding it again is correct (Boldo and Melquiond 2008, "Emulation of FMA and correctly
    rounded sums")."""
    wide = a.type.of("i64")
    lost = wide.splat(str((1 << 29) - 1))
    kept = wide.splat(str(-(1 << 29)))
    bits = text.op(f"bitcast {a.type} {a.name} to {wide}")
    low = text.op(f"and {wide} {bits}, {lost}")
    carry = text.op(f"add {wide} {low}, {lost}")  # bit 29 is set unless low is zero
    sticky = text.op(f"or {wide} {bits}, {carry}")
    odd = text.op(f"and {wide} {sticky}, {kept}")
    return replace(a, name=text.op(f"bitcast {wide} {odd} to {a.type}"))


def _bfloat16_to_float32(text: FunctionText, a: Value, dtype: DType) -> str:
    word = a.type.of("i32")
    high = text.op(f"shl {word} {text.convert('zext', a.name, a.type, 'i32')}, {word.splat('16')}")
    return text.convert("bitcast", high, word, "float")


def _float32_to_bfloat16(text: FunctionText, a: Value, dtype: DType) -> str:
    """A float32 rounded to nearest, ties to even, by adding just under half of the last place that
    is kept; a NaN keeps its upper bits and is made quiet."""
    word = a.type.of("i32")
    bits = text.convert("bitcast", a.name, a.type, "i32")
    high = text.op(f"lshr {word} {bits}, {word.splat('16')}")
    odd = text.op(f"and {word} {high}, {word.splat('1')}")
    half = text.op(f"add {word} {odd}, {word.splat('32767')}")
    sum_ = text.op(f"add {word} {bits}, {half}")
    rounded = text.op(f"lshr {word} {sum_}, {word.splat('16')}")
    quiet = text.op(f"or {word} {high}, {word.splat('64')}")
    nan = text.op(f"fcmp uno {a.type} {a.name}, {a.name}")
    chosen = text.op(f"select {a.type.of('i1')} {nan}, {word} {quiet}, {word} {rounded}")
    return text.convert("trunc", chosen, word, "i16")


_DIRECT: dict[tuple[DType, DType], Callable[[FunctionText, Value, DType], str]] = {
    (float16, float32): _extend,
    (float16, float64): _extend,
    (float32, float64): _extend,
    (float32, float16): _truncate,
    (float64, float32): _truncate,
    (bfloat16, float32): _bfloat16_to_float32,
    (float32, bfloat16): _float32_to_bfloat16,
}

_CASTS: dict[tuple[int, int], Callable[[FunctionText, Value, DType], str]] = {
    (0, 1): _from_bool,
    (0, 2): _from_bool,
    (1, 0): _to_bool,
    (2, 0): _to_bool,
    (1, 1): _int_to_int,
    (1, 2): _int_to_float,
    (2, 1): _float_to_int,
    (2, 2): _float_to_float,
}


def bitcast(text: FunctionText, a: Value, dtype: DType) -> Value:
    """The bits of a value as another dtype of the same width."""
    to = register_type(dtype).scalar
    same = a.type.scalar == to
    name = a.name if same else text.convert("bitcast", a.name, a.type, to)
    return Value(name, dtype, a.lanes)
