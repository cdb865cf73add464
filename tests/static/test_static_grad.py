"""Symbolic gradients against finite differences in float64, above all through loops: of no, one and
many iterations, of first and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_programs import LOOPS, weighted
from opinfo.core import values

import staticflow as sf
from staticflow.config import config
from staticflow.graph.dtypes import float64

Array = np.ndarray


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "verify", True)


class Derivatives:
    """One program that gives a function's value, its slope along a direction, and the slope of that
    along another, from inputs of unknown sizes."""

    def __init__(self, fn: Callable[..., Any], shapes: list[str]) -> None:
        def named(prefix: str) -> list[Any]:
            return [
                sf.placeholder(tuple(s), "float64", f"{prefix}{i}") for i, s in enumerate(shapes)
            ]

        xs, us, vs = named("x"), named("u"), named("v")
        value = weighted(fn(*xs))
        slope = self._along(value, xs, us)
        curvature = self._along(slope, xs, vs)
        self.program = sf.compile([*xs, *us, *vs], (value, slope, curvature))
        self.count = len(shapes)
        self.shapes = shapes

    @staticmethod
    def _along(value: Any, xs: list[Any], directions: list[Any]) -> Any:
        found = zip(sf.grad(value, xs, allow_unused=True), directions, strict=True)
        return sum(((g * d).sum() for g, d in found if g is not None), value * 0.0)

    def check(self, sizes: dict[str, int]) -> None:
        shapes = [tuple(sizes[d] for d in s) for s in self.shapes]
        xs, us, vs = (
            [values(s, float64, -1, 1, seed=3 * i + k) for i, s in enumerate(shapes)]
            for k in range(3)
        )

        def at(step: float, direction: list[Array]) -> list[float]:
            moved = [x + step * d for x, d in zip(xs, direction, strict=True)]
            return [t.item() for t in self.program(*moved, *us, *vs)]

        def measured(which: int, direction: list[Array], h: float = 1e-3) -> float:
            """The central difference of fourth order."""
            f = {k: at(k * h, direction)[which] for k in (-2, -1, 1, 2)}
            return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * h)

        _, slope, curvature = at(0, us)
        np.testing.assert_allclose(slope, measured(0, us), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(curvature, measured(1, vs), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_through_loops(name: str) -> None:
    """Iterations 0, 1 and many; rows of 0, 1 and more."""
    loop = Derivatives(LOOPS[name], ["m", "nm", "mm"])
    for n, m in ((4, 3), (1, 2), (0, 3), (2, 1), (3, 0), (9, 1)):
        loop.check({"n": n, "m": m})


PLAIN: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "dense": (lambda x, w, b: (x @ w + b).tanh(), ["nm", "mk", "k"]),
    "softmax": (lambda x, y: (x.softmax(1) * y, x.log_softmax(0), y.logsumexp(1)), ["nm", "nm"]),
    "normalized": (
        lambda x: (x - x.mean(1, keepdim=True)) / ((x * x).mean(1, keepdim=True) + 1).sqrt(), ["nm"]
    ),
    "views": (
        lambda x: (x.T[1:, ::2], sf.cat([x, x * x]), x.unsqueeze(0).expand(3, *x.shape), x.reshape(-1)),
        ["nm"],
    ),
    "one value twice": (lambda x: (x * x, x @ x.T, x + x), ["nm"]),
    "powers": (lambda x, y: ((x * x + 1) ** 1.5, (x * x + 1) ** y, 2.0**y, x**3, x**2), ["nm", "nm"]),
    "chosen": (lambda x, y: (sf.where(x > y, x * y, y), sf.maximum(x, y), x.relu() * y), ["nm", "nm"]),
    "gathered": (lambda x: sf.gather(x, 0, sf.constant(np.zeros((2, 1), np.int64))), ["nm"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_gradients_of_ops_together(name: str) -> None:
    derivatives = Derivatives(*PLAIN[name])
    least = 1 if name in ("gathered", "views") else 0
    for n, m, k in ((4, 3, 2), (1, 1, 1), (2, max(5, least), 0), (least, 2, 3)):
        derivatives.check({"n": n, "m": m, "k": k})


# -- order ---------------------------------------------------------------------------------------


def test_gradients_of_any_order() -> None:
    x = sf.placeholder((), "float64", name="x")
    order = [x.sin() * x**5]
    for _ in range(5):
        order.append(sf.grad(order[-1], x))
    at = 0.75
    got = [t.item() for t in sf.compile([x], order)(at)]
    grid = at + np.linspace(-0.3, 0.3, 13)
    fit = np.polynomial.Polynomial.fit(grid, np.sin(grid) * grid**5, 12)
    expected = [fit.deriv(k)(at) if k else fit(at) for k in range(6)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("lib", [sf, sf.autograd], ids=["grad", "autograd.grad"])
@pytest.mark.parametrize("create_graph", [None, True, False])
def test_a_step_of_the_inner_loop_is_first_order_where_that_is_said(
    lib: Any, create_graph: bool | None
) -> None:
    """MAML: the gradient by w of a loss behind a step of descent, with the derivative of that step
    or, as eagerly by default, without."""

    def outer(w: Any, x: Any) -> Any:
        inner = ((w * x) ** 3).sum()
        (g,) = lib.grad(inner, [w], create_graph=create_graph)
        return (((w - 0.1 * g) * x) ** 2).sum()

    x = np.array([0.5, -1.0, 2.0])
    w, sw = sf.tensor(0.7, dtype=sf.float64, requires_grad=True), sf.placeholder((), "float64")
    found = sf.compile([sw], sf.grad(outer(sw, sf.tensor(x)), sw))(w.detach()).item()
    fast = 0.7 - 0.1 * (3 * 0.7**2 * x**3).sum()
    slope = 1.0 if create_graph is False else 1 - 0.1 * (6 * 0.7 * x**3).sum()
    np.testing.assert_allclose(found, 2 * fast * (x**2).sum() * slope, rtol=1e-12)
    if create_graph is not None:
        outer(w, sf.tensor(x)).backward()
        np.testing.assert_allclose(w.grad.item(), found, rtol=1e-12)


def test_a_gradient_that_ends_there_has_no_gradient() -> None:
    x = sf.placeholder((), name="x")
    with pytest.raises(sf.AutogradError, match="do not depend"):
        sf.grad(sf.grad(x**3, x, create_graph=False), x)


def test_the_gradient_in_a_gradient_is_that_of_the_eager_tape() -> None:
    """Gradient penalty: the norm of one gradient is part of another's loss."""

    def penalty(x: Any, w: Any) -> Any:
        y = (x @ w).tanh().sum()
        g = sf.grad(y, x, create_graph=True)
        return y + ((g * g).sum() + 1e-3).sqrt()

    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((4, 3), (3, 2))]
    x, w = (sf.tensor(a, requires_grad=True) for a in arrays)
    penalty(x, w).backward()
    sx, sw = sf.placeholder((None, 3), "float64"), sf.placeholder((3, None), "float64")
    program = sf.compile([sx, sw], sf.grad(penalty(sx, sw), [sx, sw]))
    for got, t in zip(program(*arrays), (x, w), strict=True):
        np.testing.assert_allclose(got.numpy(), t.grad.numpy(), rtol=1e-10)


