"""Least squares: of full rank and less, in every shape and mode, with gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import linalg
from staticflow.errors import ArgumentError, ShapeError
from staticflow.ops.matrices import factors
from staticflow.ops.matrices.tall_systems import least_squares_op


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@functools.cache
def program_for(*shapes: tuple[int | None, ...]) -> Any:
    """Solution and rank; of whatever matrices there is one program."""
    x, y = (sf.placeholder(shape, "float64") for shape in shapes)
    found = linalg.lstsq(x, y)
    return sf.compile([x, y], [found.solution, found.rank])


def compiled(a: np.ndarray, b: np.ndarray, is_open: bool) -> list[np.ndarray]:
    """Solution and rank, of a program for these sizes or for all."""
    run = program_for(*((None,) * v.ndim if is_open else v.shape for v in (a, b)))
    return [np.asarray(v) for v in run(a, b)]


DEFICIENT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "full": lambda a: a,
    "equal columns": lambda a: np.concatenate([a[:, 1:], a[:, -1:]], 1),
    "a column of zeros": lambda a: a * (np.arange(a.shape[1]) > 0),
    "zeros": np.zeros_like,
    "nearly": lambda a: np.concatenate([a[:, 1:], a[:, -1:] + 1e-17 * a[:, :1]], 1),
    "graded": lambda a: a * 10.0 ** -np.arange(a.shape[1]),
    "Kahan": lambda a: (np.eye(len(a)) - 0.9 * np.triu(np.ones((len(a),) * 2), 1))[:, : a.shape[1]],
}
"""Of the last one no element of the diagonal is small, and yet a singular value is."""


@pytest.mark.parametrize("kind", DEFICIENT)
@pytest.mark.parametrize("shape", [(7, 3), (4, 4), (90, 40), (60, 60), (3, 5), (1, 1)], ids=str)
def test_solution_and_rank(shape: tuple[int, int], kind: str) -> None:
    a, b = DEFICIENT[kind](drawn(*shape)), drawn(shape[0], 2)
    x, _, rank, s = np.linalg.lstsq(a, b, None)
    growth = s[0] / s[rank - 1] if rank else 1
    eager = linalg.lstsq(sf.tensor(a), sf.tensor(b))
    assert eager.singular_values.shape == (0,)
    eagerly = [v.numpy() for v in (eager.solution, eager.rank)]
    for found in (eagerly, compiled(a, b, False), compiled(a, b, True)):
        assert found[1] == rank
        wrong = np.linalg.norm(found[0] - x) / max(np.linalg.norm(x), 1e-300)
        assert wrong < 1e-13 * growth + 1e-12


@pytest.mark.parametrize("driver", ["gelsd", "gelss"])
def test_singular_values_are_those_of_a_driver(driver: str) -> None:
    a, b = drawn(7, 3), drawn(7, 2)
    x, left, rank, s = np.linalg.lstsq(a, b, None)
    found = linalg.lstsq(sf.tensor(a), sf.tensor(b), driver=driver)
    np.testing.assert_allclose(found.singular_values.numpy(), s, 1e-12)
    np.testing.assert_allclose(found.solution.numpy(), x, 1e-10)
    np.testing.assert_allclose(found.residuals.numpy(), left, 1e-10)
    assert found.rank == rank
    with pytest.raises(ArgumentError, match='"gels", "gelsy"'):
        linalg.lstsq(sf.tensor(a), sf.tensor(b), driver="gelsz")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_full_rank_takes_no_singular_values(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = drawn(9, 4).astype(dtype), drawn(9, 2).astype(dtype)
    asked = []
    lapack = factors._umath_linalg

    def counted(a: Any) -> Any:
        asked.append(a)
        return lapack.svd_s(a)

    monkeypatch.setattr(factors, "_umath_linalg", SimpleNamespace(svd_s=counted))
    x, y = sf.tensor(a), sf.tensor(b)
    jitted = sf.jit(lambda x, y: linalg.lstsq(x, y).solution)
    for run in (lambda x, y: linalg.lstsq(x, y).solution, jitted):
        run(x, y)
        assert not asked
        run(x * 0, y)
        assert len(asked) == 1
        asked.clear()


@pytest.mark.parametrize("extra", [0, 9])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 17, 70, 133])
def test_full_rank_is_said_of_matrices_that_have_it_alone(n: int, dtype: str, extra: int) -> None:
    """Whose least singular value is ``times`` what is taken for zero. That is told from twice the
    fourth root of n on where the others are alike; Frobenius norms tell it from twice the root."""
    rng = np.random.default_rng(n)
    rows = n + extra
    tolerance = np.finfo(dtype).eps * rows
    u, v = (np.linalg.qr(rng.standard_normal((m, n)))[0] for m in (rows, n))
    b = np.zeros((rows, 1), dtype)
    for scale in (1.0, 1e-6, 1e6):
        for times in (0.2, 0.9, 1.5, 2.5 * n**0.25, 3 * n**0.5):
            s = np.ones(n)
            s[-1] = min(1, times * tolerance)
            a = (scale * (u * s) @ v.T).astype(dtype)
            found = np.linalg.svd(a.astype(np.longdouble).astype(np.float64), compute_uv=False)
            is_full = found[-1] > tolerance * found[0]
            outs = [
                least_squares_op(sf.tensor(a), sf.tensor(b), rcond=None)[3].item(),
                bool(least_squares_op.reference(np, a, b, rcond=None)[3]),
            ]
            assert is_full or not any(outs), (scale, times)
            assert all(outs) or times < 2 * n**0.25, (scale, times)


def test_a_tolerance_makes_columns_dependent() -> None:
    a, b = drawn(6, 3) * [1, 1e-2, 1e-4], drawn(6)
    for rcond in (None, 0, 1e-3, 0.5):
        x, _, rank, _ = np.linalg.lstsq(a, b, rcond)
        found = linalg.lstsq(sf.tensor(a), sf.tensor(b), rcond)
        assert found.rank == rank
        np.testing.assert_allclose(found.solution.numpy(), x, 1e-9)


def test_numbers_of_any_size() -> None:
    """No norm overflows, or becomes 0, without singular values taking over."""
    a, b = drawn(6, 3).astype("f4"), drawn(6).astype("f4")
    x = np.linalg.lstsq(a.astype("f8"), b.astype("f8"), None)[0]
    for power in (-40, -30, -15, 15, 30):
        found = linalg.lstsq(sf.tensor(a * np.float32(2.0) ** (3 * power)), sf.tensor(b))
        assert found.rank == 3
        scaled = found.solution.numpy().astype("f8") * 2.0 ** (3 * power)
        np.testing.assert_allclose(scaled, x, 1e-4)


def test_batches_of_which_one_has_less_rank() -> None:
    a, b = drawn(3, 6, 2), drawn(3, 6, 4)
    a[1, :, 1] = a[1, :, 0]
    found = linalg.lstsq(sf.tensor(a), sf.tensor(b))
    for i in range(3):
        x, _, rank, _ = np.linalg.lstsq(a[i], b[i], None)
        np.testing.assert_allclose(found.solution.numpy()[i], x, 1e-10)
        assert found.rank.numpy()[i] == rank
    many = linalg.lstsq(sf.tensor(a[0]), sf.tensor(b))  # right sides broadcast, matrices do not
    assert many.rank.shape == () and many.solution.shape == (3, 2, 4)
    np.testing.assert_allclose(many.solution.numpy()[2], np.linalg.lstsq(a[0], b[2], None)[0])


@pytest.mark.parametrize("shape", [(0, 0, 1), (4, 0, 2), (0, 3, 1), (5, 3, 0)], ids=str)
def test_nothing(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = np.ones((m, n)), np.ones((m, k))
    a[:n] += np.eye(m, n)[:n]
    found = linalg.lstsq(sf.tensor(a), sf.tensor(b))
    assert found.solution.shape == (n, k) and found.rank == min(m, n)
    assert [v.shape for v in compiled(a, b, True)] == [(n, k), ()]
    none = linalg.lstsq(sf.zeros(0, 4, 2), sf.zeros(0, 4, 3))
    assert none.solution.shape == (0, 2, 3) and none.rank.shape == (0,)


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (40, 35)], ids=str)
def test_gradients(shape: tuple[int, int]) -> None:
    """Along one direction, against a difference, and once more."""
    a, da = np.random.default_rng(3).uniform(-1, 1, (2, *shape))
    a[: shape[1]] += 3 * np.eye(shape[1])
    b = drawn(shape[0], 2)
    is_tall = shape[0] > shape[1]

    def value(x: Any, y: Any) -> Any:
        found = linalg.lstsq(x, y)
        total = (found.solution**3).sum()
        return total + (found.residuals**2).sum() if is_tall else total

    x, y = sf.placeholder(shape, "float64", name="x"), sf.placeholder(b.shape, "float64", name="y")
    of_x, of_y = sf.grad(value(x, y), [x, y])
    along = (of_x * sf.tensor(da)).sum()
    run = sf.compile(
        [x, y], [value(x, y), along, (sf.grad(along, [x])[0] * sf.tensor(da)).sum(), of_y]
    )
    above, below = (run(a + s * 1e-5 * da, b) for s in (1, -1))
    _, slope, bend, right = run(a, b)
    for found, of in ((slope, 0), (bend, 1)):
        difference = (above[of].item() - below[of].item()) / 2e-5
        np.testing.assert_allclose(found.item(), difference, 1e-5)
    leaves = [sf.tensor(v, requires_grad=True) for v in (a, b)]
    value(*leaves).backward()
    np.testing.assert_allclose((leaves[0].grad.numpy() * da).sum(), slope.item(), 1e-9)
    np.testing.assert_allclose(leaves[1].grad.numpy(), right.numpy(), 1e-9)
    change = drawn(*b.shape)
    apart = [run(a, b + s * 1e-5 * change)[0].item() for s in (1, -1)]
    slope_of_b = (right.numpy() * change).sum()
    np.testing.assert_allclose(slope_of_b, (apart[0] - apart[1]) / 2e-5, 1e-5)


def test_gradients_of_less_rank() -> None:
    """They are those of the pseudoinverse."""
    a = np.concatenate([drawn(5, 2), np.zeros((5, 1))], 1)
    b = drawn(5, 2)
    found = []
    for solve in (lambda x, y: linalg.lstsq(x, y).solution, lambda x, y: linalg.pinv(x) @ y):
        leaves = [sf.tensor(v, requires_grad=True) for v in (a, b)]
        (solve(*leaves) ** 2).sum().backward()
        found.append([v.grad.numpy() for v in leaves])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-12)


def test_rows_of_vmap() -> None:
    a, b = drawn(3, 6, 2), drawn(3, 6)
    a[1, :, 1] = a[1, :, 0]  # has less rank, and both ways are gone
    solve = sf.vmap(lambda a, b: linalg.lstsq(a, b).solution)
    for run in (solve, sf.jit(solve)):
        found = run(sf.tensor(a), sf.tensor(b)).numpy()
        for i in range(3):
            np.testing.assert_allclose(found[i], np.linalg.lstsq(a[i], b[i], None)[0], 1e-10)
    a = drawn(3, 6, 2)
    of_rows = sf.func.vmap(sf.func.grad(lambda a, b: (linalg.lstsq(a, b).solution ** 2).sum()))
    of_rows = of_rows(sf.tensor(a), sf.tensor(b)).numpy()
    for i in range(3):
        leaf = sf.tensor(a[i], requires_grad=True)
        (linalg.lstsq(leaf, sf.tensor(b[i])).solution ** 2).sum().backward()
        np.testing.assert_allclose(of_rows[i], leaf.grad.numpy(), 1e-10)


def test_rows_that_differ_are_refused() -> None:
    with pytest.raises(ShapeError, match="5"):
        linalg.lstsq(sf.zeros(5, 2), sf.zeros(4, 1))


@pytest.mark.parametrize("driver", [None, "gelsd"])
def test_right_sides_of_no_dims_are_refused(driver: str | None) -> None:
    with pytest.raises(ShapeError, match=r"lstsq: .*(no matrix|no 0-d).*test_least_squares"):
        sf.linalg.lstsq(sf.ones(3, 2), sf.tensor(1.0), driver=driver)


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (3, 4)], ids=str)
@pytest.mark.parametrize("driver", [None, "gelsd"])
def test_both_are_of_one_dtype(shape: tuple[int, int], driver: str | None) -> None:
    """Whether a wide matrix took integers beside it and others did not, was chance."""
    A, B = sf.ones(*shape), sf.ones(shape[0], 1, dtype=sf.int64)
    x, y = sf.placeholder((None, None), name="x"), sf.placeholder((None, 1), "int64", name="y")
    for a, b in ((A, B), (x, y)):
        with pytest.raises(sf.DTypeError, match=r"A is of float32 and B of int64.*B\.to\(A"):
            sf.linalg.lstsq(a, b, driver=driver)
