"""Calling compiled programs: what is taken, what is refused, and what a call leaves behind.

Every behaviour is tested through the native entry and through the portable path; what only the
former has (that it takes a call at all, reference counts, memory) has tests of its own below.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.config import config
from staticflow.errors import (
    DTypeError,
    IndexRangeError,
    ShapeError,
    StaticflowError,
    SymbolicError,
)
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.runtime import fastcall_layout
from staticflow.runtime.fastcall_layout import box_type, has_known_layout
from staticflow.runtime.turn import updating

needs_entry = pytest.mark.skipif(not has_known_layout(), reason="no native entry here")


@pytest.fixture(params=[True, False], ids=["native", "portable"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Both ways of calling; True where the native entry is in use."""
    monkeypatch.setattr(config, "fast_call", request.param)
    yield request.param and has_known_layout()
    assert updating._held.value == 0


def f32(*shape: int, start: float = 1.0) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int), dtype=np.float32) + start).reshape(shape)


def taken(program: Any, *args: Any) -> bool:
    """Whether the native entry itself gives a result."""
    return isinstance(program._executable.fast(*args), np.ndarray | tuple)


def doubled(shape: tuple[Any, ...] = (None, 3), dtype: Any = "float32") -> Any:
    x = sf.placeholder(shape, dtype, name="x")
    return sf.compile([x], x + x)


# -- what is taken ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        sf.from_numpy,
        lambda a: sf.from_numpy(a).requires_grad_(),
        sf.nn.Parameter,
        lambda a: sf.nn.Parameter(a, requires_grad=False),
    ],
    ids=["array", "tensor", "leaf", "parameter", "frozen"],
)
def test_arrays_and_boxes(path: bool, make: Callable[[Any], Any]) -> None:
    program, a = doubled(), f32(2, 3)
    out = program(make(a))
    assert type(out) is sf.Tensor
    assert out.tolist() == (a + a).tolist()
    assert taken(program, make(a)) == path


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3)], ids=str)
def test_dtypes_and_shapes(path: bool, dtype: DType, shape: tuple[int, ...]) -> None:
    x = sf.placeholder(tuple(None for _ in shape), dtype, name="x")
    program = sf.compile([x], x)
    a = np.ones(shape, dtype.numpy)
    out = program(a)
    assert out.dtype is dtype
    assert out.shape == shape
    assert np.array_equal(out.numpy(), a)
    assert taken(program, a) == path


def test_sizes_are_bound_and_compared(path: bool) -> None:
    n, m = sf.placeholder(("N", "M"), name="a"), sf.placeholder(("M", "N"), name="b")
    flat = sf.placeholder((n.shape[0] * n.shape[1] + 1,), name="c")
    program = sf.compile([n, m, flat], (n + m.t()).sum() + flat.sum())
    for rows, cols in [(2, 3), (0, 5), (1, 1), (4, 0)]:
        args = f32(rows, cols), f32(cols, rows), f32(rows * cols + 1)
        assert program(*args).item() == sum(a.sum() for a in args)
        assert taken(program, *args) == path
    with pytest.raises(ShapeError, match="b has 4 in dim 0 where"):
        program(f32(2, 3), f32(4, 2), f32(7))
    with pytest.raises(ShapeError, match="c has 6 in dim 0 where"):
        program(f32(2, 3), f32(3, 2), f32(6))


