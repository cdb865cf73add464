"""Programs of whole tensors that are compiled for a mesh, of simulated ranks: each computes its part,
and all is as one process computes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slices import by_days

import staticflow as sf
from staticflow import distributed, nn
from staticflow.distributed import shard
from staticflow.graph.graph import regions_of
from staticflow.nn import functional as F

Array = np.ndarray[Any, Any]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def collectives(program: Any) -> dict[str, int]:
    """How many collectives there are, with those of loops: a sum that is one of several in a message
    counts as an ``all_reduce``, too."""
    found: Counter[str] = Counter()

    def count(graph: Any) -> None:
        for n in graph.nodes:
            if n.op.name == "begin":
                found[n.attrs["collective"]] += len(n.args) - 1
            elif n.op.name in ("all_reduce", "all_gather", "reduce_scatter"):
                found[n.op.name] += 1
            for region in regions_of(n):
                count(region)

    count(program.graph)
    return dict(found)


# name: a function of x (n, 6), split along its first dim, and w (6, 4), whole; the collectives of it
# beside those that gather the result, where that is split
FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, int]]] = {
    "elementwise": (lambda x, w: (x * 2 + w[0, 0]).tanh(), {}),
    "broadcast": (lambda x, w: x[:, :1] * w[:, 1] + x, {}),
    "of whole": (lambda x, w: w.exp() * w, {}),
    "sum": (lambda x, w: x.sum(), {"all_reduce": 1}),
    "sum of columns": (lambda x, w: x.sum(0), {"all_reduce": 1}),
    "sum of rows": (lambda x, w: x.sum(1, keepdim=True), {}),
    "mean": (lambda x, w: x.mean(), {"all_reduce": 1}),
    "variance": (lambda x, w: x.var(0), {"all_reduce": 2}),
    "product": (lambda x, w: (x @ w).relu(), {}),
    "product over rows": (lambda x, w: x.t() @ x, {"all_reduce": 1}),
    "all equal": (lambda x, w: (x == x).all(), {"all_reduce": 1}),
    "softmax": (lambda x, w: (x @ w).softmax(1), {}),
    "softmax over rows": (lambda x, w: x.log_softmax(1).mean(0), {"all_reduce": 1}),
    "reshape": (lambda x, w: x.reshape(-1, 2, 3).sum(2), {}),
    "reshape together": (lambda x, w: x.reshape(-1).exp(), {}),
    "reshape apart": (lambda x, w: x.reshape(-1).exp().reshape(-1, 6) @ w, {}),
    "transposed": (lambda x, w: x.t()[2:4].unsqueeze(0), {}),
    "flipped columns": (lambda x, w: x.flip(1), {}),
    "columns": (lambda x, w: sf.cat([x[:, 1:3], x[:, :2]], 1), {}),
    "stacked": (lambda x, w: sf.stack([x, x * 2], 1), {}),
    "expanded": (lambda x, w: x.unsqueeze(1).expand(-1, 3, -1), {}),
    "padded": (lambda x, w: F.pad(x, (1, 2)), {}),
    "running sum": (lambda x, w: x.cumsum(1), {}),
    "sorted": (lambda x, w: x.sort(1).values, {}),
    "with a constant": (lambda x, w: x * sf.arange(x.shape[0]).unsqueeze(1), {}),
    "split otherwise": (lambda x, w: shard(w, "data", None) * 2 + w, {}),
    "by the number of rows": (lambda x, w: x.sum(0) / x.shape[0], {"all_reduce": 1}),
    "added to what is there": (
        lambda x, w: (w @ sf.ones(4, 6, dtype=sf.float64)).index_add(0, x.argmax(1), x),
        {"all_reduce": 1},
    ),
    "largest of rows": (lambda x, w: x.amax(1), {}),
    "in a loop": (lambda x, w: sf.fori_loop(0, 3, lambda i, c: c * 2 + w.sum(), x.sum(1)), {}),
    "a loop over columns": (
        lambda x, w: sf.scan(lambda c, row: (c + row, c * row), sf.zeros(()) + x[:, 0] * 0, x.t())[
            1
        ],
        {},
    ),
    "a loop that begins whole": (
        lambda x, w: sf.scan(
            lambda c, row: (c * row, c), sf.ones(x.shape[0], dtype=sf.float64), x.t()
        )[0],
        {},
    ),
    "a loop that adds up": (
        lambda x, w: sf.fori_loop(
            0, 3, lambda i, c: c + (x * i).t() @ x, sf.ones(6, 6, dtype=sf.float64)
        ),
        {"all_reduce": 1},
    ),
    "a loop that needs the sum": (
        lambda x, w: sf.fori_loop(0, 3, lambda i, c: (c + x.t() @ x).tanh(), w @ w.t()),
        {"all_reduce": 1},
    ),
    "while the sum is small": (
        lambda x, w: sf.while_loop(lambda c: (c * c).sum() < 100, lambda c: c * 2, x),
        {"all_reduce": 2},
    ),
    "rows and columns changed": (lambda x, w: (x.t().reshape(-1) * 2).reshape(6, -1), {}),
    "a sum over both": (lambda x, w: x.t().reshape(-1).exp().sum(), {"all_reduce": 1}),
    "rows of a table": (lambda x, w: F.embedding(x.argmax(1), w), {}),
    "rows chosen by two": (lambda x, w: w[x.argmax(1), x[:, :4].argmax(1)], {}),
    "columns chosen": (lambda x, w: x[:, sf.tensor([3, 0, 3])], {}),
    "elements chosen": (lambda x, w: x.gather(1, x[:, :3].argsort(1)), {}),
    "added to a table": (
        lambda x, w: sf.zeros_like(w @ w.t()).index_add(0, x.argmax(1), x),
        {"all_reduce": 1},
    ),
    "added along rows": (lambda x, w: x.scatter_add(1, x.argsort(1), x), {}),
    "sums that are added": (lambda x, w: x.sum(0) + (x * x).sum(0), {"all_reduce": 1}),
    "the second column": (lambda x, w: x[:, 1].exp(), {}),
    "largest so far": (lambda x, w: x.cummax(1).values + x.logcumsumexp(1), {}),
    "in a branch": (
        lambda x, w: sf.cond(w.sum() > 0, lambda c: c * 2, lambda c: c + 1, x.sum(1)),
        {},
    ),
    "in one of three": (
        lambda x, w: sf.switch(
            w.argmax() % 3, [lambda c: c * 2, lambda c: c.exp(), lambda c: c + w[0, 0]], x
        ),
        {},
    ),
    "a branch for the sum": (
        lambda x, w: sf.cond(x.sum() > 0, lambda c: c.sum(0), lambda c: (c * c).sum(0), x),
        {"all_reduce": 3},  # the condition, and one in either
    ),
    "a branch that gives what is whole": (
        lambda x, w: sf.cond(
            w.sum() > 0, lambda c: sf.zeros(c.shape[0], 6, dtype=sf.float64), lambda c: c, x
        ),
        {},
    ),
    "split in a branch": (
        lambda x, w: sf.cond(
            x[0, 0] < 9, lambda c: shard(c.exp(), None, "data") + 1, lambda c: c, w @ w.t()
        ),
        {"all_gather": 1},  # of the first row
    ),
    "a branch in a loop": (
        lambda x, w: sf.fori_loop(
            0, 3, lambda i, c: sf.cond(i > 0, lambda a: a * 2, lambda a: a.tanh(), c), x.sum(1)
        ),
        {},
    ),
    "the gradient of a branch": (
        lambda x, w: sf.grad(
            sf.cond(
                w.sum() > 0, lambda a, b: (a @ b).tanh().sum(), lambda a, b: (a * a).sum(), x, w
            ),
            [w],
        )[0],
        {"all_reduce": 1},
    ),
    # what has no rule is gathered, as is what goes over the split dim
    "rows backwards": (lambda x, w: x.flip(0), {"all_gather": 1}),
    "running sum of columns": (lambda x, w: x.cumsum(0), {"all_gather": 1}),
    "factors of a sum": (lambda x, w: sf.linalg.qr(x.t() @ x).R.abs(), {"all_reduce": 1}),
    "factors of split matrices": (
        lambda x, w: sf.linalg.svdvals(x.reshape(-1, 2, 3)),
        {"all_gather": 1},
    ),
}


def program(name: str, size: int | None, mesh: Any = None) -> Any:
    x = sf.placeholder((size, 6), sf.float64, name="x")
    w = sf.placeholder((6, 4), sf.float64, name="w")
    y = FUNCTIONS[name][0](shard(x, "data", None), w)
    return sf.compile([x, w], y, mesh=mesh)


@pytest.mark.parametrize("size", [7, None])
@pytest.mark.parametrize("name", by_days(list(FUNCTIONS), 25, "split operands"))
def test_ops_of_split_operands(name: str, size: int | None) -> None:
    """Of sizes that the ranks divide and do not, known and unknown, fewer than there are ranks."""
    w = numbers(6, 4, seed=1)
    sizes = (8, 7, 2, 1) if size is None else (size,)
    given = [numbers(n, 6) for n in sizes]
    alone = program(name, size)
    expected = [alone(x, w).numpy() for x in given]

    def run() -> tuple[list[Array], dict[str, int]]:
        step = program(name, size, distributed.mesh(data=-1))
        return [step(x, w).numpy() for x in given], collectives(step)

    for ranks in (2, 4):
        for found, counts in distributed.simulate(run, ranks):
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
            if ranks == 4:
                wanted = FUNCTIONS[name][1]
                assert counts.get("all_reduce", 0) == wanted.get("all_reduce", 0)
                more = counts.get("all_gather", 0) - wanted.get("all_gather", 0)
                assert more in (0, 1)  # of the result


def train(
    model: Callable[[], Any],
    shape: tuple[int, ...],
    dtype: Any,
    size: int | None,
    mesh: Any,
    steps: int,
) -> tuple[list[float], dict[str, int]]:
    """The losses of some steps, and the collectives of one."""
    sf.manual_seed(0)
    net = model().to(dtype)
    x = sf.placeholder((size, *shape), dtype, name="x")
    y = sf.placeholder((size,), sf.int64, name="y")
    inputs, labels = (shard(v, "data", *(None,) * (v.ndim - 1)) for v in (x, y))
    loss = F.cross_entropy(net(inputs), labels)
    step = sf.compile(
        [x, y], loss, updates=sf.optim.Adam(net.parameters(), lr=1e-2).minimize(loss), mesh=mesh
    )
    rng = np.random.default_rng(3)
    images, classes = rng.standard_normal((steps, 12, *shape)), rng.integers(0, 4, (steps, 12))
    return [
        step(i.astype(dtype.numpy), c).item() for i, c in zip(images, classes, strict=True)
    ], collectives(step)


def convolutions() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 4)
    )


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))


def normalised() -> Any:
    """Its mean and variance are those of the whole batch."""
    return nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4))


MODELS: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "convolutions": (convolutions, (1, 8, 8), 4),
    "normalised": (normalised, (8,), 6),
    "perceptron": (perceptron, (8,), 6),
}
MORE = {"normalised": 4}
"""Sums of the mean and variance, and of their gradients."""


@pytest.mark.parametrize(
    ("name", "size", "dtype"),
    [
        (name, size, dtype)
        for i, name in enumerate(MODELS)
        for size, dtype in (
            (12, (sf.float32, sf.float64)[i % 2]),
            (None, (sf.float64, sf.float32)[i % 2]),
        )
    ],
    ids=str,
)
def test_losses_are_those_of_one_process(name: str, size: int | None, dtype: Any) -> None:
    """And each gradient is one sum over the ranks, as the loss and the number of its rows are."""
    model, shape, parameters = MODELS[name]
    alone, _ = train(model, shape, dtype, size, None, 20)
    assert alone[-1] != alone[0]
    for ranks in (3, 4) if size else (2, 5):
        for losses, counts in distributed.simulate(
            lambda: train(model, shape, dtype, size, distributed.mesh(data=-1), 20), ranks
        ):
            np.testing.assert_allclose(losses, alone, rtol=1e-5 if dtype is sf.float32 else 1e-12)
            assert counts == {"all_reduce": parameters + 2 + MORE.get(name, 0)}


def test_weights_split_over_a_second_axis() -> None:
    """A layer of columns and one of rows over the axis of the model: one sum between them."""
    x0, a0, b0 = numbers(8, 6), numbers(6, 12, seed=1), numbers(12, 4, seed=2)

    def run(mesh: Any = None) -> Any:
        a, b = (sf.tensor(v, requires_grad=True) for v in (a0, b0))
        x = sf.placeholder((None, 6), sf.float64, name="x")
        hidden = shard(x, "data", None) @ shard(sf.symbol(a), None, "model")
        loss = ((hidden.tanh() @ shard(sf.symbol(b), "model", None)) ** 2).mean()
        grads = sf.grad(loss, [a, b])
        updates = {p: sf.symbol(p) - 0.1 * g for p, g in zip((a, b), grads, strict=True)}
        step = sf.compile([x], loss, updates=updates, mesh=mesh)
        losses = [step(x0).item() for _ in range(5)]
        return losses, a.detach().numpy(), b.detach().numpy()

    expected = run()
    assert expected[0][-1] < expected[0][0]
    for found in distributed.simulate(lambda: run(distributed.mesh(data=2, model=3)), 6):
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_dropout_draws_the_same_whatever_the_number_of_processes() -> None:
    def run(mesh: Any = None) -> list[Any]:
        sf.manual_seed(4)
        x = sf.placeholder((None, 5), name="x")
        step = sf.compile([x], F.dropout(shard(x, "data", None), 0.5), mesh=mesh)
        return [step(sf.ones(7, 5)).tolist() for _ in range(2)]

    expected = run()
    assert expected[0] != expected[1]
    assert distributed.simulate(lambda: run(distributed.mesh(data=-1)), 3) == [expected] * 3


def test_an_output_that_is_said_to_be_split_stays_so() -> None:
    def run() -> Any:
        x = sf.placeholder((None,), name="x")
        y = shard(x, "data") * 2
        step = sf.compile([x], [y, shard(y, "data")], mesh=distributed.mesh(data=-1))
        whole, part = step(sf.arange(7).float())
        return whole.tolist(), part.tolist()

    all_ = [0.0, 2, 4, 6, 8, 10, 12]
    parts = [all_[:2], all_[2:4], all_[4:6], all_[6:]]
    assert distributed.simulate(run, 4) == [(all_, part) for part in parts]


def test_explain_names_every_collective() -> None:
    def run() -> tuple[str, str]:
        x = sf.placeholder((8, 4), name="x")
        step = sf.compile(
            [x], shard(x, "data", None).cumsum(0).sum(1), mesh=distributed.mesh(data=2)
        )
        return step.explain(), step.explain("mesh")

    screen, topic = distributed.simulate(run, 2)[0]
    assert "collectives 1 all_gather" in screen
    row, total, time, *moved = topic.splitlines()[1:]
    assert "all_gather" in row and "f32[4, 4]" in row and "64 B" in row and "test_partition" in row
    assert "each process sends 64 B in 1 messages a call" in total and "not measured" in time
    assert len(moved) == 3 and " cumsum " in moved[-1]  # test_conflicts.py has others
    x = sf.placeholder((2,), name="x")
    assert "none" in sf.compile([x], x + 1).explain("mesh")


def refused(write: Callable[[Any, Any], Any], ranks: int = 2) -> Any:
    def run() -> Any:
        mesh = distributed.mesh(data=-1)
        x = sf.placeholder((4,), name="x")
        return sf.compile([x], write(x, mesh), mesh=mesh)

    return distributed.simulate(run, ranks)


def test_what_cannot_be_split_is_refused() -> None:
    for write, error, says in (
        (lambda x, mesh: shard(x, "model"), sf.ShapeError, "no axis 'model', only data, at .*py:"),
        (lambda x, mesh: shard(x, "data", None), sf.ShapeError, "1 dims, and 2"),
        (lambda x, mesh: shard(x, 3), sf.DTypeError, "3 is no name of an axis"),
        (
            lambda x, mesh: distributed.all_reduce(shard(x, "data"), mesh),
            sf.ShapeError, "written in whole tensors.*py:",
        ),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            refused(write)
    x = sf.placeholder((4,), name="x")
    with pytest.raises(sf.DTypeError, match="mesh is an int"):
        sf.compile([x], x, mesh=4)


def test_a_program_of_several_processes_is_not_saved(tmp_path: Any) -> None:
    """Of a mesh of one it is, since the same script may run alone."""
    step, _ = refused(lambda x, mesh: shard(x, "data") * 2)
    with pytest.raises(sf.CheckpointError, match="that of rank 0 of mesh"):
        step.save(tmp_path / "program")
    (step,) = refused(lambda x, mesh: shard(x, "data") * 2, 1)
    step.save(tmp_path / "program")
    assert sf.load_program(tmp_path / "program")(sf.ones(4)).tolist() == [2, 2, 2, 2]
