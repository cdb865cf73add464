"""Embeddings whose words are split: each rank has some of them, and nothing is gathered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_partition import collectives

import staticflow as sf
from staticflow import distributed
from staticflow.distributed import shard
from staticflow.nn import functional as F

WORDS, WIDTH = 10, 3
"""Of the words, four ranks have 3, 3, 3 and 1."""
GIVEN = np.array([[0, 9, 4], [2, 2, 7], [3, 6, 5], [8, 1, 9]])


def table() -> Any:
    rng = np.random.default_rng(0)
    return sf.tensor(rng.standard_normal((WORDS, WIDTH)), requires_grad=True)


def lookup(kind: str, w: Any, index: Any) -> Any:
    if kind == "embedding":
        return F.embedding(index, w, padding_idx=2)
    return w[index] if kind == "index" else sf.index_select(w, 0, index.reshape(-1))


@pytest.mark.parametrize("axes", [{"words": 4}, {"data": 2, "words": 2}])
@pytest.mark.parametrize("kind", ["embedding", "index", "index_select"])
def test_training_with_words_in_parts(kind: str, axes: dict[str, int]) -> None:
    def run(mesh: Any = None) -> tuple[list[float], Any, dict[str, int], dict[str, int]]:
        w, index = table(), sf.placeholder((None, 3), sf.int64, name="index")
        rows = shard(index, "data", None) if "data" in axes else index
        x = lookup(kind, shard(sf.symbol(w), "words", None), rows)
        loss = (x**3).mean()
        (gradient,) = sf.grad(loss, [w])
        updates = {w: sf.symbol(w) - 0.5 * shard(gradient, "words", None)}
        forward = sf.compile([index], loss, mesh=mesh)
        step = sf.compile([index], loss, updates=updates, mesh=mesh)
        given = GIVEN - 10 if kind == "index" else GIVEN  # from the end, too
        losses = [step(given[i:]).item() for i in range(3)]
        return losses, w.detach().numpy(), collectives(forward), collectives(step)

    losses, words, *_ = run()
    for found, ours, forward, step in distributed.simulate(
        lambda: run(distributed.mesh(**axes)), 4
    ):
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        np.testing.assert_allclose(ours, words, rtol=1e-12)
        split = "data" in axes
        assert forward == {"all_reduce": 1 + split}  # the words, and the loss if that is split
        assert step == {"all_reduce": 1 + 2 * split, "all_gather": 1}  # of new words


@pytest.mark.parametrize("kind", ["embedding", "index", "index_select"])
@pytest.mark.parametrize("wrong", [WORDS, -WORDS - 1])
def test_words_that_there_are_not_are_told(kind: str, wrong: int) -> None:
    def run() -> None:
        index = sf.placeholder((2, 1), sf.int64, name="index")
        x = lookup(kind, shard(sf.symbol(table()), "words", None), index)
        sf.compile([index], x, mesh=distributed.mesh(words=-1))(np.array([[1], [wrong]]))

    with pytest.raises(sf.IndexRangeError):
        distributed.simulate(run, 4)


def test_words_of_which_a_rank_may_have_none_are_gathered() -> None:
    """Of 10 words seven ranks have two, or none."""

    def run(mesh: Any = None) -> tuple[Any, dict[str, int]]:
        index = sf.placeholder((4, 3), sf.int64, name="index")
        program = sf.compile(
            [index], lookup("index", shard(sf.symbol(table()), "words", None), index), mesh=mesh
        )
        return program(GIVEN).numpy(), collectives(program)

    alone, _ = run()
    for found, counts in distributed.simulate(lambda: run(distributed.mesh(words=-1)), 7):
        assert np.array_equal(found, alone) and counts == {"all_gather": 1}
