"""Loads of every second, third or fourth element, which take whole vectors and pick lanes; loads and
stores of elements that lie backward, which are whole vectors turned round."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_cases import Guarded
from native_kernels import N, assert_same, run_both

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE, Buffer
from staticflow.codegen.llvm.render import render_module
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import DType, bool_, float32, int8, int64
from staticflow.runtime.machine import host_target


@pytest.mark.parametrize("stride", [2, 3, 4, 5])
@pytest.mark.parametrize("lanes", [2, 4, 16, 64])
@pytest.mark.parametrize("dtype", [float32, int8, int64, bool_], ids=str)
def test_no_byte_is_touched_beyond_the_first_and_the_last(
    stride: int, lanes: int, dtype: DType
) -> None:
    """All lanes, and only those below a bound; at either end of memory that may be touched."""
    k = Builder([Buffer("x", dtype, "in"), Buffer("y", dtype, "out")], [Sym("n")])
    k.store("y", LANE, k.load("x", stride * LANE, lanes, N))
    kernel = k.kernel("strided")
    for bound in sorted({0, 1, 2, lanes // 2 + 1, lanes}):
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
