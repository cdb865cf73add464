"""Primitives, casts and literals in CUDA C, and the helper functions that their text names.

Operands are atoms of C (a name, a literal, a call), results are expressions for the right side of
an assignment. A float16 or bfloat16 is an ``unsigned short`` with its bits; it is computed in
float32 and rounded back, which is the correctly rounded result of add, sub, mul, div and sqrt
(24 >= 2 * 11 + 2 bits, Figueroa 1995); fma takes float64, rounded to odd. Integers wrap in unsigned
types, because overflow of signed ones is undefined in C.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np

from staticflow.codegen.cuda import cores
from staticflow.codegen.kernel import Const
from staticflow.graph.dtypes import (
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

__all__ = [
    "HELPERS",
    "apply",
    "bitcast",
    "c_type",
    "cast",
    "helpers_in",
    "literal",
    "memory_type",
]

_C_TYPES = {
    bool_: "bool",
    uint8: "unsigned char",
    int8: "signed char",
    int16: "short",
    int32: "int",
    int64: "long long",
    float16: "unsigned short",
    bfloat16: "unsigned short",
    float32: "float",
    float64: "double",
}
_NARROW = (float16, bfloat16)


def c_type(dtype: DType) -> str:
    """The C type of a register."""
    return _C_TYPES[dtype]


def memory_type(dtype: DType) -> str:
    """The C type of an element of a buffer: a bool is a byte that is 0 or 1."""
    return "unsigned char" if dtype is bool_ else _C_TYPES[dtype]


# -- literals ----------------------------------------------------------------------------------


def literal(const: Const) -> str:
    """A constant, exactly: floats in a form that no compiler rounds.

    >>> [literal(Const(x, float32)) for x in (2, 0.1, -math.inf)]
    ['2.0f', '0x1.99999ap-4f', '__int_as_float(0xff800000)']
    """
    value, dtype = const.value, const.dtype
    if dtype is bool_:
        return "true" if value else "false"
    if not dtype.is_floating:
        return _integer(int(value), dtype)
    with np.errstate(over="ignore"):
        rounded = np.asarray(float(value)).astype(dtype.numpy)
    if dtype in _NARROW:
        return f"(unsigned short)0x{int(rounded.view(np.uint16)):04x}"
    return _float32(float(rounded)) if dtype is float32 else _float64(float(rounded))


def _integer(value: int, dtype: DType) -> str:
    suffix = "LL" if dtype is int64 else ""
    if value == -(1 << (dtype.bits - 1)):  # minus a number that is out of range already
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}"


def _float32(value: float) -> str:
    if math.isfinite(value):
        return _finite(value) + "f"
    return f"__int_as_float(0x{int(np.float32(value).view(np.uint32)):08x})"


def _float64(value: float) -> str:
    if math.isfinite(value):
        return _finite(value)
    return f"__longlong_as_double(0x{int(np.float64(value).view(np.uint64)):016x}LL)"


def _finite(value: float) -> str:
    """In decimal where few digits say it exactly, in hexadecimal otherwise."""
    decimal = repr(value)
    if re.fullmatch(r"-?\d{1,7}\.(0|5|25|75|125)", decimal):
        return decimal
    return re.sub(r"\.?0+p", "p", value.hex())


# -- primitives --------------------------------------------------------------------------------
# {a} {b} {c} are operands, {T} their type, {U} the unsigned type in which they wrap, {t} the short
# name of the dtype and {f} the suffix of C's functions for it.

_ORDER = {
    "lt": "{a} < {b}",
    "le": "{a} <= {b}",
    "gt": "{a} > {b}",
    "ge": "{a} >= {b}",
    "eq": "{a} == {b}",
    "ne": "{a} != {b}",
}
_BOOL = _ORDER | {
    "and": "{a} & {b}",
    "or": "{a} | {b}",
    "xor": "{a} ^ {b}",
    "not": "!{a}",
    "max": "{a} | {b}",
    "min": "{a} & {b}",
    "select": "{a} ? {b} : {c}",
}
_UNSIGNED = _ORDER | {
    "add": "({T})(({U}){a} + ({U}){b})",
    "sub": "({T})(({U}){a} - ({U}){b})",
    "mul": "({T})(({U}){a} * ({U}){b})",
    "quotient": "({T})({a} / {b})",
    "remainder": "({T})({a} % {b})",
    "and": "({T})({a} & {b})",
    "or": "({T})({a} | {b})",
    "xor": "({T})({a} ^ {b})",
    "not": "({T})~{a}",
    "shl": "({T})(({U}){a} << {b})",
    "shr": "({T})({a} >> {b})",
    "max": "{a} > {b} ? {a} : {b}",
    "min": "{a} < {b} ? {a} : {b}",
}
_SIGNED = _UNSIGNED | {
    "neg": "({T})(0 - ({U}){a})",
    "abs": "{a} < 0 ? ({T})(0 - ({U}){a}) : {a}",
    # The least integer divided by -1 overflows, which the hardware of a CPU traps.
    "quotient": "{b} == -1 ? ({T})(0 - ({U}){a}) : ({T})({a} / {b})",
    "remainder": "{b} == -1 ? ({T})0 : ({T})({a} % {b})",
}
_FLOAT = _ORDER | {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "fma": "fma{f}({a}, {b}, {c})",
    "neg": "-({a})",
    "abs": "fabs{f}({a})",
    "sqrt": "sqrt{f}({a})",
    "floor": "floor{f}({a})",
    "ceil": "ceil{f}({a})",
    "trunc": "trunc{f}({a})",
    "round": "rint{f}({a})",
    "mantissa": "sf_mantissa_{t}({a})",
    "exponent": "sf_exponent_{t}({a})",
    "copysign": "copysign{f}({a}, {b})",
    "max": "sf_max_{t}({a}, {b})",
    "min": "sf_min_{t}({a}, {b})",
}
_FORMS = {"b": _BOOL, "i": _SIGNED, "u": _UNSIGNED, "f": _FLOAT}


def apply(op: str, args: Iterable[str], dtype: DType) -> str:
    """A primitive of `PRIMITIVES` whose first operand is of ``dtype``."""
    if dtype in _NARROW:
        return _apply_narrow(op, args, dtype)
    return _FORMS[dtype.kind][op].format(
        **dict(zip("abc", args, strict=False)),
        T=c_type(dtype),
        U="unsigned long long" if dtype.bits == 64 else "unsigned",
        t=dtype.short,
        f="f" if dtype is float32 else "",
    )


def _apply_narrow(op: str, args: Iterable[str], dtype: DType) -> str:
    if op == "fma":
        widened = ", ".join(cast(a, dtype, float64) for a in args)
        return cast(f"sf_fma_odd_f64({widened})", float64, dtype)
    result = apply(op, [cast(a, dtype, float32) for a in args], float32)
    return result if op in _ORDER else cast(f"({result})", float32, dtype)


def cast(x: str, source: DType, target: DType) -> str:
    """The value of ``x`` in another dtype, as `Cast` says; a float out of the range of an integer
    dtype gives its nearest integer, NaN gives 0."""
    if source is target:
        return x
    if source in _NARROW:
        return cast(f"sf_f32_from_{source.short}({x})", float32, target)
    if target is bool_:
        return f"{x} != 0"
    if target in _NARROW:
        single = f"sf_f32_odd_from_f64({x})" if source is float64 else cast(x, source, float32)
        return f"sf_{target.short}_from_f32({single})"
    if source.is_floating and not target.is_floating:
        return f"sf_{target.short}_from_{source.short}({x})"
    return f"({c_type(target)}){x}"


_TO_BITS = {float32: "__float_as_int({})", float64: "__double_as_longlong({})"}
_FROM_BITS = {float32: "__int_as_float({})", float64: "__longlong_as_double({})"}


def bitcast(x: str, source: DType, target: DType) -> str:
    """The bits of ``x`` as another dtype of the same width, bool excluded."""
    if source is target:
        return x
    bits = _TO_BITS.get(source, "{}").format(x)
    return _FROM_BITS.get(target, f"({c_type(target)}){{}}").format(bits)


# -- helpers -----------------------------------------------------------------------------------


def _extreme(op: str, sign: str, dtype: DType) -> str:
    """NaN where either is NaN: the comparison is false with one, so a NaN in b is chosen."""
    type = c_type(dtype)
    return f"""\
{type} sf_{op}_{dtype.short}({type} a, {type} b) {{
  return a {sign} b || a != a ? a : b;
}}"""


def _mantissa(dtype: DType) -> str:
    type, f = c_type(dtype), "f" if dtype is float32 else ""
    return f"""\
{type} sf_mantissa_{dtype.short}({type} x) {{
  int e;
  if (!(x > 0)) return x == 0 ? 1 : x + {literal(Const(math.nan, dtype))};
  if (x == {literal(Const(math.inf, dtype))}) return 1;
  {type} m = frexp{f}(x, &e);
  return m < 0.75 ? m + m : m;
}}"""


def _exponent(dtype: DType) -> str:
    type, f = c_type(dtype), "f" if dtype is float32 else ""
    infinite, nan = literal(Const(math.inf, dtype)), literal(Const(math.nan, dtype))
    return f"""\
{type} sf_exponent_{dtype.short}({type} x) {{
  int e;
  if (!(x > 0)) return x == 0 ? -{infinite} : x + {nan};
  if (x == {infinite}) return x;
  {type} m = frexp{f}(x, &e);
  return ({type})(m < 0.75 ? e - 1 : e);
}}"""


def _float_to_int(source: DType, target: DType) -> str:
    """Both limits are powers of two or zero, hence exact in float32 too."""
    low = 0 if target.kind == "u" else -(1 << (target.bits - 1))
    high = low + (1 << target.bits)
    least, most = _integer(low, target), _integer(high - 1, target)
    return f"""\
{c_type(target)} sf_{target.short}_from_{source.short}({c_type(source)} x) {{
  if (x != x) return 0;
  if (x < {literal(Const(low, source))}) return {least};
  return x < {literal(Const(high, source))} ? ({c_type(target)})x : {most};
}}"""


_DEFINITIONS = [
    """\
