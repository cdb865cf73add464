"""States of optimisers, and parameters, of which each rank has a part: the same numbers in less memory,
and state files that any number of processes read."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.measure.messages import Message, messages_of
from staticflow.ops.symbols.symbol import Symbol

WIDTHS = (48, 70, 64)
"""Of which neither 3 nor 4 ranks have equal parts."""


SPLIT = (distributed.split_state, distributed.split_parameters)


class Training:
    """A net, its optimiser and its step, on a mesh or alone."""

    def __init__(self, make: Any = sf.optim.Adam, mesh: Any = None, split: Any = SPLIT[0]) -> None:
        sf.manual_seed(0)
        layers = (nn.Linear(48, 70), nn.Tanh(), nn.Linear(70, 64))
        self.net = nn.Sequential(*layers).to(sf.float64)
        self.optimizer = make(self.net.parameters(), lr=1e-2)
        x = sf.placeholder((None, 48), sf.float64, name="x")
        if mesh is not None and split:
            split(self.optimizer, mesh.axis("data"))
        loss = (self.net(distributed.shard(x, "data", None)) ** 2).mean()
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


def collectives(messages: Sequence[Message]) -> list[str]:
    """The name of each tensor's collective."""
    return [
        m.step.attrs.get("collective", m.step.op.name)
        for m in messages
        if m.step.op.name != "end"
        for _ in (m.step.values[1:] if m.step.op.name == "begin" else "1")
    ]


def momentum(params: Any, lr: float) -> Any:
    return sf.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=1e-3)


@pytest.mark.parametrize("split", SPLIT)
@pytest.mark.parametrize("make", [sf.optim.Adam, momentum])
def test_numbers_are_those_of_one_process_that_has_all(make: Any, split: Any) -> None:
    alone = Training(make)
    expected = alone.run(0, 5)

    def held(tensors: Any) -> int:
        return sum(t._data.nbytes for t in tensors)

    def run() -> Any:
        training = Training(make, distributed.mesh(data=-1), split)
        losses = training.run(0, 5)
        state = [t for s in training.optimizer.state.values() for t in s.values()]
        steps = training.step.plan.routine.steps
        names = collectives(messages_of(steps, lambda size: 1))
        return losses, training.arrays(), held(state), held(training.net.parameters()), names

    whole = held(t for s in alone.optimizer.state.values() for t in s.values())
    for losses, arrays, state, net, names in distributed.simulate(run, 4):
        np.testing.assert_allclose(losses, expected, rtol=1e-12)
        agree(arrays, alone.arrays())
        assert state < whole / 4 + 3000  # what is small is whole
        weights = held(alone.net.parameters())
        assert (net < weights / 4 + 3000) if split is SPLIT[1] else (net == weights)
        assert names.count("reduce_scatter") == 2  # of two weights
        # new weights are gathered, or both for the way to the loss, and one for the way back
        assert names.count("all_gather") == (3 if split is SPLIT[1] else 2)