def test_a_size_is_used_before_it_is_bound(path: bool) -> None:
    b = sf.placeholder(("N",), name="b")
    a = sf.placeholder((b.shape[0] // 2 + 3,), name="a")
    program = sf.compile([a, b], a.sum() * b.sum())
    assert program(f32(5), f32(4)).item() == 150
    assert taken(program, f32(5), f32(5)) == path
    with pytest.raises(ShapeError, match="a has 4 in dim 0"):
        program(f32(4), f32(4))


def test_assumed_equalities(path: bool) -> None:
    x, y = sf.placeholder((None, 2), name="x"), sf.placeholder((None,), name="y")
    program = sf.compile([x, y], x.reshape(x.shape[0] * 2) + y)
    assert program(f32(3, 2), f32(6)).tolist() == [2, 4, 6, 8, 10, 12]
    assert taken(program, f32(0, 2), f32(0)) == path
    with pytest.raises(ShapeError, match="must be equal"):
        program(f32(3, 2), f32(5))


def test_structures_of_outputs(path: bool) -> None:
    x = sf.placeholder((None,), name="x")
    nothing = sf.compile([x], None)
    assert nothing(f32(2)) is None
    assert sf.compile([x], [])(f32(2)) == []
    (one,) = sf.compile([x], [x + 1])(f32(2))
    assert one.tolist() == [2, 3]
    many = sf.compile([x], {"b": x + 1, "a": (x * 2, x.sum())})(f32(2))
    assert many["b"].tolist() == [2, 3]
    assert [t.tolist() for t in many["a"]] == [[2, 4], 3]
    assert taken(nothing, f32(2)) == path


def test_no_inputs(path: bool) -> None:
    w = sf.variable([1.0, 2.0])
    program = sf.compile([], w * 3)
    assert program().tolist() == [3, 6]
    assert taken(program) == path


def test_names(path: bool) -> None:
    x, y = sf.placeholder((2,), name="x"), sf.placeholder((2,), name="y")
    program = sf.compile([x, y], x - y)
    a, b = f32(2), f32(2, start=5)
    expected = program(a, b).tolist()
    assert program(y=b, x=a).tolist() == program(a, y=b).tolist() == expected
    with pytest.raises(ShapeError, match="no input is called 'z'"):
        program(a, z=b)
    with pytest.raises(ShapeError, match="no input is called 'x'"):
        program(a, x=b)
    with pytest.raises(ShapeError, match=r"takes 2 inputs \(x, y\), 1 were given"):
        program(y=b)


def test_constants_of_the_graph(path: bool) -> None:
    x = sf.placeholder((None, 3), name="x")
    program = sf.compile([x], x * f32(3) + f32(1, start=10))
    assert program(f32(1, 3)).tolist() == [[11, 14, 19]]
    assert taken(program, f32(1, 3)) == path


# -- what is left to the portable path -------------------------------------------------------


class Sub(np.ndarray):
    pass


def misaligned(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    raw[:] = np.frombuffer(a.tobytes(), np.uint8)
    return raw.view(a.dtype).reshape(a.shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1][::-1].view(Sub),
        misaligned,
        lambda a: a.astype(np.dtype("f4", metadata={"made": "so"})),
        lambda a: sf.from_numpy(np.asfortranarray(a)),
        lambda a: sf.from_numpy(a.view(Sub)),
    ],
    ids=["fortran", "strided", "subclass", "misaligned", "metadata", "boxed", "boxed subclass"],
)
def test_other_arrays_work_too(path: bool, make: Callable[[Any], Any]) -> None:
    program, a = doubled(), f32(2, 3)
    assert not taken(program, make(a))
    out = program(make(a))
    assert type(out.numpy()) is np.ndarray
    assert out.tolist() == (a + a).tolist()


@pytest.mark.parametrize("value", [2.0, np.float32(2)], ids=["number", "scalar"])
def test_numbers_work_too(path: bool, value: Any) -> None:
    program = doubled(())
    assert program(value).item() == 4.0
    assert not taken(program, value)


def test_read_only_inputs_are_fine(path: bool) -> None:
    a = f32(2, 3)
    a.flags.writeable = False
    program = doubled()
    assert program(a).tolist() == (a * 2).tolist()
    assert taken(program, a) == path


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ((), ShapeError, "takes 1 inputs"),
        ((f32(1, 3), f32(1, 3)), ShapeError, "takes 1 inputs .*, 2 were given"),
        (("text",), SymbolicError, "the input x is str"),
        ((None,), SymbolicError, "the input x is NoneType"),
        (([1.0],), SymbolicError, "the input x is list"),
        ((3,), ShapeError, "x has 0 dims"),
        ((f32(1, 3).astype(np.float64),), DTypeError, "x is float64 and must be float32"),
        ((f32(1, 3).astype(">f4"),), DTypeError, "x is >f4 and must be float32"),
        ((f32(1, 3).view(np.int32),), DTypeError, "x is int32"),
        ((f32(3),), ShapeError, "x has 1 dims"),
        ((f32(1, 1, 3),), ShapeError, "x has 3 dims"),
        ((np.float32(3),), ShapeError, "x has 0 dims"),
        ((f32(3, 2),), ShapeError, "x has 2 in dim 1 where"),
        ((f32(3, 0),), ShapeError, "x has 0 in dim 1 where"),
    ],
    ids=str,
)
def test_wrong_arguments(
    path: bool, args: tuple[Any, ...], error: type[StaticflowError], match: str
) -> None:
    program = doubled()
    assert program._executable.fast(*args) is None
    with pytest.raises(error, match=match) as caught:
        program(*args)
    assert "test_fastcall.py" in str(caught.value)
    assert program(f32(1, 3)).tolist() == [[2, 4, 6]]


