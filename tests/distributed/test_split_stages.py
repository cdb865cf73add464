"""Pipelines that the pass makes of whole tensors, and what they are made of: elements that go from part
to part of a split dim."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.measure.messages import Message, messages_of

STAGES, WIDTH, BATCHES, ROWS = 4, 48, 6, 2


def messages(program: Any) -> list[Message]:
    return messages_of(program.plan.routine.steps, lambda size: int(size))


def names(program: Any) -> list[str]:
    """The collectives of a program; of several tensors in a message each."""
    return [
        m.step.attrs.get("collective", m.step.op.name)
        for m in messages(program)
        if m.step.op.name != "end"
        for _ in (m.step.values[1:] if m.step.op.name == "begin" else "1")
    ]


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape).standard_normal(shape)


# -- what is moved on, and what all take -----------------------------------------------------------

SIZES = (12, 10)
"""Of which the first has parts of one size on two, three and four ranks."""


def run_on(ranks: int, function: Any, size: int) -> list[tuple[np.ndarray[Any, Any], list[str]]]:
    def run() -> tuple[np.ndarray[Any, Any], list[str]]:
        x = sf.placeholder((size, 3), sf.float64, name="x")
        program = sf.compile([x], function(x), mesh=distributed.mesh(data=-1))
        sent = sum(m.bytes for m in messages(program) if "all_reduce" not in str(m.step))
        assert sent == sum(int(m.bytes) for m in program._written.moved)  # all that is sent is said
        return program(numbers(size, 3)).numpy(), names(program)

    return distributed.simulate(run, ranks)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shift", [0, 1, -1, 3, 4, 5, -7, 11, 12, 25])
def test_a_split_dim_is_rolled_by_messages_to_one(size: int, shift: int, ranks: int) -> None:
    def total(x: Any) -> Any:
        rolled = sf.roll(shard(x, "data", None), shift, 0)
        return (rolled * sf.arange(size).unsqueeze(1)).sum(0)

    weights = np.arange(size)[:, None]
    expected = (np.roll(numbers(size, 3), shift, 0) * weights).sum(0)
    for found, sent in run_on(ranks, total, size):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        if size % ranks == 0:
            assert set(sent) <= {"exchange", "all_reduce"} and sent.count("exchange") <= 2


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("index", [0, 3, 7, 9, -1])
def test_an_element_of_a_split_dim_is_sent_by_the_one_that_has_it(index: int, ranks: int) -> None:
    """Of equal parts or not, if each has one; in the gradient, each rank has its part of it."""
    for size in SIZES:
        for found, sent in run_on(ranks, lambda x: shard(x, "data", None)[index] * 2, size):
            np.testing.assert_array_equal(found, numbers(size, 3)[index] * 2)
            assert sent == ["broadcast"]

    def gradient(x: Any) -> Any:
        parts = shard(x, "data", None)
        return sf.grad((parts[index] ** 2).sum() + parts.sum(), x) * 1

    expected = np.ones((10, 3))
    expected[index] += 2 * numbers(10, 3)[index]
    for found, _ in run_on(ranks, gradient, 10):
        np.testing.assert_array_equal(found, expected)


def test_where_a_rank_may_have_none_all_is_gathered() -> None:
    for found, sent in run_on(4, lambda x: shard(x, "data", None)[1], 5):
        np.testing.assert_array_equal(found, numbers(5, 3)[1])
        assert sent == ["all_gather"]


# -- pipelines ------------------------------------------------------------------------------------


def run_stage(weights: Any, x: Any) -> Any:
    """Two layers, whose weights are rows of what a stage has."""
    for i in range(2):
        normed = nn.functional.layer_norm(x, (WIDTH,))
        x = x + (normed @ weights["w"][i] + weights["b"][i]).tanh()
    return x


def run_all(weights: dict[str, Any], x: Any) -> Any:
    for i in range(STAGES):
        x = run_stage({name: sf.symbol(w)[i] for name, w in weights.items()}, x)
    return x


def train(through: Any, axes: dict[str, int] | None = None, split: Any = None) -> Any:
    """The losses of a few steps, the program, and the bytes of weights and states."""
    mesh = None if axes is None else distributed.mesh(**axes)
    sf.manual_seed(0)
    weights = {
        "w": nn.Parameter(sf.randn(STAGES, 2, WIDTH, WIDTH, dtype=sf.float64) / 4),
        "b": nn.Parameter(sf.zeros(STAGES, 2, WIDTH, dtype=sf.float64)),
    }
    optimizer = sf.optim.Adam(weights.values(), lr=1e-2)
    if split is not None:
        split(optimizer, mesh.axis("stage"), 0)
    x = sf.placeholder((BATCHES, ROWS, WIDTH), sf.float64, name="x")
    given = shard(x, None, "data", None) if axes and "data" in axes else x
    loss = ((through(weights, given) - given.flip(2)) ** 2).mean()
    step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
    data = numbers(BATCHES, ROWS, WIDTH)
    losses = [step(data).item() for _ in range(4)]
    held = [*weights.values(), *(t for s in optimizer.state.values() for t in s.values())]
    return losses, step, sum(t._data.nbytes for t in held)


def by_pipeline(weights: dict[str, Any], x: Any) -> Any:
    return distributed.pipeline(sf.vmap(run_stage), weights, x, "stage")


MESHES: dict[str, dict[str, int]] = {
    "two": {"stage": 2}, "three, unevenly": {"stage": 3}, "four": {"stage": 4},
    "beside data": {"data": 2, "stage": 2}, "one": {"stage": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", MESHES)
def test_a_pipeline_trains_as_the_stages_one_behind_the_other_do(name: str) -> None:
    axes, (expected, _, _) = MESHES[name], train(run_all)
    assert expected[-1] < expected[0]
    for found, _, _ in distributed.simulate(
        lambda: train(by_pipeline, axes), int(np.prod([*axes.values()]))
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_process_has_and_sends_what_its_stages_need() -> None:
    """A message a turn to the next stage and, on the way back, to the one before; weights and states
    stay where they are."""
    expected, _, whole = train(run_all)

    def run() -> Any:
        losses, step, held = train(by_pipeline, {"stage": -1}, distributed.split_parameters)
        inside = [(m.step.op.name, m.bytes) for m in messages(step) if m.inside]
        large = [m for m in messages(step) if m.bytes >= WIDTH * WIDTH * 8]
        return losses, held, inside, [m.step.op.name for m in large]

    for losses, held, inside, large in distributed.simulate(run, STAGES):
        np.testing.assert_allclose(losses, expected, rtol=1e-10)
        assert held < whole / STAGES * 1.1
        assert inside == [("exchange", ROWS * WIDTH * 8)] * 2
        assert not large


def test_gradients_of_rows_of_weights_are_added_up_once_behind_the_loop() -> None:
    """Over the data, of whole weights, as of those that are no rows."""

    def run() -> list[Message]:
        step = train(by_pipeline, {"data": 2, "stage": 2})[1]
        return messages(step)

    for found in distributed.simulate(run, 4):
        sums = [
            m for m in found if "all_reduce" in (m.step.op.name, m.step.attrs.get("collective"))
        ]
        assert sums and not any(m.inside for m in sums)


def test_a_loop_with_messages_goes_forward_once() -> None:
    """The one that stacks for the way back is the same, and what it was sent is kept for that. Of the
    sum that only its part is needed of, a process is sent that."""

    def run() -> list[str]:
        mesh = distributed.mesh(model=-1)
        w = nn.Parameter(sf.ones(6, 6, dtype=sf.float64) / 9)
        x = sf.placeholder((3, 6), sf.float64, name="x")
        h = sf.fori_loop(0, 5, lambda i, h: (shard(h, None, "model") @ w).tanh(), x)
        loss = (h**2).mean()
        step = sf.compile([x], loss, updates=sf.optim.SGD([w], lr=0.1).minimize(loss), mesh=mesh)
        return [m.step.op.name for m in messages(step) if m.inside]

    for found in distributed.simulate(run, 2):
        assert found == ["all_reduce", "all_gather", "reduce_scatter"]


def test_the_example_has_the_losses_of_one_process() -> None:
    path = Path(__file__).parents[2] / "examples" / "pipeline.py"
    main = runpy.run_path(str(path))["main"]
    alone = main(30)
    assert alone[-1] < alone[0]
    for losses in distributed.simulate(lambda: main(30), 2):
        np.testing.assert_allclose(losses, alone, rtol=1e-12)


def test_weights_of_other_numbers_of_stages_are_refused() -> None:
    x = sf.placeholder((3, 2), name="x")
    for weights in ((sf.ones(3, 2), sf.ones(4)), sf.ones(()), ()):
        with pytest.raises(sf.ShapeError, match=r"pipeline: the weights have the shapes \[.*py:"):
            distributed.pipeline(lambda w, x: x, weights, x, "stage")


def test_a_dim_is_given_to_split_along() -> None:
    def run() -> Any:
        axis = distributed.mesh(data=-1).axis("data")
        w = nn.Parameter(sf.ones(8, 1024))
        optimizer = sf.optim.Adam([w])
        with pytest.raises(sf.DimRangeError, match=r"split_parameters: dim 2 is out of range.*py:"):
            distributed.split_parameters(sf.optim.SGD([w], lr=0.1), axis, 2)
        distributed.split_parameters(optimizer, axis, -2)
        return w._data.shape, optimizer.state[w]["exp_avg"]._data.shape

    assert distributed.simulate(run, 2) == [((4, 1024), (4, 1024))] * 2
