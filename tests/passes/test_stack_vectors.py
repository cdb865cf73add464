"""Products of one matrix and several vectors against NumPy: from either side, how the matrix lies,
how many vectors, known and unknown sizes; and in loops, which are one then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf

VIEWS = {
    "as it is": (lambda a: a, lambda a: a),
    "transposed": (lambda a: a.T, lambda a: a.T),
    "cropped": (lambda a: np.pad(a, ((1, 0), (2, 1))), lambda a: a[1:, 2:-1]),
    "stepped": (lambda a: np.repeat(a, 2, 1), lambda a: a[:, ::2]),
}
"""Arrays that hold a matrix in other ways, and the views that show it again."""


def products_in(program: Any) -> int:
    """How many kernels of products a program has."""
    text: str = program.source("kernels")
    return sum(line.startswith("kernel contract") for line in text.splitlines())


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("count", [2, 3, 8, 9, 17])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("right", [True, False], ids=["A x", "x A"])
def test_stacks_give_what_products_give(right: bool, view: str, count: int, known: bool) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((130, 70))
    vectors = rng.standard_normal((count, 70 if right else 130))
    hold, show = VIEWS[view]
    held = np.ascontiguousarray(hold(matrix))
    a = sf.placeholder(held.shape if known else (None, None), "float64", name="a")
    xs = [sf.placeholder((vectors.shape[1],), "float64", name=f"x{i}") for i in range(count)]
    seen = show(a)
    outputs = [seen @ x if right else x @ seen for x in xs]
    program = sf.compile([a, *xs], outputs)
    assert products_in(program) <= -(-count // 8)
    for got, x in zip(program(held, *vectors), vectors, strict=True):
        wanted = matrix @ x if right else x @ matrix
        np.testing.assert_allclose(got.numpy(), wanted, 1e-11, 1e-11)


def symbols() -> tuple[Any, Any, Any]:
    """A matrix of 96 x 96, and two vectors."""
    a = sf.placeholder((96, 96), "float64", name="a")
    x, y = (sf.placeholder((96,), "float64", name=n) for n in "xy")
    return a, x, y


@pytest.mark.parametrize(("rows", "products"), [(127, 2), (128, 1)])
def test_a_small_matrix_is_read_for_each_vector(rows: int, products: int) -> None:
    a = sf.placeholder((rows, 64), "float64", name="a")
    x, y = (sf.placeholder((64,), "float64", name=n) for n in "xy")
    program = sf.compile([a, x, y], (a @ x, a @ y))
    assert program.explain("routine").count("contract") == products


def test_what_needs_the_other_stays_apart() -> None:
    a, x, y = symbols()
    once = a @ x
    program = sf.compile([a, x, y], (once, a @ (once + y), a @ y))
    rng = np.random.default_rng(0)
    m, v, w = rng.standard_normal((96, 96)), *rng.standard_normal((2, 96))
    first, second, third = program(m, v, w)
    np.testing.assert_allclose(first.numpy(), m @ v, 1e-11, 1e-11)
    np.testing.assert_allclose(second.numpy(), m @ (m @ v + w), 1e-10, 1e-10)
    np.testing.assert_allclose(third.numpy(), m @ w, 1e-11, 1e-11)
    assert program.explain("routine").count("contract") == 2


def test_with_exact_numerics_products_stay_as_they_are_written() -> None:
    a, x, y = symbols()
    program = sf.compile([a, x, y], (a @ x, a @ y), numerics="exact")
    assert program.explain("routine").count("contract") == 2


def conjugate(a: Any, b: Any) -> Any:
    """The solution of a x = b after thirty rounds of conjugate gradients."""

    def step(_: Any, state: Any) -> Any:
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        return x, r, r + (new / rr) * p, new

    return sf.fori_loop(0, 30, step, (0 * b, b, b, b @ b))[0]


@pytest.mark.parametrize("size", [100, None], ids=["known", "unknown"])
def test_solutions_of_one_system_are_one_loop(size: int | None) -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((100, 100)) / 10
    matrix, rights = q @ q.T + np.eye(100), rng.standard_normal((3, 100))
    a = sf.placeholder((size, size), "float64", name="a")
    bs = [sf.placeholder((a.shape[0],), "float64", name=f"b{i}") for i in range(3)]
    program = sf.compile([a, *bs], [conjugate(a, b) for b in bs])
    assert program.explain("routine").count("repeat") == 1
    for got, b in zip(program(matrix, *rights), rights, strict=True):
        np.testing.assert_allclose(got.numpy(), np.linalg.solve(matrix, b), 1e-6, 1e-6)
