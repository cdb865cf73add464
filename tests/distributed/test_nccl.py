"""Arrays of GPUs between ranks, by a stand-in for NCCL and emulated GPUs: none of it runs on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from emulated_device import emulated_gpus
from fake_nccl import FakeNccl, fake_nccl

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard

Array = np.ndarray[Any, Any]


@pytest.fixture
def nccl() -> Iterator[FakeNccl]:
    with emulated_gpus(), pytest.MonkeyPatch.context() as patch:
        yield fake_nccl(patch)


def own(rank: int, *shape: int) -> Array:
    return np.random.default_rng(rank).standard_normal(shape).astype(np.float32)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, mesh: distributed.all_reduce(x, mesh),
    "largest": lambda x, mesh: distributed.all_reduce(x, mesh, "amax"),
    "gathered": lambda x, mesh: distributed.all_gather(x, mesh, 1),
    "parts of sums": lambda x, mesh: distributed.reduce_scatter(x, mesh, 1),
    "turned": lambda x, mesh: distributed.all_to_all(x, mesh, 1, 0),
    "broadcast": lambda x, mesh: distributed.broadcast(x, mesh, 1),
    "sent on": lambda x, mesh: distributed.exchange(x, mesh, [(0, 1)]),
}


@pytest.mark.parametrize("rows", [3, 1500])  # of more than AT_ONCE bytes
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_on_gpus_have_the_bits_of_those_of_the_host(
    name: str, rows: int, nccl: FakeNccl
) -> None:
    def run(device: str) -> Array:
        mesh = distributed.mesh(data=-1)
        where = f"cuda:{mesh.rank}" if device == "cuda" else "cpu"
        found = FUNCTIONS[name](sf.tensor(own(mesh.rank, rows, 4)).to(where), mesh)
        assert str(found.device) == where
        result: Array = found.cpu().numpy()
        return result

    expected = distributed.simulate(lambda: run("cpu"), 2)
    assert not nccl.sent
    for order in ("forward", "reverse", "seeded"):
        for found, wanted in zip(
            distributed.simulate(lambda: run("cuda"), 2, order=order), expected, strict=True
        ):
            assert np.array_equal(found, wanted)
    assert nccl.sent["messages of 1"] or name == "sent on"


def train(mesh: Any, device: str) -> tuple[Any, list[float]]:
    sf.manual_seed(0)
    layers = (nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4))
    net = nn.Sequential(*layers).to(device)
    optimizer = sf.optim.SGD(net.parameters(), lr=0.1)
    x = sf.placeholder((None, 6), name="x")
    loss = (net(shard(x, "data", None)) ** 2).mean()
    step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
    return step, [step(own(i, 5, 6)).item() for i in range(4)]


def test_a_step_of_training_on_gpus(nccl: FakeNccl) -> None:
    """The losses of the host; sums are begun in a stream of their own, behind the gradients, and the
    stream of the kernels waits for it."""

    def run(device: str) -> tuple[list[float], str]:
        mesh = distributed.mesh(data=-1)
        step, losses = train(mesh, f"cuda:{mesh.rank}" if device == "cuda" else "cpu")
        return losses, step.explain("mesh")

    (expected, _), _ = distributed.simulate(lambda: run("cpu"), 2)
    for losses, screen in distributed.simulate(lambda: run("cuda"), 2):
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert "begin all_reduce" in screen
    for rank in range(2):
        assert nccl.sent[f"messages of {rank}"] == 4  # one a step: five sums together
        asked = nccl.asked[rank]
        assert len(asked) == 4 * 3
        aside = asked[0].rpartition(" ")[2]
        assert aside != "0"
        assert asked[:3] == [
            f"wait for 0 in {aside}", f"nccl in {aside}", f"wait for {aside} in 0",
        ]  # fmt: skip


def test_ranks_at_other_collectives_are_told_and_what_is_begun_is_aborted(nccl: FakeNccl) -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        x = sf.ones(4).to(f"cuda:{mesh.rank}")
        distributed.all_reduce(x, mesh)
        (distributed.all_gather if mesh.rank else distributed.all_reduce)(x, mesh)

    with pytest.raises(sf.RankError, match=r"all_reduce.*on GPUs.*at exchange.*all_gather"):
        distributed.simulate(run, 2)
    assert 0 in nccl.aborted


def test_one_gpu_for_two_ranks_is_an_error(nccl: FakeNccl) -> None:
    nccl.fault = "NCCL_ERROR_INVALID_USAGE: invalid usage"

    def run() -> None:
        distributed.all_reduce(sf.ones(4).to("cuda:0"), distributed.mesh(data=-1))

    with pytest.raises(sf.RankError, match=r"NCCL on rank \d of 2: .*a GPU of its own"):
        distributed.simulate(run, 2)


def test_without_nccl_tensors_go_by_the_host() -> None:
    def run() -> list[float]:
        mesh = distributed.mesh(data=-1)
        found = distributed.all_reduce(sf.ones(2).to(f"cuda:{mesh.rank}"), mesh)
        assert str(found.device) == f"cuda:{mesh.rank}"
        values: list[float] = found.cpu().tolist()
        return values

    with emulated_gpus():
        assert distributed.simulate(run, 2) == [[2.0, 2.0]] * 2


def test_a_value_that_is_refused_is_told_before_anything_is_sent(nccl: FakeNccl) -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        w = sf.zeros(1).to(f"cuda:{mesh.rank}")
        x, index = sf.placeholder((4,), name="x"), sf.placeholder((1,), sf.int64, name="index")
        total = shard(x[index], "data").sum() + w.sum()
        step = sf.compile([x, index], [], updates={w: w + total}, mesh=mesh)
        step(np.ones(4, np.float32), np.array([9]))

    with pytest.raises(sf.IndexRangeError):
        distributed.simulate(run, 2)
    assert not nccl.sent


def test_parts_are_kept_on_the_cpu_alone(nccl: FakeNccl) -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        layer = nn.Linear(64, 100).to(f"cuda:{mesh.rank}")
        distributed.split_state(sf.optim.Adam(layer.parameters()), mesh.axis("data"))

    with pytest.raises(sf.DeviceError, match="split_state: the parameters are on cuda"):
        distributed.simulate(run, 2)
