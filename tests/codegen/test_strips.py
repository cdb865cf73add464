"""What lies transposed is read in strips."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.kernel import Loop
from staticflow.codegen.parts import walk


def loops(program: Any) -> list[Loop]:
    (kernel,) = program._executable.program.kernels
    return [stmt for stmt in walk(kernel.body) if isinstance(stmt, Loop)]


@pytest.mark.parametrize("order", sorted(permutations(range(3))))
def test_every_order_of_three_dims(order: tuple[int, ...]) -> None:
    x = sf.placeholder((None, None, None), name="x")
    program = sf.compile([x], x.permute(*order).contiguous() * 2.0)
    for shape in ((1, 1, 1), (2, 3, 70), (70, 2, 65), (129, 64, 1), (3, 128, 5), (0, 4, 66)):
        a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(program(a)), a.transpose(order) * 2)


@pytest.mark.parametrize("dtype", [sf.float64, sf.float16, sf.int8, sf.bool])
def test_every_width(dtype: Any) -> None:
    x = sf.placeholder((None, None), dtype, name="x")
    program = sf.compile([x], x.t().contiguous())
    a = (np.arange(130 * 67).reshape(130, 67) % 3).astype(dtype.numpy)
    np.testing.assert_array_equal(np.asarray(program(a)), a.T)


def test_the_strips_are_outside_of_the_rows() -> None:
    x, y = sf.placeholder((256, 192), name="x"), sf.placeholder((192, 256), name="y")
    program = sf.compile([x, y], x.t() + y * y[:, 0].unsqueeze(1))
    strip, row = loops(program)[:2]
    assert (strip.hi, row.hi) == (16, 192) and strip.kind == "parallel"
    a, b = (
        np.random.default_rng(0).standard_normal(s).astype(np.float32)
        for s in ((256, 192), (192, 256))
    )
    np.testing.assert_allclose(np.asarray(program(a, b)), a.T + b * b[:, :1], rtol=1e-6)


def test_what_lies_in_order_is_left_alone() -> None:
    x = sf.placeholder((256, 192), name="x")
    assert loops(sf.compile([x], x[:, 1:] * 2.0))[0].hi == 256