def test_what_a_process_holds_and_sends_at_each_stage() -> None:
    """Of six layers of 128 KiB: a step of parameters in parts has a few of them in memory at a time,
    and not all."""
    layer = 128 * 128 * 8

    def run(split: Any) -> tuple[int, int, int]:
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(0)
        layers = [m for _ in range(6) for m in (nn.Linear(128, 128, bias=False), nn.Tanh())]
        net = nn.Sequential(*layers).to(sf.float64)
        optimizer = sf.optim.Adam(net.parameters())
        if split is not None:
            split(optimizer, mesh.axis("data"))
        x = sf.placeholder((8, 128), sf.float64, name="x")
        loss = (net(distributed.shard(x, "data", None)) ** 2).mean()
        step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
        state = [t for s in optimizer.state.values() for t in s.values()]
        held = sum(t._data.nbytes for t in (*net.parameters(), *state)) // layer
        sent = sum(m.bytes for m in messages_of(step.plan.routine.steps, int))
        return held, step.plan.peak_bytes() // layer, sent // layer

    # (parameters and their state, the memory of a call, what is sent), in layers
    plain, state, parameters = (
        distributed.simulate(lambda s=s: run(s), 4)[0] for s in (None, *SPLIT)
    )
    assert plain[0] == 18 and state[0] == 6 + 12 // 4 and parameters[0] == 18 // 4
    assert parameters[1] <= 3 < 6 <= state[1] < plain[1]
    # of 6 gradients, to and from; their parts, and those of new weights; the weights twice but one
    assert (plain[2], state[2], parameters[2]) == (9, 9, (6 + 11) * 3 // 4)


def test_loops_gather_a_parameter_once_and_again_on_the_way_back() -> None:
    def train(mesh: Any = None) -> tuple[list[float], list[str]]:
        sf.manual_seed(0)
        lstm = nn.LSTM(8, 32).to(sf.float64)
        optimizer = sf.optim.SGD(lstm.parameters(), lr=0.1)
        if mesh is not None:
            distributed.split_parameters(optimizer, mesh.axis("data"))
        x = sf.placeholder((9, None, 8), sf.float64, name="x")
        loss = (lstm(distributed.shard(x, None, "data", None))[0] ** 2).mean()
        grads = optimizer.gradients(loss)
        norm = sum(((g * g).sum() for g in grads.values()), sf.zeros(())).sqrt()
        updates = optimizer.updates({p: g / (norm + 1) for p, g in grads.items()})
        step = sf.compile([x], loss, updates=updates, mesh=mesh)
        data = np.random.default_rng(0).standard_normal((9, 5, 8))
        messages = messages_of(step.plan.routine.steps, lambda size: 1)
        assert not any(m.inside for m in messages)
        return [step(data).item() for _ in range(4)], collectives(messages)

    expected, _ = train()
    for losses, names in distributed.simulate(lambda: train(distributed.mesh(data=-1)), 3):
        np.testing.assert_allclose(losses, expected, rtol=1e-12)
        # one weight is large, that of the recurrence; the norm is one of parts
        assert (names.count("all_gather"), names.count("reduce_scatter")) == (2, 1)


@pytest.mark.parametrize("split", SPLIT)
def test_a_state_file_of_four_is_read_by_others(split: Any, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    alone = Training()
    alone.run(0, 4)
    path = tmp_path / "state.safetensors"

    def write() -> None:
        mesh = distributed.mesh(data=-1)
        training = Training(mesh=mesh, split=split)
        training.run(0, 2)
        state = {"net": training.net.state_dict(), "optimizer": training.optimizer.state_dict()}
        if mesh.rank == 0:
            sf.save(state, path)

    def read(split: Any = split) -> dict[str, Any]:
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
    for found in distributed.simulate(lambda: read(None), 2):
        agree(found, alone.arrays())


def test_a_parameter_in_parts_is_a_symbol_of_the_whole() -> None:
    def run() -> Any:
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(0)
        layer = nn.Linear(64, 50, bias=False).to(sf.float64)
        before = layer.weight.detach().clone()
        distributed.split_parameters(sf.optim.SGD(layer.parameters(), lr=1.0), mesh.axis("data"))
        w = layer.weight
        assert isinstance(w, nn.Parameter) and w is next(iter(layer.parameters()))
        assert w.shape == (50, 64) and w.ndim == 2 and w.numel() == 3200
        assert w._data.shape == (50, 22 if mesh.rank < 2 else 20)
        for made in (w * 2, w.t(), w.detach(), layer(sf.ones(2, 64, dtype=sf.float64)), w[3]):
            assert isinstance(made, Symbol)
        for use in (
            w.numpy, w.tolist, w.zero_, lambda: w.data, lambda: copy.deepcopy(layer),
            lambda: w.copy_(before), lambda: w.__setitem__(0, 1.0), lambda: np.asarray(w),
            lambda: setattr(w, "data", before),
        ):  # fmt: skip
            with pytest.raises(sf.SymbolicError, match=r"weight.*is in parts along 'data'.*py:"):
                use()
        x = sf.placeholder((None, 64), sf.float64, name="x")
        norm = sf.compile([x], layer(x).sum() + (w * w).sum(), mesh=mesh)
        ones = np.ones((2, 64))
        np.testing.assert_allclose(
            norm(ones).item(), ((ones @ before.t()).sum() + (before**2).sum()).item()
        )
        layer.load_state_dict({"weight": before * 2})
        np.testing.assert_array_equal(layer.state_dict()["weight"], before.numpy() * 2)
        return repr(w)

    for rank, text in enumerate(distributed.simulate(run, 3)):
        assert text == (
            f"<parameter of shape [50, 64], of which this is the part of <axis data of "
            f"mesh(data=3), {rank} of 3>>"
        )


def test_parameters_of_other_seeds_are_not_split() -> None:
    def run() -> None:
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(mesh.rank)
        layer = nn.Linear(64, 80)
        distributed.split_parameters(sf.optim.SGD(layer.parameters(), lr=1.0), mesh.axis("data"))

    with pytest.raises(sf.RankError, match=r"split_parameters: on rank . the tensor .*seed all"):
        distributed.simulate(run, 2)


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
        (lambda mesh, t: compile_for(t, None), sf.SymbolicError, r"compile the program with mesh=.*py:"),
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


@pytest.mark.parametrize("split", [distributed.split_state, distributed.split_parameters])
def test_a_dim_that_one_tensor_lacks_splits_none(split: Any) -> None:
    """So the program may go on, with another dim."""

    def run() -> Any:
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(0)
        layer = sf.nn.Linear(8, 1 << 13)  # whose bias is large, too
        adam = sf.optim.Adam(layer.parameters())
        with pytest.raises(sf.DimRangeError, match="dim 1 is out of range for a tensor of 1 dims"):
            split(adam, mesh.axis("data"), dim=1)
        held = [layer.weight.nbytes, *(t.nbytes for t in adam.make_state()[layer.weight].values())]
        adam.zero_grad()
        layer(sf.ones(2, 8)).sum().backward()
        adam.step()
        split(adam, mesh.axis("data"), dim=0)
        return max(held), adam.state[layer.weight]["exp_avg"].shape

    assert distributed.simulate(run, 2) == [(1 << 18, (1 << 12, 8))] * 2
