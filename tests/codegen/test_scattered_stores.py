"""Loops whose lanes are stored apart, or loaded each at an index of its own, have one vector at a
time."""

from __future__ import annotations

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.kernel import Store
from staticflow.codegen.parts import walk
from staticflow.runtime.machine import host_target


def widest_stores(program: object) -> list[int]:
    """The lanes of the widest store of each kernel."""
    kernels = program._executable.program.kernels  # type: ignore[attr-defined]
    return [max(s.value.lanes for s in walk(k.body) if isinstance(s, Store)) for k in kernels]


def twice(x: sf.Symbol) -> sf.Symbol:
    """Each element of a row two times, stored two apart."""
    return sf.nn.functional.conv_transpose1d(x[:, None], sf.ones(1, 1, 2), stride=2)


def test_a_lane_that_is_stored_alone_is_one_of_few() -> None:
    x = sf.placeholder((None, None), name="x")
    lanes = host_target().vector_bits // 32
    assert widest_stores(sf.compile([x], x * 2 + 1)) == [2 * lanes]
    apart = sf.compile([x], twice(x))
    text = apart._executable.llvm
    assert text.count("store float") <= 2 * 2 * lanes


@pytest.mark.parametrize("length", [1, 7, 16, 17, 63, 64, 65, 130])
def test_what_is_stored_apart_is_right(length: int) -> None:
    x = sf.placeholder((None, None), name="x")
    step = sf.compile([x], twice(x))
    given = np.random.default_rng(length).standard_normal((3, length)).astype("f4")
    np.testing.assert_array_equal(step(given).numpy()[:, 0], given.repeat(2, axis=1))


def test_a_lane_whose_index_is_divided_is_one_of_few() -> None:
    """The index of each lane is computed alone, so that four vectors side by side are four times
    the code; where they are four sums they stay, for the order."""
    x = sf.placeholder((None, None), name="x")
    lanes = host_target().vector_bits // 32
    columns = sf.compile([x], x.t().reshape(-1) * 2)
    assert widest_stores(columns) == [lanes]
    assert columns._executable.llvm.count("udiv") < 3 * 2 * lanes
    total = sf.compile([x], (x.t().reshape(-1) * 2).sum())
    assert f"<{4 * lanes} x float>" in total._executable.llvm


@pytest.mark.parametrize("length", [1, 7, 16, 17, 63, 64, 65, 130])
def test_what_is_loaded_at_divided_indices_is_right(length: int) -> None:
    x = sf.placeholder((None, None), name="x")
    step = sf.compile([x], x.t().reshape(-1) * 2)
    given = np.random.default_rng(length).standard_normal((3, length)).astype("f4")
    np.testing.assert_array_equal(step(given).numpy(), given.T.reshape(-1) * 2)
