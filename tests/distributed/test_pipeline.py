"""A pipeline of stages over a loop of micro-batches, of collectives by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed

WIDTH, ROWS = 5, 3


def weights(stages: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((stages, WIDTH, WIDTH)) / 2


def stage(w: Any, x: Any) -> Any:
    return (x @ w).tanh()


def loss_of_last(mesh: Any, w: Any, batches: Any) -> Any:
    """This rank's share of the loss: that of the last stage, which has all results. In each turn a
    stage takes what the one before it gave in the turn before, the first the next micro-batch; the
    turns in which a stage has none yet, or no more, are zeros. Which stage this is, tensors say: all
    ranks have one graph, and so the same exchanges in the same order."""
    stages = mesh.size
    first, last = sf.tensor(mesh.rank == 0), sf.tensor(mesh.rank == mesh.size - 1)
    onwards = [(i, i + 1) for i in range(stages - 1)]
    empty = sf.zeros(stages - 1, ROWS, WIDTH, dtype=sf.float64)
    turns = sf.cat([batches, empty])

    def turn(sent: Any, batch: Any) -> tuple[Any, Any]:
        taken = distributed.exchange(sent, mesh, onwards)
        given = stage(w, sf.where(first, batch, taken))
        return given, given

    start = sf.zeros(ROWS, WIDTH, dtype=sf.float64)
    _, given = sf.scan(turn, start, turns)
    loss = (given[stages - 1 :] ** 2).sum()
    return sf.where(last, loss, 0.0)


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 6])
def test_a_pipeline_trains_as_one_process_does(stages: int, count: int) -> None:
    given = np.random.default_rng(1).standard_normal((4, count, ROWS, WIDTH))

    def alone() -> tuple[list[float], np.ndarray[Any, Any]]:
        own = [sf.tensor(w, requires_grad=True) for w in weights(stages)]
        x = sf.placeholder((count, ROWS, WIDTH), sf.float64, name="x")
        y = x
        for w in own:
            y = stage(w, y)
        loss = (y**2).sum()
        updates = {w: w - 0.05 * g for w, g in zip(own, sf.grad(loss, own), strict=True)}
        step = sf.compile([x], loss, updates=updates)
        losses = [step(g).item() for g in given]
        return losses, np.stack([w.detach().numpy() for w in own])

    def run() -> tuple[list[float], np.ndarray[Any, Any]]:
        mesh = distributed.mesh(stage=-1)
        w = sf.tensor(weights(stages)[mesh.rank], requires_grad=True)
        x = sf.placeholder((count, ROWS, WIDTH), sf.float64, name="x")
        loss = loss_of_last(mesh, w, x)
        update = w - 0.05 * sf.grad(loss, w)
        step = sf.compile([x], distributed.all_reduce(loss, mesh), updates={w: update})
        return [step(g).item() for g in given], w.detach().numpy()

    losses, trained = alone()
    for rank, (found, own) in enumerate(distributed.simulate(run, stages)):
        np.testing.assert_allclose(found, losses, rtol=1e-11)
        np.testing.assert_allclose(own, trained[rank], rtol=1e-11)
