"""Calling programs that read and update variables, also from several threads, by both paths."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from calling import f32, taken

import staticflow as sf
from staticflow.errors import DTypeError, ShapeError
from staticflow.runtime.turn import Turn, updating

# -- variables and updates -------------------------------------------------------------------


def test_variables_are_looked_up_at_each_call(call_path: bool) -> None:
    w = sf.variable([1.0, 2.0])
    x = sf.placeholder((2,), name="x")
    program = sf.compile([x], x * w)
    assert program(f32(2)).tolist() == [1, 4]
    w.data = sf.tensor([10.0, 20.0])
    assert program(f32(2)).tolist() == [10, 40]
    assert taken(program, f32(2)) == call_path
    w.data = sf.tensor([1, 2])
    with pytest.raises(DTypeError, match="is int64 and must be float32"):
        program(f32(2))
    w.data = sf.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="has 3 in dim 0"):
        program(f32(2))


def test_updates_are_simultaneous_and_counted(call_path: bool) -> None:
    a, b = sf.variable([1.0, 2.0]), sf.nn.Parameter([10.0, 20.0])
    memory = a.numpy()
    x = sf.placeholder((2,), name="x")
    program = sf.compile([x], x + a + b, updates={a: sf.symbol(b), b: sf.symbol(a) + x})
    assert program(f32(2)).tolist() == [12, 24]
    assert a.tolist() == [10, 20]
    assert b.tolist() == [2, 4]
    assert a.numpy() is memory
    assert (a._version, b._version) == (1, 1)
    with pytest.raises(ShapeError):
        program(f32(3))
    assert (a._version, b._version) == (1, 1)
    assert taken(program, f32(2)) == call_path


def test_updates_without_outputs(call_path: bool) -> None:
    w = sf.variable(1.0)
    step = sf.compile([], None, updates={w: sf.symbol(w) * 2})
    assert step() is None
    assert step() is None
    assert w.item() == 4.0


def test_an_input_on_the_memory_of_an_updated_variable_is_copied(call_path: bool) -> None:
    memory = f32(6)
    w = sf.from_numpy(memory[1:4])
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], x.sum(), updates={w: sf.symbol(w) * 0 + x.sum()})
    for first in (0, 1, 3):
        memory[:] = f32(6)
        given = memory[first : first + 3]
        total = given.sum()
        assert not taken(program, given)
        assert program(given).item() == total
        assert memory[1:4].tolist() == [total] * 3


def test_an_input_beside_an_updated_variable_is_not(call_path: bool) -> None:
    memory = f32(9)
    w = sf.from_numpy(memory[3:6])
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], x.sum(), updates={w: sf.symbol(w) + x})
    assert taken(program, memory[:3]) == call_path
    assert taken(program, memory[6:]) == call_path
    assert not taken(program, memory[2:5])
    assert not taken(program, w)


@pytest.mark.parametrize("count", [2, 9, 10, 17, 23])
def test_every_pair_of_updated_variables_is_compared(call_path: bool, count: int) -> None:
    """Two of many variables are made to overlap; the comparison has lanes and a remainder."""
    memory = f32(4 * count)
    parts = [memory[4 * i : 4 * i + 4] for i in range(count)]
    variables = [sf.from_numpy(p) for p in parts]
    x = sf.placeholder((4,), name="x")
    program = sf.compile([x], x.sum(), updates=[(v, sf.symbol(v) + x) for v in variables])
    program(f32(4))
    assert memory.tolist() == (f32(4 * count) + np.tile(f32(4), count)).tolist()
    assert taken(program, f32(4)) == call_path
    pairs = [(0, 1), (0, count - 1), (count // 2, count - 1), (count - 2, count - 1)]
    for i, j in dict.fromkeys(p for p in pairs if p[0] != p[1]):
        variables[j].data = sf.from_numpy(memory[4 * i + 3 : 4 * i + 7].copy())
        assert taken(program, f32(4)) == call_path
        variables[j].data = sf.from_numpy(memory[4 * i : 4 * i + 4])
        assert not taken(program, f32(4))
        before = memory.copy()
        with pytest.raises(ShapeError, match="share memory"):
            program(f32(4))
        assert np.array_equal(memory, before)
        variables[j].data = sf.from_numpy(parts[j])


def test_a_variable_that_is_read_and_shares_memory_with_an_updated_one(call_path: bool) -> None:
    w = sf.variable([1.0, 2.0])
    same = w.detach()
    program = sf.compile([], sf.symbol(same) * 10, updates={w: sf.symbol(w) + same})
    assert not taken(program)
    assert program().tolist() == [10, 20]
    assert w.tolist() == [2, 4]


def test_updated_variables_of_other_layouts(call_path: bool) -> None:
    w = sf.variable([[1.0, 2.0], [3.0, 4.0]])
    program = sf.compile([], None, updates={w: sf.symbol(w) * 2})
    fortran = np.asfortranarray(f32(2, 2))
    w.data = sf.from_numpy(fortran)
    program()
    assert fortran.tolist() == [[2, 4], [6, 8]]
    fixed = f32(2, 2)
    fixed.flags.writeable = False
    w.data = sf.from_numpy(fixed)
    assert not taken(program)
    with pytest.raises(ShapeError, match="read-only"):
        program()
    assert fixed.tolist() == [[1, 2], [3, 4]]


# -- threads ---------------------------------------------------------------------------------


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Run ``work(i)`` in threads that start together; raises what one of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(i: int) -> None:
        start.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("n", [8, 20_000], ids=["short", "long"])
def test_readers_at_the_same_time(call_path: bool, n: int) -> None:
    w = sf.variable(np.full(3, 2.0, np.float32))
    x = sf.placeholder((None, 3), name="x")
    scaled = sf.softmax(x * w, dim=0) * 0 + x * w  # by way of the arena
    program = sf.compile([x], sf.amax(scaled, dim=0))

    def work(i: int) -> None:
        x = np.full((n, 3), float(i), np.float32)
        for _ in range(20):
            assert program(x).tolist() == [2.0 * i] * 3

    in_threads(work)


@pytest.mark.parametrize("kinds", ["short", "long", "short long"])
def test_updates_take_turns(call_path: bool, kinds: str) -> None:
    """Each call adds one; calls that ran into each other would lose some. A long one has an input
    beside that makes it let other threads run."""
    w = sf.variable(np.zeros(2000, np.float32))
    programs = []
    for kind in kinds.split():
        x = sf.placeholder((None,), name="x")
        step = sf.compile([x], sf.amax(x), updates={w: sf.symbol(w) + x.sum() * 0 + 1})
        given = np.zeros(1 if kind == "short" else 100_000, np.float32)
        programs.append((step, given))
    calls = 50

    def work(i: int) -> None:
        for k in range(calls):
            step, given = programs[(i + k) % len(programs)]
            step(given)

    in_threads(work)
    assert np.unique(w.numpy()).tolist() == [4.0 * calls]


def test_a_short_update_waits_for_whoever_is_at_it(call_path: bool) -> None:
    w = sf.variable([0.0])
    step = sf.compile([], None, updates={w: sf.symbol(w) + 1})
    waiting, done = threading.Event(), threading.Event()

    def work() -> None:
        waiting.set()
        step()
        done.set()

    thread = threading.Thread(target=work)
    with updating, updating.lock:
        thread.start()
        waiting.wait()
        assert not done.wait(0.05)
        step()  # whose turn it is may go on
        assert w.item() == 1.0
    thread.join()
    assert w.item() == 2.0


def test_whoever_takes_the_lock_is_counted_before() -> None:
    """As it has taken it another thread of Python may run, and must see that it is not its turn."""

    def take() -> None:
        with updating, updating.lock:
            pass

    thread = threading.Thread(target=take)
    with updating.lock:
        thread.start()
        while not updating._held.value:
            assert thread.is_alive()
        assert updating._held.value == 1
    thread.join()
    assert updating._held.value == 0


def test_whoever_is_interrupted_while_it_waits_is_counted_no_more() -> None:
    turn = Turn()

    class Waiting:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None: ...

    with pytest.raises(KeyboardInterrupt), turn, Waiting():
        pass
    assert turn._held.value == 0