def test_a_tensor_without_data_is_declined(path: bool) -> None:
    assert doubled()._executable.fast(object.__new__(sf.Tensor)) is None


# -- failures as the program runs ------------------------------------------------------------


def test_an_index_out_of_range(path: bool) -> None:
    x, i = sf.placeholder((None,), name="x"), sf.placeholder((None,), "int64", name="i")
    w = sf.variable([7.0])
    program = sf.compile([x, i], (sf.gather(x, 0, i), x * 2), updates={w: w + 1})
    good = np.array([1, 0, 1])
    assert program(f32(2), good)[0].tolist() == [2, 1, 2]
    assert w.tolist() == [8]
    for bad in (np.array([2]), np.array([0, -9]), np.array([np.iinfo(np.int64).min])):
        if path:
            assert type(program._executable.fast(f32(2), bad)) is int
        with pytest.raises(IndexRangeError, match="nothing was updated"):
            program(f32(2), bad)
    assert w.tolist() == [8]
    assert w._version.count == 1


def outer(several: bool) -> Any:
    x, y = sf.placeholder((None, 0), name="x"), sf.placeholder((0, None), name="y")
    return sf.compile([x, y], (x.sum(), x @ y) if several else x @ y)


@pytest.mark.parametrize("several", [False, True])
def test_no_memory_for_an_output(path: bool, several: bool) -> None:
    """Sizes come from arrays without elements, so they may be as large as they like."""
    huge = 1 << 28
    with pytest.raises(MemoryError):
        outer(several)(np.empty((huge, 0), np.float32), np.empty((0, huge), np.float32))
    result = outer(several)(f32(2, 0), f32(0, 3))
    assert (result[1] if several else result).tolist() == [[0, 0, 0]] * 2


def test_outputs_that_no_integer_can_count(path: bool) -> None:
    huge = 1 << 40
    args = np.empty((huge, 0), np.float32), np.empty((0, huge), np.float32)
    program = outer(False)
    assert program._executable.fast(*args) is None
    with pytest.raises(ValueError, match=r"too big|[Mm]aximum"):
        program(*args)


@pytest.mark.parametrize("huge", [1 << 26, 1 << 31, 1 << 40])
def test_no_memory_for_the_arena(path: bool, huge: int) -> None:
    x, y = sf.placeholder((None, 0), name="x"), sf.placeholder((0, None), name="y")
    program = sf.compile([x, y], (x @ y).exp().sum(dim=1).max())
    assert program(f32(2, 0), f32(0, 3)).item() == 3.0
    with pytest.raises(MemoryError, match="arena"):
        program(np.empty((huge, 0), np.float32), np.empty((0, huge), np.float32))


# -- variables and updates -------------------------------------------------------------------


