"""Primitives, casts, constants and folds as native code, compared with NumPy and Python."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from native_kernels import assert_same, by_lanes, elementwise, ranged, run, samples

import staticflow as sf
from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE, Buffer
from staticflow.codegen.llvm.float_parts import PARTS
from staticflow.codegen.primitives import COMBINES, PRIMITIVES
from staticflow.graph.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    uint8,
)
from staticflow.runtime.machine import host_target

by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)

# -- primitives --------------------------------------------------------------------------------


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """By rational arithmetic, rounded once to the dtype of ``a``."""
    numbers = (x.astype(np.float64).tolist() for x in (a, b, c))
    to_odd = a.dtype != np.float64
    return ranged(a.dtype, [fused_scalar(*abc, to_odd) for abc in zip(*numbers, strict=True)])


def fused_scalar(a: float, b: float, c: float, to_odd: bool) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if to_odd and nearest != exact and not np.float64(nearest).view(np.int64) & 1:
        return math.nextafter(nearest, math.inf if exact > nearest else -math.inf)
    return nearest


def in_wide(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """NumPy's function, computed wider than float16 and bfloat16 and rounded back."""

    def wide(*args: np.ndarray) -> np.ndarray:
        dtype = args[0].dtype
        if dtype in (float16.numpy, bfloat16.numpy):
            args = tuple(a.astype(np.float64) for a in args)
        result = fn(*args)
        return result if result.dtype == bool else result.astype(dtype)

    return wide


