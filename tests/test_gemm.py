"""Generated matrix products, run natively between guard pages, against NumPy in float64."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from staticflow.codegen import gemm as gemm_module
from staticflow.codegen import gemm_pack
from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm import Epilogue, Gemm, emit_gemm, scratch_size
from staticflow.codegen.gemm_plan import column_panels, main_rows, row_blocks
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import Buffer, Kernel, Loop, Operand, Set, Stmt, walk
from staticflow.codegen.llvm import render_kernel
from staticflow.codegen.target import Target
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dims import Dim, Size, Sym, evaluate_dim
from staticflow.graph.dtypes import (
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
from staticflow.runtime.native import NativeModule, compile_native, host_target

M, N, K = (Dim.of(Sym(name)) for name in "MNK")
TARGETS = {
    "host": host_target(),
    "avx512": Target(512, fma=True, masks=True),
    "avx2": Target(256, fma=True, masks=True),
    "sse": Target(128, fma=False, masks=False),
}
LAYOUTS = ["nn", "nt", "tn", "tt"]
by_layout = pytest.mark.parametrize("layout", LAYOUTS)
by_dtype = pytest.mark.parametrize("dtype", [float32, float64], ids=str)
by_target = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))

Sizes = tuple[int, int, int]


# -- kernels -----------------------------------------------------------------------------------


def gemm_of(m: Size, n: Size, k: Size, layout: str, dtype: DType, gap: int = 0) -> Gemm:
    """Dense matrices, or with ``gap`` unused elements behind each row in memory. ``n`` in the
    layout is by rows, ``t`` by columns."""
    a = (k + gap, 1) if layout[0] == "n" else (1, m + gap)
    b = (n + gap, 1) if layout[1] == "n" else (1, k + gap)
    return Gemm(m, n, k, *a, *b, dtype)


def store_epilogue(n: Size) -> Epilogue:
    def epilogue(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        assert acc.lanes == lanes
        k.store("c", row * n + col, acc, bound)

    return epilogue


def kernel_of(
    gemm: Gemm, target: Target, epilogue: Epilogue | None = None, base: tuple[int, int] = (0, 0)
) -> Kernel:
    """The product as a kernel over ``a``, ``b``, ``c``, ``bias`` and ``scratch``."""
    accesses = {"a": "in", "b": "in", "c": "inout", "bias": "in", "scratch": "inout"}
    buffers = [Buffer(name, gemm.dtype, access) for name, access in accesses.items()]
    k = Builder(buffers, [Sym(name) for name in "MNK"])
    scratch = "scratch" if scratch_size(gemm, target) != 0 else None
    emit_gemm(k, gemm, target, "a", "b", scratch, epilogue or store_epilogue(gemm.n), *base)
    return verify_kernel(k.kernel("product"))


ENTRY = """
define i32 @entry(ptr %a, ptr %b, ptr %c, ptr %d, ptr %e, i64 %m, i64 %n, i64 %k) {
  %r = call i32 @product(ptr %a, ptr %b, ptr %c, ptr %d, ptr %e, i64 %m, i64 %n, i64 %k)
  ret i32 %r
}
"""


def native(kernel: Kernel) -> Callable[..., int]:
    module = compile_native(render_kernel(kernel) + ENTRY, ["entry"])
    types = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 3
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(module.address("entry"))
    return functools.partial(_call, module, function)


def _call(module: NativeModule, function: Callable[..., int], *args: int) -> int:
    """Holds on to the module as long as the function lives."""
    return function(*args)


# -- memory ------------------------------------------------------------------------------------


class Guarded:
    """An array that ends (or begins) at a page that may not be touched; the rest of its own page
    is poison, and must stay so."""

    def __init__(self, values: np.ndarray, at_end: bool) -> None:
        page = mmap.PAGESIZE
        inner = -(-max(values.nbytes, 1) // page) * page
        self.memory = mmap.mmap(-1, inner + 2 * page)
        whole = np.frombuffer(self.memory, np.uint8)
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for side in (0, page + inner):
            assert protect(whole.ctypes.data + side, page, 0) == 0
        usable = whole[page : page + inner]
        usable[:] = 0xFF
        cut = inner - values.nbytes if at_end else values.nbytes
        own, self.poison = (usable[cut:], usable[:cut]) if at_end else (usable[:cut], usable[cut:])
        self.array = own.view(values.dtype)
        self.array[:] = values.ravel()

    @property
    def address(self) -> int:
        return int(self.array.ctypes.data)

    def assert_unspoiled(self) -> None:
        assert np.all(self.poison == 0xFF)


@dataclass
class Case:
    """The arrays of one call, flat as they lie in memory, and A and B as matrices."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    bias: np.ndarray
    left: np.ndarray
    right: np.ndarray


