"""Ranks that end, are lost, or do something else: an error that names them, and nobody waits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import staticflow as sf
from staticflow import distributed
from staticflow.distributed import siblings

ORDERS = ("forward", "reverse", "seeded")


@pytest.mark.parametrize("order", ORDERS)
def test_an_error_of_a_rank_is_raised_and_names_it(order: str) -> None:
    seen: dict[int, str] = {}

    def run() -> Any:
        mesh = distributed.mesh(data=-1)
        if mesh.rank == 2:
            raise ValueError("no data")
        try:
            return distributed.all_reduce(sf.ones(2), mesh)
        except sf.RankError as error:
            seen[mesh.rank] = str(error)
            raise

    with pytest.raises((ValueError, sf.RankError)) as caught:
        distributed.simulate(run, 4, order=order, seed=2)
    assert "no data" in str(caught.value)
    assert set(seen) == {0, 1, 3}
    assert any("rank 2 of 4 ended by ValueError: no data" in text for text in seen.values())
    assert all("ended by" in text for text in seen.values())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_lost_rank_is_found_at_the_next_exchange(order: str, at: int) -> None:
    """And nothing is updated in the call that finds it."""
    left: dict[int, float] = {}

    def run() -> None:
        mesh = distributed.mesh(data=-1)
        w = sf.zeros(())
        x = sf.placeholder((), name="x")
        step = sf.compile([x], [], updates={w: w + distributed.all_reduce(x, mesh)})
        try:
            for _ in range(5):
                step(sf.tensor(1.0))
        finally:
            left[mesh.rank] = w.item()

    with pytest.raises(sf.RankError, match=r"rank 1 of 3 was lost, while rank . waits for it") as e:
        distributed.simulate(run, 3, order=order, lost=(1, at))
    assert "nothing was updated" in str(e.value) and "all_reduce" in str(e.value)
    assert left[0] == left[2] == 3 * at


def test_a_rank_that_ends_early_is_named() -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        for _ in range(2 - mesh.rank):
            distributed.all_reduce(sf.ones(2), mesh)

    with pytest.raises(sf.RankError, match="rank 1 of 2 has come to the end of its program"):
        distributed.simulate(run, 2)


@pytest.mark.parametrize("order", ORDERS)
def test_ranks_at_different_collectives_say_so(order: str) -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        one, other = distributed.all_reduce, distributed.all_gather
        (one if mesh.rank else other)(sf.ones(2), mesh)

    with pytest.raises(
        sf.RankError, match=r"is at exchange 0, all_.*at exchange 0, all_.*same pro"
    ):
        distributed.simulate(run, 2, order=order)


def test_ranks_that_wait_in_a_circle_are_told() -> None:
    """Each of four ranks is in a group with the next, and none of them in the same."""

    def run() -> None:
        mesh = distributed.mesh(a=2, b=2)
        first, second = ("a", "b") if mesh.rank in (0, 3) else ("b", "a")
        for name in (first, second):
            distributed.all_reduce(sf.ones(2), mesh.axis(name))

    with pytest.raises(sf.RankError, match=r"all ranks wait: rank 0 for rank 2 at .*; rank 1 for"):
        distributed.simulate(run, 4)


SEEN = Path(f"/proc/self/task/{os.getpid()}/children")


@pytest.mark.skipif(not SEEN.exists(), reason="the ranks of a machine are seen on Linux")
def test_a_rank_is_missing_only_where_all_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processes whose environment another may not read, none is missing."""
    parent = Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    monkeypatch.setattr(siblings, "DAEMONS", (parent,))
    for name in ("SIZE", "LOCAL_SIZE"):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", "2")

    def read(error: type[OSError] | None) -> str:
        def read_bytes(path: Path) -> bytes:
            if error is not None:
                raise error(str(path))
            return b"A=1\0OMPI_COMM_WORLD_RANK=0\0B=2\0"

        monkeypatch.setattr(Path, "read_bytes", read_bytes)
        return siblings._missing()

    assert read(None) == "rank 1 of 2"
    assert read(FileNotFoundError) == "rank 0 of 2"
    assert read(PermissionError) == ""
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert read(None) == "one of the 2 ranks of this machine"
    monkeypatch.setattr(siblings, "DAEMONS", ())
    assert read(None) == ""
