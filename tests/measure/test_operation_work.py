"""The work of eager operations is that of the programs that they would be; nobody counts it unasked."""

from typing import Any

import numpy as np

import staticflow as sf
from staticflow.measure.profile import Profile


def profiled(run: Any, times: int = 3) -> Profile:
    """The profile of the last of a few runs, with its work."""
    for _ in range(times):
        run()
    with sf.profile(work=True) as block:
        run()
    return block.result


def flops_of(found: Profile, kind: str) -> dict[str, int | None]:
    return {row.name: row.flops for row in found.rows if row.kind == kind and row.flops != 0}


def test_a_step_does_eagerly_what_its_program_does() -> None:
    x, y = sf.randn(8, 30), sf.randn(8, 3)
    w1, w2 = (sf.randn(*s, requires_grad=True) for s in ((30, 20), (20, 3)))

    def step() -> None:
        (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum().backward()
        with sf.no_grad():
            for w in (w1, w2):
                w.sub_(w.grad, alpha=0.1)
                w.grad = None

    xs, ys = (sf.placeholder(t.shape, name=n) for n, t in (("x", x), ("y", y)))
    loss = (xs.mm(w1).clamp(min=0).mm(w2) - ys).pow(2).sum()
    updates = {w: w - 0.1 * g for w, g in zip((w1, w2), sf.grad(loss, [w1, w2]), strict=True)}
    program = sf.compile([xs, ys], loss, updates=updates)
    found = profiled(step)
    assert found.uncounted == 0
    by_one = y.numel()  # the gradient of a sum, which a program knows to be 1
    assert found.flops == sum(k.flops for k in program.work()) + by_one
    assert found.traffic is not None  # what is stored between operations is moved, too
    assert found.traffic > sum(k.bytes for k in program.work())


def test_operations_count_as_kernels_do() -> None:
    x, w = sf.randn(6, 10), sf.randn(10, 4)

    def run(x: Any, w: Any) -> list[Any]:
        return [x + x, x.exp(), x @ w, x.sum(0), sf.softmax(x, 1), x.t(), x[1:3], x.flatten()]

    found = profiled(lambda: run(x, w))
    symbols = [sf.placeholder(t.shape, name=n) for n, t in (("x", x), ("w", w))]
    program = sf.compile(symbols, tuple(run(*symbols)))
    assert found.uncounted == 0
    assert found.flops == sum(k.flops for k in program.work())
    rows = {row.name: (row.moved, row.flops) for row in found.rows}
    assert rows["add"] == (3 * 240, 60) and rows["matmul"] == (240 + 160 + 96, 480)
    views = {name for name, work in rows.items() if work == (0, 0)}
    assert {"t", "flatten"} <= views and not views & {"add", "exp", "matmul", "sum", "softmax"}


def test_convolutions_layers_and_steps_of_optimisers_are_counted_backward_too() -> None:
    sf.manual_seed(0)
    model = sf.nn.Sequential(
        sf.nn.Conv2d(1, 2, 3), sf.nn.BatchNorm2d(2), sf.nn.ReLU(), sf.nn.Flatten(), sf.nn.Dropout(0.1),
        sf.nn.Linear(32, 4),
    )  # fmt: skip
    embedding = sf.nn.Embedding(7, 4)
    parameters = [*model.parameters(), *embedding.parameters()]
    optimisers = [sf.optim.SGD(parameters, lr=0.1), sf.optim.Adam(parameters, lr=0.1)]
    x, i = sf.randn(5, 1, 6, 6), sf.arange(5)

    def step() -> None:
        for optimiser in optimisers:
            optimiser.zero_grad()
        h = model(x) + embedding(i)
        (sf.nn.functional.cross_entropy(h, i % 4) + h[:, 1:3].logsumexp(1).mean()).backward()
        for optimiser in optimisers:
            optimiser.step()

    found = profiled(step)
    assert {row.name for row in found.rows if row.flops is None} <= {"dropout", "rand", "bernoulli"}
    updates = flops_of(found, "update")
    assert updates["SGD.step"] == 2 * sum(p.numel() for p in parameters)
    assert updates["Adam.step"] > 3 * updates["SGD.step"]
    assert sum(n or 0 for n in flops_of(found, "backward").values()) > 5 * 2 * 16 * 18


def test_a_program_counts_with_its_kernels() -> None:
    x = sf.placeholder((None, 3), name="x")
    program = sf.compile([x], (x * 2).exp().sum())
    array = np.ones((5, 3), np.float32)
    found = profiled(lambda: program(array))
    (size,) = program._executable.program.sizes
    wanted = {k.name: (k.flops, k.bytes) for k in program.work(**{size.name: 5})}
    kernels = [row for row in found.rows if row.kind == "kernel"]
    assert {row.name: (row.flops, row.moved) for row in kernels} == wanted
    assert [row.flops for row in found.rows if row.kind == "program"] == [0]


def test_sizes_that_values_decide_and_draws_are_counted() -> None:
    values = np.array([3.0, -1.0, 2.0, 0.0, 5.0, -7.0], np.float32)
    x, y = sf.tensor(values), sf.tensor(np.arange(12.0).reshape(6, 2))
    for select, selected in (
        (lambda: x[x > 0], 4 * 3),
        (lambda: sf.masked_select(x, x > 0), 4 * 3),
        (lambda: y[x > 0], 8 * 2 * 3),
        (lambda: sf.nonzero(x), 8 * 5),
    ):
        found = profiled(select)
        assert found.uncounted == 0
        assert found.traffic is not None and found.traffic >= selected + values.nbytes
    found = profiled(lambda: x.__setitem__(x > 2, 1.0))
    assert found.uncounted == 0 and found.traffic is not None and found.traffic > 2 * x.nbytes
    assert profiled(lambda: sf.rand(4)).uncounted == 0
    assert (profiled(lambda: sf.rand(400)).flops or 0) >= 400


def test_draws_are_the_same_where_they_are_counted() -> None:
    sf.manual_seed(3)
    plain = sf.rand(4).numpy().tobytes(), sf.rand(2).numpy().tobytes()
    sf.manual_seed(3)
    with sf.profile(work=True):
        found = sf.rand(4)
    assert (found.numpy().tobytes(), sf.rand(2).numpy().tobytes()) == plain


def test_what_cannot_be_counted_is_told() -> None:
    class Straight(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: sf.Tensor) -> sf.Tensor:
            return x.round()

        @staticmethod
        def backward(ctx: Any, ct: sf.Tensor) -> sf.Tensor:
            return ct

    x = sf.randn(8, requires_grad=True)
    with sf.profile(work=True) as block:
        Straight.apply(x).sum().backward()
    assert block.result.uncounted == 1
    assert "of 1 unknown" in block.table()
    assert max(map(len, block.table().splitlines())) <= 80


def test_work_is_counted_only_if_asked_for() -> None:
    x = sf.randn(4)
    with sf.profile() as block:
        x + x
    found = block.result
    assert (found.uncounted, found.flops, found.traffic) == (None, None, None)
    assert all(row.flops is None and row.moved is None for row in found.rows)
    assert "FLOP" not in block.table()
