"""Collectives of simulated ranks, of which each runs in a thread, against what NumPy makes of the
tensors of all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import staticflow as sf
from staticflow import distributed
from staticflow.distributed.mpi import MEASURING, measuring_group
from staticflow.ops.along.collectives import AT_ONCE, group_of

Array = np.ndarray[Any, Any]
ORDERS = ("forward", "reverse", "seeded")


def of_rank(rank: int, shape: tuple[int, ...] = (4, 6), dtype: Any = np.float64) -> Array:
    rng = np.random.default_rng((rank, *shape))
    return rng.standard_normal(shape).astype(dtype)


def on_all(mesh: tuple[int, int], function: Callable[[Any], Any], **options: Any) -> list[Any]:
    """What a function of the mesh gives on each rank."""
    data, model = mesh
    return distributed.simulate(
        lambda: function(distributed.mesh(data=data, model=model)), data * model, **options
    )


def test_groups_are_the_ranks_that_differ_along_the_axes() -> None:
    assert group_of(4, (2, 3), (0,)) == [1, 4]
    assert group_of(4, (2, 3), (1,)) == [3, 4, 5]
    assert group_of(4, (2, 3), (0, 1)) == [0, 1, 2, 3, 4, 5]
    assert group_of(4, (2, 3), ()) == [4]


# name: the collective, and what the member at a place gets of what all members have
COLLECTIVES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[list[Array], int], Array]]] = {
    "sum": (distributed.all_reduce, lambda xs, at: sum(xs[1:], xs[0])),
    "mean": (
        lambda x, over: distributed.all_reduce(x, over, "mean"),
        lambda xs, at: sum(xs[1:], xs[0]) / len(xs),
    ),
    "amax": (
        lambda x, over: distributed.all_reduce(x, over, "amax"),
        lambda xs, at: np.max(xs, axis=0),
    ),
    "amin": (
        lambda x, over: distributed.all_reduce(x, over, "amin"),
        lambda xs, at: np.min(xs, axis=0),
    ),
    "all_gather": (distributed.all_gather, lambda xs, at: np.concatenate(xs)),
    "all_gather last": (
        lambda x, over: distributed.all_gather(x, over, -1),
        lambda xs, at: np.concatenate(xs, -1),
    ),
    "reduce_scatter": (
        lambda x, over: distributed.reduce_scatter(x, over, 1),
        lambda xs, at: np.split(sum(xs[1:], xs[0]), len(xs), 1)[at],
    ),
    "all_to_all": (
        lambda x, over: distributed.all_to_all(x, over, 1, 0),
        lambda xs, at: np.concatenate([np.split(x, len(xs), 1)[at] for x in xs], 0),
    ),
    "exchange": (
        lambda x, over: distributed.exchange(x, over, [(0, 1), (1, 0)][: over.size - 1]),
        lambda xs, at: (
            xs[0] if at == 1 else xs[1] * (len(xs) > 2 and at == 0) if at < 2 else xs[0] * 0
        ),
    ),
    "broadcast": (
        lambda x, over: distributed.broadcast(x, over, over.size - 1),
        lambda xs, at: xs[-1],
    ),
}
OVER = {
    "mesh": lambda mesh: mesh,
    "data": lambda mesh: mesh.axis("data"),
    "model": lambda mesh: mesh.axis("model"),
}
AXES = {"mesh": (0, 1), "data": (0,), "model": (1,)}


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_give_what_the_ranks_have_together(name: str, over: str) -> None:
    function, expect = COLLECTIVES[name]

    def run(mesh: Any) -> tuple[Array, Array]:
        """Eagerly, and compiled."""
        x = sf.tensor(of_rank(mesh.rank, (4, 12)))
        p = sf.placeholder((None, 12), sf.float64, name="p")
        step = sf.compile([p], function(p, OVER[over](mesh)))
        return function(x, OVER[over](mesh)).numpy(), step(x).numpy()

    for rank, found in enumerate(on_all((2, 3), run)):
        members = group_of(rank, (2, 3), AXES[over])
        expected = expect([of_rank(r, (4, 12)) for r in members], members.index(rank))
        for one in found:
            np.testing.assert_array_equal(one, expected, strict=True)


DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_have_the_results_of_each_dtype(name: str, dtype: str) -> None:
    """Also of values the sum of which a float16 cannot hold, and the mean of which it can. Integers
    have no mean."""
    function, expect = COLLECTIVES[name]
    kind = getattr(sf, dtype)
    large = 30_000.0 if kind.is_floating else sf.iinfo(kind).max // 8

    def of(rank: int) -> Array:
        return np.arange(rank, rank + 48).reshape(4, 12) % 5 / 4 * large

    def run(mesh: Any) -> list[Any]:
        x = sf.tensor(of(mesh.rank)).to(kind)
        p = sf.placeholder((None, 12), kind, name="p")
        runs = [lambda: function(x, mesh), lambda: sf.compile([p], function(p, mesh))(x)]
        if name == "mean" and not kind.is_floating:
            for each in runs:
                with pytest.raises(sf.DTypeError, match=f"the mean of {dtype}; take its sum.*py:"):
                    each()
            return []
        return [each() for each in runs]

    for rank, found in enumerate(on_all((2, 2), run)):
        with np.errstate(over="ignore"):
            given = [sf.tensor(of(r)).to(kind).to(sf.float64).numpy() for r in range(4)]
            expected = sf.tensor(expect(given, rank)).to(kind)
        for one in found:
            assert one.dtype is kind
            np.testing.assert_allclose(
                one.to(sf.float64).numpy(), expected.to(sf.float64).numpy(),
                rtol=1e-2 if kind.itemsize == 2 else 1e-6,
            )  # fmt: skip


@pytest.mark.parametrize("given", [3.0, [1.0, 2.0], None, np.ones((4, 4))])
def test_collectives_are_of_tensors(given: Any) -> None:
    mesh = distributed.mesh(data=-1)
    for function, _ in COLLECTIVES.values():
        with pytest.raises(sf.DTypeError, match=r"must be a .*tensor.*test_collectives.py"):
            function(given, mesh)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", [n for n in COLLECTIVES if n not in ("amax", "amin")])
def test_the_gradient_is_of_the_sum_of_what_all_ranks_compute(name: str, compiled: bool) -> None:
    """Of linear functions the cotangents and the results have the same product, over all ranks, as
    the gradients and the arguments."""
    function, _ = COLLECTIVES[name]

    def run(mesh: Any) -> tuple[float, float]:
        given = of_rank(mesh.rank, (4, 12))
        axis = mesh.axis("model")
        x: Any = sf.tensor(given, requires_grad=True)
        if compiled:
            x = sf.placeholder((4, 12), sf.float64, name="x")
        y = function(x, axis)
        ct = sf.tensor(of_rank(mesh.rank + 9, tuple(y.shape)))
        loss = (y * ct).sum()
        if compiled:
            value, gradient = sf.compile([x], [loss, sf.grad(loss, x)])(given)
        else:
            loss.backward()
            value, gradient = loss.detach(), x.grad
        return float(value), float((gradient.numpy() * given).sum())

    values, products = zip(*on_all((2, 3), run), strict=True)
    assert sum(values) == pytest.approx(sum(products), rel=1e-12)


def test_the_gradient_of_an_extreme_goes_to_those_that_are_it() -> None:
    def run(mesh: Any) -> list[float]:
        x = sf.tensor([1.0, 3.0, float(mesh.rank)], requires_grad=True)
        distributed.all_reduce(x, mesh, "amax").sum().backward()
        return list(x.grad.tolist())

    # each of the four ranks has a sum, of which the gradient is 1
    assert on_all((2, 2), run) == [[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 4]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_sums_have_one_order_however_long_and_whatever_comes_first(dtype: Any) -> None:
    """They are added in the order of the ranks, 16-bit floats in float32, short ones by each rank and
    long ones in parts; the order of messages changes no bit."""
    long = 2 * AT_ONCE // np.dtype(dtype).itemsize + 3
    wide = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
    expected = of_rank(0, (long,), dtype).astype(wide)
    for r in (1, 2, 3, 4, 5):
        expected = expected + of_rank(r, (long,), dtype).astype(wide)
    expected = expected.astype(dtype)

    def run(mesh: Any) -> tuple[Array, Array]:
        x = sf.tensor(of_rank(mesh.rank, (long,), dtype))
        whole, short = (distributed.all_reduce(v, mesh) for v in (x, x[:5]))
        return whole.numpy(), short.numpy()

    for order in ORDERS:
        for whole, short in on_all((2, 3), run, order=order, seed=3, delay=4):
            assert whole.tobytes() == expected.tobytes()
            assert short.tobytes() == expected[:5].tobytes()


def test_collectives_in_loops_and_updates_of_programs() -> None:
    """In a loop there is one for each iteration. Programs that update variables take turns in a
    process, and give way while they wait for other ranks."""

    def run(mesh: Any) -> tuple[list[float], list[float]]:
        w = sf.zeros(3, dtype=sf.float64)
        x = sf.placeholder((3,), sf.float64, name="x")
        total = sf.fori_loop(0, 3, lambda i, c: distributed.all_reduce(c, mesh, "mean") + i, x)
        step = sf.compile([x], total, updates={w: w + distributed.all_reduce(total, mesh)})
        for _ in range(2):
            found = step(sf.full((3,), float(mesh.rank), dtype=sf.float64))
        return found.tolist(), w.tolist()

    for order in ORDERS:
        # the mean of 0 to 3, and 0 + 1 + 2
        assert on_all((2, 2), run, order=order, seed=1, delay=2) == [([4.5] * 3, [36.0] * 3)] * 4


def test_a_mesh_of_64() -> None:
    def run() -> int:
        mesh = distributed.mesh(data=8, model=-1)
        rows = distributed.all_reduce(sf.tensor(mesh.rank), mesh.axis("model"))
        return int(distributed.all_reduce(rows, mesh.axis("data")))

    assert distributed.simulate(run, 64, order="seeded", seed=5) == [sum(range(64))] * 64


def test_collectives_are_read_from_a_file(tmp_path: Any) -> None:
    """A program that was saved is for a mesh of the same shape."""
    pytest.importorskip("safetensors")
    path = tmp_path / "program.safetensors"

    def write() -> None:
        mesh = distributed.mesh(data=-1)
        x = sf.placeholder((2,), name="x")
        step = sf.compile([x], distributed.all_gather(x, mesh))
        if mesh.rank == 0:
            step.save(path)

    def read() -> list[float]:
        rank = distributed.mesh(data=-1).rank
        return list(sf.load_program(path)(sf.full((2,), float(rank))).tolist())

    distributed.simulate(write, 2)
    assert distributed.simulate(read, 2) == [[0, 0, 1, 1]] * 2
    with pytest.raises(sf.RankError, match=r"for a mesh \[2\], of 2 ranks, and there are 1"):
        read()


def test_rows_of_vmap() -> None:
    def run(mesh: Any) -> None:
        x = sf.tensor(of_rank(mesh.rank, (2, 4, 6)))
        for name, (function, _) in COLLECTIVES.items():
            found = sf.vmap(lambda row, f=function: f(row, mesh.axis("data")))(x)
            rows = [function(row, mesh.axis("data")) for row in x]
            np.testing.assert_array_equal(found.numpy(), sf.stack(rows).numpy(), err_msg=name)

    on_all((2, 1), run)


def test_shapes_that_differ_between_ranks_are_an_error() -> None:
    def run(mesh: Any) -> Any:
        return distributed.all_reduce(sf.ones(2 + mesh.rank), mesh)

    with pytest.raises(sf.RankError, match=r"is at .*f32\[[23]\].*and rank . at .*f32\[[23]\]"):
        on_all((2, 1), run)


def test_arguments_that_are_refused() -> None:
    mesh = distributed.mesh(data=1)
    x = sf.ones(2, 3)
    for fails, error, says in (
        (lambda: distributed.all_reduce(x, mesh, "prod"), sf.ArgumentError, 'reduce is "sum"'),
        (lambda: distributed.all_reduce(x, 4), sf.DTypeError, "over is an int"),
        (lambda: distributed.all_gather(x, mesh, 2), sf.DimRangeError, "dim 2 is out of range"),
        (lambda: distributed.broadcast(x, mesh, 1), sf.ArgumentError, "root is 1"),
        (lambda: distributed.exchange(x, mesh, [(0, 1)]), sf.ArgumentError, r"\(0, 1\) is no pair"),
        (lambda: distributed.exchange(x, mesh, [0]), sf.ArgumentError, "0 is no pair"),
        (lambda: distributed.simulate(int, 2, order="any"), sf.ArgumentError, "order is one of"),
    ):
        with pytest.raises(error, match=says):
            fails()


def test_a_mesh_has_as_many_processes_as_there_are() -> None:
    mesh = distributed.mesh(data=-1)
    assert (mesh.rank, mesh.size, repr(mesh)) == (0, 1, "<mesh(data=1), rank 0>")
    found = distributed.simulate(lambda: distributed.mesh(a=2, b=-1, c=2), 12)
    assert [m.shape for m in found] == [(2, 3, 2)] * 12
    assert [m.axis("b").rank for m in found] == [0, 0, 1, 1, 2, 2] * 2
    assert [m.axis("a").rank for m in found] == [0] * 6 + [1] * 6
    assert math.prod(m.axis("c").size for m in found[:1]) == 2
    for axes, says in (
        ({}, "takes the sizes of axes"),
        ({"a": -1, "b": -1}, "at most one"),
        ({"a": 4}, "does not take 1 process,"),
        ({"a": 0}, "a is 0"),
        ({"a": True}, "a is True"),
    ):
        with pytest.raises(sf.ArgumentError, match=says):
            distributed.mesh(**axes)
    with pytest.raises(
        sf.ArgumentError, match=r"mesh\(data=1\) has no 'model', only data, at .*py:"
    ):
        mesh.axis("model")


@pytest.mark.parametrize("size", [1, 2, 8, 9, 17, 1000])
def test_messages_are_measured_among_a_few(size: int) -> None:
    """Each rank is in one group, and no group but that of one rank has nobody to send to."""
    groups = [measuring_group(rank, size) for rank in range(size)]
    for rank, group in enumerate(groups):
        assert rank in group and all(groups[other] == group for other in group)
        assert min(size, 2) <= len(group) <= MEASURING


def test_integers_of_numpy_are_integers() -> None:
    """What an argument that counts processes or calls is, whoever made it."""
    two, zero = np.int64(2), np.uint8(0)

    def run() -> tuple[Any, ...]:
        mesh = sf.distributed.mesh(data=two, model=np.int32(-1))
        x = sf.tensor(float(mesh.rank + 1))
        sent = sf.distributed.exchange(x, mesh, [[zero, np.int16(1)]])
        return mesh.shape, sf.distributed.broadcast(x, mesh, np.int64(1)).item(), sent.item()

    assert sf.distributed.simulate(run, 2) == [((2, 1), 2.0, 0.0), ((2, 1), 2.0, 1.0)]
    x = sf.placeholder((3,), name="x")
    assert sf.compile([x], x * 2).profile(sf.ones(3), repeat=two).calls == 2
    for wrong in (np.bool_(True), np.float64(2), np.int64(0)):
        with pytest.raises(sf.ArgumentError, match="must be an integer from 1 on"):
            sf.distributed.mesh(data=wrong)
