"""Sums over ranks that are sent together and waited for late."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed, nn
from staticflow.codegen.program.routine import Ask
from staticflow.distributed import shard
from staticflow.measure.messages import messages_of
from staticflow.passes.partition.bundles import BUNDLE


def asks(step: Any) -> list[Ask]:
    """What the program asks for, in its order, and kernels as None."""
    return [s if isinstance(s, Ask) else None for s in step.plan.routine.steps]


def train(widths: tuple[int, ...], mesh: Any = None) -> tuple[Any, list[float]]:
    sf.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    net = nn.Sequential(*(part for one in layers for part in (one, nn.Tanh())))
    x = sf.placeholder((6, widths[0]), name="x")
    loss = (net(shard(x, "data", None)) ** 2).mean()
    updates = sf.optim.SGD(net.parameters(), lr=0.1).minimize(loss)
    step = sf.compile([x], loss, updates=updates, mesh=mesh)
    given = np.random.default_rng(1).standard_normal((6, widths[0])).astype(np.float32)
    return step, [step(given).item() for _ in range(3)]


def on(ranks: int, widths: tuple[int, ...], **options: Any) -> list[tuple[Any, list[float]]]:
    return distributed.simulate(lambda: train(widths, distributed.mesh(data=-1)), ranks, **options)


def test_small_sums_are_one_message() -> None:
    """Of the loss and six gradients."""
    _, alone = train((4, 8, 8, 2))
    for step, losses in on(3, (4, 8, 8, 2)):
        np.testing.assert_allclose(losses, alone, rtol=1e-5)
        (begin, end) = [s for s in asks(step) if s is not None]
        assert (begin.op.name, end.op.name) == ("begin_sums", "end_sums")
        assert len(begin.values) == 1 + 7
        sent = sum(m.messages for m in messages_of(step.plan.routine.steps, int))
        assert sent == 2  # one to each of the others


def test_what_is_large_is_begun_as_soon_as_it_is_there() -> None:
    """The gradient of the last layer first, and the kernels of the others between. All are begun
    before one is waited for."""
    side = int((BUNDLE / 4) ** 0.5)
    step, _ = on(2, (side, side, side))[0]
    steps = asks(step)
    names = [s.op.name for s in steps if s is not None]
    assert names == ["begin_sums"] * 2 + ["end_sums"] * 2
    first, second = [i for i, s in enumerate(steps) if s and s.op.name == "begin_sums"][:2]
    assert any(s is None for s in steps[first:second])
    lines = step.explain("mesh").splitlines()
    assert "waits" in lines[3] and "4 messages" in lines[-2]


def test_bits_do_not_depend_on_what_comes_first() -> None:
    expected = on(3, (4, 8, 2))[0][1]
    for order in ("reverse", "seeded"):
        for _, losses in on(3, (4, 8, 2), order=order, seed=3, delay=4):
            assert losses == expected


def test_what_another_collective_needs_is_waited_for_at_once() -> None:
    def run() -> list[str]:
        x = sf.placeholder((6,), name="x")
        part = shard(x, "data")
        step = sf.compile([x], ((part - part.sum()) ** 2).sum(), mesh=distributed.mesh(data=-1))
        assert step(sf.ones(6)).item() == 6 * 25
        return [s.op.name for s in asks(step) if s is not None]

    assert distributed.simulate(run, 2)[0] == ["all_reduce", "begin_sums", "end_sums"]


def test_a_program_that_fails_in_between_leaves_nothing_behind() -> None:
    """What was begun is done by all ranks, and given to nobody: the next call has its own sums."""

    def run() -> list[float]:
        x, index = sf.placeholder((4,), name="x"), sf.placeholder((1,), sf.int64, name="index")
        total = shard(x, "data").sum()
        step = sf.compile([x, index], [total, x[index]], mesh=distributed.mesh(data=-1))
        found = []
        for at in (0, 9, 1):
            try:
                found.append(step(sf.full((4,), at + 1.0), sf.tensor([at]))[0].item())
            except sf.IndexRangeError:
                found.append(-1.0)
        return found

    assert distributed.simulate(run, 2) == [[4.0, -1.0, 8.0]] * 2


def test_work_that_was_begun_is_done_in_its_order_by_whoever_comes_first() -> None:
    """By an exchange behind it, or at its end; an error of it is raised there."""

    def run() -> tuple[list[str], str]:
        from staticflow.ops.declaring.communicator import current

        mesh, done = distributed.mesh(data=-1), list[str]()
        communicator = current()

        def work(name: str) -> Any:
            def do() -> str:
                done.append(name)
                if name == "c":
                    raise ValueError("no c")
                return name

            return do

        numbers = [communicator.begin(work(name)) for name in "abc"]
        assert not done and communicator.end(numbers[0]) == "a" and done == ["a"]
        distributed.all_reduce(sf.ones(2), mesh)
        assert done == ["a", "b", "c"] and communicator.end(numbers[1]) == "b"
        with pytest.raises(ValueError, match="no c"):
            communicator.end(numbers[2])
        return done, communicator.end(communicator.begin(work("d")))

    assert distributed.simulate(run, 2) == [(["a", "b", "c", "d"], "d")] * 2
