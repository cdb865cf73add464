"""The order in which nodes run: right, no worse than as it was written, and lower where it can be;
updates run as soon as nothing can fail any more."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.program import node_order
from staticflow.codegen.program.index_checks import repeated_checks
from staticflow.codegen.program.memory_order import (
    Work,
    order_as_written,
    order_by_memory,
    use_of,
)
from staticflow.codegen.program.routine import Launch, Table
from staticflow.errors import IndexRangeError
from staticflow.static.compile import Program


def random_work(seed: int) -> Work:
    """Some nodes that read earlier ones, each with a block of some bytes."""
    draw = random.Random(seed)
    count = draw.randint(1, 40)
    read = [
        sorted(draw.sample(range(i), min(i, draw.choice([0, 1, 1, 2, 3])))) for i in range(count)
    ]
    after = [[j for j in range(count) if i in read[j]] for i in range(count)]
    for i in range(count):  # waits for what it does not read
        if draw.random() < 0.2 and i + 1 < count:
            after[i].append(draw.randrange(i + 1, count))
    sizes = [draw.choice([0, 4, 100, 1000]) for _ in range(count)]
    return Work(after, [[i] for i in range(count)], read, sizes, [count - 1])


def test_orders_keep_what_has_to_wait_behind() -> None:
    lower = 0
    for seed in range(200):
        work = random_work(seed)
        order = order_by_memory(work)
        assert sorted(order) == list(range(len(work.after)))
        at = {i: place for place, i in enumerate(order)}
        assert all(at[i] < at[j] for i, later in enumerate(work.after) for j in later)
        assert order == order_by_memory(work)
        written = use_of(work, order_as_written(work))
        assert use_of(work, order) <= written
        lower += use_of(work, order)[0] < written[0]
    assert lower > 50


def test_finding_an_order_takes_time_in_proportion_to_the_nodes() -> None:
    """Counted: how often a node's size is asked for."""

    class Counted(list[int]):
        asked = 0

        def __getitem__(self, i: object) -> int:
            Counted.asked += 1
            return super().__getitem__(i)  # type: ignore[call-overload, no-any-return]

    asked = []
    for count in (1000, 4000):
        read = [[i - 1] if i else [] for i in range(count)]
        for i in range(count // 2, count):  # a way back that reads what the way there has left
            read[i].append(count - 1 - i)
        after: list[list[int]] = [[] for _ in range(count)]
        for i, blocks in enumerate(read):
            for b in dict.fromkeys(blocks):
                after[b].append(i)
        Counted.asked = 0
        sizes = Counted([4096] * count)
        work = Work(after, [[i] for i in range(count)], [[*dict.fromkeys(b)] for b in read], sizes,
                    [count - 1])  # fmt: skip
        order_by_memory(work)
        asked.append(Counted.asked)
    assert asked[1] <= 4.2 * asked[0]


def test_independent_branches_run_one_after_the_other() -> None:
    """Of eight squares of matrices one at a time is in memory, with what its product works in."""
    ys = [sf.placeholder((256, 256), name=f"y{i}") for i in range(8)]
    one = sf.compile(ys[:1], (ys[0] @ ys[0]).sum()).plan.peak_bytes()
    sums = [(y @ y).sum() for y in ys]
    total = sums[0]
    for other in sums[1:]:
        total = total + other
    every = (sf.compile(ys, total), sf.compile(ys, sums), sf.compile(ys, sf.stack(sums)))
    assert all(p.plan.peak_bytes() <= one + 4096 for p in every)
    arrays = [np.full((256, 256), i, np.float32) for i in range(8)]
    wanted = [float((a @ a).sum()) for a in arrays]
    assert every[0](*arrays).item() == sum(wanted)
    assert [s.item() for s in every[1](*arrays)] == wanted


def train(table: sf.Tensor, *weights: sf.Tensor) -> Program:
    """A step of a network that begins with rows of a table."""
    ids = sf.placeholder((64,), "int64", name="ids")
    h = sf.nn.functional.embedding(ids, table)
    for w in weights:
        h = (h @ w).tanh()
    found = [table, *weights]
    new = [sf.symbol(t) - 0.1 * g for t, g in zip(found, sf.grad(h.sum(), found), strict=True)]
    return sf.compile([ids], h.sum(), updates=dict(zip(found, new, strict=True)))


def test_updates_wait_only_for_what_may_fail() -> None:
    """The gradient of the table looks at the indices that its rows were taken by: the update of the
    last weight, whose gradient is there before, runs before it. A wrong index changes nothing."""
    sf.manual_seed(0)
    found = [sf.randn(5, 8), *(sf.randn(8, 8) for _ in range(4))]
    step = train(*found)
    launches = [s for s in step.plan.routine.steps if isinstance(s, Launch)]

    def update_of(t: sf.Tensor) -> int:
        slot = Table(1 + next(i for i, v in enumerate(step._caller.variables) if v is t))
        return max(i for i, s in enumerate(launches) if slot in s.places)

    assert update_of(found[-1]) < update_of(found[0]) - 2
    before = [t.numpy().copy() for t in found]
    ids = np.zeros(64, np.int64)
    ids[7] = 5
    with pytest.raises(IndexRangeError):
        step(ids)
    assert all(np.array_equal(t.numpy(), b) for t, b in zip(found, before, strict=True))
    step(np.zeros(64, np.int64))
    assert not any(np.array_equal(t.numpy(), b) for t, b in zip(found, before, strict=True))


def repeats(outputs: object, inputs: object) -> int:
    """How many nodes of a program check no index that was not checked before."""
    nodes = sf.compile(inputs, outputs).optimized.nodes  # type: ignore[arg-type]
    return len(repeated_checks(nodes))


def test_which_checks_of_indices_are_made_again() -> None:
    i, j = (sf.placeholder((6,), "int64", name=n) for n in "ij")
    x, y = sf.placeholder((4, 3), name="x"), sf.placeholder((4, 3), name="y")
    z = sf.placeholder((5, 3), name="z")
    open_, n = sf.placeholder((4, "n"), name="open"), sf.placeholder(("n", 4), name="rows")
    pick = sf.index_select
    assert repeats([pick(x, 0, i), pick(y, 0, i)], [x, y, i]) == 1
    assert repeats([pick(x, 0, i), pick(y, 0, i.flip(0)[2:])], [x, y, i]) == 1
    assert repeats([pick(x, 0, i[2:]), pick(y, 0, i)], [x, y, i]) == 0  # of a part
    assert repeats([pick(x, 0, i), pick(y, 0, j)], [x, y, i, j]) == 0  # of others
    assert repeats([pick(x, 0, i), pick(z, 0, i)], [x, z, i]) == 0  # of another size
    assert repeats([x[i], pick(y, 0, i)], [x, y, i]) == 0  # which may count from the end
    assert repeats([pick(x, 0, i), y[i]], [x, y, i]) == 1
    assert repeats([pick(n, 1, i), pick(y, 0, i)], [n, y, i]) == 0  # of no rows it is not made
    assert repeats([pick(open_, 0, i), pick(y, 0, i)], [open_, y, i]) == 1
    assert repeats([pick(x, 0, i), pick(y, 0, (i * 1.0).long())], [x, y, i]) == 0  # computed


def test_what_kernels_work_in_and_what_loops_stack_together_counts() -> None:
    """The order for a recurrent network, whose last product copies what the loops have stacked, is
    no worse than as it was written."""

    def peak() -> int:
        xs, w = sf.placeholder((20, 32, 16), name="xs"), sf.nn.Parameter(sf.ones(16, 16))
        start, v = sf.nn.Parameter(sf.ones(16)), sf.nn.Parameter(sf.ones(16, 1))

        def step(h: sf.Symbol, x: sf.Symbol) -> tuple[sf.Symbol, None]:
            return (x + h @ w).tanh(), None

        last, _ = sf.scan(step, sf.symbol(start).expand(32, 16), xs)
        found = [w, start, v]
        loss = (last @ v).square().sum()
        new = [p - 0.1 * g for p, g in zip(found, sf.grad(loss, found), strict=True)]
        return sf.compile([xs], loss, updates=dict(zip(found, new, strict=True))).plan.bound_bytes()

    chosen = peak()
    with mock.patch.object(node_order, "order_by_memory", order_as_written):
        assert chosen <= peak()