long long sf_thread(void) {
  return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}""",
    """\
long long sf_threads(void) {
  return (long long)gridDim.x * blockDim.x;
}""",
    """\
void sf_fail(int* status, int code) {
  int seen = 0; // the smallest code stays, in whatever order threads fail
  while (seen == 0 || code < seen) {
    int before = atomicCAS(status, seen, code);
    if (before == seen) return;
    seen = before;
  }
}""",
    """\
bool sf_stopped(const int* status, int first) { // whether a launch before this one failed
  int seen = *(const volatile int*)status;
  return seen != 0 && seen < first;
}""",
    """\
long long sf_floordiv(long long a, long long b) { // C's division rounds towards zero; 0 < b
  return a / b - (a % b < 0);
}""",
    """\
long long sf_max_index(long long a, long long b) {
  return a > b ? a : b;
}""",
    """\
long long sf_min_index(long long a, long long b) {
  return a < b ? a : b;
}""",
    """\
long long sf_root_index(long long a, long long b) {
  return (long long)sqrt((double)(a * b));
}""",
    *(
        _extreme(op, sign, t)
        for op, sign in (("max", ">"), ("min", "<"))
        for t in (float32, float64)
    ),
    *(define(t) for define in (_mantissa, _exponent) for t in (float32, float64)),
    *(
        _float_to_int(source, target)
        for source in (float32, float64)
        for target in (uint8, int8, int16, int32, int64)
    ),
    """\