def test_variables_are_looked_up_at_each_call(path: bool) -> None:
    w = sf.variable([1.0, 2.0])
    x = sf.placeholder((2,), name="x")
    program = sf.compile([x], x * w)
    assert program(f32(2)).tolist() == [1, 4]
    w.data = sf.tensor([10.0, 20.0])
    assert program(f32(2)).tolist() == [10, 40]
    assert taken(program, f32(2)) == path
    w.data = sf.tensor([1, 2])
    with pytest.raises(DTypeError, match="is int64 and must be float32"):
        program(f32(2))
    w.data = sf.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="has 3 in dim 0"):
        program(f32(2))


def test_updates_are_simultaneous_and_counted(path: bool) -> None:
    a, b = sf.variable([1.0, 2.0]), sf.nn.Parameter([10.0, 20.0])
    memory = a.numpy()
    x = sf.placeholder((2,), name="x")
    program = sf.compile([x], a + b, updates={a: b, b: a + x})
    assert program(f32(2)).tolist() == [11, 22]
    assert a.tolist() == [10, 20]
    assert b.tolist() == [2, 4]
    assert a.numpy() is memory
    assert (a._version.count, b._version.count) == (1, 1)
    with pytest.raises(ShapeError):
        program(f32(3))
    assert (a._version.count, b._version.count) == (1, 1)
    assert taken(program, f32(2)) == path


def test_updates_without_outputs(path: bool) -> None:
    w = sf.variable(1.0)
    step = sf.compile([], None, updates={w: w * 2})
    assert step() is None
    assert step() is None
    assert w.item() == 4.0


def test_an_input_on_the_memory_of_an_updated_variable_is_copied(path: bool) -> None:
    memory = f32(6)
    w = sf.from_numpy(memory[1:4])
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], x.sum(), updates={w: w + x.sum() - w})
    for first, overlaps in ((0, True), (1, True), (3, True)):
        memory[:] = f32(6)
        x_values = memory[first : first + 3]
        total = x_values.sum()
        assert not (overlaps and taken(program, x_values))
        assert program(x_values).item() == total
        assert memory[1:4].tolist() == [total] * 3
    memory[:] = f32(6)
    beside = np.concatenate([memory, memory])[6:9]
    assert taken(program, beside) == path


def test_an_input_beside_an_updated_variable_is_not(path: bool) -> None:
    memory = f32(9)
    w = sf.from_numpy(memory[3:6])
    x = sf.placeholder((3,), name="x")
    program = sf.compile([x], x.sum(), updates={w: w + x})
    assert taken(program, memory[:3]) == path
    assert taken(program, memory[6:]) == path
    assert not taken(program, memory[2:5])
    assert not taken(program, w)


