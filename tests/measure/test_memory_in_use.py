"""The memory of a step: every array and every arena counted, nothing changed by it."""

import gc

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ProfileError, ShapeError
from staticflow.measure.memory import measure_eager
from staticflow.runtime.block_cache import KEPT_FROM
from staticflow.runtime.counting import count_allocations
from staticflow.static.twin import measure_memory, twin_of


@pytest.mark.parametrize("size", [1, 1000, 1 << 16, KEPT_FROM, 4 * KEPT_FROM])
def test_each_array_is_counted_and_its_end(size: int) -> None:
    for empty in (np.empty, np.zeros):
        with count_allocations() as found:
            array = empty(size, np.int8)
            assert (found.in_use, found.peak) == (size, size)
            del array
            assert (found.in_use, found.peak) == (0, size)
        assert [s for _, s in found.entries()] == [size, -size]


def test_results_of_operations_are_counted() -> None:
    x = sf.ones(300, 300)
    kept = [x + 1, x @ x]  # compiled
    del kept
    gc.collect()
    with count_allocations() as found:
        y = x + 1
        assert found.in_use == 360_000
        z = x @ y
        assert found.in_use == 720_000
        del y, z
        assert found.in_use == 0
    assert found.peak >= 720_000


def test_what_was_there_before_is_given_back_below_zero() -> None:
    array = np.empty(100, np.int8)
    with count_allocations() as found:
        del array
        assert (found.in_use, found.peak, found.least) == (-100, 0, -100)


def test_arrays_of_before_and_after_are_freed_by_who_made_them() -> None:
    with count_allocations() as found:
        inside = np.empty(10_000)
        grown = np.arange(10)
        grown.resize(1000, refcheck=False)
        assert abs(found.in_use - 80_000 - 8000) < 32  # the C library rounds what is resized
    del inside, grown
    assert found.count == 4  # the end of the block ends it


def test_the_arena_of_a_program_is_counted() -> None:
    x = sf.placeholder((None, 100), name="x")
    program = sf.compile([x], x.cumsum(dim=1) @ sf.ones(100, 100) @ sf.ones(100, 3))
    call = twin_of(program)
    executable = call.executable
    array = np.ones((50, 100), np.float32)
    with count_allocations() as found:
        out = call(array)
        held = found.in_use
        assert held >= executable.held_bytes + out.nbytes > 0
        del out
        executable.free()
        assert found.in_use == 0


def test_a_block_in_a_block_is_refused() -> None:
    with count_allocations():
        with pytest.raises(ProfileError, match=r"counted already.*test_memory_in_use\.py"):
            count_allocations().__enter__()
        np.empty(3)
    with count_allocations() as found:
        assert found.in_use == 0


def test_an_eager_step_by_operation() -> None:
    x = sf.ones(1000, requires_grad=True)

    def step() -> None:
        x.grad = None
        (x * x).sum().backward()

    for _ in range(10):  # from some call on it is another path, for which something is made once
        step()
    found = measure_eager(step)
    assert found == measure_eager(step)
    assert found.predicted is None
    # one gradient for each factor, and their sum
    assert 12_000 <= found.measured < 12_100
    assert found.timeline[:2] == (4000, 4004)  # mul, sum
    assert found.timeline[-1] >= 4000
    product, *gradients = found.largest[:4]
    assert (product.label, product.type, product.bytes) == ("mul", "f32[1000]", 4000)
    assert [g.label for g in gradients] == ["MulBackward0", "MulBackward0", "add"]
    assert product.lines.endswith(f"test_memory_in_use.py:{step.__code__.co_firstlineno + 2}")
    assert (product.first, product.last) == (0, 2)
    assert gradients[-1].last == len(found.timeline) - 1


def test_a_compiled_step_as_predicted_and_nothing_is_trained() -> None:
    layer = sf.nn.Linear(100, 10)
    x = sf.placeholder((None, 100), name="x")
    loss = (layer(x) ** 2).exp().mean()
    program = sf.compile([x], loss, updates=sf.optim.SGD(layer.parameters(), lr=0.1).minimize(loss))
    before = [p.detach().clone() for p in layer.parameters()]
    held = program.held_bytes
    found = measure_memory(program, sf.ones(500, 100))
    for a, b in zip(before, layer.parameters(), strict=True):
        assert (a == b).all().item()
    assert program.held_bytes == held
    assert found.predicted is not None
    assert found.predicted == program.plan.peak_bytes(x_0=500) + 4
    assert found.predicted <= found.measured <= found.predicted + 128  # header, and rounded
    assert max(found.timeline) <= found.predicted
    assert all(b.lines for b in found.largest if not b.label.startswith("output"))


def test_buffers_that_grow_are_as_large_as_they_grew() -> None:
    n, z = sf.placeholder((), "int64", name="n"), sf.placeholder((), name="z")
    program = sf.compile([n, z], sf.grad(sf.fori_loop(0, n, lambda i, z: (z + 1).sin(), z), z))
    found = measure_memory(program, 100_000, 1.0)
    assert found.predicted == program.plan.peak_bytes(iterations=100_000) + 4
    assert found.measured >= found.predicted  # a growing buffer has up to a tenth more
    assert found.largest[0].bytes >= 400_000
    assert found.largest[0].type == "f32[100000]"
    assert 400_000 <= found.measured <= 600_000


def test_sizes_that_a_step_counts_are_those_of_the_run() -> None:
    x = sf.placeholder((None,), name="x")
    kept = x[x > 0]
    program = sf.compile([x], (kept.exp() * kept.sum()).cumsum(0).sum())
    found = measure_memory(program, sf.tensor([1.0, -1.0, 2.0] * 1000))
    assert found.predicted is not None
    assert found.predicted <= found.measured


def test_wrong_arguments_are_the_errors_of_the_call() -> None:
    x = sf.placeholder((None, 3), name="x")
    program = sf.compile([x], x.sum())
    for args in ((), (sf.ones(2, 4),), (1, 2)):
        with pytest.raises(ShapeError) as theirs:
            program(*args)
        with pytest.raises(ShapeError) as ours:
            measure_memory(program, *args)
        assert str(ours.value).split("test_memory")[0] == str(theirs.value).split("test_memory")[0]