def matrix_in(values: np.ndarray, rows: int, cols: int, by_rows: bool, gap: int) -> tuple:
    """Flat memory with NaN in the gaps, and the matrix in it."""
    long, short = (rows, cols) if by_rows else (cols, rows)
    memory = np.full((long, short + gap), np.nan, values.dtype)
    memory[:, :short] = values.reshape(long, short)
    inner = memory[:, :short]
    return memory.ravel()[: max(0, memory.size - gap)], inner if by_rows else inner.T


def case(sizes: Sizes, layout: str, dtype: DType, gap: int = 0) -> Case:
    m, n, k = sizes
    rng = np.random.default_rng([m, n, k])
    draw = lambda count: rng.standard_normal(count).astype(dtype.numpy)  # noqa: E731
    a, left = matrix_in(draw(m * k), m, k, layout[0] == "n", gap)
    b, right = matrix_in(draw(k * n), k, n, layout[1] == "n", gap)
    return Case(a, b, draw(m * n), draw(n), left, right)


def run(function: Callable[..., int], case: Case, scratch: int, sizes: Sizes) -> np.ndarray:
    """C after the call; twice, against guard pages behind and before every array."""
    results = []
    for at_end in (True, False):
        poison = np.full(scratch, np.nan, case.c.dtype)
        arrays = [Guarded(x, at_end) for x in (case.a, case.b, case.c, case.bias, poison)]
        assert function(*(x.address for x in arrays), *sizes) == 0
        for x in arrays:
            x.assert_unspoiled()
        results.append(arrays[2].array.copy())
    np.testing.assert_array_equal(results[0], results[1])
    return results[0].reshape(sizes[0], sizes[1])


