"""Loops of every kind, of a carry, rows and a matrix, and a number that all that they give has a share in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import staticflow as sf


def weighted(tree: Any) -> Any:
    """A number that every element of every floating result has a share in of its own."""
    total, found = 0.0, sf.pytree.flatten(tree)[0]
    for position, y in enumerate(f for f in found if f.dtype.is_floating):
        total = total + ((y * (1.0 + 0.5 * position)).tanh() * y.cos()).sum()
    return total


def _rnn(c: Any, xs: Any, w: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        carry = (carry @ w + x).tanh()
        return carry, carry

    return sf.scan(body, c, xs)


def _nested(c: Any, xs: Any, w: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        inner, kept = sf.scan(
            lambda a, s: ((a * s + w.sum(0)).sin(), a.sum()), carry, x, reverse=True
        )
        return inner + carry, kept

    return sf.scan(body, c, xs)


def _inner_gradient(c: Any, xs: Any, w: Any) -> Any:
    """Each step goes down the slope of an energy: a gradient inside of what is differentiated."""

    def body(carry: Any, x: Any) -> Any:
        energy = ((carry @ w - x) ** 2).sum()
        return carry - 0.1 * sf.grad(energy, carry), energy

    return sf.scan(body, c, xs)


def _counter(c: Any, xs: Any, w: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        step, state = carry
        return (step + 1, state * 0.5 + x * step * 0.2), step * state * 0.1

    return sf.scan(body, (sf.constant(np.int64(1)), c), xs)


def _trees(c: Any, xs: Any, w: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        a, b = carry["a"], carry["b"][0]
        return {"a": (a * x["row"]).sin(), "b": [b + a.sum()]}, (b, {"y": a @ x["more"]})

    rows = {"row": xs, "more": sf.stack([xs, xs * 2], 2)}
    return sf.scan(body, {"a": c, "b": [c.sum()]}, rows)


def _chained(c: Any, xs: Any, w: Any) -> Any:
    last, ys = sf.scan(lambda a, x: ((a + x).tanh(), a * x), c, xs)
    return sf.scan(lambda a, y: (a * 0.5 + y @ w, a), last, ys, reverse=True)


def _by_length(c: Any, xs: Any, w: Any) -> Any:
    return sf.scan(lambda a, _: ((a @ w).sin(), a.sum()), c, None, length=xs.shape[0])


LOOPS: dict[str, Callable[..., Any]] = {
    "rnn": _rnn,
    "ys alone": lambda c, xs, w: sf.scan(lambda a, x: ((a * x).sin(), a.exp()), c * 0.1, xs)[1],
    "carry alone": lambda c, xs, w: sf.scan(lambda a, x: ((a * x).sin(), x), c, xs)[0],
    "no carry": lambda c, xs, w: sf.scan(lambda _, x: ((), (x * c).sin() @ w), (), xs)[1],
    "carry unchanged": lambda c, xs, w: sf.scan(lambda a, x: (a, a * x), c, xs),
    "carry replaced": lambda c, xs, w: sf.scan(lambda a, x: (x, a), c, xs),
    "carries exchanged": lambda c, xs, w: sf.scan(
        lambda s, x: ((s[1], s[0] * x), s[0]), (c, c * 2), xs
    ),
    "one carry twice": lambda c, xs, w: sf.scan(lambda s, x: ((s[1], s[1]), x), (c, c.sin()), xs),
    "reverse": lambda c, xs, w: sf.scan(lambda a, x: ((a + x).tanh(), a @ w), c, xs, reverse=True),
    "closures": lambda c, xs, w: sf.scan(lambda a, x: ((a @ w + x @ w.T).tanh(), c * x), c, xs),
    "constants": lambda c, xs, w: sf.scan(
        lambda a, x: (a * 0.5 + x.sum() * np.array([[0.25], [2.0]]).sum(0), a * np.float64(3)), c, xs
    ),
    "init from nothing": lambda c, xs, w: sf.scan(
        lambda a, x: (a * x[:1].sum() + c.sum(), a), np.float64(1.0), xs
    ),
    "outer values": lambda c, xs, w: sf.scan(lambda a, x: ((a * xs.sum(0)).sin(), xs @ a), c, xs),
    "by length": _by_length,
    "counter": _counter,
    "trees": _trees,
    "nested": _nested,
    "chained": _chained,
    "inner gradient": _inner_gradient,
}  # fmt: skip
