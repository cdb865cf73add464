"""Parts of products that programs share: called with sizes and strides of all kinds they give the
bits of the same product written out in one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from gemm_cases import assert_product, case, gemm_of, kernel_of, native, run

import staticflow as sf
from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.dispatch import Epilogue, Gemm, Workspace, emit_gemm, scratch_size
from staticflow.codegen.gemm.shared import shared_kernel
from staticflow.codegen.gemm.tile import Matrix
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import Buffer, Call, Kernel, Operand, Shared
from staticflow.codegen.llvm.render import called_in, render_kernel
from staticflow.codegen.parts import walk
from staticflow.codegen.target import Target
from staticflow.codegen.text import parse_kernel, print_kernel
from staticflow.codegen.verify import verify_kernel
from staticflow.errors import IndexRangeError, ParseError, VerifyError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DType, float32, float64, int32
from staticflow.runtime.machine import host_target
from staticflow.runtime.threads import most_workers

M, N, K = (Dim.of(Sym(name)) for name in "MNK")
HERE = host_target()
SHARING = replace(HERE, shares=True)
LAYOUTS = ("nn", "nt", "tn", "tt")


def calls_in(kernel: Kernel) -> list[Call]:
    return [s for s in walk(kernel.body) if isinstance(s, Call)]


def plus_one(n: Size) -> Epilogue:
    def epilogue(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        k.store("c", row * n + col, k.add(acc, 1.0), bound)

    return epilogue


def plain(gemm: Gemm, target: Target) -> Kernel:
    """The product, stored as it is."""
    accesses = {"a": "in", "b": "in", "c": "inout", "bias": "in", "scratch": "inout"}
    buffers = [Buffer(name, gemm.dtype, access) for name, access in accesses.items()]
    k = Builder(buffers, [Sym(name) for name in "MNK"])
    scratch = Workspace("scratch") if scratch_size(gemm, target, True) != 0 else None

    def epilogue(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        k.store("c", row * gemm.n + col, acc, bound)

    emit_gemm(k, gemm, target, "a", "b", scratch, epilogue, to=Matrix("c", 0, gemm.n, 1))
    return verify_kernel(k.kernel("product"))


def sizes_to_try(dtype: DType) -> Iterator[tuple[int, int, int]]:
    lanes = HERE.vector_bits // dtype.bits
    yield from [
        (1, 1, 1),
        (3, 2 * lanes + 1, 5),
        (8, max(lanes, 9), 9),
        (9, 6 * lanes + 3, 2),
        (15, 9, 64),
    ]
    yield from [(23, 23, 23), (25, 7 * lanes, 31), (16, 2049, 64), (37, 130, 1100), (70, 515, 300)]


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_bits_are_those_of_a_product_in_one_kernel(layout: str, dtype: DType) -> None:
    gemm = gemm_of(M, N, K, layout, dtype)
    kernels = [
        kernel_of(gemm, HERE, plus_one(N)),
        kernel_of(gemm, SHARING, plus_one(N)),
        plain(gemm, SHARING),
    ]
    assert not calls_in(kernels[0]) and (layout == "tt" or all(map(calls_in, kernels[1:])))
    for call in [c for kernel in kernels for c in calls_in(kernel)]:
        made = verify_kernel(call.kernel.make())
        assert (made.name, made.buffers, made.sizes) == (
            call.kernel.name,
            call.kernel.buffers,
            call.kernel.sizes,
        )
    functions = [*map(native, kernels)]
    for sizes in sizes_to_try(dtype):
        values = dict(zip((Sym(s) for s in "MNK"), sizes, strict=True))
        one = case(sizes, layout, dtype)
        rooms = [
            evaluate_dim(scratch_size(gemm, target, is_plain), values)
            for target, is_plain in ((HERE, False), (SHARING, False), (SHARING, True))
        ]
        inline, shared, stored = (
            run(f, one, room, sizes) for f, room in zip(functions, rooms, strict=True)
        )
        np.testing.assert_array_equal(shared, inline)
        if layout[1] == "n" or sizes[2] > 64:  # else a small B is copied, if nothing is fused
            np.testing.assert_array_equal(stored + 1, inline)
        assert_product(stored, one.left, one.right)


FEW = [(1, 1, 1), (1, 1, 33), (1, 127, 5), (1, 128, 40), (1, 2055, 19), (2, 140, 17), (3, 9, 21)]
FEW += [(40, n, 37) for n in (1, 2, 3, 4, 5, 8, 9)] + [(2055, 1, 19), (1030, 7, 9), (70, 3, 2)]
FEW += [
    (127, 3, 63),
    (128, 8, 64),
    (130, 2, 65),
    (1, 1030, 1),
    (1, 130, 0),
    (50, 2, 0),
    (0, 3, 5),
    (1, 0, 5),
]


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_unknown_rows_and_columns(layout: str, dtype: DType, gap: int) -> None:
    """Ways of their own, in the memory that they say they need, and past no element."""
    gemm = gemm_of(M, N, K, layout, dtype, gap)
    kernel = plain(gemm, SHARING)
    assert next(c.kernel.name for c in calls_in(kernel)).startswith("shared_product")
    function = native(kernel)
    for sizes in FEW:
        values = dict(zip((Sym(s) for s in "MNK"), sizes, strict=True))
        one, room = case(sizes, layout, dtype, gap), scratch_size(gemm, SHARING, True)
        found = run(function, one, evaluate_dim(room, values), sizes)
        assert_product(found, one.left, one.right)


@pytest.mark.parametrize("known", ["M", "N", "K", "MN", "NK"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_some_sizes_are_known(layout: str, known: str) -> None:
    sizes = (41, 70, 300)
    values = dict(zip("MNK", sizes, strict=True))
    dims = [values[s] if s in known else Dim.of(Sym(s)) for s in "MNK"]
    gemm = gemm_of(*dims, layout, float32)
    one = case(sizes, layout, float32)
    room = evaluate_dim(scratch_size(gemm, SHARING), {Sym(s): n for s, n in values.items()})
    kernel = kernel_of(gemm, SHARING)
    assert_product(run(native(kernel), one, room, sizes), one.left, one.right)


def test_products_of_known_sizes_call_nothing() -> None:
    assert not calls_in(kernel_of(gemm_of(64, 64, 64, "nn", float32), SHARING))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("sizes", [(3, 5, 4), (17, 9, 6)], ids=str)
def test_the_interpreter_calls_them_too(layout: str, sizes: tuple[int, int, int]) -> None:
    gemm = gemm_of(M, N, K, layout, float64)
    kernel = kernel_of(gemm, SHARING, plus_one(N))
    values = dict(zip((Sym(s) for s in "MNK"), sizes, strict=True))
    one, room = case(sizes, layout, float64), evaluate_dim(scratch_size(gemm, SHARING), values)
    arrays = {"a": one.a.ravel(), "b": one.b.ravel(), "bias": one.bias}
    arrays |= {"c": one.c.copy(), "scratch": np.full(3 * room, np.nan)}
    assert interpret_kernel(kernel, arrays, values) == 0
    expected = run(native(kernel), one, room, sizes)
    np.testing.assert_allclose(arrays["c"].reshape(expected.shape), expected, rtol=1e-13)


def test_the_text_of_a_call_is_read_back() -> None:
    kernel = kernel_of(gemm_of(M, N, K, "nn", float32), SHARING)
    callees = [call.kernel for call in calls_in(kernel)]
    text = print_kernel(kernel)
    assert "call shared_task_f32_n1n1(a[" in text
    assert parse_kernel(text, callees) == kernel
    with pytest.raises(ParseError, match="one of"):
        parse_kernel(text)


def doubling() -> Shared:
    k = Builder([Buffer("x", float32, "in"), Buffer("y", float32, "inout")], [Sym("n")])
    with k.loop("i", Dim.of(Sym("n"))) as i:
        k.store("y", i, k.mul(k.load("x", i), 2.0))
    kernel = verify_kernel(k.kernel("shared_doubling"))
    return Shared(kernel.name, kernel.buffers, kernel.sizes, lambda: kernel)


def calling(*, into: str = "c", dtype: DType = float32, sizes: tuple[Size, ...] = (N,)) -> Kernel:
    k = Builder([Buffer("a", dtype, "in"), Buffer("c", dtype, "inout")], [Sym("N")])
    k.emit(Call(doubling(), ("a", into), (1, 0), sizes, N))
    return k.kernel("caller")


def test_calls_are_verified() -> None:
    verify_kernel(calling())
    with pytest.raises(VerifyError, match="a is an input; it cannot be stored to"):
        verify_kernel(calling(into="a"))
    with pytest.raises(VerifyError, match="a is i32, not f32"):
        verify_kernel(calling(dtype=int32))
    with pytest.raises(VerifyError, match="takes 2 buffers and 1 sizes"):
        verify_kernel(calling(sizes=()))
    with pytest.raises(VerifyError, match="not bound here"):
        verify_kernel(calling(sizes=(K,)))


def test_a_call_starts_inside_its_buffers() -> None:
    arrays = {"a": np.arange(4, dtype=np.float32), "c": np.zeros(4, np.float32)}
    assert interpret_kernel(calling(), arrays, {Sym("N"): 3}) == 0
    np.testing.assert_array_equal(arrays["c"], [2, 4, 6, 0])
    with pytest.raises(IndexRangeError, match="element 1 of a, which has 0"):
        interpret_kernel(calling(), {"a": arrays["a"][:0], "c": arrays["c"]}, {Sym("N"): 0})
    assert called_in(render_kernel(calling())) == ("shared_doubling",)


def called_by(program: sf.Program) -> tuple[str, ...]:
    return called_in(program.source("llvm"))


def test_programs_call_them_where_sizes_are_open() -> None:
    x, w = sf.placeholder((None, None), name="x"), sf.placeholder((None, None), name="w")
    assert called_by(sf.compile([x, w], x @ w)) == (f"shared_product{most_workers()}_f32_n1n1",)
    fused = called_by(sf.compile([x, w], (x @ w).tanh()))
    assert fused == ("shared_task_f32_n1n1",)
    # The modes of other threads would not be those of the program.
    assert called_by(sf.compile([x, w], x @ w, flush_subnormals=True)) == ()


SMALL = [(1, 1, 1), (3, 9, 5), (15, 40, 7), (8, 3000, 19), (15, 129, 64), (40, 8, 3), (40, 1, 37)]
"""Sizes of products of which rows or columns are few: dot products."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["bias", "long", "two results", "a batch", "in place"])
def test_what_is_fused_behind_a_few_dot_products(kind: str, threads: int) -> None:
    """They are left where the result is, by a kernel that programs share, and read from there; not
    where the result lies over what is read."""
    shapes: list[tuple[int | None, ...]] = [(None, None), (None, None), (None,)]
    if kind == "a batch":
        shapes[:2] = [(None, None, None)] * 2
    x, w, b = (sf.placeholder(s, name=n) for s, n in zip(shapes, "xwb", strict=True))
    y = x @ w.transpose(-2, -1)
    state = sf.placeholder((None, None), name="state")
    program = {
        "bias": lambda: sf.compile([x, w, b], y + b),
        "long": lambda: sf.compile([x, w, b], sf.nn.functional.gelu(y + b)),
        "two results": lambda: sf.compile([x, w, b], [(y * 2).to(sf.int32), y, y + b]),
        "a batch": lambda: sf.compile([x, w, b], y + b),
        "in place": lambda: sf.compile([x, w, state], y + state, donate=["state"]),
    }[kind]()
    assert ("shared_dots_f32_n11n" in called_by(program)) is (kind != "in place")
    folds = program.source("llvm").count("vector.reduce.fadd")
    assert (folds == 0) is (kind != "in place"), "dot products are written out"
    sf.set_num_threads(threads)
    rng = np.random.default_rng(3)
    for m, n, depth in SMALL:
        # small whole numbers, whose sums are exact in any order
        left, right = (rng.integers(-4, 5, s).astype("f") for s in ((m, depth), (n, depth)))
        bias = rng.integers(-4, 5, (m, n) if kind == "in place" else n).astype("f")
        if kind == "a batch":
            left, right = np.stack([left, left + 1]), np.stack([right, -right])
        product = left @ right.swapaxes(-2, -1)
        found = program(left, right, bias.copy())
        if kind == "two results":
            for one, expected in zip(found, (product * 2, product, product + bias), strict=True):
                np.testing.assert_array_equal(one.numpy(), expected)
        elif kind == "long":
            expected = sf.nn.functional.gelu(sf.tensor(product + bias))
            sf.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(found.numpy(), product + bias)