@pytest.mark.parametrize("count", [2, 9, 10, 17, 23])
def test_every_pair_of_updated_variables_is_compared(path: bool, count: int) -> None:
    """Two of many variables are made to overlap; the comparison has lanes and a remainder."""
    memory = f32(4 * count)
    parts = [memory[4 * i : 4 * i + 4] for i in range(count)]
    variables = [sf.from_numpy(p) for p in parts]
    x = sf.placeholder((4,), name="x")
    program = sf.compile([x], x.sum(), updates=[(v, v + x) for v in variables])
    program(f32(4))
    assert memory.tolist() == (f32(4 * count) + np.tile(f32(4), count)).tolist()
    assert taken(program, f32(4)) == path
    pairs = [(0, 1), (0, count - 1), (count // 2, count - 1), (count - 2, count - 1)]
    for i, j in dict.fromkeys(p for p in pairs if p[0] != p[1]):
        variables[j].data = sf.from_numpy(memory[4 * i + 3 : 4 * i + 7].copy())
        assert taken(program, f32(4)) == path
        variables[j].data = sf.from_numpy(memory[4 * i : 4 * i + 4])
        assert not taken(program, f32(4))
        before = memory.copy()
        with pytest.raises(ShapeError, match="share memory"):
            program(f32(4))
        assert np.array_equal(memory, before)
        variables[j].data = sf.from_numpy(parts[j])


def test_a_variable_that_is_read_and_shares_memory_with_an_updated_one(path: bool) -> None:
    w = sf.variable([1.0, 2.0])
    same = w.detach()
    program = sf.compile([], same * 10, updates={w: w + same})
    assert not taken(program)
    assert program().tolist() == [10, 20]
    assert w.tolist() == [2, 4]


def test_updated_variables_of_other_layouts(path: bool) -> None:
    w = sf.variable([[1.0, 2.0], [3.0, 4.0]])
    program = sf.compile([], None, updates={w: w * 2})
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


# -- results ---------------------------------------------------------------------------------


def test_results_own_their_memory(path: bool) -> None:
    w = sf.variable(f32(3))
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], (x, w, x + 0, x.reshape(-1, 1), x), updates={w: w + 1})
    a = f32(3)
    first, second = program(a), program(a)
    arrays = [t.numpy() for t in (*first, *second)]
    assert all(b.flags.owndata and b.flags.writeable and b.base is None for b in arrays)
    for i, b in enumerate(arrays):
        assert not any(np.shares_memory(b, c) for c in (a, w.numpy(), *arrays[:i]))
    assert first[1].tolist() == [1, 2, 3]
    assert second[1].tolist() == [2, 3, 4]
    first[0].numpy()[:] = 0
    assert a.tolist() == [1, 2, 3]


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


@pytest.mark.parametrize("n", [8, 200_000], ids=["short", "long"])
def test_readers_at_the_same_time(path: bool, n: int) -> None:
    w = sf.variable(np.full(3, 2.0, np.float32))
    x = sf.placeholder((None, 3), name="x")
    program = sf.compile([x], ((x * w).cumsum(dim=0) * 2).amax(dim=0))
    n //= 8

    def work(i: int) -> None:
        x = np.full((n, 3), float(i), np.float32)
        for _ in range(20):
            assert program(x).tolist() == [4.0 * i * n] * 3

    in_threads(work)


@pytest.mark.parametrize("sizes", [(4,), (60_000,), (4, 60_000)], ids=str)
def test_updates_take_turns(path: bool, sizes: tuple[int, ...]) -> None:
    """Each call adds one; calls that ran into each other would lose some."""
    w = sf.variable(np.zeros(60_000, np.float32))
    programs = []
    for n in sizes:
        x = sf.placeholder((None,), name="x")
        programs.append(sf.compile([x], w[:n].sum(), updates={w: w + x.amax()}))
    one, calls = f32(1), 25

    def work(i: int) -> None:
        for k in range(calls):
            programs[(i + k) % len(programs)](one)

    in_threads(work)
    assert np.unique(w.numpy()).tolist() == [4.0 * calls]


def test_a_short_update_waits_for_whoever_is_at_it(path: bool) -> None:
    w = sf.variable([0.0])
    step = sf.compile([], None, updates={w: w + 1})
    waiting, done = threading.Event(), threading.Event()

    def work() -> None:
        waiting.set()
        step()
        done.set()

    thread = threading.Thread(target=work)
    with updating:
        thread.start()
        waiting.wait()
        assert not done.wait(0.05)
        step()  # whose turn it is may go on
        assert w.item() == 1.0
    thread.join()
    assert w.item() == 2.0


# -- what a call leaves behind ---------------------------------------------------------------


def counts(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(o) for o in objects]


def steady(call: Callable[[], Any], objects: list[Any], calls: int = 10_000) -> None:
    """After many calls every object is referred to as often as before."""
    call()
    before = counts(objects)
    for _ in range(calls):
        call()
    after = counts(objects)
    assert [abs(a - b) < 100 for a, b in zip(after, before, strict=True)] == [True] * len(before)