def assert_product(result: np.ndarray, left: np.ndarray, right: np.ndarray, extra: int = 0) -> None:
    """``|error| <= (k + 1) eps |A| |B|``, which holds in whatever order terms are added (Higham,
    Accuracy and Stability of Numerical Algorithms, section 3.5); ``extra`` roundings allowed."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    room = (left.shape[1] + 1 + extra) * float(np.finfo(result.dtype).eps)
    if result.dtype == np.float64:
        a, b = left.astype(np.longdouble), right.astype(np.longdouble)
    assert np.all(np.abs(result - a @ b) <= room * (np.abs(a) @ np.abs(b)))


def check(gemm: Gemm, target: Target, layout: str, many: list[Sizes], gap: int = 0) -> None:
    """One compilation, run with each of ``many`` sizes."""
    function = native(kernel_of(gemm, target))
    for sizes in many:
        values = dict(zip((Sym(s) for s in "MNK"), sizes, strict=True))
        one = case(sizes, layout, gemm.dtype, gap)
        scratch = evaluate_dim(scratch_size(gemm, target), values)
        assert_product(run(function, one, scratch, sizes), one.left, one.right)


# -- sizes -------------------------------------------------------------------------------------

KNOWN: list[Sizes] = [
    (1, 1, 1), (1, 16, 7), (2, 17, 9), (7, 1, 33), (8, 48, 16), (9, 31, 2), (15, 33, 8),
    (16, 100, 1), (17, 2, 15), (31, 7, 17), (33, 49, 31), (48, 8, 100), (49, 9, 48), (100, 15, 49),
]  # fmt: skip
UNKNOWN: list[Sizes] = [
    (0, 5, 3), (4, 0, 3), (2, 3, 0), (1, 1, 1), (1, 49, 17), (3, 16, 2), (8, 48, 8), (9, 100, 33),
    (17, 1, 100), (31, 7, 9), (33, 15, 1), (49, 31, 16), (100, 17, 15), (16, 64, 7), (7, 33, 48),
]  # fmt: skip


@pytest.mark.parametrize("sizes", KNOWN, ids=lambda s: "x".join(map(str, s)))
def test_known_sizes(sizes: Sizes) -> None:
    for number, layout in enumerate(LAYOUTS):
        dtype = (float32, float64)[(sum(sizes) + number) % 2]
        check(gemm_of(*sizes, layout, dtype), host_target(), layout, [sizes])


@by_layout
@pytest.mark.parametrize("unknown", list(itertools.product([False, True], repeat=3)), ids=str)
def test_unknown_sizes(unknown: tuple[bool, bool, bool], layout: str) -> None:
    """Each size known or not: one kernel for all values of those that are not."""
    known: Sizes = (19, 36, 85)
    dims = [d if u else s for d, u, s in zip((M, N, K), unknown, known, strict=True)]
    many = {
        tuple(v if u else s for v, u, s in zip(values, unknown, known, strict=True))
        for values in UNKNOWN
    }
    dtype = float64 if sum(unknown) == 2 else float32
    check(gemm_of(*dims, layout, dtype), host_target(), layout, sorted(many))


@by_target
@by_layout
@by_dtype
def test_all_sizes_unknown(target: Target, layout: str, dtype: DType) -> None:
    check(gemm_of(M, N, K, layout, dtype), target, layout, UNKNOWN)


@by_target
@by_layout
def test_unknown_rows(target: Target, layout: str) -> None:
    """A product with weights: every number of rows that tiles treat differently."""
    check(gemm_of(M, 23, 70, layout, float32), target, layout, [(m, 23, 70) for m in range(26)])


@by_layout
def test_gaps_between_rows(layout: str) -> None:
    """Elements that are not of the matrix are not read, be they NaN."""
    for dims in ((M, N, K), (20, 37, 19)):
        check(gemm_of(*dims, layout, float32, gap=3), host_target(), layout, [(20, 37, 19)], gap=3)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)], ids=str)
def test_known_size_zero(sizes: Sizes) -> None:
    for layout in LAYOUTS:
        check(gemm_of(*sizes, layout, float32), host_target(), layout, [sizes])


def test_vectors() -> None:
    """A row or a column, where vectors run along whatever is contiguous."""
    for layout in LAYOUTS:
        rows = [(m, 1, k) for m, k in ((1, 1), (5, 40), (33, 100), (70, 3))]
        check(gemm_of(M, 1, K, layout, float32), host_target(), layout, rows)
        columns = [(1, n, k) for n, k in ((1, 1), (5, 40), (33, 100), (70, 3))]
        check(gemm_of(1, N, K, layout, float32), host_target(), layout, columns)
        check(gemm_of(1, 37, 90, layout, float64), host_target(), layout, [(1, 37, 90)])
        check(gemm_of(90, 1, 37, layout, float64), host_target(), layout, [(90, 1, 37)])


# -- a B too large for the cache ---------------------------------------------------------------


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_large_known_sizes(layout: str) -> None:
    check(gemm_of(40, 180, 900, layout, float32), host_target(), layout, [(40, 180, 900)])


@by_layout
@by_target
def test_panels(target: Target, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every matrix large, blocks short: partial sums, remainders of blocks, rows and panels."""
    monkeypatch.setattr(gemm_module, "_CACHE", 0)
    monkeypatch.setattr(gemm_pack, "_BLOCK", 16)
    monkeypatch.setattr(gemm_pack, "_ROWS", 16)
    many = [(m, 59, 37) for m in (0, 1, 7, 8, 31, 32, 33, 43, 64)]
    check(gemm_of(M, 59, 37, layout, float32), target, layout, many)
    check(gemm_of(45, 59, 37, layout, float32), target, layout, [(45, 59, 37)])
    check(gemm_of(45, 5, 12, layout, float64), target, layout, [(45, 5, 12)])


# -- what is done with the result --------------------------------------------------------------