float sf_f32_from_f16(unsigned short h) {
  unsigned sign = (h & 0x8000u) << 16, rest = (h & 0x7fffu) << 13;
  if (rest >= 0x0f800000u) return __uint_as_float(sign | 0x7f800000u | rest); // infinity, NaN
  // The exponent's bias is 15 in float16 and 127 in float32; the product is exact.
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest) * 0x1p+112f));
}""",
    """\
unsigned short sf_f16_from_f32(float x) { // to nearest, ties to even
  unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);  // NaN
  if (rest >= 0x47800000u) return (unsigned short)(sign | 0x7c00u); // 2^16 and above
  if (rest < 0x38800000u) // below 2^-14: the last place of 0.5f is that of a subnormal float16
    return (unsigned short)(sign | (__float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3f000000u));
  rest += 0xfffu + (rest >> 13 & 1u);
  return (unsigned short)(sign | (rest - 0x38000000u) >> 13);
}""",
    """\
float sf_f32_from_bf16(unsigned short h) {
  return __uint_as_float((unsigned)h << 16);
}""",
    """\
unsigned short sf_bf16_from_f32(float x) { // to nearest, ties to even
  unsigned bits = __float_as_uint(x);
  if (x != x) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}""",
    """\
double sf_fma_odd_f64(double a, double b, double c) { // for products that are exact, as of narrow
  double p = a * b, s = p + c, t = s - p;             // floats; the sum's error is Knuth's TwoSum
  double lost = (p - (s - t)) + (c - t);
  long long bits = __double_as_longlong(s);
  if ((lost < 0 || lost > 0) && !(bits & 1)) bits += (lost > 0) == (s > 0) ? 1 : -1;
  return __longlong_as_double(bits);
}""",
    """\
float sf_f32_odd_from_f64(double x) { // inexact results to the neighbour with an odd last bit, so
  float y = (float)x;                 // that rounding again is right (Boldo and Melquiond 2008)
  if (x != x || (double)y == x) return y;
  unsigned bits = __float_as_uint(y);
  if (fabs((double)y) > fabs(x)) bits -= 1;
  return __uint_as_float(bits | 1u);
}""",
    *cores.DEFINITIONS,
]

_HELPER = re.compile(r"\bsf_\w+")


def _helper_name(definition: str) -> str:
    found = _HELPER.search(definition)
    assert found, "every definition is of a helper"
    return found[0]


HELPERS: dict[str, str] = {
    _helper_name(d): f"static __device__ __forceinline__ {d}" for d in _DEFINITIONS
}
"""The definition of each helper function, by name."""


def helpers_in(text: str) -> list[str]:
    """The definitions of the helpers that ``text`` names, and of those that these name."""
    names: set[str] = set()
    found = set(_HELPER.findall(text)) & HELPERS.keys()
    while found:
        names |= found
        named = {n for name in found for n in _HELPER.findall(HELPERS[name])}
        found = (named & HELPERS.keys()) - names
    return [definition for name, definition in HELPERS.items() if name in names]