def parted(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """m and e with ``a = m * 2**e`` and ``3/4 <= m < 3/2``, with what the primitives give else."""
    ends = {0.0: (1, -math.inf), math.inf: (1, math.inf)}

    def one(x: float) -> tuple[float, float]:
        if not 0 < x < math.inf:
            return ends.get(x, (math.nan, math.nan))
        m, e = math.frexp(x)
        return (2 * m, e - 1) if m < 0.75 else (m, e)

    m, e = zip(*map(one, a.tolist()), strict=True)
    return np.array(m), np.array(e)


def divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Towards zero, in Python's integers; 0 where b is."""
    whole = [0 if y == 0 else abs(x) // abs(y) * (1 if x * y > 0 else -1) for x, y in pairs(a, b)]
    return wrapped(whole, a.dtype)


def remaining(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """With the sign of ``a``, in Python's integers; 0 where b is."""
    rest = [0 if y == 0 else abs(x) % abs(y) * (1 if x > 0 else -1) for x, y in pairs(a, b)]
    return wrapped(rest, a.dtype)


def pairs(a: np.ndarray, b: np.ndarray) -> Any:
    return zip(a.tolist(), b.tolist(), strict=True)


def wrapped(values: list[int], dtype: np.dtype[Any]) -> np.ndarray:
    bits = 8 * dtype.itemsize
    return np.array([v & ((1 << bits) - 1) for v in values], f"u{dtype.itemsize}").view(dtype)


REFERENCE: dict[str, Callable[..., np.ndarray]] = {
    "add": in_wide(np.add),
    "sub": in_wide(np.subtract),
    "mul": in_wide(np.multiply),
    "div": in_wide(np.divide),
    "fma": fused,
    "neg": in_wide(np.negative),
    "abs": in_wide(np.abs),
    "sqrt": in_wide(np.sqrt),
    "floor": in_wide(np.floor),
    "ceil": in_wide(np.ceil),
    "trunc": in_wide(np.trunc),
    "round": in_wide(np.rint),
    "mantissa": in_wide(lambda a: parted(a)[0]),
    "exponent": in_wide(lambda a: parted(a)[1]),
    "copysign": in_wide(np.copysign),
    "quotient": divided,
    "remainder": remaining,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "lt": in_wide(np.less),
    "le": in_wide(np.less_equal),
    "gt": in_wide(np.greater),
    "ge": in_wide(np.greater_equal),
    "eq": in_wide(np.equal),
    "ne": in_wide(np.not_equal),
    "max": in_wide(np.maximum),
    "min": in_wide(np.minimum),
    "select": np.where,
}


def test_every_primitive_has_a_reference() -> None:
    assert set(REFERENCE) == set(PRIMITIVES)


def operands(op: str, dtype: DType) -> list[np.ndarray]:
    """All combinations of the samples."""
    arity = PRIMITIVES[op].arity
    values = samples(dtype)
    if op == "select":
        choices = itertools.product([False, True], values, values)
        c, a, b = zip(*choices, strict=True)
        return [np.array(c), np.array(a, dtype.numpy), np.array(b, dtype.numpy)]
    columns = [values] * arity
    if op in ("shl", "shr"):
        columns[1] = np.arange(dtype.bits).astype(dtype.numpy)
    if op in ("quotient", "remainder"):
        columns[1] = values[values != 0]
    return [np.array(c, dtype.numpy) for c in zip(*itertools.product(*columns), strict=True)]


def defined(op: str) -> list[DType]:
    return [d for d in DTYPES if op == "select" or d.kind in PRIMITIVES[op].kinds]


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("instructions", [False, True])
@pytest.mark.parametrize("op", PARTS)
@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
def test_parts_of_floats(op: str, dtype: DType, instructions: bool, lanes: int) -> None:
    """The same bits by instructions and by arithmetic, in vectors of any length."""
    if instructions and not host_target().avx512:
        pytest.skip("this machine has no instructions for them")
    powers = np.ldexp(1.0, np.arange(-1080, 1024, 3))
    near = [powers * m for m in (1, 1.5, 0.75, 1.25, 1.4999999, 1.9999999)]
    x = np.concatenate([samples(dtype), ranged(dtype.numpy, np.concatenate(near).tolist())])
    target = replace(host_target(), avx512=instructions)
    got = elementwise(lambda k, a: k.apply(op, a), [x], [dtype], dtype, lanes, target)
    assert_same(got, REFERENCE[op](x))


def next_to_midpoints(off: int) -> np.ndarray:
    """Numbers whose square roots are all but halfway between two float64s: ``m * m - off`` for an
    odd m of 54 bits, where that ends in 54 or 55 zeros. Roots modulo powers of two, bit by bit."""
    found = []
    for zeros in (54, 55):
        roots = {1, 3, 5, 7}
        for k in range(4, zeros + 1):
            either = {r + s for r in roots for s in (0, 1 << (k - 1))}
            roots = {r % (1 << k) for r in either if (r * r - off) % (1 << k) == 0}
        found += [(r * r - off) >> zeros << zeros % 2 for r in roots if 1 << 53 <= r < 1 << 54]
    return np.array([x for x in found if x.bit_length() <= 53], np.float64)


@pytest.mark.parametrize("lanes", [1, 8, 24, 32])
def test_square_root_is_rounded_correctly(lanes: int) -> None:
    hard = np.concatenate([next_to_midpoints(off) for off in range(-239, 240, 8)])
    squares = np.arange(1.0, 5000.0) ** 2
    near = np.concatenate([hard, squares])
    powers = np.ldexp(1.0, np.arange(-1074, 1024))
    bits = np.random.default_rng(0).integers(0, 2**63, 50_000, np.int64).view(np.float64)
    x = np.concatenate([near, np.nextafter(near, 0), np.nextafter(near, 1e9), powers, bits])
    x = np.concatenate([x, near * 2.0**-1074, near * 2.0**-950, samples(float64)])
    got = elementwise(lambda k, a: k.apply("sqrt", a), [x], [float64], float64, lanes)
    with np.errstate(invalid="ignore"):
        assert_same(got, np.sqrt(x))


@by_lanes
@pytest.mark.parametrize("op, dtype", [(op, d) for op in PRIMITIVES for d in defined(op)], ids=str)
def test_primitive(op: str, dtype: DType, lanes: int) -> None:
    primitive = PRIMITIVES[op]
    args = operands(op, dtype)
    dtypes = [bool_, dtype, dtype] if op == "select" else [dtype] * primitive.arity
    out = bool_ if primitive.result == "bool" else dtype
    got = elementwise(lambda k, *a: k.apply(op, *a), args, dtypes, out, lanes)
    with np.errstate(all="ignore"):
        expected = REFERENCE[op](*args)
    assert_same(got, expected.astype(out.numpy), signed_zero=op not in ("max", "min"))


@by_lanes
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("constant", [0.0, -2.5, math.inf, math.nan])
@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
def test_extreme_with_a_constant(op: str, constant: float, dtype: DType, lanes: int) -> None:
    x = samples(dtype)
    expected = REFERENCE[op](x, np.full_like(x, constant))
    for make in (lambda k, a: k.apply(op, a, constant), lambda k, a: k.apply(op, constant, a)):
        assert_same(elementwise(make, [x], [dtype], dtype, lanes), expected, signed_zero=False)


@by_lanes
@pytest.mark.parametrize("divisor", [0, 1, -1, 3, -8])
@pytest.mark.parametrize("op", ["quotient", "remainder"])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iu"], ids=str)
def test_division_never_traps(op: str, dtype: DType, divisor: int, lanes: int) -> None:
    """Whatever is divided by zero is unspecified, but masked-off lanes do divide by zero."""
    x = samples(dtype)
    by = np.full_like(x, abs(divisor) if dtype is uint8 else divisor)
    from_memory = elementwise(lambda k, a, b: k.apply(op, a, b), [x, by], [dtype] * 2, dtype, lanes)
    literal = elementwise(lambda k, a: k.apply(op, a, int(by[0])), [x], [dtype], dtype, lanes)
    if divisor:
        assert_same(from_memory, REFERENCE[op](x, by))
        assert_same(literal, REFERENCE[op](x, by))


@by_lanes
@by_dtype
def test_constants(dtype: DType, lanes: int) -> None:
    for value in samples(dtype).tolist():
        x = np.zeros(lanes, dtype.numpy)
        make = functools.partial(lambda k, a, v: k.const(v, dtype, lanes), v=value)
        got = elementwise(make, [x], [dtype], dtype, lanes)
        assert_same(got, np.full_like(x, value))


@by_lanes
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_constants_are_rounded_to_their_dtype_first(dtype: DType, lanes: int) -> None:
    x = np.arange(1, 129).astype(dtype.numpy)
    got = elementwise(lambda k, a: k.mul(a, 0.1), [x], [dtype], dtype, lanes)
    assert_same(got, REFERENCE["mul"](x, np.full_like(x, 0.1)))


# -- casts -------------------------------------------------------------------------------------


def castable(source: DType, target: DType) -> np.ndarray:
    """The samples of ``source`` that have a specified value in ``target``."""
    x = samples(source)
    if not source.is_floating:
        return x
    more = np.arange(-40, 40) / 8
    x = np.concatenate([x, more.astype(source.numpy)])
    if target.kind in "iu":
        info = np.iinfo(target.numpy)
        wide = np.trunc(x.astype(np.float64))
        x = x[(wide >= info.min) & (wide <= info.max)]
    return x


@by_lanes
@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_cast(source: DType, target: DType, lanes: int) -> None:
    x = castable(source, target)
    got = elementwise(lambda k, a: k.cast(a, target), [x], [source], target, lanes)
    middle = x if source not in (float16, bfloat16) else x.astype(np.float32)
    if target in (float16, bfloat16) and not source.is_floating:
        middle = x.astype(np.float32)
    with np.errstate(all="ignore"):
        expected = middle != 0 if target is bool_ else middle.astype(target.numpy)
    assert_same(got, expected)


@by_lanes
@pytest.mark.parametrize("target", [d for d in DTYPES if d.kind in "iu"], ids=str)
@pytest.mark.parametrize("source", [d for d in DTYPES if d.is_floating], ids=str)
def test_cast_out_of_range_gives_some_integer(source: DType, target: DType, lanes: int) -> None:
    """Unspecified, but the same wherever the register is read."""
    x = samples(source)

    def differs(k: Builder, a: Any) -> Any:
        whole = k.cast(a, target)
        return k.compare("ne", k.apply("xor", whole, whole), 0)

    assert not elementwise(differs, [x], [source], bool_, lanes).any()


@by_lanes
@pytest.mark.parametrize("target", [float16, bfloat16], ids=str)
def test_float64_is_rounded_once(target: DType, lanes: int) -> None:
    """Just above a tie: rounding to float32 first would make it a tie, and then even."""
    digits = {float16: 10, bfloat16: 7}[target]
    tie = 1 + 2.0 ** -(digits + 1)
    x = np.array([tie, tie + 2.0**-40, tie - 2.0**-40, -tie - 2.0**-40, 65519.999999, 1e-300])
    got = elementwise(lambda k, a: k.cast(a, target), [x], [float64], target, lanes)
    unit = 2.0**-digits
    largest = {float16: 65504.0, bfloat16: 65536.0}[target]
    expected = [1.0, 1 + unit, 1.0, -1 - unit, largest, 0.0]
    assert got.astype(np.float64).tolist() == expected


@by_lanes
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_the_sign_of_16_bits_is_one_bit(dtype: DType, lanes: int) -> None:
    """Of every one there is, NaN too, the other bits stay."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    x, minus = bits.view(dtype.numpy), np.full(1 << 16, -1, dtype.numpy)
    for op, wanted in (("neg", bits ^ 0x8000), ("abs", bits & 0x7FFF)):
        make = functools.partial(lambda k, a, op: k.apply(op, a), op=op)
        got = elementwise(make, [x], [dtype], dtype, lanes)
        np.testing.assert_array_equal(got.view(np.uint16), wanted)
    got = elementwise(
        lambda k, a, b: k.apply("copysign", a, b), [x, minus], [dtype, dtype], dtype, lanes
    )
    np.testing.assert_array_equal(got.view(np.uint16), bits | 0x8000)


@by_lanes
def test_bfloat16_keeps_nan(lanes: int) -> None:
    """A NaN whose payload is in the lower half only must not become an infinity."""
    bits = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0x7F7FFFFF], np.uint32)
    x = bits.view(np.float32)
    got = elementwise(lambda k, a: k.cast(a, bfloat16), [x], [float32], bfloat16, lanes)
    assert np.isnan(got.astype(np.float32)).tolist() == [True, True, True, False]


SAME_WIDTH = [(a, b) for a in DTYPES for b in DTYPES if a.bits == b.bits and bool_ not in (a, b)]


@by_lanes
@pytest.mark.parametrize("source, target", SAME_WIDTH, ids=str)
def test_bitcast(source: DType, target: DType, lanes: int) -> None:
    x = samples(source)
    got = elementwise(lambda k, a: k.bitcast(a, target), [x], [source], target, lanes)
    assert got.tobytes() == x.tobytes()


# -- folds -------------------------------------------------------------------------------------

FOLDS: dict[str, Callable[[np.ndarray], Any]] = {
    "add": lambda x: x.sum(dtype=x.dtype if x.dtype.kind in "iu" else np.float64),
    "mul": lambda x: x.prod(dtype=x.dtype if x.dtype.kind in "iu" else np.float64),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
}


def folded(op: str, x: np.ndarray, dtype: DType) -> np.ndarray:
    k = Builder([Buffer("x", dtype, "in"), Buffer("y", dtype, "out")], [])
    k.store("y", 0, k.fold(op, k.load("x", LANE, len(x))))
    y = np.zeros(1, dtype.numpy)
    assert run(k.kernel("fold"), {"x": x, "y": y}) == 0
    return y


@pytest.mark.parametrize("lanes", [2, 3, 16, 64])
@pytest.mark.parametrize("op, dtype", [(op, d) for op in COMBINES for d in defined(op)], ids=str)
def test_fold(op: str, dtype: DType, lanes: int) -> None:
    # Small powers of two, so that no order of combining them rounds.
    x = np.random.default_rng(lanes).choice([1, 2] if op == "mul" else [1, 2, 4], lanes)
    if op == "mul":
        x[3:] = 1
    x = x.astype(dtype.numpy)
    assert_same(folded(op, x, dtype), np.array([FOLDS[op](x)]).astype(dtype.numpy))


@pytest.mark.parametrize("at", [0, 7, 15])
@pytest.mark.parametrize("op", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
def test_fold_keeps_nan(op: str, dtype: DType, at: int) -> None:
    x = np.ones(16, dtype.numpy)
    x[at] = math.nan
    assert np.isnan(folded(op, x, dtype).astype(np.float64)).all()


@pytest.mark.parametrize("op, zero", [("add", -0.0), ("mul", -0.0)])
def test_fold_starts_from_the_identity(op: str, zero: float) -> None:
    x = np.full(4, zero, np.float32) if op == "add" else np.array([1, 1, 1, zero], np.float32)
    assert np.signbit(folded(op, x, float32)).all()


@pytest.mark.parametrize("x", [-0.3, 0.3, -0.0, 1 + 2**-11 + 2**-40])
def test_sign_of_a_float16_that_is_made_of_a_float64(x: float) -> None:
    """LLVM would take the sign from the float64, by a function that processes lack."""
    k = Builder([Buffer("x", float64, "in"), Buffer("y", float16, "out")], [])
    half = k.cast(k.load("x", 0), float16)
    k.store("y", 0, half)
    sign = k.apply("copysign", k.cast(k.const(2.5, float16), float32), k.cast(half, float32))
    k.store("y", 1, k.cast(sign, float16))
    found = np.zeros(2, np.float16)
    assert run(k.kernel("sign"), {"x": np.array([x]), "y": found}) == 0
    np.testing.assert_array_equal(found, np.copysign(np.float16([x, 2.5]), x))


def test_a_half_that_is_loaded_alone_waits_for_no_other() -> None:
    """`vpinsrw` into a register keeps the rest of it, so that a load waits for what was there."""
    if not host_target().avx512:
        pytest.skip("no AVX-512 here, of which this is")
    x = sf.placeholder((None,), "float16", name="x")
    program = sf.compile([x], x.cumsum(0))
    assert "vcvtph2ps" in program.source("asm")
    assert "vpinsrw" not in program.source("asm")
    a = np.array([1.0, -0.0, 65504.0, -65504.0, 6e-8, 0.333, np.inf, 2.0, -np.inf], np.float16)
    with np.errstate(invalid="ignore"):
        wanted = np.cumsum(a, dtype=np.float64).astype(np.float16)
    np.testing.assert_array_equal(program(a).numpy(), wanted)