# -- forms ---------------------------------------------------------------------------------------


def test_the_result_has_the_form_of_wrt() -> None:
    x, y = sf.placeholder((3,), name="x"), sf.placeholder((3,), name="y")
    loss = (x * y).sum()
    assert isinstance(sf.grad(loss, x), type(x))
    assert isinstance(sf.grad(loss, [x]), list)
    assert isinstance(sf.grad(loss, (x, y)), tuple)
    one, same = sf.grad(loss, [x, x])
    program = sf.compile([x, y], (one, same))
    assert [t.tolist() for t in program(np.ones(3, np.float32), np.arange(3, dtype=np.float32))] == [
        [0, 1, 2], [0, 1, 2]
    ]  # fmt: skip


def test_a_parameter_in_wrt_is_its_variable() -> None:
    w = sf.nn.Parameter([1.0, 2.0])
    x = sf.placeholder((2,), name="x")
    program = sf.compile([x], sf.grad((x * w * w).sum(), w))
    assert program(np.ones(2, np.float32)).tolist() == [2, 4]
    assert w.grad is None
    w.data = sf.tensor([5.0, 5.0])
    assert program(np.ones(2, np.float32)).tolist() == [10, 10]


def test_several_outputs_and_cotangents() -> None:
    x, ct = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="ct")
    y, z = x * 2, (x * x).sum()
    total = sf.grad([y, z], x, cotangents=[ct, 10.0])
    program = sf.compile([x, ct], total)
    assert program(np.array([1, 2], np.float32), np.array([5, 6], np.float32)).tolist() == [30, 52]


def test_a_gradient_with_respect_to_what_lies_between() -> None:
    """An inner value in ``wrt``, reached by one way around it too."""
    x = sf.placeholder((), "float64", name="x")
    y = x.sin()
    z = y * y + x
    both = [t.item() for t in sf.compile([x], sf.grad(z, [y, x]))(0.5)]
    assert both == pytest.approx([2 * np.sin(0.5), 2 * np.sin(0.5) * np.cos(0.5) + 1])
    assert sf.compile([x], sf.grad(z, z))(0.5).item() == 1.0
