"""Clusters that compute alike, and were written on the same lines, have one body."""

from __future__ import annotations

from typing import Any

import numpy as np

import staticflow as sf
from staticflow.graph.graph import Graph
from staticflow.passes.cluster import cluster


def bodies_of(program: Any) -> list[Graph]:
    return [n.attrs["body"] for n in program.optimized.nodes if n.op is cluster]


def test_equal_updates_have_one_body_each() -> None:
    weights = [sf.nn.Parameter(sf.full((8, 8), 0.1 * i)) for i in range(12)]
    x = sf.placeholder((4, 8), name="x")
    loss = sum(((x @ w) ** 2).mean() for w in weights)
    step = sf.compile([x], loss, updates=sf.optim.Adam(weights, lr=1e-3).minimize(loss))
    bodies = bodies_of(step)
    assert len(bodies) > 30
    assert len(set(bodies)) < 10


def test_other_types_numbers_and_results_have_other_bodies() -> None:
    x, y = sf.placeholder((4,), name="x"), sf.placeholder((5,), name="y")
    given = [np.arange(4, dtype=np.float32), np.arange(5, dtype=np.float32)]
    for values in (
        [f(v) for f in (sf.sin, sf.cos) for v in (x, y)],
        [v * n for v in (x, y) for n in (2, 3)],
    ):
        step = sf.compile([x, y], values, passes=["-join"])
        bodies = bodies_of(step)
        assert len(set(bodies)) == len(bodies)
        alone = [sf.compile([x, y], v)(*given) for v in values]
        for a, b in zip(step(*given), alone, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_lines_that_differ_are_kept_apart() -> None:
    x, y = sf.placeholder((3, 4), name="x"), sf.placeholder((3, 4), name="y")
    one = x.exp().sum()
    other = y.exp().sum()
    apart = bodies_of(sf.compile([x, y], [one, other]))
    assert len({n.locs[0].line for body in apart for n in body.nodes if n.args}) == 2
    both = [v.exp().sum() for v in (x, y)]
    assert len(set(bodies_of(sf.compile([x, y], both)))) == 1
    got = sf.compile([x, y], both)(np.zeros((3, 4), "f"), np.ones((3, 4), "f"))
    assert [round(v.item(), 3) for v in got] == [12.0, 32.619]
