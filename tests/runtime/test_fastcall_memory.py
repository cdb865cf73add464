"""The native entry: reference counts, memory, lifetimes, and whether it trusts the layout."""

from __future__ import annotations

import contextvars
import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calling import doubled, f32, huge_output, needs_entry
from numpy._core import multiarray
from stress_pool import slots_of

import staticflow as sf
from staticflow.runtime import object_layout
from staticflow.runtime.aligned import ALIGNED_FROM, aligned_empty
from staticflow.runtime.block_cache import BLOCKS, HUGE_FROM, KEPT_FROM, MOST_KEPT, read_kept_bytes
from staticflow.runtime.object_layout import box_type, has_known_layout

# -- what a call leaves behind ---------------------------------------------------------------


def counts(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(o) for o in objects]


def steady(call: Callable[[], Any], objects: list[Any], calls: int = 4_000) -> None:
    """After many calls every object is referred to about as often as before."""
    call()
    gc.collect()
    before = counts(objects)
    for _ in range(calls):
        call()
    gc.collect()
    gained = [b - a for a, b in zip(before, counts(objects), strict=True)]
    assert max(map(abs, gained)) < 50, gained


@needs_entry
def test_what_makes_large_arrays_is_compiled_for_programs_that_may_give_one() -> None:
    known = "x = sf.placeholder((4, 9), name='x'); sf.compile([x], (x + 1, x.sum()))(sf.ones(4, 9))"
    unknown = "x = sf.placeholder((None,), name='x'); sf.compile([x], {})(sf.ones(3))"
    large = "x = sf.placeholder((1 << 14,), name='x'); sf.compile([x], x + 1)(sf.ones(1 << 14))"
    for program, made in [
        (known, 0), (unknown.format("x.sum()"), 0), (unknown.format("x + 1"), 1), (large, 1),
    ]:  # fmt: skip
        text = f"import staticflow as sf; from staticflow.runtime import aligned; {program}; "
        text += "print(aligned._module.cache_info().currsize)"
        ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        assert ended.stdout.strip() == str(made), (program, ended)


@needs_entry
def test_reference_counts() -> None:
    x, i = sf.placeholder((None,), name="x"), sf.placeholder((None,), "int64", name="i")
    w = sf.variable([1.0])
    program = sf.compile([x, i], (sf.gather(x, 0, i), x * w), updates={w: sf.symbol(w) + x.sum()})
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
    late = sf.scan(lambda c, v: (c + v, c), x.sum() * 0, x, until=lambda c, y: c > 5)[1]
    told, several = sf.compile([x], late), sf.compile([x], (late, late * 2))
    steady(lambda: told(a), shared)
    steady(lambda: several(a), shared)
    results = fast(a, good)
    assert type(results) is tuple
    counts = [sys.getrefcount(r) for r in results]
    assert counts == [sys.getrefcount(r) for r in (object(), object())]  # as in any tuple


@needs_entry
def test_reference_counts_where_there_is_no_memory() -> None:
    args = [np.empty((1 << 28, 0), np.float32), np.empty((0, 1 << 28), np.float32)]
    for several in (False, True):
        fast = huge_output(several)._executable.fast

        def call(fast: Any = fast) -> None:
            try:
                fast(*args)
            except MemoryError:
                return
            raise AssertionError("there was memory")

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

    x = sf.placeholder((None,), name="x")
    told = sf.scan(lambda c, v: (c + v, c), x.sum() * 0, x, until=lambda c, y: c < 0)[1]
    for program in (doubled((None,)), sf.compile([x], told)):
        a = f32(4096)
        program(a)
        before = resident()
        for _ in range(5000):  # 80 MB of results
            program(a)
        assert resident() - before < 16 << 20


