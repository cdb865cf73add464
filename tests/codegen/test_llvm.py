"""Loads, stores and control flow as native code, against NumPy and the interpreter."""

from __future__ import annotations

import ctypes
import math
import mmap

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from native_kernels import M, N, assert_same, run_both
from random_kernels import LENGTH, kernels, random_buffers

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import (
    LANE,
    Accumulate,
    Apply,
    Buffer,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.schedule.loops import unroll, vectorize
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    int32,
    int64,
    uint8,
)

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


# -- whatever a kernel may be ------------------------------------------------------------------


def orders_zeros(stmt: Stmt) -> bool:
    """Whether ``stmt`` may show which of two zeros is taken for the larger, which is open."""
    if isinstance(stmt, Let) and isinstance(stmt.expr, Apply):
        return stmt.expr.op in ("max", "min")
    return isinstance(stmt, Accumulate) and stmt.op == "max" and stmt.reg.name == "part"


@settings(max_examples=30, deadline=None)
@given(kernels(), st.sampled_from([2, 3, 16]), st.integers(0, 20), st.integers(0, 3))
def test_random_kernels_and_their_schedules(kernel: Kernel, width: int, n: int, m: int) -> None:
    assume(not any(map(orders_zeros, walk(kernel.body))))
    body = tuple(s for s in kernel.body if not (isinstance(s, Store) and s.buffer == "fs"))
    kernel, i = kernel.with_body(body), Sym("i")
    for scheduled in (kernel, vectorize(kernel, i, width), unroll(kernel, i, width)):
        buffers = random_buffers(kernel, LENGTH)
        assert run_both(scheduled, buffers, n=n, m=m) == 0


def test_names_beyond_ascii() -> None:
    k = Builder([Buffer("é", float32, "inout")], [Sym("größe")])
    with k.loop("β", Dim.of(Sym("größe"))) as i:
        k.store("é", i, k.add(k.load("é", i), 1.0))
    x = np.zeros(3, np.float32)
    assert run_both(k.kernel("names"), {"é": x}, größe=3) == 0
    assert x.tolist() == [1.0] * 3
