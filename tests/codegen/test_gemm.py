"""Generated matrix products, run natively between guard pages, against NumPy in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gemm_cases import (
    Case,
    Sizes,
    assert_product,
    case,
    check,
    gemm_of,
    kernel_of,
    native,
    run,
)

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm import cut as cuts
from staticflow.codegen.gemm import ways
from staticflow.codegen.gemm.dispatch import Gemm, _product, emit_gemm, scratch_size
from staticflow.codegen.gemm.plan import column_panels, main_rows, row_blocks
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import (
    Bind,
    Buffer,
    Let,
    Load,
    Loop,
    Operand,
    Set,
    Stmt,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.target import Target
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym
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
from staticflow.runtime.machine import host_target

M, N, K = (Dim.of(Sym(name)) for name in "MNK")
TARGETS = {
    "host": host_target(),
    "avx512": Target(512, fma=True, masks=True),
    "avx2": Target(256, fma=True, masks=True),
    "sse": Target(128, fma=False, masks=False),
}
LAYOUTS = ["nn", "nt", "tn", "tt"]
by_layout = pytest.mark.parametrize("layout", LAYOUTS)
by_dtype = pytest.mark.parametrize("dtype", [float32, float64, int64, int8], ids=str)
by_target = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))


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


@by_target
def test_a_row_and_known_columns(target: Target) -> None:
    """As many columns side by side as are right for a row, also where registers are few."""
    for n in (*range(1, 10), 40, 64):
        sizes = (1, n, 37)
        check(gemm_of(*sizes, "nt", float32), target, "nt", [sizes])


@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_few_columns(n: int) -> None:
    """Few columns and a long inner dimension: dot products with a copy of B."""
    for layout in LAYOUTS:
        k = 100 * n + 3
        check(
            gemm_of(M, n, k, layout, float32), host_target(), layout, [(m, n, k) for m in (0, 1, 9)]
        )
    check(gemm_of(3, n, 700, "nn", float32), host_target(), "nn", [(3, n, 700)])


# -- matrices too large for the cache ----------------------------------------------------------


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_large_known_sizes(layout: str) -> None:
    check(gemm_of(40, 180, 900, layout, float32), host_target(), layout, [(40, 180, 900)])


@by_target
def test_gradient_of_weights(target: Target) -> None:
    """An unknown inner dimension, from none over a block to several."""
    many = [(45, 35, k) for k in (0, 1, 127, 128, 129, 256, 300)]
    check(gemm_of(45, 35, K, "tn", float32), target, "tn", many)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_threads_have_tasks_to_share(layout: str) -> None:
    """Few rows, few columns and squares, cut at run time; as little known as there can be."""
    for m, n, k in [(64, 256, 784), (256, 256, 256), (1024, 96, 300), (1024, 1024, 1024)]:
        gemm = gemm_of(M, N, K, layout, float32)
        product = _product(gemm, host_target(), "a", "b", 0, 0)[0]
        groups = [
            evaluate_dim(
                cuts.cut_of(product, enough).groups, {Sym("M"): m, Sym("N"): n, Sym("K"): k}
            )
            for enough in range(1, cuts.ENOUGH + 1)
        ]
        assert groups[3] >= 2, (m, n, k)
        assert max(groups) == groups[-1], "workspaces are made for the most groups"


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_a_thread_looks_often_enough_whether_to_stop(layout: str) -> None:
    """It does between groups of tasks, and none of a product of 10,000 squared is more than a
    hundredth of it."""
    gemm = gemm_of(M, N, K, layout, float32)
    cut = cuts.cut_of(_product(gemm, host_target(), "a", "b", 0, 0)[0], cuts.ENOUGH)
    sizes = {Sym("M"): 10_000, Sym("N"): 10_000, Sym("K"): 10_000}
    groups, down, across = (
        evaluate_dim(size, sizes) for size in (cut.groups, cut.down, cut.across)
    )
    assert -(-down * across // groups) <= down * across / 100


def test_one_thread_copies_each_matrix_once() -> None:
    """Alone, a product by columns is one task."""
    gemm = gemm_of(1024, 1024, 1024, "tn", float32)
    cut = cuts.cut_of(_product(gemm, host_target(), "a", "b", 0, 0)[0], 1)
    assert (cut.down, cut.across) == (1, 1)


@pytest.mark.parametrize("n", [200, 208, 400])
def test_known_columns_are_cut_for_threads(n: int) -> None:
    """A chunk is never wider than its workspace, whatever the number of threads."""
    gemm = gemm_of(40, n, 300, "tn", float32)
    product = _product(gemm, host_target(), "a", "b", 0, 0)[0]
    enough = Sym("enough")
    cut = cuts.cut_of(product, Dim.of(enough))
    chunks = [evaluate_dim(cut.chunk, {enough: count}) for count in range(1, 17)]
    assert max(chunks) <= cut.width
    check(gemm, host_target(), "tn", [(40, n, 300)])


def test_rows_of_unknown_length_stay_in_registers() -> None:
    """An element of A is at the beginning of its row and the count: no stride in the loop."""
    kernel = kernel_of(gemm_of(M, N, K, "nn", float32), host_target())
    held = {s.sym for s in walk(kernel.body) if isinstance(s, Bind) and s.held}
    reads = [
        (loop.var, symbols_of(stmt.expr.index))
        for loop in walk(kernel.body)
        if isinstance(loop, Loop)
        for stmt in loop.body
        if isinstance(stmt, Let) and isinstance(stmt.expr, Load) and stmt.expr.buffer == "a"
    ]
    assert reads
    for var, symbols in reads:
        assert var in symbols and len(symbols - {var}) == 1 and symbols - {var} <= held


@by_layout
@by_target
def test_panels(target: Target, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every matrix large, tasks and blocks small: partial sums, remainders of tasks, blocks, rows
    and panels; each size known or not."""
    monkeypatch.setattr(ways, "_CACHE", 0)
    monkeypatch.setattr(cuts, "_STRIPE", 12)
    monkeypatch.setattr(cuts, "_ROWS", 27)
    monkeypatch.setattr(cuts, "_BY_ROWS", cuts._Way(panels=1, column=64, tasks=8))
    monkeypatch.setattr(cuts, "_BY_COLUMNS", cuts._Way(panels=2, column=64, tasks=2))
    monkeypatch.setattr(cuts, "_PANELS_PER_COPY", 1)
    many = [(m, 159, 37) for m in (0, 1, 15, 16, 17, 23, 24, 25, 43, 64)]
    check(gemm_of(M, 159, 37, layout, float32), target, layout, many)
    sizes = [(m, n, k) for m, n in ((16, 1), (50, 65), (31, 200)) for k in (0, 1, 16, 37, 100)]
    check(gemm_of(M, N, K, layout, float32), target, layout, [*sizes, (0, 5, 3), (20, 0, 3)])
    check(gemm_of(45, 159, 37, layout, float32), target, layout, [(45, 159, 37)])
    check(gemm_of(45, 5, 12, layout, float64), target, layout, [(45, 5, 12)])
    check(gemm_of(48, 96, 64, layout, float64), target, layout, [(48, 96, 64)])