@needs_entry
@pytest.mark.parametrize("bytes_", [ALIGNED_FROM - 4, ALIGNED_FROM, HUGE_FROM, HUGE_FROM + 40])
def test_large_outputs_begin_with_a_line_of_the_cache(bytes_: int) -> None:
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], x + 1)
    a = np.arange(bytes_ // 4, dtype=np.float32)
    outs = [program(a) for _ in range(5)]
    arrays = [t.numpy() for t in outs]
    if bytes_ >= ALIGNED_FROM:
        assert [b.ctypes.data % 64 for b in arrays] == [0] * 5
    found = program._executable.fast(a)
    del program, outs
    gc.collect()
    for size in (a.size * 2, 5):  # memory that NumPy itself enlarges, and frees
        found.resize(size, refcheck=False)
        np.testing.assert_array_equal(found[: a.size], a[: found.size] + 1)
    assert multiarray.get_handler_name() == "default_allocator"


@needs_entry
def test_large_outputs_take_the_memory_of_those_before() -> None:
    program = doubled((None,))
    a = f32(KEPT_FROM // 4)
    places = set()
    for _ in range(5):
        out = program(a)
        places.add(out.numpy().ctypes.data)
        np.testing.assert_array_equal(out.numpy(), program._executable.fast(a))
        del out
    assert len(places) <= 2
    for n in range(40):  # each of another size: the oldest go
        program(f32(KEPT_FROM // 4 + (n % 5 + 1) * MOST_KEPT // 64))
        assert 0 <= read_kept_bytes() <= MOST_KEPT
    program(f32(MOST_KEPT // 4 + 1))
    assert read_kept_bytes() <= MOST_KEPT


def test_empty_arrays_of_such_memory() -> None:
    first = aligned_empty((3, KEPT_FROM), np.int8)
    place = first.ctypes.data
    assert first.shape == (3, KEPT_FROM) and first.flags.owndata and place % 64 == 0
    del first
    assert aligned_empty((3 * KEPT_FROM // 8,), np.float64).ctypes.data == place
    with pytest.raises(ValueError, match="negative"):
        aligned_empty((-1,), np.int8)
    assert multiarray.get_handler_name() == "default_allocator"


@pytest.mark.parametrize("size", [KEPT_FROM, 2 * KEPT_FROM + 64, 1 << 20])
def test_memory_of_some_arrays_is_kept_at_once(size: int) -> None:
    """From two arrays of 400 KB on the C library gave it back each time, and the system cleared
    its pages anew."""
    arrays = [aligned_empty((size,), np.int8) for _ in range(BLOCKS)]
    places = {a.ctypes.data for a in arrays}
    assert len(places) == BLOCKS
    del arrays
    gc.collect()
    assert read_kept_bytes() == BLOCKS * size
    again = [aligned_empty((size,), np.int8) for _ in range(BLOCKS)]
    assert {a.ctypes.data for a in again} == places
    assert read_kept_bytes() == 0
    below = aligned_empty((KEPT_FROM - 1,), np.int8)  # of NumPy's own memory
    del below
    assert read_kept_bytes() == 0


def test_such_memory_is_taken_without_a_context_variable() -> None:
    """CPython 3.11 may collect garbage as it sets one, and goes on in memory that is free where a
    finalizer, which may make an array, sets another meanwhile."""
    program = doubled((None,))
    context = contextvars.Context()
    context.run(aligned_empty, (ALIGNED_FROM,), np.int8)
    context.run(program, f32(ALIGNED_FROM))
    assert [*context] == []


@needs_entry
def test_what_native_code_points_to_stays() -> None:
    """It went on in code and in cells that were gone when somebody wrote into a private slot."""
    program = doubled((None,))
    executable = program._executable
    assert type(executable.fast.__self__) is tuple
    for thing in (executable, executable.module, executable._state, executable._entry):
        for slot in slots_of(thing):
            with pytest.raises(AttributeError, match="native code points to it"):
                setattr(thing, slot, None)
            with pytest.raises(AttributeError, match="native code points to it"):
                delattr(thing, slot)
    gc.collect()
    assert program(f32(3)).tolist() == (2 * f32(3)).tolist()


@needs_entry
def test_memory_is_kept_for_several_threads() -> None:
    program = doubled((None,))
    wrong: list[int] = []

    def run(n: int) -> None:
        a = f32(KEPT_FROM // 4 + n)
        for _ in range(50):
            first, second = program(a), program(a)
            if not np.array_equal(first.numpy(), second.numpy()) or first.numpy()[7] != 2 * a[7]:
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(n % 2,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@needs_entry
def test_large_arrays_outlive_the_native_code() -> None:
    """And are made by whatever is called as the interpreter ends."""
    code = """
import atexit
import subprocess
import sys
import threading
import numpy as np

@atexit.register  # called behind what others have registered since
def compute():
    grown = (x + 1.0).numpy().copy()
    grown.resize(1 << 21, refcheck=False)
    print((x * 2.0).sum().item(), grown[-1])

import staticflow as sf
x = sf.from_numpy(np.ones(1 << 20, np.float32))
y, z = x.exp(), [x.exp()]
z.append(z)
sys.modules["kept until the end"] = y.numpy()
np.kept = x.exp()
"""
    for options in ([], ["-X", "dev"]):
        command = [sys.executable, *options, "-c", code]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        assert said.stdout == "2097152.0 0.0\n"


@needs_entry
def test_programs_are_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        w = sf.variable([1.0])
        x = sf.placeholder((None,), name="x")
        program = sf.compile([x], x * w, updates={w: sf.symbol(w) + x.sum()})
        program(f32(2))
        fast = program._executable.fast
        watched = [
            weakref.ref(o)
            for o in (program._executable, program._executable._state, fast.__self__[0])
        ]
        del program
        assert watched[0]() is None
        assert watched[1]() is not None, "the entry still needs the arena"
        assert fast(f32(2)).tolist() == [4.0, 8.0]
        del fast
        assert [o() for o in watched] == [None] * 3
        single = sf.compile([x], x * w)
        single(f32(2))
        watched = [weakref.ref(o) for o in (single, single._executable)]
        del single
        assert [o() for o in watched] == [None] * 2
    finally:
        gc.enable()


@needs_entry
def test_the_collector_frees_no_function_through_what_it_has_cleared() -> None:
    """CPython reads a function's record as it frees the function; in a cycle that record had been
    freed before, since the collector cleared what owned it."""
    single = doubled((None,))
    for fast in (single._executable.fast, single._executable.boxing(f32, sf.ones(1))):
        record, *_ = kept = fast.__self__
        place = ctypes.c_void_p.from_address(id(fast) + 2 * ctypes.sizeof(ctypes.c_void_p)).value
        assert place == record.ctypes.data and record.base is None
        assert type(kept) is tuple, "which the collector does not clear"
        assert not gc.is_tracked(record)


# -- whether the layout is what we think -----------------------------------------------------


@pytest.mark.parametrize("name", ["TYPE", "DATA", "NDIM", "DIMS", "DESCR", "FLAGS"])
@needs_entry
def test_another_layout_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_known_layout.__wrapped__()
    others = {"TYPE": 0, "DATA": 24, "NDIM": 28, "DIMS": 40, "DESCR": 48, "FLAGS": 68}
    monkeypatch.setattr(object_layout, name, others[name])
    assert not has_known_layout.__wrapped__()


@needs_entry
def test_another_mask_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_layout, "CONTIGUOUS", object_layout.WRITEABLE)
    assert not has_known_layout.__wrapped__()


@needs_entry
def test_an_interpreter_without_a_lock_has_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_layout.sysconfig, "get_config_var", lambda name: 1)
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
