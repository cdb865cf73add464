"""Second derivatives of loops in every form that they can be written, eager and compiled, with lengths
known and unknown, against differences of first ones in float64.

The forms are generated: of `scan` every direction with rows back in xs and in ys, an end that the
values tell, and every way to keep less; and the other loops, each alone and one in another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from slices import daily

import staticflow as sf
from staticflow import pytree

Array = np.ndarray[Any, Any]
Form = Callable[[Any, Any, Any, Any], Any]
"""Tensors or symbols ``xs[5, 2, 3]``, ``w[3, 3]``, ``h[2, 3]`` and ``before[3, 2, 3]`` to trees of such."""

rng = np.random.default_rng(11)
SHAPES = ((5, 2, 3), (3, 3), (2, 3), (3, 2, 3))
ARRAYS = [0.5 * rng.normal(size=s) for s in SHAPES]
MOVES = [rng.normal(size=s) for s in SHAPES]
STEP = 1e-5

KEEP: dict[str, dict[str, Any]] = {
    "all": {}, "every other": {"checkpoint": 2}, "the root": {"checkpoint": "sqrt"},
    "a budget": {"memory_budget": 1 << 16},
}  # fmt: skip


def cell(h: Any, x: Any, w: Any) -> Any:
    return (h @ w + x).tanh()


def scanned(lags: str, reverse: bool, ends: bool, keep: str) -> Form:
    taps = {name: where for name, where in (("xs", (0, 2)), ("ys", (1, 3))) if name in lags}

    def form(xs: Any, w: Any, h: Any, before: Any) -> Any:
        def step(c: Any, x: Any, past: Any = ()) -> Any:
            seen = x[0] * x[1] if "xs" in lags else x
            for i, y in enumerate(past):
                seen = seen + (0.3 - i * 0.7) * y * y
            new = cell(c, seen, w)
            return new, new * seen

        more = {"taps": taps} if taps else {}
        until = (lambda c, y: c[0, 0] > 5.0) if ends else None
        init = before if "ys" in lags else None
        return sf.scan(
            step, h, xs, reverse=reverse, until=until, ys_init=init, **more, **KEEP[keep]
        )

    return form


FORMS: dict[str, Form] = {
    f"scan {lags or 'plain'}{' reverse' if reverse else ''}{' until' if ends else ''} keeping {keep}":
        scanned(lags, reverse, ends, keep)
    for lags, reverse, ends, keep in product(("", "xs", "ys", "xs ys"), (False, True), (False, True), KEEP)
}  # fmt: skip


def form(fn: Form) -> Form:
    FORMS[fn.__name__.strip("_").replace("_", " ")] = fn
    return fn


@form
def _scan_of_trees(xs: Any, w: Any, h: Any, before: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        a, b = c["a"], c["b"]
        return {"a": cell(b, x["u"], w), "b": a * x["v"]}, (a * b, x["u"] @ w)

    return sf.scan(step, {"a": h, "b": h * 0.5}, {"u": xs, "v": xs.sin()})


@form
def _scan_without_xs(xs: Any, w: Any, h: Any, before: Any) -> Any:
    return sf.scan(lambda c, _: (cell(c, xs[0], w), c * c), h, length=4)


@form
def _scan_by_lengths(xs: Any, w: Any, h: Any, before: Any) -> Any:
    lengths = sf.tensor([3, 5])
    return sf.scan(lambda c, x: (cell(c, x, w), c * x), h, xs, lengths=lengths)


@form
def _scan_by_lengths_with_lags(xs: Any, w: Any, h: Any, before: Any) -> Any:
    def step(c: Any, x: Any, past: Any) -> Any:
        new = cell(c, x[0] * x[1] + past[0] * past[0], w)
        return new, new * 1.5

    return sf.scan(
        step, h, xs, lengths=sf.tensor([5, 4]), taps={"xs": (0, 2), "ys": (2,)}, ys_init=before[1:]
    )


@form
def _scan_in_a_scan(xs: Any, w: Any, h: Any, before: Any) -> Any:
    def outer(c: Any, x: Any) -> Any:
        return sf.scan(lambda d, r: (cell(d, r * x, w), d.sum()), c, before)

    return sf.scan(outer, h, xs)


@form
def _scan_with_a_branch(xs: Any, w: Any, h: Any, before: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        new = sf.cond(x[0, 0] > 0, lambda: cell(c, x, w), lambda: c * x.sin())
        return new, new

    return sf.scan(step, h, xs)


@form
def _map(xs: Any, w: Any, h: Any, before: Any) -> Any:
    return sf.map(lambda x: (cell(h, x, w), (x * x).sum()), xs)


@form
def _fori(xs: Any, w: Any, h: Any, before: Any) -> Any:
    return sf.fori_loop(0, 4, lambda i, c: cell(c, xs.sum(0) * (i + 1), w), h)


@form
def _fori_to_a_value(xs: Any, w: Any, h: Any, before: Any) -> Any:
    most = (xs.abs().sum() * 0 + 3).to(sf.int64)
    return sf.fori_loop(0, most, lambda i, c: cell(c, xs[0], w), h)


def whiles(keep: str) -> Form:
    def form(xs: Any, w: Any, h: Any, before: Any) -> Any:
        def body(n: Any, c: Any) -> Any:
            return n + 1, cell(c, xs[0] + before.sum(0), w) + c * c

        start = (xs.sum() * 0).detach().to(sf.int64)
        return sf.while_loop(lambda n, c: n < 4, body, (start, h), **KEEP[keep])[1]

    return form


FORMS |= {f"while keeping {keep}": whiles(keep) for keep in KEEP}


def associative(reverse: bool) -> Form:
    def form(xs: Any, w: Any, h: Any, before: Any) -> Any:
        def combine(a: Any, b: Any) -> Any:
            return a[0] * b[0], a[1] * b[0] + b[1]

        factors = (xs @ w).sigmoid()
        return sf.associative_scan(combine, (factors, xs * h), reverse)

    return form


FORMS |= {f"associative{' reverse' if r else ''}": associative(r) for r in (False, True)}


@form
def _associative_product(xs: Any, w: Any, h: Any, before: Any) -> Any:
    return sf.associative_scan(lambda a, b: a @ b, xs.mT @ h + w)


# -- the check ----------------------------------------------------------------------------------


def loss_of(made: Any) -> Any:
    """A number that depends on every element, not linearly."""
    leaves = pytree.flatten(made)[0]
    parts = [(x * x * (1.0 + i) + x.sin()).sum() for i, x in enumerate(leaves)]
    return sum(parts[1:], parts[0])


def slopes(form: Form, leaves: Sequence[Any], create_graph: bool) -> list[Any]:
    """The gradients; zeros where nothing depends."""
    loss = loss_of(form(*leaves))
    found = sf.grad(loss, list(leaves), allow_unused=True, create_graph=create_graph)
    return [sf.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def second(form: Form, leaves: Sequence[Any]) -> list[Any]:
    """The gradients of the slope along `MOVES`."""
    first = slopes(form, leaves, create_graph=True)
    along = sum((g * sf.tensor(m)).sum() for g, m in zip(first, MOVES, strict=True))
    found = sf.grad(along, list(leaves), allow_unused=True)
    return [sf.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def leaves_at(step: float) -> list[Any]:
    return [sf.tensor(a + step * m, requires_grad=True) for a, m in zip(ARRAYS, MOVES, strict=True)]


def check(name: str) -> None:
    form = FORMS[name]
    above, below = (slopes(form, leaves_at(s), create_graph=False) for s in (STEP, -STEP))
    wanted = [((a - b) / (2 * STEP)).numpy() for a, b in zip(above, below, strict=True)]
    eager = [g.detach().numpy() for g in second(form, leaves_at(0))]
    assert any(np.abs(w).max() > 1e-3 for w in wanted)
    for got, want in zip(eager, wanted, strict=True):
        np.testing.assert_allclose(got, want, 1e-6, 1e-6, err_msg=f"{name}, eager")
    for length in (5, None):
        inputs = [
            sf.placeholder((length, *s[1:]) if i == 0 else s, "float64")
            for i, s in enumerate(SHAPES)
        ]
        program = sf.compile(inputs, second(form, inputs))
        for got, want in zip(program(*ARRAYS), eager, strict=True):
            np.testing.assert_allclose(
                got.numpy(), want, 1e-9, 1e-9, err_msg=f"{name}, {length} rows"
            )


@pytest.mark.parametrize("name", daily(list(FORMS), 2, "second derivatives of loops"))
def test_second_derivatives_today(name: str) -> None:
    check(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", FORMS)
def test_second_derivatives(name: str) -> None:
    check(name)
