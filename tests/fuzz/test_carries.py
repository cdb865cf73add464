"""Random loops whose carries take over each other, rows and what is the same on every iteration,
and that stack them in every way: the native program, and the slow machine that watches its memory,
against the graph as it was written.

``STATICFLOW_FUZZ=500 pytest tests/fuzz`` runs that many other ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from routine_machine import run_slowly

import staticflow as sf
from staticflow.errors import ShapeError
from staticflow.graph.interpret import interpret_graph

CAMPAIGN = int(os.environ.get("STATICFLOW_FUZZ", "0"))
Step = Callable[[Any, Any], tuple[Any, Any]]


def drawn(rng: np.random.Generator, count: int, w: Any, h: Any, k: Any, depth: int) -> Step:
    """A step of ``count`` carries, all of the shape of ``h``. Nothing is drawn as it is called."""
    takes = [tuple(map(int, rng.integers(count, size=2))) for _ in range(count)]
    forms = rng.integers(7 if depth else 6, size=count)
    stacked = [tuple(map(int, (rng.integers(6), rng.integers(count)))) for _ in range(2)]
    inner = drawn(rng, 2, w, h, k, depth - 1) if depth else None
    variant = int(rng.integers(3))

    def nested(a: Any, b: Any, row: Any) -> Any:
        if variant == 0:
            return sf.fori_loop(0, 3, lambda i, c: inner(c, row)[0], (a, b))[0]
        if variant == 1:
            return sf.while_loop(
                lambda i, c: i < k, lambda i, c: (i + 1, inner(c, row)[0]), (0, (a, b))
            )[1][1]
        (last, _), (ys, _) = sf.scan(inner, (a, b), sf.stack([row, a]))
        return last + ys.sum()

    def value(form: int, p: Any, q: Any, row: Any) -> Any:
        match form:
            case 0:
                return (p @ w + q * 0.3 + row).tanh()
            case 1:
                return row
            case 2:
                return h
            case 6:
                return nested(p, q, row).sin()
            case _:
                return p

    def step(carries: Any, row: Any) -> tuple[Any, Any]:
        new: list[Any] = []
        for i, (form, (a, b)) in enumerate(zip(forms, takes, strict=True)):
            if form == 3 and new:
                new.append(new[-1])
            else:
                new.append(value(form, carries[i - 1 if form == 4 else a], carries[b], row))
        kept = [
            [carries[a], new[a], new[a].reshape(-1), (new[a] * carries[a]).sum(0), row, h][form]
            for form, a in stacked
        ]
        return tuple(new), tuple(kept)

    return step


def program_of(rng: np.random.Generator) -> tuple[Any, list[Any]]:
    """A program, and the variables that it changes, which the loop begins with."""
    shapes: dict[str, tuple[Any, ...]] = {"x": ("T", "B", 3), "w": (3, 3), "h": ("B", 3)}
    x, w, h = (sf.placeholder(shape, "float64", name=name) for name, shape in shapes.items())
    k = sf.placeholder((), "int64", name="k")
    v = sf.variable(rng.normal(size=(2, 3)), name="v")
    count, form, changes = int(rng.integers(1, 5)), rng.integers(4), bool(rng.integers(2))
    step = drawn(rng, count, w, h, k, int(rng.integers(2)))
    init = tuple(sf.symbol(v) if changes and i == 0 else h * (i + 1) for i in range(count))
    if form == 3:
        last, ys = (
            sf.while_loop(lambda i, c: i < k, lambda i, c: (i + 1, step(c, h * 0.5)[0]), (0, init))[
                1
            ],
            (),
        )
    else:
        last, ys = sf.scan(
            step, init, x, reverse=bool(rng.integers(2)), checkpoint=(None, "sqrt", None)[form],
            until=(None, None, lambda c, y: (c[0] * c[0]).sum() > 1.0)[form],
        )  # fmt: skip
    outs = [o for o in (*last, *ys) if rng.random() < 0.6] or [last[0]]
    total = sum(((o[-1] if rng.random() < 0.2 else o).sin().sum() for o in outs), start=0.0)
    grads = [g for g in sf.grad(total, [x, w, h], allow_unused=True) if g is not None]
    wanted = (outs, grads or outs, [*outs, *grads])[rng.integers(3)]
    new = (sf.symbol(v) + 1, last[0], last[-1])[rng.integers(3)]
    given = [x, w, h, k]
    return sf.compile(given, wanted, updates={v: new} if changes else {}), [v] if changes else []


@pytest.mark.parametrize("seed", range(100, 100 + CAMPAIGN) if CAMPAIGN else range(16))
def test_random_carries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, changed = program_of(rng)
    for iterations, batch, k in ((1, 2, 0), (3, 2, 2), (0, 2, 1), (5, 2, 4)):
        shapes = [(iterations, batch, 3), (3, 3), (batch, 3)]
        given = [*(rng.normal(size=s) for s in shapes), np.asarray(k)]
        before = [v.detach().numpy().copy() for v in program._caller.variables]
        try:
            expected = interpret_graph(program.graph, [*given, *before])
        except ShapeError:  # there is no last row
            continue
        code, slow = run_slowly(program, given)
        assert code == 0
        got = [o.numpy() for o in program(*given)]
        got += [v.detach().numpy() for v in changed]
        what = f"{iterations=} {batch=} {k=}"
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-8, 1e-10, err_msg=what)
        for a, b in zip(slow, expected, strict=False):
            np.testing.assert_allclose(a, b, 1e-8, 1e-10, err_msg=what)
