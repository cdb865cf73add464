"""Matrix products as native functions, and arrays between guard pages to call them with."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from guard_pages import guarded_bytes

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.dispatch import Epilogue, Gemm, Workspace, emit_gemm, scratch_size
from staticflow.codegen.kernel import Buffer, Kernel, Operand
from staticflow.codegen.llvm.render import called_in, render_module
from staticflow.codegen.target import Target
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import DType
from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.shared_kernels import shared_symbols
from staticflow.runtime.threads import pool_symbols

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
    scratch = Workspace("scratch") if scratch_size(gemm, target) != 0 else None
    emit_gemm(k, gemm, target, "a", "b", scratch, epilogue or store_epilogue(gemm.n), *base)
    return verify_kernel(k.kernel("product"))


ENTRY = """
define i32 @entry(ptr %a, ptr %b, ptr %c, ptr %d, ptr %e, i64 %m, i64 %n, i64 %k) {
  %r = call i32 @product(ptr %a, ptr %b, ptr %c, ptr %d, ptr %e, i64 %m, i64 %n, i64 %k)
  ret i32 %r
}
"""


def native(kernel: Kernel) -> Callable[..., int]:
    text = render_module([kernel]) + ENTRY
    symbols = pool_symbols() | shared_symbols(called_in(text))
    module = compile_native(text, ["entry"], symbols)
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
        own, self.poison = guarded_bytes(values.nbytes, at_end)
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
    """Flat memory with NaN in the gaps, or the largest integer, and the matrix in it."""
    long, short = (rows, cols) if by_rows else (cols, rows)
    memory = np.full((long, short + gap), poison_of(values.dtype), values.dtype)
    memory[:, :short] = values.reshape(long, short)
    inner = memory[:, :short]
    return memory.ravel()[: max(0, memory.size - gap)], inner if by_rows else inner.T


def poison_of(dtype: np.dtype) -> float:
    """What no result may be made of."""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).max


def drawn(rng: np.random.Generator, count: int, dtype: np.dtype) -> np.ndarray:
    """Numbers at random, integers from the whole range, whose products wrap."""
    if dtype.kind == "f":
        return rng.standard_normal(count).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, count, dtype, endpoint=True)


def case(sizes: Sizes, layout: str, dtype: DType, gap: int = 0) -> Case:
    m, n, k = sizes
    rng = np.random.default_rng([m, n, k])
    draw = lambda count: drawn(rng, count, dtype.numpy)  # noqa: E731
    a, left = matrix_in(draw(m * k), m, k, layout[0] == "n", gap)
    b, right = matrix_in(draw(k * n), k, n, layout[1] == "n", gap)
    return Case(a, b, draw(m * n), draw(n), left, right)


def run(function: Callable[..., int], case: Case, scratch: int, sizes: Sizes) -> np.ndarray:
    """C after the call; twice, against guard pages behind and before every array."""
    results = []
    for at_end in (True, False):
        poison = np.full(scratch, poison_of(case.c.dtype), case.c.dtype)
        arrays = [Guarded(x, at_end) for x in (case.a, case.b, case.c, case.bias, poison)]
        assert function(*(x.address for x in arrays), *sizes) == 0
        for x in arrays:
            x.assert_unspoiled()
        results.append(arrays[2].array.copy())
    np.testing.assert_array_equal(results[0], results[1])
    return results[0].reshape(sizes[0], sizes[1])


def assert_product(result: np.ndarray, left: np.ndarray, right: np.ndarray, extra: int = 0) -> None:
    """``|error| <= (k + 1) eps |A| |B|``, which holds in whatever order terms are added (Higham,
    Accuracy and Stability of Numerical Algorithms, section 3.5); ``extra`` roundings allowed.
    Integers are those that wrap."""
    if result.dtype.kind != "f":
        np.testing.assert_array_equal(result, left @ right)
        return
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
