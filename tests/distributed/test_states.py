"""States of optimisers of which each rank has a part: the same numbers in less memory, and state files
that any number of processes read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.measure.messages import messages_of

WIDTHS = (48, 70, 64)
"""Of which neither 3 nor 4 ranks have equal parts."""


class Training:
    """A net, its optimiser and its step, on a mesh or alone."""

    def __init__(self, make: Any = sf.optim.Adam, mesh: Any = None, split: bool = True) -> None:
        sf.manual_seed(0)
        layers = (nn.Linear(48, 70), nn.Tanh(), nn.Linear(70, 64))
        self.net = nn.Sequential(*layers).to(sf.float64)
        self.optimizer = make(self.net.parameters(), lr=1e-2)
        x = sf.placeholder((None, 48), sf.float64, name="x")
        loss = (self.net(distributed.shard(x, "data", None)) ** 2).mean()
        if mesh is not None and split:
            distributed.split_state(self.optimizer, mesh.axis("data"))
        self.step = sf.compile([x], loss, updates=self.optimizer.minimize(loss), mesh=mesh)

    def run(self, first: int, last: int) -> list[float]:
        rng = [np.random.default_rng(i) for i in range(first, last)]
        return [self.step(r.standard_normal((6, 48))).item() for r in rng]

    def arrays(self) -> dict[str, Any]:
        states = self.optimizer.state_dict()["state"]
        found = {f"{i}.{n}": np.asarray(t) for i, s in states.items() for n, t in s.items()}
        return found | {n: t.numpy() for n, t in self.net.state_dict().items()}


def agree(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-15, err_msg=name)


def momentum(params: Any, lr: float) -> Any:
    return sf.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=1e-3)


@pytest.mark.parametrize("make", [sf.optim.Adam, momentum])
def test_numbers_are_those_of_one_process_that_has_all(make: Any) -> None:
    alone = Training(make)
    expected = alone.run(0, 5)

    def run() -> tuple[list[float], dict[str, Any], int, list[str]]:
        training = Training(make, distributed.mesh(data=-1))
        losses = training.run(0, 5)
        held = sum(t._data.nbytes for s in training.optimizer.state.values() for t in s.values())
        steps = training.step.plan.routine.steps
        names = [m.step.op.name for m in messages_of(steps, lambda size: 1)]
        return losses, training.arrays(), held, names

    whole = sum(t._data.nbytes for s in alone.optimizer.state.values() for t in s.values())
    for losses, arrays, held, names in distributed.simulate(run, 4):
        np.testing.assert_allclose(losses, expected, rtol=1e-12)
        agree(arrays, alone.arrays())
        assert held < whole / 4 + 3000  # what is small is whole
        assert names.count("reduce_scatter") == names.count("all_gather") == 2  # of two weights
        assert "all_reduce" not in names


def test_a_state_file_of_four_is_read_by_others(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    alone = Training()
    alone.run(0, 4)
    path = tmp_path / "state.safetensors"

    def write() -> None:
        mesh = distributed.mesh(data=-1)
        training = Training(mesh=mesh)
        training.run(0, 2)
        state = {"net": training.net.state_dict(), "optimizer": training.optimizer.state_dict()}
        if mesh.rank == 0:
            sf.save(state, path)

    def read(split: bool = True) -> dict[str, Any]:
        training = Training(mesh=distributed.mesh(data=-1), split=split)
        state = sf.load(path)
        training.net.load_state_dict(state["net"])
        training.optimizer.load_state_dict(state["optimizer"])
        training.run(2, 4)
        return training.arrays()

    distributed.simulate(write, 4)
    agree(read(), alone.arrays())
    for found in distributed.simulate(read, 3):
        agree(found, alone.arrays())
    for found in distributed.simulate(lambda: read(split=False), 2):
        agree(found, alone.arrays())


class OwnStep(sf.optim.Optimizer):
    """One as for PyTorch, which does what it likes."""

    def step(self, closure: Any = None) -> None:
        """Change nothing."""


def refused(use: Any) -> Any:
    def run() -> None:
        mesh = distributed.mesh(data=2, model=1)
        use(mesh, Training(mesh=mesh))

    return distributed.simulate(run, 2)


def test_what_parts_cannot_do_is_refused() -> None:
    x = sf.placeholder((None, 48), sf.float64, name="x")

    def compile_for(training: Training, mesh: Any) -> None:
        loss = (training.net(x) ** 2).mean()
        sf.compile([x], loss, updates=training.optimizer.minimize(loss), mesh=mesh)

    for use, error, says in (
        (lambda mesh, t: compile_for(t, None), sf.SymbolicError, "compile the program with mesh=.*py:"),
        (
            lambda mesh, t: compile_for(t, distributed.mesh(a=2)),
            sf.ShapeError, r"exp_avg is split over <axis data.*program is for mesh\(a=2\).*py:",
        ),
        (lambda mesh, t: t.optimizer.step(), sf.SymbolicError, "Adam.step: the state is in parts"),
        (
            lambda mesh, t: distributed.split_state(t.optimizer, mesh),
            sf.DTypeError, "the axis is a Mesh",
        ),
        (
            lambda mesh, t: distributed.split_state(t.net, mesh.axis("data")),
            sf.DTypeError, "takes an optimiser, not an? ",
        ),
        (
            lambda mesh, t: distributed.split_state(
                OwnStep(t.net.parameters(), {}), mesh.axis("data")
            ),
            sf.SymbolicError, "OwnStep has a step of its own.*py:",
        ),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            refused(use)
