"""Loops and branches, differentiated: iterations 0, 1, many, sizes 0, 1, 3, first and second order,
all by one compilation, against finite differences and against the eager run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from routine_machine import run_slowly

import staticflow as sf
from staticflow.graph.graph import close
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.verify import verify_graph

Array = np.ndarray[Any, Any]

P = sf.variable(np.array(0.7), "float64", name="p")
P.requires_grad_()
"""A parameter over which bodies close."""


def _plain(x: Any, w: Any, k: Any) -> Any:
    return sf.while_loop(lambda i, h: i < k, lambda i, h: (i + 1, (h * w).sin() + 0.5 * h), (0, x))[
        1
    ]


def _carry_without_gradient(x: Any, w: Any, k: Any) -> Any:
    """The carry that is a float starts from a constant."""
    _, total, _ = sf.while_loop(
        lambda i, t, odd: i < k,
        lambda i, t, odd: (i + 1, t * 0.5 + (x * w).sum() * i, ~odd),
        (0, x.sum() * 0 + 1, k > 1),
    )
    return total * x


def _closure(x: Any, w: Any, k: Any) -> Any:
    outer = (w * P).exp()
    return sf.while_loop(lambda i, h: i < k, lambda i, h: (i + 1, h * P + outer), (0, x))[1] * P


def _condition_on_values(x: Any, w: Any, k: Any) -> Any:
    """How long it goes on is a matter of floats."""
    limit = 2.0**k - 1
    _, h = sf.while_loop(
        lambda s, h: s < limit, lambda s, h: (2 * s + 1, h * w.cos()), (x.sum() * 0, x)
    )
    return h


def _two_carries(x: Any, w: Any, k: Any) -> Any:
    state = sf.while_loop(
        lambda s: s["i"] < k,
        lambda s: {"i": s["i"] + 1, "pair": [s["pair"][1] * w, s["pair"][0].sin()]},
        {"i": 0, "pair": [x, x * w]},
    )
    return state["pair"][0] + 2 * state["pair"][1]


def _nested(x: Any, w: Any, k: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        inner = sf.while_loop(lambda j, a: j < i, lambda j, a: (j + 1, a * w + 0.1), (0, h))[1]
        return i + 1, inner.sin()

    return sf.while_loop(lambda i, h: i < k, body, (0, x))[1]


def _scan_inside(x: Any, w: Any, k: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        last, ys = sf.scan(lambda c, r: (c * 0.5 + r, c * r), h.sum(), w * h)
        return i + 1, (h + last).sin() * 0.3 + ys

    return sf.while_loop(lambda i, h: i < k, body, (0, x))[1]


def _inside_scan(x: Any, w: Any, k: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        h = sf.while_loop(lambda i, a: i < k, lambda i, a: (i + 1, a * r + c), (0, r))[1]
        return c * 0.5 + h, h

    last, ys = sf.scan(step, x.sum(), w)
    return ys * last


def _until(x: Any, w: Any, k: Any) -> Any:
    """The exit after k + 1 steps, or at the end of the rows."""

    def step(c: Any, r: Any) -> Any:
        i, h = c
        return (i + 1, h * r + 0.1), {"h": h.sin(), "r": r * w.sum()}

    rows = sf.stack([x, w, x * w, x + w], 0)
    (_, last), ys = sf.scan(step, (0, x), rows, until=lambda c, y: c[0] > k)
    return last + ys["h"].sum(0) + (ys["r"] * ys["h"]).sum(0)


def _until_in_reverse(x: Any, w: Any, k: Any) -> Any:
    rows = sf.stack([x, w, x * w], 0)
    (_, last), ys = sf.scan(
        lambda c, r: ((c[0] + 1, c[1] * r + w), c[1] * r), (0, x), rows, reverse=True,
        until=lambda c, y: c[0] > k,
    )  # fmt: skip
    return last + ys.sum(0) * ys[0]


def _branch(x: Any, w: Any, k: Any) -> Any:
    return sf.cond(k > 0, lambda a: (a * w).sin() * P, lambda a: a.exp() + w * w, x)


def _branch_in_loop(x: Any, w: Any, k: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        odd = i % 2 == 1
        return i + 1, sf.cond(
            odd, lambda: h * w, lambda: sf.cond(i > 1, lambda: h.sin(), lambda: h)
        )

    return sf.while_loop(lambda i, h: i < k, body, (0, x))[1]


def _loop_in_branch(x: Any, w: Any, k: Any) -> Any:
    return sf.cond(
        k > 1,
        lambda: sf.while_loop(lambda i, h: i < k, lambda i, h: (i + 1, h * w), (0, x))[1],
        lambda: x + w,
    )


def _range(x: Any, w: Any, k: Any) -> Any:
    return sf.fori_loop(1, k + 1, lambda i, h: h * w + i, x)


def _rows(x: Any, w: Any, k: Any) -> Any:
    return sf.map(lambda r: (r * w.sum()).exp(), x) * k


def _products(x: Any, w: Any, k: Any) -> Any:
    return (
        sf.associative_scan(lambda a, b: a * b, x)
        + sf.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (w, x), reverse=True)[
            1
        ]
        * k
    )


CASES: dict[str, Callable[..., Any]] = {
    f.__name__.strip("_"): f
    for f in (
        _plain, _carry_without_gradient, _closure, _condition_on_values, _two_carries, _nested,
        _scan_inside, _inside_scan, _until, _until_in_reverse, _branch, _branch_in_loop,
        _loop_in_branch, _range, _rows, _products,
    )
}  # fmt: skip

every_case = pytest.mark.parametrize("name", list(CASES))


def loss_of(out: Any) -> Any:
    weights = (out * 0 + 1).cumsum(0) if out.shape else 1.0
    return (out * weights).sum()


def second_of(grads: Any) -> Any:
    return sum(((g * g).sum() for g in grads), start=0.0)


def arguments(size: int, iterations: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(size)
    x, w = rng.uniform(0.3, 1.2, (2, size))
    return x, w, np.asarray(iterations)


GRID = [(size, iterations) for size in (0, 1, 3) for iterations in (0, 1, 4)]


@cache
def program_of(name: str) -> Any:
    """Loss, gradients, and the gradients of the sum of their squares."""
    x = sf.placeholder(("n",), "float64", name="x")
    w = sf.placeholder(("n",), "float64", name="w")
    k = sf.placeholder((), "int64", name="k")
    loss = loss_of(CASES[name](x, w, k))
    first = [g for g in sf.grad(loss, [x, w, P], allow_unused=True) if g is not None]
    second = sf.grad(second_of(first), [x, w], allow_unused=True)
    outs = [loss, *first, *(g for g in second if g is not None)]
    return sf.compile([x, w, k], outs), len(first), [g is not None for g in second]


def eager_of(name: str, size: int, iterations: int) -> list[Array]:
    x, w, k = map(sf.tensor, arguments(size, iterations))
    x.requires_grad_(), w.requires_grad_()
    loss = loss_of(CASES[name](x, w, k))
    _, count, given = program_of(name)
    wrt = [x, w, P][:count]
    first: Any = [None] * count
    if loss.requires_grad:
        first = sf.grad(loss, wrt, allow_unused=True, create_graph=True)
    first = [sf.zeros_like(v) if g is None else g for v, g in zip(wrt, first, strict=True)]
    total = second_of(first)
    second: Any = [None, None]
    if isinstance(total, sf.Tensor) and total.requires_grad:
        second = sf.grad(total, [x, w], allow_unused=True)
    second = [
        sf.zeros_like(v) if g is None else g
        for v, g, wanted in zip((x, w), second, given, strict=True)
        if wanted
    ]
    return [v.detach().numpy() for v in (loss, *first, *second)]


@every_case
def test_compiled_as_eager(name: str) -> None:
    program, _, _ = program_of(name)
    for size, iterations in GRID:
        outs = [o.numpy() for o in program(*arguments(size, iterations))]
        wanted = eager_of(name, size, iterations)
        for got, want in zip(outs, wanted, strict=True):
            np.testing.assert_allclose(got, want, 1e-9, 1e-12, err_msg=f"{size=} {iterations=}")
    assert program.compile_count == 1


@every_case
def test_interpreted_as_compiled(name: str) -> None:
    program, _, _ = program_of(name)
    verify_graph(program.graph)
    verify_graph(program.optimized)
    for size, iterations in GRID:
        given = arguments(size, iterations)
        wanted = [o.numpy() for o in program(*given)]
        variables = [v.detach().numpy() for v in program._caller.variables]
        for graph in (program.graph, program.optimized):
            for got, want in zip(interpret_graph(graph, [*given, *variables]), wanted, strict=True):
                np.testing.assert_allclose(got, want, 1e-9, 1e-12, err_msg=f"{size=} {iterations=}")


@every_case
def test_steps_keep_to_their_memory(name: str) -> None:
    program, _, _ = program_of(name)
    for size, iterations in GRID:
        given = arguments(size, iterations)
        wanted = [o.numpy() for o in program(*given)]
        code, outs = run_slowly(program, given)
        assert code == 0
        for got, want in zip(outs, wanted, strict=True):
            np.testing.assert_allclose(got, want, 1e-9, 1e-12, err_msg=f"{size=} {iterations=}")


def slope(f: Callable[[Array, Array], Any], x: Array, w: Array, step: float = 1e-6) -> list[Array]:
    """Central differences of a number with respect to every element."""
    found = []
    for which in (0, 1):
        out = np.zeros_like(x)
        for i in range(len(x)):
            ends = []
            for sign in (1, -1):
                args = [x.copy(), w.copy()]
                args[which][i] += sign * step
                ends.append(f(*args))
            out[i] = (ends[0] - ends[1]) / (2 * step)
        found.append(out)
    return found


@every_case
def test_derivatives_are_what_differences_give(name: str) -> None:
    program, count, given = program_of(name)
    for size, iterations in GRID:
        x, w, k = arguments(size, iterations)
        outs = [o.numpy() for o in program(x, w, k)]
        first = slope(lambda a, b, k=k: program(a, b, k)[0].item(), x, w)
        for got, want in zip(outs[1 : 1 + min(count, 2)], first, strict=False):
            np.testing.assert_allclose(got, want, 1e-6, 1e-7, err_msg=f"{size=} {iterations=}")

        def total(a: Array, b: Array, k: Array = k) -> float:
            return sum(float((g.numpy() ** 2).sum()) for g in program(a, b, k)[1 : 1 + count])

        second = slope(total, x, w)
        wanted = [s for s, is_there in zip(second, given, strict=True) if is_there]
        for got, want in zip(outs[1 + count :], wanted, strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-6, err_msg=f"{size=} {iterations=}")


def test_a_graph_with_bound_sizes_closes_twice() -> None:
    x = sf.placeholder((), "float64", name="x")
    _, ys = sf.scan(lambda c, _: (c * 2, c), x, length=9, until=lambda c, y: c > 10)
    graph = close([x.node], [ys.node])
    again = verify_graph(close(graph.params, graph.outputs, graph.equalities))
    for start, count in ((1.0, 4), (100.0, 1), (0.0, 9)):
        (out,) = interpret_graph(again, [np.asarray(start)])
        np.testing.assert_array_equal(out, start * 2.0 ** np.arange(count))