@needs_entry
def test_reference_counts() -> None:
    x, i = sf.placeholder((None,), name="x"), sf.placeholder((None,), "int64", name="i")
    w = sf.variable([1.0])
    program = sf.compile([x, i], (sf.gather(x, 0, i), x * w), updates={w: w + 1})
    single = sf.compile([x], x + x)
    fast = program._executable.fast
    a, t, good, bad = f32(2), sf.tensor([1.0, 2.0]), np.array([0]), np.array([5])
    shared = [
        a, t, t.numpy(), good, bad, w, w.numpy(), None, a.dtype, good.dtype, np.ndarray, sf.Tensor,
        program, fast, fast.__self__,
    ]  # fmt: skip
    steady(lambda: fast(a, good), shared)
    steady(lambda: fast(t, good), shared)
    steady(lambda: fast(a, bad), shared)
    steady(lambda: fast(a), shared)
    steady(lambda: fast(a, a), shared)
    steady(lambda: fast("text", good), shared)
    steady(lambda: program(t, good), shared, 1000)
    steady(lambda: single(a), shared)
    results = fast(a, good)
    assert type(results) is tuple
    assert [sys.getrefcount(r) for r in results] == [3, 3]  # the tuple, the loop, the argument


@needs_entry
def test_reference_counts_where_there_is_no_memory() -> None:
    args = [np.empty((1 << 28, 0), np.float32), np.empty((0, 1 << 28), np.float32)]
    for several in (False, True):
        fast = outer(several)._executable.fast

        def call(fast: Any = fast) -> None:
            with pytest.raises(MemoryError):
                fast(*args)

        steady(call, [*args, None, args[0].dtype], 300)


@needs_entry
def test_calls_keep_no_memory() -> None:
    statm = "/proc/self/statm"
    try:
        open(statm).close()
    except OSError:
        pytest.skip("no /proc here")

    def resident() -> int:
        with open(statm) as file:
            return int(file.read().split()[1]) * 4096

    program = doubled((None,))
    a = f32(4096)
    program(a)
    before = resident()
    for _ in range(5000):  # 80 MB of results
        program(a)
    assert resident() - before < 16 << 20


@needs_entry
def test_programs_are_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        w = sf.variable([1.0])
        x = sf.placeholder((None,), name="x")
        program = sf.compile([x], x * w, updates={w: w + 1})
        program(f32(2))
        fast = program._executable.fast
        watched = [
            weakref.ref(o) for o in (program._executable, program._executable._state, fast.__self__)
        ]
        del program
        assert watched[0]() is None
        assert watched[1]() is not None, "the entry still needs the arena"
        assert fast(f32(2)).tolist() == [2.0, 4.0]
        del fast
        assert [o() for o in watched] == [None] * 3
    finally:
        gc.enable()


# -- whether the layout is what we think -----------------------------------------------------


@pytest.mark.parametrize("name", ["TYPE", "DATA", "NDIM", "DIMS", "DESCR", "FLAGS"])
@needs_entry
def test_another_layout_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_known_layout.__wrapped__()
    others = {"TYPE": 0, "DATA": 24, "NDIM": 28, "DIMS": 40, "DESCR": 48, "FLAGS": 68}
    monkeypatch.setattr(fastcall_layout, name, others[name])
    assert not has_known_layout.__wrapped__()


@needs_entry
def test_another_mask_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastcall_layout, "CONTIGUOUS", fastcall_layout.WRITEABLE)
    assert not has_known_layout.__wrapped__()


@needs_entry
def test_an_interpreter_without_a_lock_has_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastcall_layout.sysconfig, "get_config_var", lambda name: 1)
    assert not has_known_layout.__wrapped__()


@needs_entry
def test_box_type() -> None:
    class Base:
        __slots__ = ("__weakref__", "first", "held")

    class Derived(Base):
        __slots__ = ("last",)

    class Plain:
        pass

    box = box_type(Base, "held")
    assert box is not None
    assert box.type_address == id(Base)
    derived = box_type(Derived, "held")
    assert derived is not None
    assert derived.slot_offset == box.slot_offset
    assert box_type(Plain, "held") is None
