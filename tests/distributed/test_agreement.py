"""What ranks compare before they compile: the one that has something else is named, in the same
words on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf
from staticflow import distributed
from staticflow.distributed import shard

ODD = 2  # the rank that has something else than the other three


def compile_sum(mesh: Any, value: Any = 1.0, **options: Any) -> None:
    x = sf.placeholder((4,), name="x")
    sf.compile([x], (x + value).sum(), mesh=mesh, **options)


def compile_in_parts(mesh: Any, dim: int) -> None:
    sf.manual_seed(0)
    layer = sf.nn.Linear(64, 256, bias=False)
    distributed.split_parameters(sf.optim.Adam(layer.parameters()), mesh.axis("data"), dim=dim)
    x = sf.placeholder((3, 64), name="x")
    sf.compile([x], layer(x), mesh=mesh)


def split_others(is_odd: bool) -> None:
    mesh = distributed.mesh(data=-1)
    layer = sf.nn.Linear(64, 256)
    layer.weight.data.fill_(float(is_odd))
    distributed.split_parameters(sf.optim.Adam(layer.parameters()), mesh.axis("data"))


def longer(x: Any, is_odd: bool) -> Any:
    return x.sin() if is_odd else x.sin().cos()


def compile_longer(mesh: Any, is_odd: bool) -> None:
    x = sf.placeholder((4,), name="x")
    sf.compile([x], longer(shard(x, "data"), is_odd), mesh=mesh)


# what is compared: what a rank does, given its mesh and whether it is the odd one; what both are
# said to have
DIFFERENT: dict[str, tuple[Callable[[Any, bool], None], str]] = {
    "another graph": (
        lambda mesh, is_odd: compile_sum(mesh, 2.0 if is_odd else 3.0),
        r"\n    rank 2 has %\d: f32\[\] = constant 2.*\n    rank 0 has %\d: f32\[\] = constant 3.*py:\d+\n",
    ),
    "another graph, the beginning of the others'": (
        compile_longer,
        r"another graph than rank 0.*\n    rank 2 has return %.*\n    rank 0 has %\d: .* = cos",
    ),
    "another mesh": (
        lambda mesh, is_odd: compile_sum(distributed.mesh(model=4) if is_odd else mesh),
        r"\n    rank 2 has mesh\(model=4\)\n    rank 0 has mesh\(data=4\)\n",
    ),
    "another way to compile": (
        lambda mesh, is_odd: compile_sum(mesh, numerics="fast" if is_odd else "strict"),
        r"\n    rank 2 has numerics='fast'.*\n    rank 0 has numerics='strict'.*\n",
    ),
    "another way to compile, by parts": (
        lambda mesh, is_odd: compile_sum(mesh, local=is_odd),
        r"another way to compile than rank 0.*\n    rank 2 has .*local=True\n    rank 0 has .*local=False\n",
    ),
    "is split otherwise": (
        lambda mesh, is_odd: compile_in_parts(mesh, int(is_odd)),
        r"on rank 2 the tensor 'weight' is split otherwise than on rank 0; every",
    ),
    "has other elements": (
        lambda mesh, is_odd: compile_sum(mesh, sf.full((4,), float(is_odd))),
        r"on rank 2 the tensor 'captured' has other elements than on rank 0; seed all",
    ),
    "has other elements, of a parameter in parts": (
        lambda mesh, is_odd: split_others(is_odd),
        r"on rank 2 the tensor 'weight' has other elements than on rank 0; seed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DIFFERENT)
def test_all_ranks_name_the_one_that_has_something_else(what: str) -> None:
    does, says = DIFFERENT[what]
    told: dict[int, str] = {}

    def run() -> None:
        mesh = distributed.mesh(data=-1)
        try:
            does(mesh, mesh.rank == ODD)
        except sf.RankError as error:
            told[mesh.rank] = str(error)
            raise

    with pytest.raises(sf.RankError, match=says) as raised:
        distributed.simulate(run, 4)
    assert what.partition(",")[0] in str(raised.value)
    assert set(told) == {0, 1, 2, 3} and len(set(told.values())) == 1


def test_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        monkeypatch.setattr(sf, "__version__", f"0.{mesh.rank == ODD:d}.7")
        compile_sum(mesh)

    with pytest.raises(
        sf.RankError, match=r"rank 2 has another version .*\n.* 0\.1\.7\n.* 0\.0\.7\n"
    ):
        distributed.simulate(run, 4)