def test_bias_and_relu() -> None:
    def epilogue(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        total = k.add(acc, k.load("bias", col, lanes, bound))
        k.store("c", row * N + col, k.apply("max", total, 0.0), bound)

    gemm = gemm_of(M, N, K, "nn", float32)
    plain = native(kernel_of(gemm, host_target()))
    fused = native(kernel_of(gemm, host_target(), epilogue))
    for sizes in UNKNOWN:
        one = case(sizes, "nn", float32)
        product = run(plain, one, 0, sizes)
        np.testing.assert_array_equal(
            run(fused, one, 0, sizes), np.maximum(product + one.bias, np.float32(0))
        )


@by_layout
@pytest.mark.parametrize(
    "sizes", [(64, 100, 10), (1000, 10, 64), (33, 1, 70), (1, 33, 70)], ids=str
)
def test_update_in_place(layout: str, sizes: Sizes) -> None:
    """``w -= 0.5 * product`` meets every element once."""

    def epilogue(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        at = row * sizes[1] + col
        k.store("c", at, k.sub(k.load("c", at, lanes, bound), k.mul(acc, 0.5)), bound)

    gemm = gemm_of(*sizes, layout, float64)
    one = case(sizes, layout, float64)
    scratch = scratch_size(gemm, host_target())
    assert isinstance(scratch, int)
    result = run(native(kernel_of(gemm, host_target(), epilogue)), one, scratch, sizes)
    expected = one.c.reshape(result.shape) - 0.5 * (one.left @ one.right)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_accumulation_over_a_batch() -> None:
    """Products of a batch, each from its own place in the buffers, summed up in C."""
    count, m, n, k = 3, 5, 19, 6

    def epilogue(
        kk: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        at = row * n + col
        kk.store("c", at, kk.add(acc, kk.load("c", at, lanes, bound)), bound)

    gemm = gemm_of(m, n, k, "nn", float64)
    buffers = [Buffer(name, float64, "in" if name in "ab" else "inout") for name in "abcde"]
    builder = Builder(buffers, [Sym(name) for name in "MNK"])
    with builder.loop("batch", count) as i:
        emit_gemm(builder, gemm, host_target(), "a", "b", None, epilogue, i * m * k, i * k * n)
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((count, m, k)), rng.standard_normal((count, k, n))
    one = Case(left.ravel(), right.ravel(), np.zeros(m * n), np.zeros(0), left, right)
    result = run(native(verify_kernel(builder.kernel("product"))), one, 0, (m, n, k))
    np.testing.assert_allclose(result, np.sum(left @ right, 0), rtol=1e-13, atol=1e-13)


@by_layout
def test_nan_and_infinity_stay_where_they_belong(layout: str) -> None:
    sizes = (21, 35, 70)
    for dims in ((M, N, K), sizes):
        gemm = gemm_of(*dims, layout, float32)
        one = case(sizes, layout, float32)
        one.left[4, 69], one.left[20, 0], one.right[3, 34] = np.nan, np.inf, -np.inf
        one.left[:, 3] = np.abs(one.left[:, 3]) + 1
        one.a = np.ascontiguousarray(one.left if layout[0] == "n" else one.left.T).ravel()
        one.b = np.ascontiguousarray(one.right if layout[1] == "n" else one.right.T).ravel()
        values = dict(zip((Sym(s) for s in "MNK"), sizes, strict=True))
        scratch = evaluate_dim(scratch_size(gemm, host_target()), values)
        result = run(native(kernel_of(gemm, host_target())), one, scratch, sizes)
        with np.errstate(invalid="ignore"):
            expected = one.left.astype(np.float64) @ one.right.astype(np.float64)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


# -- other dtypes ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [int32, int64, uint8], ids=str)
def test_integers_wrap(dtype: DType) -> None:
    sizes = (5, 7, 9)
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype.numpy)
    left = rng.integers(info.min, info.max, (5, 9), dtype.numpy, endpoint=True)
    right = rng.integers(info.min, info.max, (9, 7), dtype.numpy, endpoint=True)
    one = Case(left.ravel(), right.ravel(), np.zeros(35, dtype.numpy), left[0], left, right)
    gemm = gemm_of(M, N, K, "nn", dtype)
    assert scratch_size(gemm, host_target()) == 0
    function = native(kernel_of(gemm, host_target()))
    arrays = [Guarded(x, True) for x in (one.a, one.b, one.c, one.bias, one.bias[:0])]
    assert function(*(x.address for x in arrays), *sizes) == 0
    np.testing.assert_array_equal(arrays[2].array.reshape(5, 7), left @ right)


def test_bools_are_combined_by_logic() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.random((6, 9)) < 0.3, rng.random((9, 8)) < 0.3
    c = np.zeros(48, np.bool_)
    arrays = {"a": left.ravel(), "b": right.ravel(), "c": c, "bias": c[:0], "scratch": c[:0]}
    kernel = kernel_of(gemm_of(M, N, K, "nn", bool_), host_target())
    sizes = dict(zip((Sym(s) for s in "MNK"), (6, 8, 9), strict=True))
    assert interpret_kernel(kernel, arrays, sizes) == 0
    np.testing.assert_array_equal(c.reshape(6, 8), left @ right)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_short_floats_are_rounded_once(dtype: DType) -> None:
    """Integers below 2**8 times 1, a thousand of them: exact in float32, not in the dtype."""
    k = 1000
    left = (np.arange(2 * k) % 3 == 0).reshape(2, k).astype(dtype.numpy)
    right = np.ones((k, 3), dtype.numpy)
    arrays = {"a": left.ravel(), "b": right.ravel(), "c": np.zeros(6, dtype.numpy)}
    arrays |= {"bias": arrays["c"][:0], "scratch": arrays["c"][:0]}
    function = native(kernel_of(gemm_of(M, N, K, "nn", dtype), host_target()))
    assert function(*(x.ctypes.data for x in arrays.values()), 2, 3, k) == 0
    exact = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(arrays["c"].reshape(2, 3), exact.astype(dtype.numpy))


# -- the Kernel IR -----------------------------------------------------------------------------


@by_layout
@by_target
def test_interpreter_agrees(target: Target, layout: str) -> None:
    """The interpreter knows the size of each buffer and refuses an index outside."""
    sizes = (10, 21, 11)
    for dims in ((M, N, K), (M, 21, 11)):
        gemm = gemm_of(*dims, layout, float64)
        one = case(sizes, layout, float64)
        values = dict(zip((Sym(s) for s in "MNK"), sizes, strict=True))
        scratch = np.full(evaluate_dim(scratch_size(gemm, target), values), np.nan)
        arrays = {"a": one.a, "b": one.b, "c": one.c, "bias": one.bias, "scratch": scratch}
        assert interpret_kernel(kernel_of(gemm, target), arrays, values) == 0
        assert_product(one.c.reshape(10, 21), one.left, one.right)


def statements(gemm: Gemm) -> list[Stmt]:
    return list(walk(kernel_of(gemm, TARGETS["avx512"]).body))


def test_code_stays_small() -> None:
    """What a compilation costs is its statements: those of a two-layer net's training step."""
    step = [
        gemm_of(M, 100, 1000, "nn", float32),
        gemm_of(M, 10, 100, "nn", float32),
        gemm_of(100, 10, K, "tn", float32),
        gemm_of(M, 100, 10, "nt", float32),
        gemm_of(1000, 100, K, "tn", float32),
    ]
    assert sum(len(statements(gemm)) for gemm in step) < 1500
    assert len(statements(gemm_of(M, N, K, "nn", float32))) < 700


def test_tiles_fit_the_registers() -> None:
    """No more accumulators in a loop than registers, less a vector of B and an element of A."""
    for target, registers in (TARGETS["avx512"], 31), (TARGETS["avx2"], 15):
        for m, n in itertools.product((1, 3, 8, 19, 64, 100, M), (1, 10, 33, 48, 100, 250, N)):
            kernel = kernel_of(gemm_of(m, n, K, "nn", float32), target)
            for loop in (s for s in walk(kernel.body) if isinstance(s, Loop)):
                accumulators = {s.reg for s in loop.body if isinstance(s, Set)}
                assert len(accumulators) <= registers - 2


def test_known_columns_are_cut_into_few_panels() -> None:
    avx512 = TARGETS["avx512"]
    for n in range(200):
        panels = column_panels(n, 16, avx512, main_rows(avx512))
        assert len(panels) <= 3
        assert sum(-(-(s.hi - s.lo) // s.step) * p.width for s, p in panels) >= n
        assert [s.lo for s, _ in panels] == [0, *(s.hi for s, _ in panels)][: len(panels)]
        assert all(p.lanes for _, p in panels)
        assert not panels or panels[-1][0].hi == n


def test_known_rows_are_cut_into_two_kinds_of_tiles_at_most() -> None:
    for m in range(200):
        blocks = row_blocks(m, TARGETS["avx512"], 3)
        assert len(blocks) <= 2
        assert [row for s, rows in blocks for row in range(s.lo, s.hi, rows)] == sorted(
            row for s, rows in blocks for row in range(s.lo, s.hi, s.step)
        )
        assert sum(s.hi - s.lo for s, _ in blocks) == m


def test_rows_can_be_spread_over_threads() -> None:
    """The outermost loops are parallel, and no loop inside of them is."""
    kernel = kernel_of(gemm_of(M, 100, 1000, "nn", float32), host_target())
    outer = [s for s in kernel.body if isinstance(s, Loop)]
    assert outer and all(loop.kind == "parallel" for loop in outer)
    inner = (s for loop in outer for s in walk(loop.body))
    assert not any(isinstance(s, Loop) and s.kind != "serial" for s in inner)
