"""Random loops and branches, nested: the graph and the native program against the eager run, and
the tangent against the gradient.

``STATICFLOW_FUZZ=500 pytest tests/fuzz`` runs that many other ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.autograd.functional import jvp
from staticflow.graph.graph import close
from staticflow.graph.interpret import interpret_graph
from staticflow.ops.symbols.symbol import Symbol

CAMPAIGN = int(os.environ.get("STATICFLOW_FUZZ", "0"))
FORMS = ("while", "fori", "scan", "until", "lengths", "map", "cond")


@dataclass(frozen=True)
class Statement:
    """A form, which earlier values it takes, a variant, and what its body does."""

    form: str
    takes: tuple[int, int]
    variant: int
    factor: float
    body: list[Statement] = field(default_factory=list)


def drawn(rng: np.random.Generator, depth: int) -> list[Statement]:
    found = []
    for _ in range(1 + rng.integers(2)):
        forms = ("elementwise", *FORMS) if depth else ("elementwise",)
        form = forms[rng.integers(len(forms))]
        a, b, variant = map(int, rng.integers(60, size=3))
        body = drawn(rng, depth - 1) if form != "elementwise" else []
        found.append(Statement(form, (a, b), variant, float(rng.uniform(0.2, 0.9)), body))
    return found


def elementwise(s: Statement, a: Any, b: Any) -> Any:
    of = (
        lambda: a * b * s.factor,
        lambda: (a + b).sin(),
        lambda: a - b * a.sum() * 0.1,
        lambda: (a * b).cumsum(0) * 0.3,
        lambda: sf.where(a > b, a * s.factor, b.sin()),
        lambda: a.flip(0) * s.factor + b,
        lambda: (a * a + b * b + 0.5).sqrt(),
    )
    return of[s.variant % len(of)]()


def last_of(body: list[Statement], values: list[Any], k: Any) -> Any:
    return run(body, values, k)[-1]


def run(body: list[Statement], values: list[Any], k: Any) -> list[Any]:
    """``values``, and those that the statements make of them; none is above 1, so that rounding
    stays small."""
    values = list(values)
    for s in body:
        values.append(made(s, values, k).tanh())
    return values


def made(s: Statement, values: list[Any], k: Any) -> Any:
    a, b = (values[i % len(values)] for i in s.takes)
    checkpoint = (None, "sqrt", 2)[s.variant % 3]
    reverse = s.variant % 2 == 1
    outer = list(values)
    match s.form:
        case "elementwise":
            return elementwise(s, a, b)
        case "while":
            limit = k + s.variant % 3 - 1
            return sf.while_loop(
                lambda i, v: (i < limit) & (v.sum().abs() < 9),
                lambda i, v: (i + 1, last_of(s.body, [*outer, v], k)),
                (0, a), checkpoint=checkpoint,
            )[1]  # fmt: skip
        case "fori":
            return sf.fori_loop(
                0, k, lambda i, v: last_of(s.body, [*outer, v, v * 0.1 * i], k) * b, a
            )
        case "scan" | "until":
            until = (lambda c, y: c[0].sum().abs() + k > 2) if s.form == "until" else None

            def step(c: Any, x: Any) -> Any:
                new = last_of(s.body, [*outer, *c, x], k)
                return (new, c[0]), (new * x, x.sum())

            (p, q), (rows, sums) = sf.scan(
                step, (a, b), sf.stack([a, b * 0.5, a - b], 0), reverse=reverse, until=until,
                checkpoint=checkpoint,
            )  # fmt: skip
            return p * q + rows.sum(0) * sums.sum()
        case "lengths":
            ends = (lambda c, y: y > 0.4) if s.variant % 4 > 1 else None

            def ragged(c: Any, x: Any) -> Any:
                c = (c * 0.5 + x).sin()
                return c, c * x

            last, ys = sf.scan(
                ragged, b, sf.stack([a, b, a * 0.5], 0), lengths=(a * 7).abs().long() % 4,
                reverse=reverse, until=ends,
            )  # fmt: skip
            return last + ys.sum(0)
        case "map":
            return sf.map(lambda x: last_of(s.body, [*outer, a * x], k).sum() + x, b)
        case _:
            pred = (k > 1, a.sum() > b.sum())[s.variant % 2]
            return sf.cond(pred, lambda: last_of(s.body, outer, k) * 1.0, lambda: a * b * s.factor)


def outcomes(program: list[Statement], x: Any, w: Any, k: Any) -> tuple[Any, list[Any]]:
    """A number, and its gradients by ``x`` and ``w``."""
    loss = loss_of(program, x, w, k)
    if not (isinstance(loss, Symbol) or loss.requires_grad):
        return loss, [x * 0, w * 0]
    grads = sf.grad(loss, [x, w], allow_unused=True)
    return loss, [v * 0 if g is None else g for g, v in zip(grads, (x, w), strict=True)]


def loss_of(program: list[Statement], x: Any, w: Any, k: Any) -> Any:
    return sum((v.sum() * (i + 1) for i, v in enumerate(run(program, [x, w], k)[-3:])), start=0.0)


@pytest.mark.parametrize("seed", range(100, 100 + CAMPAIGN) if CAMPAIGN else range(8))
def test_random_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = drawn(rng, 2 if seed % 2 else 1)
    x, w, p, q = (sf.placeholder(("n",), "float64", name=s) for s in ("x", "w", "p", "q"))
    k = sf.placeholder((), "int64", name="k")
    loss, grads = outcomes(program, x, w, k)
    tangent = jvp(lambda x, w: loss_of(program, x, w, k), (x, w), (p, q))[1]
    inputs, outs = [x, w, k, p, q], [loss, *grads, tangent]
    graph = close([v.node for v in inputs], [v.node for v in outs])
    native = sf.compile(inputs, outs)
    for size, iterations in ((0, 1), (1, 0), (3, 1), (3, 3)):
        given = [
            *rng.uniform(-1, 1, (2, size)),
            np.asarray(iterations),
            *rng.normal(size=(2, size)),
        ]
        what = f"{size=} {iterations=}"
        got = interpret_graph(graph, given)
        ex, ew = (sf.tensor(v, requires_grad=True) for v in given[:2])
        value, (gx, gw) = outcomes(program, ex, ew, sf.tensor(iterations))
        wanted = [value.item(), gx.detach().numpy(), gw.detach().numpy()]
        for a, b in zip(got, wanted, strict=False):
            np.testing.assert_allclose(a, b, 1e-8, 1e-10, err_msg=what)
        for a, c in zip(got, native(*given), strict=True):
            np.testing.assert_allclose(c.numpy(), a, 1e-8, 1e-10, err_msg=what)
        np.testing.assert_allclose(
            got[3], got[1] @ given[3] + got[2] @ given[4], 1e-8, 1e-10, err_msg=what
        )