@by_target
@pytest.mark.parametrize(("m", "n"), [(16, 9), (45, 35), (100, 200)])
def test_parts_of_a_long_inner_dimension(
    target: Target, m: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both sides of where there are several: their sums are added up, in tasks of several rows
    and columns, too."""
    monkeypatch.setattr(cuts, "_DEEP", 20)
    monkeypatch.setattr(cuts, "_STRIPE", 24)
    monkeypatch.setattr(cuts, "_ROWS", 64)
    monkeypatch.setattr(cuts, "_BY_COLUMNS", cuts._Way(panels=2, column=64, tasks=2))
    depths = (1, 39, 40, 41, 63, 100, 331)
    for dtype in (float32, float64):
        check(gemm_of(m, n, K, "tn", dtype), target, "tn", [(m, n, k) for k in depths])
    for k in depths:
        check(gemm_of(m, n, k, "tn", float32), target, "tn", [(m, n, k)])


def test_few_rows_and_columns_have_tasks_for_threads() -> None:
    """As many parts of the inner dimension as are long enough; fewer where there are rows to share, too,
    and none of a matrix that lies by rows."""

    def parts(m: int, n: int, k: int, layout: str = "tn") -> Size:
        gemm = gemm_of(m, n, k, layout, float32)
        return cuts.parts_of(_product(gemm, TARGETS["avx512"], "a", "b", 0, 0)[0])

    assert [parts(100, 100, k) for k in (8191, 8192, 1 << 20)] == [1, 2, 16]
    assert [parts(m, 100, 1 << 20) for m in (383, 384, 3072)] == [16, 8, 1]
    assert parts(100, 100, 1 << 20, "nn") == 1


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
    "sizes", [(64, 100, 10), (300, 10, 64), (45, 35, 600), (33, 1, 70), (1, 33, 70)], ids=str
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


@pytest.mark.parametrize("dtype", [int64, int32, int16, int8, uint8], ids=str)
def test_integers_wrap(dtype: DType) -> None:
    """In tiles, as the products of floats are, by whichever way."""
    for number, sizes in enumerate(KNOWN):
        layout = LAYOUTS[number % 4]
        check(gemm_of(*sizes, layout, dtype), host_target(), layout, [sizes])
    for layout in LAYOUTS:
        check(gemm_of(M, 1, K, layout, dtype), host_target(), layout, [(5, 1, 40), (33, 1, 100)])
        check(gemm_of(M, 3, K, layout, dtype), host_target(), layout, [(0, 3, 303), (9, 3, 303)])
        check(gemm_of(1, N, K, layout, dtype), host_target(), layout, [(1, 5, 40), (1, 33, 100)])
        check(gemm_of(M, 35, K, layout, dtype), host_target(), layout, [(45, 35, 129)])


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
    assert sum(len(statements(gemm)) for gemm in step) < 2200
    assert len(statements(gemm_of(M, N, K, "nn", float32))) < 1200


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


@by_layout
def test_loops_can_be_spread_over_threads(layout: str) -> None:
    """Tiles are in loops that are parallel."""
    for dims in ((M, N, K), (M, 100, 1000), (64, 100, K), (M, 600, 600), (M, 1, 99), (1, 1999, 99)):
        kernel = kernel_of(gemm_of(*dims, layout, float32), host_target())
        parallel = [s for s in walk(kernel.body) if isinstance(s, Loop) and s.kind == "parallel"]
        assert parallel
