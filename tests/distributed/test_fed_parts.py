"""Inputs of which each rank is given its own part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.measure.messages import messages_of
from staticflow.nn import functional as F

ROWS = np.random.default_rng(0).standard_normal((3, 12, 6))
CLASSES = np.random.default_rng(1).integers(0, 4, (3, 12))


def training(rows: int | None, mesh: Any = None, **options: Any) -> Any:
    sf.manual_seed(0)
    net = nn.Linear(6, 4).to(sf.float64)
    x = sf.placeholder((rows, 6), sf.float64, name="x")
    y = sf.placeholder((rows,), sf.int64, name="y")
    loss = F.cross_entropy(net(shard(x, "data", None)), shard(y, "data"))
    updates = sf.optim.SGD(net.parameters(), lr=0.5).minimize(loss)
    return sf.compile([x, y], loss, updates=updates, mesh=mesh, **options)


@pytest.mark.parametrize(("rows", "ranks"), [(None, 3), (12, 3), (12, 5)])
def test_parts_are_as_good_as_the_whole(rows: int | None, ranks: int) -> None:
    """Of a known size the last parts have fewer rows, 3, 3, 3, 3 and none."""
    alone = training(rows)
    expected = [alone(x, y).item() for x, y in zip(ROWS, CLASSES, strict=True)]

    def run() -> list[float]:
        mesh = distributed.mesh(data=-1)
        step = training(rows, mesh, local=True)
        chunk = -(-12 // mesh.size)
        own = slice(mesh.rank * chunk, (mesh.rank + 1) * chunk)
        return [step(x[own], y[own]).item() for x, y in zip(ROWS, CLASSES, strict=True)]

    for found in distributed.simulate(run, ranks):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("local", [True, False])
def test_other_sizes_are_told_before_anything_is_sent(local: bool) -> None:
    """Of parts, and of whole arrays, of which each rank would have taken another part."""

    def run() -> None:
        mesh = distributed.mesh(data=-1)
        step = training(None, mesh, local=local)
        rows = 4 + (mesh.rank == 1)
        step(ROWS[0, :rows], CLASSES[0, :rows])

    wanted = r"rank 1 is given 5 as the size of dim 0 of 'x', and rank 0 4; .*nothing was updated"
    with pytest.raises(sf.RankError, match=wanted):
        distributed.simulate(run, 3)


def test_ranks_along_an_axis_that_exchange_nothing_agree_too() -> None:
    """Over both axes of the mesh, though sums are over one."""

    def run() -> None:
        mesh = distributed.mesh(data=2, model=2)
        x = sf.placeholder((None, 6), name="x")
        step = sf.compile([x], shard(x, "data", None).sum(), mesh=mesh)
        step(sf.ones(4 + (mesh.axis("model").rank == 1), 6))

    with pytest.raises(sf.RankError, match="rank 1 is given 5 as the size of dim 0 of 'x'"):
        distributed.simulate(run, 4)


def test_sizes_cost_one_message_and_only_where_they_are_not_known() -> None:
    def run() -> list[list[tuple[str, int, int]]]:
        mesh = distributed.mesh(data=-1)
        steps = [training(rows, mesh).plan.routine.steps for rows in (None, 12)]
        return [
            [(m.step.op.name, m.messages, m.bytes) for m in messages_of(s, lambda size: 12)]
            for s in steps
        ]

    open_sizes, known = distributed.simulate(run, 3)[0]
    assert open_sizes[0] == ("agree", 2, 2 * 12)
    assert [name for name, *_ in open_sizes[1:]] == [name for name, *_ in known]
    assert "agree" not in [name for name, *_ in known]


def test_sizes_are_compared_where_nothing_else_is_sent() -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        x = sf.placeholder((None, 2), name="x")
        step = sf.compile([x], shard(shard(x, "data", None) * 2, "data", None), mesh=mesh)
        assert step(sf.ones(6, 2)).shape == (2, 2)
        step(sf.ones(6 + mesh.rank, 2))

    with pytest.raises(sf.RankError, match="rank 1 is given 7 as the size"):
        distributed.simulate(run, 3)


def test_what_is_read_whole_cannot_be_fed_in_parts() -> None:
    def run(write: Any) -> Any:
        mesh = distributed.mesh(data=-1)
        x = sf.placeholder((None, 6), name="x")
        return sf.compile([x], write(x), mesh=mesh, local=True)

    for write in (
        lambda x: shard(x, "data", None).sum() + x.sum(),
        lambda x: shard(x, "data", None).sum() + shard(x, None, "data").sum(),
    ):
        with pytest.raises(sf.ShapeError, match=r"its part of 'x', which is read whole.*py:"):
            distributed.simulate(lambda write=write: run(write), 2)


def test_parts_need_a_mesh() -> None:
    with pytest.raises(sf.ArgumentError, match="local=True is for programs of a mesh"):
        training(None, local=True)


def test_what_is_not_split_is_whole_on_all() -> None:
    def run() -> list[float]:
        mesh = distributed.mesh(data=-1)
        x, w = sf.placeholder((None, 6), name="x"), sf.placeholder((6,), name="w")
        step = sf.compile([x, w], (shard(x, "data", None) @ w).sum(), mesh=mesh, local=True)
        return step(sf.full((2, 6), float(mesh.rank)), sf.ones(6)).item()

    assert distributed.simulate(run, 3) == [12.0 * (0 + 1 + 2)] * 3
