"""Collectives in one order, sent together, begun early and waited for late."""

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
from staticflow.passes.partition.schedule import BUNDLE


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
        assert (begin.op.name, end.op.name) == ("begin", "end")
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
    assert names == ["begin"] * 2 + ["end"] * 2
    first, second = [i for i, s in enumerate(steps) if s and s.op.name == "begin"][:2]
    assert any(s is None for s in steps[first:second])
    lines = step.explain("mesh").splitlines()
    assert "waits" in lines[3] and "2 messages" in lines[-2]


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

    assert distributed.simulate(run, 2)[0] == ["all_reduce", "begin", "end"]


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


def with_parts(split: Any, sides: tuple[int, ...], ranks: int) -> list[Any]:
    """For each rank the names of what a step asks for in its order, and kernels as ""; and its
    losses."""

    def run(mesh: Any) -> Any:
        sf.manual_seed(0)
        layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(sides)]
        net = nn.Sequential(*(m for one in layers for m in (one, nn.Tanh()))).to(sf.float64)
        optimizer = sf.optim.Adam(net.parameters(), lr=0.01)
        if mesh is not None:
            split(optimizer, mesh.axis("data"))
        x = sf.placeholder((8, sides[0]), sf.float64, name="x")
        loss = (net(shard(x, "data", None)) ** 2).mean()
        step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
        names = [
            f"{s.op.name} {s.attrs.get('collective', '')}".strip() if s else "" for s in asks(step)
        ]
        given = np.random.default_rng(1).standard_normal((8, sides[0]))
        return names, [step(given).item() for _ in range(3)], step

    _, alone, _ = run(None)
    found = distributed.simulate(lambda: run(distributed.mesh(data=-1)), ranks)
    for _, losses, _ in found:
        np.testing.assert_allclose(losses, alone, rtol=1e-11)
    return found


def on_their_way(names: list[str], collective: str) -> list[int]:
    """How many of a collective are begun and not ended, behind each step."""
    found, now = [], 0
    for name in names:
        now += (name == f"begin {collective}") - (name == f"end {collective}")
        found.append(now)
    return found


def test_parameters_are_gathered_one_ahead() -> None:
    """Of six layers, on the way to the loss and back: never two ahead, since each takes memory."""
    (names, *_), *_ = with_parts(distributed.split_parameters, (128,) * 7, 4)
    gathered = names.count("all_gather") + names.count("begin all_gather")
    assert gathered == 6 + 5  # the last layer's are there for the way back
    ways = on_their_way(names, "all_gather")
    assert max(ways) == 2 and ways[-1] == 0
    for i, name in enumerate(names):
        if name == "end all_gather" and "begin all_gather" in names[i:]:
            assert ways[i] >= 1  # the next one is on its way while this is computed with
    assert any(a == "" and n for a, n in zip(names, ways, strict=True))


@pytest.mark.parametrize("split", [distributed.split_state, distributed.split_parameters])
def test_sums_in_parts_are_begun_while_the_next_gradient_is_computed(split: Any) -> None:
    (names, *_), *_ = with_parts(split, (128,) * 7, 4)
    assert names.count("begin reduce_scatter") == names.count("end reduce_scatter") == 6
    ways = on_their_way(names, "reduce_scatter")
    assert max(ways) == 2
    first = names.index("begin reduce_scatter")
    last = len(names) - names[::-1].index("begin reduce_scatter")
    assert any(
        name == "" and n for name, n in zip(names[first:last], ways[first:last], strict=True)
    )


def test_small_parts_go_together() -> None:
    """Of three matrices of 32 KiB each rank has 8 KiB: two fill a bundle."""
    (names, _, step), *_ = with_parts(distributed.split_state, (64,) * 4, 4)
    for collective in ("reduce_scatter", "all_gather"):
        assert names.count(f"begin {collective}") == 2
    begun = [
        len(m.step.values) - 1
        for m in messages_of(step.plan.routine.steps, int)
        if m.step.attrs.get("collective") in ("reduce_scatter", "all_gather") and m.messages
    ]
    assert sorted(begun) == [1, 1, 2, 2]


@pytest.mark.parametrize("split", [distributed.split_state, distributed.split_parameters])
def test_ranks_with_smaller_parts_have_the_same_order(split: Any) -> None:
    """Of sizes that four ranks do not divide, the last has less, and so another use of memory."""
    found = with_parts(split, (97, 70, 101, 66, 90), 4)
    orders = {tuple(name for name in names if name) for names, *_ in found}
    wanted = {tuple(name for name in order if not name.startswith("end")) for order in orders}
    assert len(wanted) == 1


def test_groups_that_send_other_bundles_count_their_own_exchanges() -> None:
    """Of sums whose sizes are split over another axis unevenly, ranks along that axis may send one
    message where others send two; what they do together is numbered by itself."""

    def run() -> float:
        mesh = distributed.mesh(data=2, model=2)
        data, model = mesh.axis("data"), mesh.axis("model")
        for _ in range(1 + model.rank):
            distributed.all_reduce(sf.ones(2), data)
        return distributed.all_reduce(sf.tensor(1.0), model).item()

    assert distributed.simulate(run, 4) == [2.0] * 4


def test_collectives_of_an_iteration_have_one_order_too() -> None:
    """Of a loop over rows of which the last of three ranks has none; two sums in each iteration need
    nothing of each other."""

    def run(mesh: Any = None) -> tuple[list[float], list[str]]:
        x = sf.placeholder((4, 4), sf.float64, name="x")
        part = shard(x, "data", None)

        def body(h: Any, _: Any) -> tuple[Any, Any]:
            new = (part.sin() * h).sum() / 9 + (part.cos() @ sf.ones(4, dtype=sf.float64)).sum() * h
            return new.tanh(), (part * h).sum()

        end, rows = sf.scan(body, sf.tensor(0.5, dtype=sf.float64), sf.zeros(3, dtype=sf.float64))
        step = sf.compile([x], [end, rows.sum()], mesh=mesh)
        messages = messages_of(step.plan.routine.steps, int)
        given = np.random.default_rng(0).standard_normal((4, 4))
        return [y.item() for y in step(given)], [str(m.step.locs) for m in messages if m.inside]

    expected, _ = run()
    found = distributed.simulate(lambda: run(distributed.mesh(data=-1)), 3)
    for values, _ in found:
        np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert len({tuple(lines) for _, lines in found}) == 1 and len(found[0][1]) >= 2
