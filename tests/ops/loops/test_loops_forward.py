"""Loops and branches, differentiated forward: the battery of `test_loops`, tangents to the second
order and both mixed ways, by one compilation, against finite differences and the eager run; and
that forward mode keeps nothing."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from loop_steps import carries_of, loops_of
from test_loops import CASES, GRID, arguments, every_case, loss_of, second_of

import staticflow as sf
from staticflow.autograd.functional import hessian, hvp, jacobian, jvp
from staticflow.graph.graph import regions_of
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.symbols.symbol import Symbol

PARTS = ("loss", "forward", "forward twice", "reverse over forward", "forward over reverse")


def directions(size: int) -> Any:
    return np.random.default_rng(size + 10).normal(size=(2, size))


def parts_of(name: str, x: Any, w: Any, k: Any, v: tuple[Any, Any]) -> dict[str, Any]:
    """The loss, its tangents of first and second order along ``v``, the gradient of the first, and
    the tangent of the sum of the squares of its gradients."""

    def loss(x: Any, w: Any) -> Any:
        return loss_of(CASES[name](x, w, k))

    def forward(x: Any, w: Any) -> Any:
        return jvp(loss, (x, w), v, create_graph=True)[1]

    def squares(x: Any, w: Any) -> Any:
        value = loss(x, w)
        if not (isinstance(value, Symbol) or value.requires_grad):
            return x.sum() * 0
        grads = sf.grad(value, [x, w], allow_unused=True, create_graph=True)
        return second_of([g for g in grads if g is not None]) + x.sum() * 0

    tangent = forward(x, w)
    pulled = [None, None]
    if isinstance(tangent, Symbol) or tangent.requires_grad:
        pulled = sf.grad(tangent, [x, w], allow_unused=True, create_graph=True)
    along = sum(
        ((g * u).sum() for g, u in zip(pulled, v, strict=True) if g is not None), start=x.sum() * 0
    )
    found = (
        loss(x, w), tangent, jvp(forward, (x, w), v, create_graph=True)[1], along,
        jvp(squares, (x, w), v)[1],
    )  # fmt: skip
    return dict(zip(PARTS, found, strict=True)) | {"squares": squares(x, w)}


@cache
def program_of(name: str) -> Any:
    x, w, p, q = (sf.placeholder(("n",), "float64", name=s) for s in ("x", "w", "p", "q"))
    k = sf.placeholder((), "int64", name="k")
    return sf.compile([x, w, k, p, q], parts_of(name, x, w, k, (p, q)))


@every_case
def test_tangents_are_what_differences_give(name: str) -> None:
    program = program_of(name)
    for size, iterations in GRID:
        x, w, k = arguments(size, iterations)
        v = directions(size)

        def at(step: float, of: str, x: Any = x, w: Any = w, k: Any = k, v: Any = v) -> float:
            return float(program(x + step * v[0], w + step * v[1], k, *v)[of].item())

        def slope(of: str, at: Any = at, step: float = 1e-6) -> float:
            return float(at(step, of) - at(-step, of)) / (2 * step)

        got = {of: value.item() for of, value in program(x, w, k, *v).items()}
        for of, wanted in (
            ("forward", slope("loss")), ("forward twice", slope("forward")),
            ("reverse over forward", slope("forward")), ("forward over reverse", slope("squares")),
        ):  # fmt: skip
            np.testing.assert_allclose(
                got[of], wanted, 1e-5, 1e-6, err_msg=f"{of} {size=} {iterations=}"
            )
    assert program.compile_count == 1


@every_case
def test_compiled_tangents_as_eager(name: str) -> None:
    program = program_of(name)
    for size, iterations in GRID:
        given = (*arguments(size, iterations), *directions(size))
        x, w, k, *v = map(sf.tensor, given)
        x.requires_grad_(), w.requires_grad_()
        wanted = parts_of(name, x, w, k, tuple(v))
        for of, value in program(*given).items():
            np.testing.assert_allclose(
                value.item(), wanted[of].item(), 1e-9, 1e-12, err_msg=f"{of} {size=} {iterations=}"
            )


# -- what it costs ---------------------------------------------------------------------------------


def _while(x: Any, v: Any, n: Any) -> Any:
    return jvp(
        lambda x: sf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, (h * h + x).sin()), (0, x))[
            1
        ],
        x, v,
    )  # fmt: skip


def _scan(x: Any, v: Any, n: Any) -> Any:
    return jvp(
        lambda x: sf.scan(lambda h, _: ((h * h + x).sin(), None), x, length=n.shape[0])[0], x, v
    )


@pytest.mark.parametrize("form", [_while, _scan])
def test_nothing_is_kept_of_the_iterations(form: Any) -> None:
    x, v = (sf.placeholder((100,), "float64", name=s) for s in ("x", "v"))
    n = sf.placeholder((), "int64", name="n")
    if form is _scan:
        n = sf.placeholder(("n",), "int64", name="n")
    program = sf.compile([x, v, n], form(x, v, n))
    (loop,) = loops_of(program)
    assert len(carries_of(loop)) == (4 if form is _while else 2)  # flag, i, value, tangent
    assert program.plan.routine.growing == ()
    assert program.plan.peak_bytes(n=10_000) == program.plan.peak_bytes(n=1) < 10_000


def test_only_what_moves_is_carried() -> None:
    """Of three carries one has a tangent; a row that does not move has none."""
    x, v = (sf.placeholder((4,), "float64", name=s) for s in ("x", "v"))
    rows = sf.placeholder((None, 4), "float64", name="rows")

    def step(c: Any, row: Any) -> Any:
        still, moving, count = c
        return (still * 0.5 + row, moving * still, count + 1), still

    def last(x: Any) -> Any:
        (still, moving, _), ys = sf.scan(step, (rows.sum(0), x, 0), rows)
        return still, moving, ys

    values, tangents = jvp(last, x, v)
    program = sf.compile([x, v, rows], (values, tangents))
    (loop,) = loops_of(program)
    assert len(carries_of(loop)) == 2  # still is its stack, count is read by nobody
    given = np.random.default_rng(0).normal(size=(3, 4))
    (_, moving, _), (a, b, c) = program(np.ones(4), np.full(4, 2.0), given)
    assert not a.numpy().any() and not c.numpy().any()
    np.testing.assert_allclose(b.numpy(), 2 * moving.numpy())


def test_a_tangent_that_a_iteration_ends() -> None:
    """The carry moves as it begins, and not any more after an iteration."""
    x, v = (sf.placeholder((), "float64", name=s) for s in ("x", "v"))
    n = sf.placeholder((), "int64", name="n")
    _, tangent = jvp(lambda x: sf.fori_loop(0, n, lambda i, h: i.double(), x * x), x, v)
    program = sf.compile([x, v, n], tangent)
    assert program(3.0, 1.0, 0).item() == 6
    assert program(3.0, 1.0, 2).item() == 0


def test_numbers_and_their_tangents_stay_in_registers() -> None:
    a = sf.placeholder((), "float64", name="a")

    def root(a: Any) -> Any:
        return sf.while_loop(
            lambda x: (x * x - a).abs() > 1e-12 * a, lambda x: 0.5 * (x + a / x), a * 0 + 1.0
        )

    program = sf.compile([a], jvp(lambda a: jvp(root, a, create_graph=True)[1], a))
    assert not loops_of(program)
    for value in (0.5, 2.0, 900.0):
        first, second = program(value)
        np.testing.assert_allclose(first.item(), 0.5 * value**-0.5, 1e-9)
        np.testing.assert_allclose(second.item(), -0.25 * value**-1.5, 1e-9)


def test_hessians_through_a_loop() -> None:
    x, v = (sf.placeholder(("n",), "float64", name=s) for s in ("x", "v"))
    k = sf.placeholder((), "int64", name="k")

    def loss(x: Any) -> Any:
        return sf.fori_loop(0, k, lambda i, h: (h * x.sum()).sin() + x, x).sum()

    program = sf.compile([x, v, k], (hessian(loss, x), hvp(loss, x, v)[1], sf.grad(loss(x), x)))
    for size, iterations in GRID:
        given, along = arguments(size, iterations)[0], directions(size)[0]
        whole, product, _ = (t.numpy() for t in program(given, along, iterations))
        np.testing.assert_allclose(product, whole @ along, 1e-9, 1e-12)
        for i in range(size):
            moved = [given.copy(), given.copy()]
            moved[0][i] += 1e-6
            moved[1][i] -= 1e-6
            a, b = (program(m, along, iterations)[2].numpy() for m in moved)
            np.testing.assert_allclose(whole[i], (a - b) / 2e-6, 1e-5, 1e-6)


def test_derivatives_by_several_inputs_of_known_sizes() -> None:
    x, w = (sf.placeholder((2,), "float64", name=s) for s in ("x", "w"))
    k = sf.placeholder((), "int64", name="k")

    def loss(x: Any, w: Any) -> Any:
        return sf.fori_loop(0, k, lambda i, h: (h * w).sin() + x, x).prod()

    def slope(x: Any, w: Any) -> Any:
        return tuple(sf.grad(loss(x, w), [x, w]))

    program = sf.compile([x, w, k], (hessian(loss, (x, w)), jacobian(slope, (x, w))))
    whole, wanted = program(np.array([0.3, 0.5]), np.array([1.2, 0.9]), 3)
    for a, b in itertools.product((0, 1), (0, 1)):
        np.testing.assert_allclose(whole[a][b].numpy(), wanted[a][b].numpy(), 1e-9)


def test_a_branch_and_its_tangents_are_one_branch() -> None:
    """Side by side, and with the iterations of a loop around them; but not where one waits for the
    other."""
    x, t = (sf.placeholder((3,), "float64", name=s) for s in ("x", "t"))
    k = sf.placeholder((), "int64", name="k")

    def bend(x: Any) -> Any:
        return sf.cond(x.sum() > 0, lambda: x.exp() * x.sin(), lambda: x * 2)

    def bends(x: Any) -> Any:
        return sf.fori_loop(0, k, lambda i, x: bend(x), x)

    def branches(graph: Any) -> int:
        inside = (branches(r) for n in graph.nodes for r in regions_of(n))
        return sum(n.op is cond_op for n in graph.nodes) + sum(inside)

    for f in (bend, bends):
        value, tangent = jvp(f, x, t)
        program = sf.compile([x, t, k], [value, tangent])
        assert branches(program.optimized) == 1
        for start in (0.3, -0.3):
            given, along, step = np.full(3, start), np.array([1.0, -2.0, 0.5]), 1e-6
            got = program(given, along, 2)[1].numpy()
            ends = [program(given + s * step * along, along, 2)[0].numpy() for s in (1, -1)]
            np.testing.assert_allclose(got, (ends[0] - ends[1]) / (2 * step), 1e-6)
    y = bend(x)
    assert branches(sf.compile([x], [y, sf.grad(y.sum(), x)]).optimized) == 1
    assert branches(sf.compile([x], [y, sf.grad((y * y).sum(), x)]).optimized) == 2
