"""What the native entry computes of sizes before a run: traffic, and a bound against overflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.program.traffic import moved_bytes
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_max, dim_min
from staticflow.runtime.fastcall_sizes import size_limit

N, M = Dim.of(Sym("N")), Dim.of(Sym("M"))
MOST = 1 << 62


@pytest.mark.parametrize(
    ("sizes", "bits"),
    [
        ([], 62),
        ([7, 1 << 61], 62),
        ([N], 62),
        ([N, 4 * M], 60),
        ([N * M], 31),
        ([4 * N * M], 30),
        ([N * N * N], 20),
        ([8 * N - 8 * M], 58),
        ([64 * ceil_div(4 * N, 64)], 53),
        ([dim_max(N, 4 * M) * N], 30),
        ([dim_min(N, 16) * M], 58),
        ([dim_min(N - 16, 16) * M], 30),
        ([dim_min(N * M // 64, 1) * dim_min(N, 16) * M], 31),
    ],
    ids=str,
)
def test_size_limit(sizes: Sequence[Size], bits: int) -> None:
    limit = size_limit(sizes)
    assert limit == 1 << bits
    for n, m in [(limit, limit), (limit, 0), (0, limit)]:
        values = {Sym("N"): n, Sym("M"): m}
        assert all(abs(evaluate_dim(s, values)) <= MOST for s in sizes)


def moved(program: Any) -> Size:
    executable = program._executable
    signature = executable.signature
    types = (*(p.type for p in signature.params), *signature.outputs)
    assert not signature.constants
    return moved_bytes(executable.program, [t.size * t.dtype.itemsize for t in types])


def test_products_of_unknown_sizes_are_called_natively() -> None:
    """A workspace of some columns by some rows, whatever the sizes, is no reason to go the long
    way."""
    x, y = sf.placeholder((None, None)), sf.placeholder((None, None))
    program = sf.compile([x, y], x @ y)
    ones = np.ones((40, 40), np.float32)
    assert program._executable.fast(ones, ones) is not None


def test_traffic_of_kernels_and_copies() -> None:
    x = sf.placeholder(("N",), name="x")
    y = sf.placeholder(("N",), "float64", name="y")
    assert moved(sf.compile([x], x + x)) == 8 * N
    assert moved(sf.compile([x], x)) == 8 * N
    assert moved(sf.compile([x, y], x + y)) == 20 * N
    sums_of_blocks = 4 * 64
    assert moved(sf.compile([x], x.sum())) == 4 * N + 4 + sums_of_blocks


def test_traffic_of_the_arena() -> None:
    a, b = sf.placeholder(("N", 3), name="a"), sf.placeholder((3, "M"), name="b")
    program = sf.compile([a, b], sf.softmax(a @ b, dim=1))
    product = 12 * N + 12 * M + 4 * N * M
    rest = moved(program) - product
    assert evaluate_dim(rest, {Sym("N"): 10, Sym("M"): 100}) >= 8 * 10 * 100


def test_a_loop_counts_once_for_each_step() -> None:
    steps, wide = Dim.of(Sym("T")), Dim.of(Sym("K"))
    xs, init = sf.placeholder(("T", "K"), name="xs"), sf.placeholder(("K",), name="init")
    last, _ = sf.scan(lambda carry, x: (carry * 0.5 + x, None), init, xs)
    one = 12 * wide  # carry and row in, carry out
    assert moved(sf.compile([xs, init], last)) == steps * one + 8 * wide
