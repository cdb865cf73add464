"""Sums over ranks that an iteration gives away: they are taken once, behind the loop, and no iteration
sends anything for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed
from staticflow.distributed import shard
from staticflow.measure.messages import messages_of

Body = Callable[[Any, Any], tuple[Any, Any]]
w = np.random.default_rng(0).standard_normal((4, 4))


def loss_of(weight: Any, rows: Any) -> Any:
    return ((shard(rows, "data", None) @ weight).tanh() ** 2).mean()


def losses(x: Any, weight: Any) -> list[Any]:
    return [sf.map(lambda rows: loss_of(weight, rows), x)]


def accumulated(x: Any, weight: Any) -> list[Any]:
    """The mean of the gradients, and the losses, of micro-batches."""

    def body(total: Any, rows: Any) -> tuple[Any, Any]:
        loss = loss_of(weight, rows)
        return total + sf.grad(loss, weight) / x.shape[0], loss

    return list(sf.scan(body, sf.zeros(4, 4, dtype=sf.float64), x))


def accumulated_losses(x: Any, weight: Any) -> list[Any]:
    return [
        sf.scan(lambda total, rows: (total + 0.5 * loss_of(weight, rows), None), x.sum() * 0, x)[0]
    ]


def layers(x: Any, weight: Any) -> list[Any]:
    """The gradients of stacked weights."""
    stack = sf.stack([weight, weight * 2, weight.t()])
    begin = shard(x[0], "data", None)
    end, _ = sf.scan(lambda h, m: ((h @ m).tanh(), None), begin, stack)
    return [sf.grad((end**2).mean(), stack)]


def while_small(x: Any, weight: Any) -> list[Any]:
    """The sum of squares of all rows, in as many iterations as turn out."""
    rows = shard(x[0], "data", None)

    def body(number: Any, total: Any) -> Any:
        return number * 2 + 1, total + (rows**2).sum(0) * 0.25

    begin = (weight * weight).sum()
    state = (begin, sf.zeros(4, dtype=sf.float64))
    return list(sf.while_loop(lambda n, _: n < 99, body, state))


def two_deep(x: Any, weight: Any) -> list[Any]:
    def outer(total: Any, rows: Any) -> tuple[Any, Any]:
        part = shard(rows, "data", None)
        inner = sf.map(lambda k: (part * k).sum(0), sf.arange(3).double())
        return total + inner.sum(0) / 3, inner

    return list(sf.scan(outer, sf.zeros(4, dtype=sf.float64), x))


LOOPS = {
    f.__name__: f for f in (losses, accumulated, accumulated_losses, layers, while_small, two_deep)
}


def run(write: Callable[[Any, Any], list[Any]], mesh: Any) -> tuple[list[np.ndarray], int]:
    x = sf.placeholder((3, None, 4), sf.float64, name="x")
    weight = sf.placeholder((4, 4), sf.float64, name="w")
    step = sf.compile([x, weight], write(x, weight), mesh=mesh)
    given = np.random.default_rng(1).standard_normal((3, 5, 4))
    inside = [m for m in messages_of(step.plan.routine.steps, lambda size: 1) if m.inside]
    return [y.numpy() for y in step(given, w)], len(inside)


@pytest.mark.parametrize("name", LOOPS)
def test_no_iteration_sends_what_it_gives_away(name: str) -> None:
    expected, _ = run(LOOPS[name], None)
    for ranks in (2, 3):
        for found, inside in distributed.simulate(
            lambda: run(LOOPS[name], distributed.mesh(data=-1)), ranks
        ):
            assert inside == 0
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_a_sum_that_the_iteration_needs_is_sent_in_it() -> None:
    """And once, though it is a row of the result, too; so is one that is no sum times a number."""

    def needed(x: Any, weight: Any) -> list[Any]:
        def body(carry: Any, rows: Any) -> tuple[Any, Any]:
            total = shard(rows, "data", None).sum(0)
            return (carry + total).tanh(), total

        return list(sf.scan(body, sf.zeros(4, dtype=sf.float64), x))

    def squared(x: Any, weight: Any) -> list[Any]:
        return [sf.map(lambda rows: shard(rows, "data", None).sum(0) ** 2, x)]

    for write in (needed, squared):
        expected, _ = run(write, None)
        for found, inside in distributed.simulate(
            lambda write=write: run(write, distributed.mesh(data=-1)), 2
        ):
            assert inside == 1
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12)