def test_attention_calls_them_for_its_blocks() -> None:
    """Blocks that are full and such that are not: the results are those of known sizes."""
    lengths, width = (97, 130), 24
    generator = sf.Generator(0)
    arrays = [sf.randn(2, n, width, generator=generator) for n in (lengths[0], *[lengths[1]] * 2)]

    def program(is_open: bool) -> sf.Program:
        shapes = [(2, None if is_open else a.shape[1], width) for a in arrays]
        xs = [sf.placeholder(shape, name=name) for shape, name in zip(shapes, "qkv", strict=True)]
        y = sf.nn.functional.scaled_dot_product_attention(*xs)
        return sf.compile(xs, [y, *sf.grad((y * y).sum(), xs)])

    opened, known = program(True), program(False)
    assert called_by(known) == ()
    assert called_by(opened) == (
        "shared_strip_f32_n1n1", "shared_scaled_f32_1nn1", "shared_onto_f32_n1n1",
        "shared_onto_f32_1nn1",
    )  # fmt: skip
    for found, expected in zip(opened(*arrays), known(*arrays), strict=True):
        sf.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_product_of_many_rows_and_columns_calls_a_kernel_without_ways_for_few() -> None:
    found = {}
    for m, n in ((20, 64), (20, 5), (M, N)):
        kernel = plain(gemm_of(m, n, K, "tn", float32), SHARING)
        found[m, n] = [
            call.kernel.name.split("_")[1].rstrip("0123456789") for call in calls_in(kernel)
        ]
    assert found == {(20, 64): ["many"], (20, 5): [], (M, N): ["product"]}
    sizes = {
        word: sum(1 for _ in walk(shared_kernel(f"shared_{word}2_f32_1nn1", HERE).body))
        for word in ("many", "product")
    }
    assert sizes["many"] < 0.75 * sizes["product"]
