"""Loads of every second, third or fourth element, which take whole vectors and pick lanes; loads and
stores of elements that lie backward, which are whole vectors turned round; stores of a few lanes."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_cases import Guarded
from native_kernels import N, assert_same, run_both

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE, Buffer
from staticflow.codegen.llvm.render import render_module
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import (
    DType,
    bfloat16,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)  # fmt: skip
from staticflow.runtime.machine import host_target


@pytest.mark.parametrize("is_bound", [True, False])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
@pytest.mark.parametrize("lanes", [2, 4, 16, 64])
@pytest.mark.parametrize("dtype", [float32, int8, int64, bool_], ids=str)
def test_no_byte_is_touched_beyond_the_first_and_the_last(
    stride: int, lanes: int, dtype: DType, is_bound: bool
) -> None:
    """All lanes, and only those below a bound; at either end of memory that may be touched."""
    k = Builder([Buffer("x", dtype, "in"), Buffer("y", dtype, "out")], [Sym("n")])
    k.store("y", LANE, k.load("x", stride * LANE, lanes, N if is_bound else None))
    kernel = k.kernel("strided")
    for bound in sorted({0, 1, 2, lanes // 2 + 1, lanes} if is_bound else {lanes}):
        count = max(bound - 1, 0) * stride + 1
        values = (np.arange(count) % 100).astype(dtype.numpy)
        for at_end in (True, False):
            x = Guarded(values, at_end).array
            y = np.ones(lanes, dtype.numpy)
            assert run_both(kernel, {"x": x, "y": y}, n=bound) == 0
            expected = np.zeros(lanes, dtype.numpy)
            expected[:bound] = values[::stride][:bound]
            assert_same(y, expected)


@pytest.mark.parametrize("lanes", [2, 4, 16, 64])
@pytest.mark.parametrize("dtype", [float32, int8, int64, bool_], ids=str)
@pytest.mark.parametrize("stores", [False, True])
def test_lanes_that_lie_backward_are_one_vector(stores: bool, lanes: int, dtype: DType) -> None:
    """All of them, and only those below a bound; at either end of memory that may be touched."""
    k = Builder([Buffer("x", dtype, "in"), Buffer("y", dtype, "out")], [Sym("n")])
    there, back = LANE, N - 1 - LANE
    k.store("y", back if stores else there, k.load("x", there if stores else back, lanes, N), N)
    kernel = k.kernel("backward")
    text = render_module([kernel], host_target())
    assert "gather" not in text
    assert "scatter" not in text
    for bound in sorted({0, 1, 2, lanes // 2 + 1, lanes}):
        values = (np.arange(bound) % 100).astype(dtype.numpy)
        for at_end in (True, False):
            x = Guarded(values, at_end).array
            y = Guarded(np.ones(bound, dtype.numpy), at_end).array
            assert run_both(kernel, {"x": x, "y": y}, n=bound) == 0
            assert_same(y, values[::-1])


NARROWED = [
    (wide, narrow)
    for wide in (int64, int32, int16, float64, float32)
    for narrow in (int32, int16, int8, uint8, bfloat16, bool_)
    if wide.itemsize > narrow.itemsize
]


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize(("wide", "narrow"), NARROWED, ids=str)
@pytest.mark.parametrize("backward", [False, True])
def test_a_few_lanes_are_stored_as_wide_as_they_are(
    wide: DType, narrow: DType, lanes: int, backward: bool
) -> None:
    """Any number of lanes that is known, of elements that were wider; between elements that
    stay."""
    counts = [*range(1, lanes)]
    k = Builder([Buffer("x", wide, "in"), Buffer("y", narrow, "inout")], [])
    for row, count in enumerate(counts):
        start = row * (lanes + 2) + 1
        value = k.cast(k.load("x", row * lanes + LANE, lanes), narrow)
        k.store("y", start + (lanes - 1 - LANE if backward else LANE), value, count)
    x = (np.arange(len(counts) * lanes) % 5 + 1).astype(wide.numpy)
    y = np.full((len(counts), lanes + 2), 7).astype(narrow.numpy)
    expected = y.copy()
    for row, count in enumerate(counts):
        own = expected[row, -2:0:-1] if backward else expected[row, 1:-1]
        own[:count] = x[row * lanes :][:count].astype(narrow.numpy)
    assert run_both(k.kernel("few"), {"x": x, "y": y}) == 0
    assert_same(y, expected)
