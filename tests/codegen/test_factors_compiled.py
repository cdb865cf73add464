"""Factorisations in compiled programs: Python runs NumPy's LAPACK in the midst of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slices import daily

import staticflow as sf
from staticflow import linalg
from staticflow.errors import ArgumentError, LinAlgError

rng = np.random.default_rng(3)
TALL, SQUARE, WIDE = (sf.tensor(rng.normal(size=s)) for s in ((5, 3), (2, 3, 3), (2, 3, 5)))
MATRICES = {"tall": TALL, "square": SQUARE, "wide": WIDE}


def symmetric(a: Any) -> Any:
    return a @ a.mT + a.new_zeros(1)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "pinv": linalg.pinv,
    "rank": linalg.matrix_rank,
    "rank hermitian": lambda a: linalg.matrix_rank(symmetric(a), hermitian=True),
    "left vectors": lambda a: linalg.svd(a, False).U.abs(),
    "right vectors": lambda a: linalg.svd(a, False).Vh.abs(),
    "svd": lambda a: linalg.svd(a).S,
    "columns": lambda a: sf.svd(a)[2].abs(),
    "eigh": lambda a: linalg.eigh(symmetric(a)).eigenvectors.abs()[..., -2:],
    "eigvalsh": lambda a: linalg.eigvalsh(symmetric(a), "U"),
    "q": lambda a: linalg.qr(a).Q,
    "r": lambda a: linalg.qr(a).R,
    "nuclear": lambda a: linalg.matrix_norm(a, "nuc"),
    "spectral": lambda a: linalg.matrix_norm(a, 2),
    "cond": linalg.cond,
    "lstsq": lambda a: linalg.lstsq(a, a[..., :2] * 2).solution,
    "lstsq of vectors": lambda a: linalg.lstsq(a, a[..., 0]).solution,
}
FULL = {"eigh", "eigvalsh"}
"""Those whose operand, a product of a tall matrix with itself, has eigenvalues 0 at will."""

CASES = [
    (name, kind, is_open)
    for name in FUNCTIONS
    for kind in MATRICES
    for is_open in (False, True)
    if not (name in FULL and kind == "tall")
]


def compile_with_gradient(f: Callable[[Any], Any], shape: Any) -> sf.Program:
    x = sf.placeholder(shape, "float64", name="x")
    y = f(x)
    floats = y.dtype.kind == "f"
    return sf.compile([x], [y, *(sf.grad((y * y).sum(), [x]) if floats else [])])


def check(name: str, kind: str, is_open: bool) -> None:
    f, a = FUNCTIONS[name], MATRICES[kind]
    shape = (*a.shape[:-2], None, None) if is_open else a.shape
    found = compile_with_gradient(f, shape)(a)
    leaf = a.clone().requires_grad_()
    wanted = f(leaf)
    assert found[0].shape == wanted.shape
    np.testing.assert_allclose(found[0].numpy(), wanted.detach().numpy(), 1e-9, 1e-9)
    if len(found) > 1:
        (wanted * wanted).sum().backward()
        np.testing.assert_allclose(found[1].numpy(), leaf.grad.numpy(), 1e-7, 1e-7)


@pytest.mark.parametrize(("name", "kind", "is_open"), daily(CASES, 2, "factors"))
def test_compiled_as_eagerly(name: str, kind: str, is_open: bool) -> None:
    check(name, kind, is_open)


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "kind", "is_open"), CASES)
def test_all_compiled_as_eagerly(name: str, kind: str, is_open: bool) -> None:
    check(name, kind, is_open)


def test_a_jitted_pseudoinverse_of_any_size() -> None:
    pinv = sf.jit(linalg.pinv)
    for a in (TALL, TALL.mT, TALL[:2], TALL[:, :0]):
        np.testing.assert_allclose(pinv(a).numpy(), linalg.pinv(a).numpy(), 1e-9, 1e-9)
    assert sf.jit(linalg.matrix_rank)(sf.zeros(0, 3)) == 0


def test_in_bodies_of_loops_and_branches() -> None:
    def orthogonal(a: Any, x: Any) -> Any:
        q, r = linalg.qr(a + x)
        return q, r.diagonal().abs().log().sum()

    def program(a: Any, xs: Any) -> Any:
        last, logs = sf.scan(orthogonal, a, xs)
        return sf.cond(logs.sum() > 0, lambda: linalg.svdvals(last + xs[0]), lambda: last[0] * 2)

    a, xs = sf.tensor(rng.normal(size=(3, 3))), sf.tensor(rng.normal(size=(4, 3, 3)))
    np.testing.assert_allclose(sf.jit(program)(a, xs).numpy(), program(a, xs).numpy(), 1e-9)
    grown = sf.jit(lambda a: sf.while_loop(
        lambda a: linalg.svdvals(a).max() < 100.0, lambda a: a * 2, a
    ))  # fmt: skip
    assert 100 <= linalg.svdvals(grown(a)).max() < 200


def test_rows_that_only_the_run_counts() -> None:
    def program(a: Any) -> Any:
        return linalg.svdvals(a[a[:, 0] > 0])

    np.testing.assert_allclose(sf.jit(program)(TALL).numpy(), program(TALL).numpy(), 1e-9)


def test_residuals_are_those_of_full_rank() -> None:
    b = sf.tensor(rng.normal(size=(5, 2)))

    def residuals(a: Any, b: Any) -> Any:
        return linalg.lstsq(a, b).residuals

    compiled = sf.jit(residuals)
    for rows in (5, 4):
        a, right = TALL[:rows], b[:rows]
        np.testing.assert_allclose(compiled(a, right).numpy(), residuals(a, right).numpy(), 1e-9)
    a = sf.placeholder((3, 5), "float64", name="a")
    assert residuals(a, a[:, :2]).shape == (0,)
    solve = sf.jit(lambda a, b: linalg.lstsq(a, b).solution)
    for a in (TALL[:2], TALL[:, [0, 0, 1]]):
        with pytest.raises(
            ArgumentError, match=r"residuals.*no full rank, or no more rows"
        ) as said:
            compiled(a, b[: len(a)])
        assert str(said.value).count("no full rank") == 1
        wanted = linalg.lstsq(a, b[: len(a)]).solution
        np.testing.assert_allclose(solve(a, b[: len(a)]).numpy(), wanted.numpy(), 1e-9, 1e-9)


def test_nothing_is_updated_where_there_are_no_factors() -> None:
    w = sf.variable(np.ones((2, 2)), name="w")
    x = sf.placeholder((2, 2), "float64", name="x")
    step = sf.compile([x], linalg.svdvals(x).sum(), updates={w: linalg.svd(w + x, False).U})
    with pytest.raises(
        LinAlgError, match=r"svdvals\(f64\[2, 2\]\): SVD did not converge, at .*test_f"
    ):
        step(sf.full((2, 2), float("nan"), dtype="float64"))
    np.testing.assert_array_equal(w.numpy(), np.ones((2, 2)))
    wanted = np.linalg.svd(np.ones((2, 2)) + np.eye(2))[0]
    step(sf.eye(2, dtype="float64"))
    np.testing.assert_allclose(w.numpy(), wanted, 1e-12)


@pytest.mark.parametrize("f", [linalg.svdvals, lambda a: linalg.eigvalsh(symmetric(a))])
def test_values_and_their_gradient_ask_once(f: Callable[[Any], Any]) -> None:
    a = sf.placeholder((None, None), "float64", name="a")
    value = (f(a) ** 2).sum()
    found: list[Any] = []
    for passes in (None, "-values_of_vectors"):
        program = sf.compile([a], [value, *sf.grad(value, [a])], passes=passes)
        ops = [node.op.name for node in program.optimized.nodes]
        found.append(sum(ops.count(n) for n in ("svd", "svdvals", "eigh", "eigvalsh")))
        for one, other in zip(program(TALL), _eagerly(f, TALL), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-9, 1e-9)
    assert found == [1, 2]


def _eagerly(f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    leaf = x.detach().clone().requires_grad_()
    value = (f(leaf) ** 2).sum()
    value.backward()
    return value.detach(), leaf.grad


def test_the_second_derivative() -> None:
    def f(a: Any) -> Any:
        return (linalg.pinv(a) ** 3).sum() + linalg.slogdet(a).logabsdet

    a = sf.placeholder((3, 3), "float64", name="a")
    found = sf.compile([a], sf.func.hessian(f)(a))(SQUARE[0])
    wanted = sf.autograd.functional.hessian(f, SQUARE[0])
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-7, 1e-7)
