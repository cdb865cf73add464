"""What `shard` is of tensors and symbols, and of axes along which there is one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.measure.messages import messages_of

WAYS = {
    "the tensor": lambda t, *axes: shard(t, *axes),
    "a symbol of it": lambda t, *axes: shard(sf.symbol(t), *axes),
}


def names_of_collectives(program: Any) -> list[str]:
    steps = program.plan.routine.steps
    return [m.step.op.name for m in messages_of(steps, lambda size: 1)]


def train_pair(split: Any, axes: dict[str, int]) -> tuple[list[float], list[str], str]:
    """A pair of layers split by columns and rows; ``scale`` has no gradient."""
    mesh = distributed.mesh(**axes)
    sf.manual_seed(0)
    first, second = nn.Linear(5, 7).to(sf.float64), nn.Linear(7, 2, bias=False).to(sf.float64)
    scale = sf.full((7,), 2.0, dtype=sf.float64)
    x = sf.placeholder((None, 5), sf.float64, name="x")
    hidden = x @ split(first.weight, "model", None).t() + split(first.bias, "model")
    hidden = hidden.tanh() * split(scale, "model")
    loss = ((hidden @ split(second.weight, None, "model").t()) ** 2).mean()
    optimizer = sf.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
    data = np.random.default_rng(0).standard_normal((4, 5))
    return [step(data).item() for _ in range(3)], names_of_collectives(step), str(step.graph)


def test_a_tensor_is_split_as_its_symbol_is() -> None:
    """With a gradient and without, which a graph has in two ways."""
    expected = train_pair(lambda t, *axes: sf.symbol(t), {"model": -1})
    found = {
        name: distributed.simulate(lambda way=way: train_pair(way, {"model": -1}), 3)
        for name, way in WAYS.items()
    }
    assert found["the tensor"] == found["a symbol of it"]
    for losses, names, _ in found["the tensor"]:
        np.testing.assert_allclose(losses, expected[0], rtol=1e-12)
        assert losses[0] != losses[-1] and "all_reduce" in names


def test_a_module_is_split_by_what_it_is_called_with() -> None:
    """As it was written by somebody who knew of no mesh."""

    def run(mesh: Any = None) -> tuple[list[float], list[str]]:
        sf.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).to(sf.float64)
        own = dict(net.named_parameters())
        how = {"0.weight": ("model", None), "0.bias": ("model",), "2.weight": (None, "model")}
        parts = {name: shard(own[name], *axes) for name, axes in how.items()}
        x = sf.placeholder((None, 5), sf.float64, name="x")
        loss = (sf.func.functional_call(net, parts, (x,)) ** 2).mean()
        optimizer = sf.optim.Adam(net.parameters(), lr=0.1)
        step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
        data = np.random.default_rng(0).standard_normal((4, 5))
        return [step(data).item() for _ in range(3)], names_of_collectives(step)

    expected, none = run()
    assert not none
    for losses, names in distributed.simulate(lambda: run(distributed.mesh(model=-1)), 2):
        np.testing.assert_allclose(losses, expected, rtol=1e-12)
        assert "all_reduce" in names


def test_eagerly_it_is_a_view_through_which_a_gradient_goes() -> None:
    w, b = nn.Parameter(sf.ones(3, 2)), sf.ones(3)
    (shard(w, "model", None) * 2).sum().backward()
    assert w.grad is not None and (w.grad.numpy() == 2).all()
    shard(b, "model").add_(1)
    assert b.tolist() == [2, 2, 2]
    jitted = sf.jit(lambda x: (shard(w, None, "model") * x).sum())
    for _ in range(2):
        w.grad = None
        found = jitted(sf.ones(3, 2))
        found.backward()
        assert found.item() == w.numpy(force=True).sum() and (w.grad.numpy() == 1).all()
        with sf.no_grad():
            w.mul_(2)


@pytest.mark.parametrize("make", [lambda *s: sf.ones(*s), lambda *s: sf.placeholder(s, name="x")])
def test_wrong_specs_are_refused_of_tensors_and_symbols_alike(make: Any) -> None:
    with pytest.raises(sf.ShapeError, match=r"has 2 dims, and 1 are said how to split.*py:"):
        shard(make(3, 2), "data")
    with pytest.raises(sf.ShapeError, match=r"one axis splits two dims.*py:"):
        shard(make(3, 2), "data", "data")
    with pytest.raises(sf.DTypeError, match=r"4 is no name of an axis.*py:"):
        shard(make(3), 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [3.0, np.ones(3)])
def test_what_is_no_tensor_is_refused(other: Any) -> None:
    with pytest.raises(sf.DTypeError, match=r"shard\(.*must be a staticflow tensor or symbol.*py:"):
        shard(other, "data")


def test_an_axis_of_one_process_splits_nothing() -> None:
    """The program is that without a mesh, but for what it is written with; beside other axes, too."""
    losses, names, graph = train_pair(WAYS["a symbol of it"], {"model": 1})
    assert not names and "slice" not in graph
    assert losses == train_pair(lambda t, *axes: sf.symbol(t), {"model": 1})[0]

    def run() -> Any:
        return train_pair(WAYS["a symbol of it"], {"data": 2, "model": 1})

    for found in distributed.simulate(run, 2):
        assert found[:2] == (losses, ["agree"])  # on the number of rows


@pytest.mark.parametrize("split", [distributed.split_state, distributed.split_parameters])
def test_states_of_one_process_are_whole(split: Any) -> None:
    mesh = distributed.mesh(data=1)
    layer = nn.Linear(64, 70, bias=False)
    optimizer = sf.optim.Adam(layer.parameters(), lr=1e-3)
    split(optimizer, mesh.axis("data"))
    x = sf.placeholder((None, 64), name="x")
    loss = (layer(shard(x, "data", None)) ** 2).mean()
    step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
    assert not names_of_collectives(step)
    first, *_, last = [step(np.ones((3, 64), np.float32)).item() for _ in range(5)]
    assert last < first
