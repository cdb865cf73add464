"""The LLVM renderer and the JIT: kernels run as native code, compared with NumPy and Python."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import mmap
import re
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticflow.codegen.builder import Builder
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import COMBINES, LANE, LANE_SYM, PRIMITIVES, Buffer, If, Kernel
from staticflow.codegen.llvm import render_kernel, render_module
from staticflow.codegen.verify import verify_kernel
from staticflow.errors import CompileError
from staticflow.graph.dims import Dim, Size, Sym, dim_max, dim_min, evaluate_dim, substitute_dim
from staticflow.graph.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)
from staticflow.runtime.native import compile_native, host_target, load_native, vector_bits

N, M = Dim.of(Sym("n")), Dim.of(Sym("m"))
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
by_lanes = pytest.mark.parametrize("lanes", [1, 16])


def entry_text(kernel: Kernel) -> str:
    """An exported function that calls the kernel."""
    parameters = [f"ptr %b{i}" for i in range(len(kernel.buffers))]
    parameters += [f"i64 %s{i}" for i in range(len(kernel.sizes))]
    given = ", ".join(parameters)
    return (
        f"define i32 @call_{kernel.name}({given}) {{\n"
        f"  %code = call i32 @{kernel.name}({given})\n  ret i32 %code\n}}\n"
    )


def run(kernel: Kernel, arrays: Mapping[str, np.ndarray], **sizes: int) -> int:
    """Compile the kernel and call it; gives its code."""
    module = compile_native(render_kernel(kernel) + entry_text(kernel), [f"call_{kernel.name}"])
    types = [ctypes.c_void_p] * len(kernel.buffers) + [ctypes.c_int64] * len(kernel.sizes)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(module.address(f"call_{kernel.name}"))
    pointers = [arrays[b.name].ctypes.data for b in kernel.buffers]
    return function(*pointers, *(sizes[s.name] for s in kernel.sizes))


def run_both(kernel: Kernel, arrays: Mapping[str, np.ndarray], **sizes: int) -> int:
    """`run`, and the interpreter of Kernel IR must come to the same."""
    verify_kernel(kernel)
    copies = {name: array.flatten() for name, array in arrays.items()}
    expected = interpret_kernel(kernel, copies, {s: sizes[s.name] for s in kernel.sizes})
    code = run(kernel, arrays, **sizes)
    assert code == expected
    if code == 0:
        for name, array in arrays.items():
            assert_same(array.ravel(), copies[name])
    return code


def assert_same(got: np.ndarray, expected: np.ndarray, signed_zero: bool = True) -> None:
    """Equal in every element, NaN to NaN and zeros by sign."""
    assert got.dtype == expected.dtype
    if got.dtype.kind not in "biu":
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        if signed_zero:
            np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))
    np.testing.assert_array_equal(got, expected)


def ranged(numpy: np.dtype[Any], values: list[float]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(values).astype(numpy)


def samples(dtype: DType) -> np.ndarray:
    """Zeros, units, extremes, and for floats infinities, NaN, subnormals and ties."""
    if dtype is bool_:
        return np.array([False, True])
    if not dtype.is_floating:
        info = np.iinfo(dtype.numpy)
        return np.array(
            [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 3]
            + ([-1, -2, -7] if info.min < 0 else []),
            dtype.numpy,
        )
    info = ml_dtypes.finfo(dtype.numpy)
    finite = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, 0.1, -7.3, 1000.0]
    edges = [info.max, info.smallest_subnormal, info.tiny, 1 + float(info.eps)]
    return ranged(dtype.numpy, [*finite, *map(float, edges), math.inf, -math.inf, math.nan])


def padded(array: np.ndarray, lanes: int) -> np.ndarray:
    return np.concatenate([array, np.ones(-len(array) % lanes, array.dtype)])


def elementwise(
    make: Callable[..., Any], inputs: list[np.ndarray], dtypes: list[DType], out: DType, lanes: int
) -> np.ndarray:
    """The kernel that stores ``make(k, *loads)``, run on flat inputs of one length."""
    names = [f"x{i}" for i in range(len(inputs))]
    buffers = [Buffer(name, dtype, "in") for name, dtype in zip(names, dtypes, strict=True)]
    k = Builder([*buffers, Buffer("y", out, "out")], [Sym("n")])
    with k.loop("i", N, step=lanes) as i:
        at = i + LANE if lanes > 1 else i
        k.store("y", at, make(k, *(k.load(name, at, lanes) for name in names)))
    arrays = {name: padded(x, lanes) for name, x in zip(names, inputs, strict=True)}
    n = len(arrays["x0"])
    arrays["y"] = np.zeros(n, out.numpy)
    assert run(k.kernel("elementwise"), arrays, n=n) == 0
    return arrays["y"][: len(inputs[0])]


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


# -- loads and stores --------------------------------------------------------------------------


class GuardedPage:
    """An array that ends where a page without any access begins."""

    def __init__(self, array: np.ndarray) -> None:
        size = mmap.PAGESIZE
        self.memory = mmap.mmap(-1, 2 * size)
        whole = np.frombuffer(self.memory, np.uint8)
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert protect(whole.ctypes.data + size, size, 0) == 0
        self.array = whole[size - array.nbytes : size].view(array.dtype)
        self.array[:] = array


def numbers(dtype: DType, n: int) -> np.ndarray:
    if dtype is bool_:
        return np.arange(n) % 3 > 0
    return (np.arange(n) % 5 + 1).astype(dtype.numpy)


ACCESSED = [bool_, uint8, float16, bfloat16, float32, int64]
by_count = pytest.mark.parametrize(
    "lanes, count", [(1, 0), (1, 1), (4, 3), (16, 0), (16, 5), (16, 16), (64, 33)]
)
by_access = pytest.mark.parametrize("dtype", ACCESSED, ids=str)


@pytest.mark.parametrize("stride", [1, 2, -1, "n"])
@by_count
@by_access
def test_masked_load_touches_active_lanes_only(
    dtype: DType, lanes: int, count: int, stride: int | str
) -> None:
    """The last active lane is the last element before a page that must not be read."""
    step = 3 if stride == "n" else int(stride)
    x = GuardedPage(numbers(dtype, max(1, abs(step) * (count - 1) + 1)))
    k = Builder([Buffer("x", dtype, "in"), Buffer("y", dtype, "out")], [Sym("n"), Sym("m")])
    start = (M - 1) * -step if step < 0 else 0
    lane = 0 if lanes == 1 else LANE * (N if stride == "n" else step)
    value = k.load("x", start + lane, lanes, M)
    k.store("y", LANE if lanes > 1 else 0, value)
    y = numbers(dtype, lanes)
    assert run_both(k.kernel("masked"), {"x": x.array, "y": y}, n=abs(step), m=count) == 0
    expected = np.zeros(lanes, dtype.numpy)
    expected[:count] = x.array[::step][:count]
    assert_same(y, expected)


@pytest.mark.parametrize("stride", [1, 2, -1, "n"])
@by_count
@by_access
def test_masked_store_touches_active_lanes_only(
    dtype: DType, lanes: int, count: int, stride: int | str
) -> None:
    step = 3 if stride == "n" else int(stride)
    y = GuardedPage(np.zeros(max(1, abs(step) * (count - 1) + 1), dtype.numpy))
    k = Builder([Buffer("x", dtype, "in"), Buffer("y", dtype, "out")], [Sym("n"), Sym("m")])
    value = k.load("x", LANE if lanes > 1 else 0, lanes)
    start = (M - 1) * -step if step < 0 else 0
    lane = 0 if lanes == 1 else LANE * (N if stride == "n" else step)
    k.store("y", start + lane, value, M)
    x = numbers(dtype, lanes)
    assert run_both(k.kernel("masked"), {"x": x, "y": y.array}, n=abs(step), m=count) == 0
    expected = np.zeros_like(y.array)
    expected[::step][:count] = x[:count]
    assert_same(y.array, expected)


@pytest.mark.parametrize("bound", [-(2**40), 9 - 2**32, -1, 0, 3, 16, 17, 2**31 + 5, 2**32, 2**62])
def test_bounds_of_any_size(bound: int) -> None:
    """The mask holds for bounds that no 32-bit integer does."""
    k = Builder([Buffer("y", bool_, "out"), Buffer("z", bool_, "out")], [Sym("n"), Sym("m")])
    k.store("y", LANE, k.active(N - M, 16))
    k.store("z", 0, k.active(N - M, 1))
    y, z = np.zeros(16, bool), np.zeros(1, bool)
    sizes = {"n": max(bound, 0), "m": max(-bound, 0)}
    assert run_both(k.kernel("bounds"), {"y": y, "z": z}, **sizes) == 0
    assert y.tolist() == [lane < bound for lane in range(16)]
    assert z[0] == (bound > 0)


@by_access
def test_constant_bound(dtype: DType) -> None:
    k = Builder([Buffer("x", dtype, "in"), Buffer("y", dtype, "inout")], [])
    k.store("y", LANE, k.load("x", LANE, 8, 3), 5)
    x, y = numbers(dtype, 8), numbers(dtype, 8)
    run_both(k.kernel("constant"), {"x": x, "y": y})
    expected = numbers(dtype, 8)
    expected[3:5] = 0
    assert_same(y, expected)


@by_access
def test_strided_and_gathered(dtype: DType) -> None:
    """A transposition by strided loads and by strided stores, and a load of no one stride."""
    rows, columns = 16, 9
    x = numbers(dtype, rows * columns)
    buffers = [Buffer("x", dtype, "in")] + [Buffer(b, dtype, "out") for b in "yzw"]
    k = Builder(buffers, [Sym("n")])
    with k.loop("j", N) as j:
        k.store("y", 16 * j + LANE, k.load("x", LANE * N + j, 16))
    with k.loop("i", 16) as i, k.loop("b", N // 3, kind="parallel") as b:
        k.store("z", (3 * b + LANE) * 16 + i, k.load("x", i * N + 3 * b + LANE, 3))
    with k.loop("r", N) as r:
        k.store("w", 16 * r + LANE, k.load("x", (LANE // 3) * N + (LANE + r) % 3, 16))
    y, z, w = (np.zeros_like(x) for _ in range(3))
    assert run_both(k.kernel("strided"), {"x": x, "y": y, "z": z, "w": w}, n=columns) == 0
    transposed = x.reshape(rows, columns).T
    assert_same(y.reshape(columns, rows), transposed)
    assert_same(z.reshape(columns, rows), transposed)
    gathered = [[x[(i // 3) * columns + (i + r) % 3] for i in range(16)] for r in range(columns)]
    assert_same(w.reshape(columns, rows), np.array(gathered, x.dtype))


def test_masked_gather_of_no_one_stride() -> None:
    x = GuardedPage(np.arange(4, dtype=np.float32))
    k = Builder([Buffer("x", float32, "in"), Buffer("y", float32, "out")], [Sym("n")])
    k.store("y", LANE, k.load("x", LANE // 2, 16, N))
    y = np.ones(16, np.float32)
    assert run_both(k.kernel("gather"), {"x": x.array, "y": y}, n=8) == 0
    assert y.tolist() == [0, 0, 1, 1, 2, 2, 3, 3] + [0] * 8


# -- control flow ------------------------------------------------------------------------------


@pytest.mark.parametrize("rows, columns", [(0, 5), (5, 0), (1, 1), (3, 37), (4, 16)])
def test_row_sums_and_maxima(rows: int, columns: int) -> None:
    """Vector accumulators over an inner loop that may run zero times, with a masked end."""
    k = Builder(
        [Buffer("x", float32, "in"), Buffer("s", float32, "out"), Buffer("m", float32, "out")],
        [Sym("n"), Sym("m")],
    )
    with k.loop("i", N) as i:
        total = k.var(k.const(0.0, float32, 16))
        largest = k.var(k.const(-math.inf, float32, 16))
        with k.loop("j", M, step=16) as j:
            x = k.load("x", i * M + j + LANE, 16, M - j)
            k.accumulate(total, "add", x)
            on = k.active(M - j, 16)
            k.accumulate(largest, "max", k.select(on, x, k.const(-math.inf, float32, 16)))
        k.store("s", i, k.fold("add", total))
        k.store("m", i, k.fold("max", largest))
    x = np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype(np.float32)
    s, m = np.full(rows, np.nan, np.float32), np.full(rows, np.nan, np.float32)
    assert run_both(k.kernel("rows"), {"x": x, "s": s, "m": m}, n=rows, m=columns) == 0
    assert_same(s, x.sum(1))
    assert_same(m, x.max(1, initial=-math.inf))


def test_nested_loops_with_registers_of_every_depth() -> None:
    """Registers of three depths, some set in the innermost loop, one swapped with another."""
    k = Builder([Buffer("y", int64, "out")], [Sym("n"), Sym("m")])
    a, b = k.var(k.const(0, int64)), k.var(k.const(1, int64))
    count = k.var(k.const(0, int64))
    with k.loop("i", N) as i:
        with k.loop("j", M, lo=i, step=2) as j:
            inner = k.var(k.const(0, int64))
            with k.loop("h", j) as h:
                k.accumulate(inner, "add", k.index_value(h * i + 1))
                k.accumulate(count, "add", k.const(1, int64))
            old = k.add(a, 0)
            k.set(a, k.add(b, inner))
            k.set(b, old)
        k.accumulate(count, "mul", k.const(3, int64))
    for at, reg in enumerate((a, b, count)):
        k.store("y", at, reg)
    kernel = k.kernel("nested")

    for n, m in [(0, 0), (1, 0), (0, 3), (1, 1), (4, 7), (7, 4)]:
        y = np.zeros(3, np.int64)
        assert run_both(kernel, {"y": y}, n=n, m=m) == 0
        u, v, c = 0, 1, 0
        for i in range(n):
            for j in range(i, m, 2):
                inner = sum(h * i + 1 for h in range(j))
                u, v, c = v + inner, u, c + j
            c *= 3
        assert y.tolist() == [u, v, c]


def test_branches_that_set() -> None:
    """if with and without else, nested, in a loop; one branch sets what the other does not."""
    k = Builder([Buffer("x", int64, "in"), Buffer("y", int64, "out")], [Sym("n")])
    low, high, last = (k.var(k.const(0, int64)) for _ in range(3))
    with k.loop("i", N) as i:
        x = k.load("x", i)
        small = k.compare("lt", x, 10)
        with k.when(small):
            k.accumulate(low, "add", x)
            with k.when(k.compare("lt", x, 0)):
                k.set(last, x)
                k.accumulate(low, "add", k.const(100, int64))
        with k._block() as then:
            k.accumulate(high, "max", x)
        with k._block() as orelse:
            k.set(last, k.const(-1, int64))
            with k.loop("j", 3) as j:
                k.accumulate(high, "add", k.index_value(j))
        k.emit(If(k.apply("not", small), tuple(then), tuple(orelse)))
    for at, reg in enumerate((low, high, last)):
        k.store("y", at, reg)
    kernel = k.kernel("branches")

    for values in ([], [3], [12], [-4], [3, 12, -4, 50, 7, 11]):
        low_, high_, last_ = 0, 0, 0
        for v in values:
            if v < 10:
                low_ += v
                if v < 0:
                    last_, low_ = v, low_ + 100
            if v >= 10:
                high_ = max(high_, v)
            else:
                last_, high_ = -1, high_ + 3
        y = np.zeros(3, np.int64)
        x = np.array(values, np.int64)
        assert run_both(kernel, {"x": x, "y": y}, n=len(values)) == 0
        assert y.tolist() == [low_, high_, last_]


def test_bool_registers_through_a_loop() -> None:
    k = Builder([Buffer("x", float32, "in"), Buffer("y", bool_, "out")], [Sym("n")])
    any_, every = k.var(k.const(False, bool_, 8)), k.var(k.const(True, bool_))
    with k.loop("i", N, step=8) as i:
        on = k.compare("gt", k.load("x", i + LANE, 8), 0.5)
        k.accumulate(any_, "or", on)
        k.accumulate(every, "and", k.fold("and", on))
    k.store("y", LANE, any_)
    k.store("y", 8, every)
    x = (np.arange(32) % 8 == 3).astype(np.float32)
    y = np.zeros(9, bool)
    assert run_both(k.kernel("bools"), {"x": x, "y": y}, n=32) == 0
    assert y.tolist() == [False] * 3 + [True] + [False] * 5


def test_checks_return_the_first_code_that_fails() -> None:
    k = Builder([Buffer("x", int32, "in"), Buffer("y", int32, "out")], [Sym("n")])
    k.check(k.compare("lt", k.index_value(N), 100), 7)
    with k.loop("i", N) as i:
        x = k.load("x", i)
        k.check(k.compare("ge", x, 0), 2)
        k.check(k.compare("lt", x, 10), 3)
        k.store("y", i, k.mul(x, 2))
    kernel = k.kernel("checked")
    cases = {(1, 2, 3): 0, (): 0, (1, -1, 30): 2, (1, 30, -1): 3, (0,) * 100: 7}
    for values, code in cases.items():
        x, y = np.array(values, np.int32), np.zeros(len(values), np.int32)
        assert run_both(kernel, {"x": x, "y": y}, n=len(values)) == code
        if code == 0:
            assert_same(y, 2 * x)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iu"], ids=str)
def test_bind_makes_an_index(dtype: DType) -> None:
    """Rows picked by number, the number read as it is signed or not; and a bound loop end."""
    k = Builder(
        [Buffer("i", dtype, "in"), Buffer("x", float32, "in"), Buffer("y", float32, "out")],
        [Sym("n"), Sym("m")],
    )
    with k.loop("r", N) as r:
        row = k.bind(k.load("i", r))
        with k.loop("j", M) as j:
            k.store("y", r * M + j, k.load("x", row * M + j))
    with k.loop("e", k.bind(k.load("i", 0))) as e:
        k.store("y", e, k.const(-1.0, float32))
    picked = np.array([3, 200 if dtype is uint8 else 100, 0, 3]).astype(dtype.numpy)
    x = np.arange(201 * 5, dtype=np.float32).reshape(201, 5)
    y = np.zeros((4, 5), np.float32)
    assert run_both(k.kernel("bound"), {"i": picked, "x": x, "y": y}, n=4, m=5) == 0
    expected = x[picked.astype(int)]
    expected[0, :3] = -1
    assert_same(y, expected)


# -- index arithmetic --------------------------------------------------------------------------

P, Q = Dim.of(Sym("i")), Dim.of(Sym("j"))


def index_values(indices: list[Size], lanes: int = 1, **sizes: int) -> list[list[int]]:
    """The values of indices over n, m and the variables of two loops, by i, then by j."""
    count = len(indices)
    k = Builder([Buffer("y", int64, "out")], [Sym("n"), Sym("m")])
    with k.loop("i", 3) as i, k.loop("j", 2) as j:
        for at, index in enumerate(indices):
            value = k.index_value(substitute_dim(index, {Sym("i"): i, Sym("j"): j}), lanes)
            lane = LANE if lanes > 1 else 0
            k.store("y", ((i * 2 + j) * count + at) * lanes + lane, value)
    y = np.zeros((6, count * lanes), np.int64)
    assert run_both(k.kernel("indices"), {"y": y}, **sizes) == 0
    return y.tolist()


def expected_values(indices: list[Size], lanes: int = 1, **sizes: int) -> list[list[int]]:
    """What Python says they are."""
    known = {Sym(name): value for name, value in sizes.items()}
    return [
        [
            evaluate_dim(index, known | {Sym("i"): i, Sym("j"): j, LANE_SYM: lane})
            for index in indices
            for lane in range(lanes)
        ]
        for i in range(3)
        for j in range(2)
    ]


def grown(inner: st.SearchStrategy[Size]) -> st.SearchStrategy[Size]:
    positive = st.sampled_from([2, 3, 8, 1 + N, P + 1, 5 * M + 4])
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, st.sampled_from([-3, 2, N, M, P, Q, LANE])),
        st.builds(lambda a, b: a // b, inner, positive),
        st.builds(lambda a, b: a % b, inner, positive),
        st.builds(dim_max, inner, inner),
        st.builds(dim_min, inner, inner),
    )


polynomials = st.recursive(
    st.one_of(st.integers(-9, 9), st.sampled_from([N, M, P, Q, LANE])), grown, max_leaves=8
)


@settings(max_examples=80, deadline=None)
@given(st.lists(polynomials, min_size=1, max_size=6), st.integers(0, 9), st.integers(0, 9))
def test_index_arithmetic(indices: list[Size], n: int, m: int) -> None:
    assert index_values(indices, 4, n=n, m=m) == expected_values(indices, 4, n=n, m=m)


def test_indices_beyond_32_bits() -> None:
    indices: list[Size] = [
        M * N + P,
        (M * 4 + Q) * 2 - 7,
        (M * M + P) // (N + 1),
        (N - M) // 4,
        (P - M * 3) // N,
        (N - M) % 7,
        dim_max(M, N * P),
        dim_min(Q - M, -5),
    ]
    sizes = {"n": 3, "m": 2**31 + 11}
    assert index_values(indices, **sizes) == expected_values(indices, **sizes)


def test_index_moved_out_of_a_loop_divides_by_no_zero() -> None:
    """m / n does not depend on the loop over n, which does not run where n is zero."""
    k = Builder([Buffer("y", int64, "out")], [Sym("n"), Sym("m")])
    with k.loop("i", N) as i:
        k.store("y", i, k.index_value(M // N + (M + 3) // (N - 1 + i)))
    y = np.full(2, -1, np.int64)
    assert run_both(k.kernel("zero"), {"y": y}, n=0, m=7) == 0
    assert y.tolist() == [-1, -1]
    assert run_both(k.kernel("zero"), {"y": y}, n=2, m=7) == 0
    assert y.tolist() == [3 + 10, 3 + 5]


def blocks_of(kernel: Kernel) -> list[tuple[str, str]]:
    """The basic blocks: what kind each is, and its instructions."""
    parts = re.split(r"^([a-z]+)\S*:$", render_kernel(kernel), flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def test_invariant_index_arithmetic_is_outside_the_loop() -> None:
    """Only the addition of the innermost variable is left to the innermost block."""
    k = Builder([Buffer("x", float32, "in"), Buffer("y", float32, "out")], [Sym("n"), Sym("m")])
    total = k.var(k.const(0.0, float32, 16))
    with k.loop("i", N) as i, k.loop("j", M) as j, k.loop("h", N * M, step=16) as h:
        at = i * N * M * N + j * N * M + h + (M // 3) * i + LANE + 5
        k.accumulate(total, "add", k.load("x", at, 16))
    k.store("y", LANE, total)
    (inner,) = (body for _, body in blocks_of(k.kernel("invariant")) if "fadd" in body)
    assert re.findall(r"= (\w+) ", inner).count("getelementptr") == 2
    assert not re.findall(r"= (mul|udiv|sdiv) ", inner)


def test_index_arithmetic_stays_in_its_branch() -> None:
    """Out of the loops inside of the branch, and out of the branch only with a loop around it."""
    k = Builder([Buffer("x", float32, "inout")], [Sym("n"), Sym("m")])
    with k.loop("i", N) as i, k.when(k.compare("lt", k.index_value(i), 5)), k.loop("j", 9) as j:
        k.store("x", i * (M + 1) + M * N + j, k.const(1.0, float32))
    arithmetic = [(kind, re.findall(r"= (add|mul) ", b)) for kind, b in blocks_of(k.kernel("b"))]
    assert [found for found in arithmetic if found[1]] == [
        ("entry", ["mul", "add"]),
        ("then", ["mul"]),
        ("loop", ["add"]),
        ("join", ["add"]),
    ]


def test_names_beyond_ascii() -> None:
    k = Builder([Buffer("é", float32, "inout")], [Sym("größe")])
    with k.loop("β", Dim.of(Sym("größe"))) as i:
        k.store("é", i, k.add(k.load("é", i), 1.0))
    x = np.zeros(3, np.float32)
    assert run_both(k.kernel("names"), {"é": x}, größe=3) == 0
    assert x.tolist() == [1.0] * 3


# -- the JIT -----------------------------------------------------------------------------------


def doubling(name: str, factor: float) -> Kernel:
    k = Builder([Buffer("x", float32, "inout")], [Sym("n")])
    with k.loop("i", N) as i:
        k.store("x", i, k.mul(k.load("x", i), factor))
    return k.kernel(name)


def called(address: int, x: np.ndarray) -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(address)
    assert function(x.ctypes.data, len(x)) == 0


def test_module_of_several_kernels_and_its_object_code() -> None:
    kernels = [doubling("twice", 2.0), doubling("thrice", 3.0)]
    text = render_module(kernels) + "".join(map(entry_text, kernels))
    exports = ["call_twice", "call_thrice"]
    module = compile_native(text, exports)
    again = load_native(module.object_bytes, exports)
    for loaded in (module, again):
        x = np.ones(5, np.float32)
        called(loaded.address("call_twice"), x)
        called(loaded.address("call_thrice"), x)
        assert x.tolist() == [6.0] * 5
    assert module.llvm == text
    assert "call_thrice" in module.assembly()
    with pytest.raises(KeyError):
        module.address("twice")


def test_symbols_are_given_by_address() -> None:
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_int64)
    def report(value: int) -> None:
        seen.append(value)

    text = (
        "declare void @report(i64)\n"
        "define i32 @go(i64 %n) {\n  call void @report(i64 %n)\n  ret i32 0\n}\n"
    )
    address = ctypes.cast(report, ctypes.c_void_p).value
    assert address is not None
    module = compile_native(text, ["go"], {"report": address})
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(module.address("go"))(41)
    assert seen == [41]


def test_a_fault_in_the_text_is_shown_with_its_line() -> None:
    text = "define i32 @go(i64 %n) {\n  %a = add i64 %n, 1\n  %b = add i32 %a, 1\n  ret i32 %b\n}\n"
    with pytest.raises(CompileError, match=r"(?s)defined with type.*>\s+3   %b = add i32 %a, 1"):
        compile_native(text, ["go"])


def test_a_fault_found_by_the_verifier() -> None:
    text = "define i32 @go(i1 %c) {\na:\n  br i1 %c, label %b, label %d\nb:\n  %x = add i32 1, 1\n"
    text += "  br label %d\nd:\n  ret i32 %x\n}\n"
    with pytest.raises(CompileError, match="does not dominate"):
        compile_native(text, ["go"])


def test_a_missing_symbol() -> None:
    text = "declare i32 @nowhere_to_be_found()\n"
    text += "define i32 @go() {\n  %r = call i32 @nowhere_to_be_found()\n  ret i32 %r\n}\n"
    with pytest.raises(CompileError, match="cannot be loaded"):
        compile_native(text, ["go"])


def test_threads_compile_at_once() -> None:
    results: dict[int, float] = {}

    def work(factor: int) -> None:
        for _ in range(3):
            kernel = doubling("times", float(factor))
            x = np.ones(3, np.float32)
            assert run(kernel, {"x": x}, n=3) == 0
            results[factor] = x[2]

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {factor: float(factor) for factor in range(1, 7)}


def test_host_target() -> None:
    assert host_target().vector_bits == vector_bits() in (128, 256, 512)


@pytest.mark.skipif(vector_bits() < 512, reason="needs AVX-512")
def test_wide_vectors_are_used() -> None:
    k = Builder([Buffer("x", float32, "inout")], [])
    k.store("x", LANE, k.add(k.load("x", LANE, 16), 1.0))
    kernel = k.kernel("wide")
    assert "%zmm" in compile_native(render_kernel(kernel) + entry_text(kernel), []).assembly()
