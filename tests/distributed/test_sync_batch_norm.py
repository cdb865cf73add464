"""Batch norms of processes that have rows of their own: by hand and eagerly synchronised on request,
else each for itself; and batch norms of parts in programs of whole tensors, which send nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.measure.messages import messages_of
from staticflow.nn import functional as F

ROWS, BOUNDS = 11, (0, 2, 7, 11)
"""Three processes have 2, 5 and 4 rows."""


def data() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((ROWS, 3, 4)) * 2 + 1


def make(layer: nn.Module) -> nn.Module:
    layer = layer.to(sf.float64)
    layer.load_state_dict({
        **layer.state_dict(),
        "weight": sf.tensor([1.0, 2.0, 3.0], dtype=sf.float64),
        "bias": sf.tensor([0.5, 0.0, -0.5], dtype=sf.float64),
    })  # fmt: skip
    return layer


def results(layer: nn.Module, x: Any, sums: Any = lambda g: g) -> dict[str, Any]:
    """Of two calls: output, statistics, and the gradients of one loss of all rows together."""
    layer(x)
    x = x.clone().requires_grad_()
    y = layer(x)
    (y**3).sum().backward()
    found = {n: t.detach().numpy() for n, t in layer.named_buffers()}
    grads = {n: sums(p.grad).numpy() for n, p in layer.named_parameters()}
    return {"y": y.detach().numpy(), "x.grad": x.grad.numpy(), **found, **grads}


def compare(found: dict[str, Any], expected: dict[str, Any], rows: slice) -> None:
    for name, value in expected.items():
        own = value[rows] if name in ("y", "x.grad") else value
        np.testing.assert_allclose(found[name], own, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("group", ["all", "mesh", "axis"])
def test_it_has_the_statistics_of_all_rows(group: str, momentum: float | None) -> None:
    expected = results(make(nn.BatchNorm1d(3, momentum=momentum)), sf.tensor(data()))

    def run() -> Any:
        mesh = distributed.mesh(data=-1, other=1)
        over = {"all": None, "mesh": mesh, "axis": mesh.axis("data")}[group]
        rows = slice(BOUNDS[mesh.rank], BOUNDS[mesh.rank + 1])
        layer = make(nn.SyncBatchNorm(3, momentum=momentum, process_group=over))
        return results(
            layer, sf.tensor(data()[rows]), lambda g: distributed.all_reduce(g, mesh)
        ), rows

    for found, rows in distributed.simulate(run, 3):
        compare(found, expected, rows)


def test_a_program_by_hand_trains_with_all_rows_on_request() -> None:
    """Without the request each process has its own statistics, and the losses are others."""

    def train(convert: bool) -> list[float]:
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 1))
        net = net.to(sf.float64)
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net) if convert else net
        x = sf.placeholder((None, 4), sf.float64, name="x")
        loss = (net(x) ** 2).sum() / ROWS
        params = list(net.parameters())
        gradients = [distributed.all_reduce(g, mesh) for g in sf.grad(loss, params)]
        updates = {p: p - 0.1 * g for p, g in zip(params, gradients, strict=True)}
        step = sf.compile([x], distributed.all_reduce(loss, mesh), updates=updates)
        rows = slice(BOUNDS[mesh.rank], BOUNDS[mesh.rank + 1]) if mesh.size > 1 else slice(None)
        losses = [step(data()[rows, 0]).item() for _ in range(5)]
        return [*losses, net[1].running_var.sum().item(), net[1].num_batches_tracked.item()]

    alone = train(False)
    for found in distributed.simulate(lambda: train(True), 3):
        np.testing.assert_allclose(found, alone, rtol=1e-11)
    for found in distributed.simulate(lambda: train(False), 3):
        assert abs(found[0] / alone[0] - 1) > 1e-3


def test_a_module_is_converted_with_what_it_has_learnt() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, eps=0.1, momentum=None), nn.Flatten(),
        nn.Sequential(nn.BatchNorm1d(8, affine=False), nn.BatchNorm1d(8, bias=False)),
    ).eval()  # fmt: skip
    net[1].running_mean.add_(3)
    before, weight = net.state_dict(), net[1].weight
    found = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert found is net and net[1].weight is weight and not net[1].training
    assert [type(m).__name__ for m in net.modules()].count("SyncBatchNorm") == 3
    assert (net[1].eps, net[1].momentum, net[3][0].weight, net[3][1].bias) == (
        0.1,
        None,
        None,
        None,
    )
    after = net.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(after[n], t) for n, t in before.items())
    alone = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm3d(2))
    assert isinstance(alone, nn.SyncBatchNorm) and alone(sf.ones(2, 2, 2, 2, 2)).shape == (2,) * 5


def test_what_it_refuses() -> None:
    with pytest.raises(sf.DTypeError, match=r"process_group is an int; it must be a mesh.*py:"):
        nn.SyncBatchNorm(3, process_group=4)

    def run() -> None:
        x = sf.placeholder((None, 3), name="x")
        mesh = distributed.mesh(data=-1)
        sf.compile([x], nn.SyncBatchNorm(3)(shard(x, "data", None)), mesh=mesh)

    with pytest.raises(
        sf.ShapeError, match=r"written in whole tensors, and its collectives follow"
    ):
        distributed.simulate(run, 2)


def test_one_row_of_all_processes_has_no_variance() -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        nn.SyncBatchNorm(3)(sf.ones(1 if mesh.rank == 0 else 0, 3))

    with pytest.raises(sf.StaticflowError, match="together have one element of a channel"):
        distributed.simulate(run, 2)


def test_norms_of_parts_of_the_batch_send_nothing() -> None:
    """And mean the same on any number of processes."""
    parts = 4

    def train() -> tuple[list[float], int]:
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(0)
        w = nn.Parameter(sf.randn(4, 3, dtype=sf.float64))
        norm = nn.BatchNorm1d(3).to(sf.float64)
        x = sf.placeholder((8, 4), sf.float64, name="x")
        hidden = shard(x, "data", None) @ w
        apart = hidden.reshape(parts, 8 // parts, 3)
        normed = sf.vmap(lambda r: F.batch_norm(r, None, None, norm.weight, norm.bias, True))(apart)
        loss = ((normed.reshape(8, 3) + 1).tanh() ** 3).sum()
        optimizer = sf.optim.SGD([w, *norm.parameters()], lr=0.1)
        step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
        sent = messages_of(step.plan.routine.steps, lambda size: 1)
        return [step(data()[:8, 0]).item() for _ in range(3)], sum(m.messages > 0 for m in sent)

    alone, _ = train()
    for ranks in (2, 4):
        for losses, collectives in distributed.simulate(train, ranks):
            np.testing.assert_allclose(losses, alone, rtol=1e-11)
            assert collectives == 1  # of the loss and all gradients
