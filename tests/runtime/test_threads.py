"""Threads in compiled code: the same bits for any number of them, and when there are any."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Buffer
from staticflow.codegen.llvm.render import render_module
from staticflow.codegen.thresholds import WAKING_WORK
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import int64
from staticflow.native.language import Atomic, variant, zero_record
from staticflow.native.layout import Layout
from staticflow.native.module import render_native
from staticflow.runtime import pool, threads
from staticflow.runtime.host import host
from staticflow.runtime.native import compile_native
from staticflow.runtime.threads import pool_jobs, pool_symbols

COUNTS = (1, 2, 3, 5)


@pytest.fixture(autouse=True)
def _number_of_threads() -> Iterator[None]:
    before = sf.get_num_threads()
    sf.set_num_threads(3)
    yield
    sf.set_num_threads(before)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def indices(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, n, shape)


# -- the same bits, whatever the number of threads -------------------------------------------------

F = sf.nn.functional

CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "elementwise": (lambda x: (x * 2).exp() + 1, (normal(900, 501),)),
    "one row": (lambda x: x.tanh() * x, (normal(1, 350_003),)),
    "broadcast": (lambda x, b: (x + b).tanh(), (normal(900, 501), normal(501))),
    "transposed": (lambda x: x.t().contiguous() * 2, (normal(1200, 1001),)),
    "sum of rows": (lambda x: (x * x).sum(dim=1), (normal(1200, 1001),)),
    "sum of columns": (lambda x: (x * x).sum(dim=0), (normal(1200, 1001),)),
    "sum of all": (lambda x: (x * x).sum(), (normal(1000, 1003),)),
    "sum of all, not merged": (lambda x, b: (x + b).sum(), (normal(1000, 1003), normal(1003))),
    "sum of a vector": (lambda x: x.sum(), (normal(1_000_003),)),
    "largest of all": (lambda x: x.max(), (normal(1_000_003),)),
    "mean of all of 16 bits": (lambda x: x.mean(), (normal(3_000_003).astype(np.float16),)),
    "divided by the sum": (lambda x: x / x.sum(), (normal(1000, 1003),)),
    "softmax of all": (lambda x: x.softmax(dim=0), (normal(500_009),)),
    "softmax": (lambda x: x.softmax(dim=1), (normal(300, 1001),)),
    "layer norm": (lambda x: F.layer_norm(x, (640,)), (normal(400, 640),)),
    "gather": (lambda x, i: x.gather(1, i), (normal(600, 901), indices(901, 600, 901))),
    "product": (lambda a, b: a @ b, (normal(130, 300), normal(300, 270))),
    "product of rows": (lambda a, b: a @ b.t(), (normal(130, 300), normal(270, 300))),
    "product of columns": (lambda a, b: a.t() @ b, (normal(300, 130), normal(300, 270))),
    "matrix times vector": (lambda a, b: a @ b, (normal(1300, 1000), normal(1000))),
    "vector times matrix": (lambda a, b: b @ a, (normal(1300, 1000), normal(1300))),
    "products in a batch": (lambda a, b: a @ b, (normal(9, 70, 90), normal(9, 90, 80))),
    "products in a batch, copied": (
        lambda a, b: a @ b.transpose(-1, -2),
        (normal(3, 7, 70, 90), normal(3, 7, 80, 90)),
    ),
    "one product in a batch": (lambda a, b: a @ b, (normal(1, 200, 300), normal(1, 300, 200))),
    "one image": (lambda x, w: F.conv2d(x, w), (normal(1, 8, 70, 70), normal(8, 8, 5, 5))),
    "convolution": (
        lambda x, w: F.conv2d(x, w, padding=1),
        (normal(5, 4, 40, 40), normal(8, 4, 3, 3)),
    ),
    "pooling": (lambda x: F.max_pool2d(x, 2), (normal(16, 8, 101, 101),)),
    "sorted": (lambda x: x.sort(dim=1).values, (normal(300, 301),)),
    "summed up": (lambda x: x.cumsum(1), (normal(900, 901),)),
    "rows by index": (lambda x, i: x[i], (normal(900, 301), indices(900, 4000))),
}


@pytest.mark.parametrize("case", CASES)
def test_no_result_depends_on_the_number_of_threads(case: str) -> None:
    function, arrays = CASES[case]
    given = [
        sf.placeholder((None,) * a.ndim, str(a.dtype), name=f"x{i}") for i, a in enumerate(arrays)
    ]
    step = sf.compile(given, function(*given))
    results = []
    for n in COUNTS:
        sf.set_num_threads(n)
        before = pool_jobs()
        results.append(step(*arrays).numpy().tobytes())
        assert (pool_jobs() > before) == (n > 1)
    assert len(set(results)) == 1


def test_a_training_step_is_the_same_for_any_number_of_threads() -> None:
    images, classes = normal(64, 1, 28, 28), indices(10, 64)
    states = []
    for n in COUNTS:
        sf.set_num_threads(n)
        sf.manual_seed(0)
        model = sf.nn.Sequential(
            sf.nn.Conv2d(1, 6, 5), sf.nn.ReLU(), sf.nn.MaxPool2d(2), sf.nn.Conv2d(6, 16, 5),
            sf.nn.ReLU(), sf.nn.Flatten(), sf.nn.Linear(1024, 300), sf.nn.ReLU(),
            sf.nn.Linear(300, 10),
        )  # fmt: skip
        x = sf.placeholder((None, 1, 28, 28), name="x")
        t = sf.placeholder((None,), "int64", name="t")
        loss = F.cross_entropy(model(x), t)
        step = sf.compile([x, t], loss, updates=sf.optim.Adam(model.parameters()).minimize(loss))
        before = pool_jobs()
        losses = [step(images, classes).numpy().tobytes() for _ in range(3)]
        assert (pool_jobs() > before) == (n > 1)
        states.append([*losses, *(p.detach().numpy().tobytes() for p in model.parameters())])
    assert all(state == states[0] for state in states)


@pytest.mark.parametrize("rows", [None, 20_000])
def test_few_columns_of_many_rows_multiplied_are_the_same_for_any_number_of_threads(
    rows: int | None,
) -> None:
    x = sf.placeholder((rows, 60), name="x")
    step = sf.compile([x], (x.T @ x) / x.shape[0] + sf.eye(60))
    results, points = [], normal(20_000, 60)
    for n in COUNTS:
        sf.set_num_threads(n)
        before = pool_jobs()
        results.append(step(points).numpy())
        assert pool_jobs() == before + (n > 1)
    assert len({r.tobytes() for r in results}) == 1
    wanted = points.astype("f8").T @ points / 20_000 + np.eye(60)
    np.testing.assert_allclose(results[0], wanted, 1e-5, 1e-5)


# -- when there are threads ------------------------------------------------------------------------


def test_little_work_is_done_by_one_thread() -> None:
    x = sf.placeholder((None,), name="x")
    step = sf.compile([x], x.exp() * 2)
    before = pool_jobs()
    step(normal(1000))
    assert pool_jobs() == before
    step(normal(1_000_000))
    assert pool_jobs() == before + 1


def test_threads_share_middle_work_while_they_are_awake() -> None:
    """After a while of such work they are, unless the processors are busy, which ends."""
    x = sf.placeholder((None,), name="x")
    step = sf.compile([x], x * 2)
    values = sf.from_numpy(normal(100_000))
    before = pool_jobs()
    assert any(step(values) is not None and pool_jobs() > before for _ in range(100_000))


def test_workers_that_sleep_miss_middle_work_before_they_are_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time twice as much, while nobody finds them awake."""
    crew, sleepers = zero_record(pool.Crew), zero_record(pool.Count)
    crew.size = 1
    sleepers.value.store(1)
    monkeypatch.setattr(pool, "crew", crew)
    monkeypatch.setattr(pool, "sleepers", sleepers)
    cost = WAKING_WORK // 4

    def missed() -> int:
        return next(n for n in itertools.count() if pool.is_due(2, cost))

    assert [missed() for _ in range(4)] == [3, 7, 15, 31]
    most = 4 * 2**pool.MOST_DOUBLINGS - 1
    assert max(missed() for _ in range(pool.MOST_DOUBLINGS)) == most == missed()
    sleepers.value.store(0)
    assert missed() == 0 and not [n for n in range(9) if not pool.is_due(2, cost)]
    assert not pool.is_due(3, cost)  # of which there is no third
    sleepers.value.store(1)
    assert missed() == 2


def test_a_kernel_that_is_never_large_exists_once() -> None:
    small, large = (sf.placeholder((n, 100), name="x") for n in (64, 64_000))
    assert "@parallel" not in sf.compile([small], small.exp()).source("llvm")
    assert "@parallel" in sf.compile([large], large.exp()).source("llvm")


def test_tasks_of_a_product_are_shared() -> None:
    x, g = (sf.placeholder(("n", size), name=name) for size, name in ((1000, "x"), (100, "g")))
    step = sf.compile([x, g], x.t() @ g)
    before = pool_jobs()
    step(normal(300, 1000), normal(300, 100))
    assert pool_jobs() == before + 1


def test_kernels_of_a_loop_use_threads_where_they_are_large() -> None:
    x = sf.placeholder((None,), name="x")
    step = sf.compile([x], sf.fori_loop(0, 9, lambda i, c: (c * 0.5).exp(), x))
    before = pool_jobs()
    step(normal(500_000))
    assert pool_jobs() == before + 9


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 777, 3999])
def test_a_kernel_that_fails_says_so(at: int) -> None:
    x = sf.placeholder((None, None), name="x")
    i = sf.placeholder((None,), "int64", name="i")
    step = sf.compile([x, i], x[i])
    wrong = indices(900, 4000)
    wrong[at] = 900
    before = pool_jobs()
    with pytest.raises(IndexError, match="outside the dim"):
        step(normal(900, 301), wrong)
    assert pool_jobs() > before
    good = indices(900, 4000)
    assert np.array_equal(step(normal(900, 301), good).numpy(), normal(900, 301)[good])


# -- several callers -------------------------------------------------------------------------------


def test_callers_on_several_python_threads() -> None:
    x = sf.placeholder((None,), name="x")
    steps = [sf.compile([x], (x * k).exp()) for k in range(3)]
    array = normal(300_000)
    expected = [step(array).numpy().tobytes() for step in steps]
    wrong: list[int] = []

    def call(k: int) -> None:
        wrong.extend(k for _ in range(20) if steps[k](array).numpy().tobytes() != expected[k])

    callers = [threading.Thread(target=call, args=(k,)) for k in range(3) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


NESTED = """
declare i32 @parallel(ptr, ptr, i64, i64, i64)

define i32 @add(ptr %sum, i64 %from, i64 %to, i64 %worker) {
  %n = sub i64 %to, %from
  %old = atomicrmw add ptr %sum, i64 %n seq_cst
  ret i32 0
}

define i32 @each(ptr %sum, i64 %from, i64 %to, i64 %worker) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %from, %entry ], [ %next, %loop ]
  %code = call i32 @parallel(ptr @add, ptr %sum, i64 10, i64 1000000, i64 1024)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %to
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

define i32 @go(ptr %sum, i64 %count, i64 %times) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %code = call i32 @parallel(ptr @each, ptr %sum, i64 %count, i64 1000000, i64 1024)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret i32 %code
}
"""


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
def test_every_iteration_runs_once_even_of_a_job_in_a_job(n: int) -> None:
    module = compile_native(NESTED, ["go"], pool_symbols())
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    go = function(module.address("go"))
    sf.set_num_threads(n)
    for count in (1, 2, 3, 10, 1001):
        total = ctypes.c_int64(0)
        assert go(ctypes.addressof(total), count, 50) == 0
        assert total.value == 50 * 10 * count


def numbers_found(count: int) -> np.ndarray:
    """The number of its thread, and how many there may be, that each iteration of a native loop
    finds; and the number in a loop inside, which runs in order."""
    n = Dim.of(Sym("n"))
    k = Builder([Buffer("found", int64, "out")], [Sym("n")])
    with k.loop("i", n, kind="parallel") as i:
        k.store("found", 3 * i, k.index_value(k.worker(n)))
        k.store("found", 3 * i + 1, k.workers())
        with k.loop("j", 1000, kind="parallel"):  # some work
            k.store("found", 3 * i + 2, k.index_value(k.worker(1000)))
    text = (
        render_module([verify_kernel(k.kernel("numbers"))])
        + """
define i32 @go(ptr %found, i64 %n) {
  %r = call i32 @numbers(ptr %found, i64 %n)
  ret i32 %r
}
"""
    )
    module = compile_native(text, ["go"], pool_symbols())
    go = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(module.address("go"))
    found = np.full((count, 3), -1)
    assert go(found.ctypes.data, count) == 0
    return found


def test_an_iteration_finds_the_number_of_its_thread() -> None:
    sf.set_num_threads(3)
    before = pool_jobs()
    own, many, inner = numbers_found(2000).T
    assert pool_jobs() == before + 1
    assert set(own) <= {0, 1, 2}
    assert set(many) == {3}
    assert set(inner) == {0}
    sf.set_num_threads(1)
    own, many, inner = numbers_found(2000).T
    assert (set(own), set(many), set(inner)) == ({0}, {1}, {0})


# -- fork, signals, the end ------------------------------------------------------------------------


def ran(program: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(sf.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": root, "STATICFLOW_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


LARGE = """
import numpy as np, os, signal, sys, threading, time
import staticflow as sf
from staticflow.runtime.threads import pool_jobs
x = sf.placeholder((None,), name="x")
step = sf.compile([x], x.exp())
array = np.ones(1_000_000, np.float32)
expected = step(array).numpy()
assert pool_jobs() == 1
"""


def test_fork_while_the_pool_lives() -> None:
    done = ran(
        LARGE
        + """
pid = os.fork()
for _ in range(3):
    assert (step(array).numpy() == expected).all()
assert pool_jobs() == 4
if pid == 0:
    os._exit(7)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
"""
    )
    assert (done.stdout, done.stderr, done.returncode) == ("7\n", "", 0)


def test_fork_while_another_thread_computes() -> None:
    done = ran(
        LARGE
        + """
going = True
def compute():
    while going:
        step(array)
thread = threading.Thread(target=compute)
thread.start()
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        assert (step(array).numpy() == expected).all()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
going = False
thread.join()
print("done")
"""
    )
    assert (done.stdout, done.returncode) == ("done\n", 0)


def test_an_interrupt_reaches_python() -> None:
    done = ran(
        LARGE
        + """
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        step(array)
except KeyboardInterrupt:
    print("interrupted")
assert (step(array).numpy() == expected).all()
"""
    )
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n", "", 0)


def test_the_process_ends_while_a_thread_computes() -> None:
    done = ran(
        LARGE
        + """
def compute():
    while True:
        step(array)
threading.Thread(target=compute, daemon=True).start()
time.sleep(0.1)
print("end")
"""
    )
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)


def test_workers_leave_signals_alone() -> None:
    """So that a call that waits in Python is interrupted."""
    x = sf.placeholder((None,), name="x")
    sf.compile([x], x.exp())(normal(1_000_000))
    own = os.getpid()
    masks = set()
    for task in Path(f"/proc/{own}/task").iterdir():
        if threading.get_native_id() != int(task.name):
            try:
                status = (task / "status").read_text()
            except OSError:  # a thread that has ended meanwhile
                continue
            masks.add(int(status.split("SigBlk:")[1].split()[0], 16))
    assert any(mask & 1 << signal.SIGINT - 1 for mask in masks)
    faults = signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL  # which end it unheard
    assert not any(mask & 1 << number - 1 for mask in masks for number in faults)


# -- how many --------------------------------------------------------------------------------------


def test_set_and_get() -> None:
    sf.set_num_threads(7)
    assert sf.get_num_threads() == 7


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_number_that_cannot_be(wrong: int) -> None:
    with pytest.raises(RuntimeError, match="expects a positive integer"):
        sf.set_num_threads(wrong)


@pytest.mark.parametrize("wrong", [2.0, "2", None])
def test_what_is_no_number(wrong: Any) -> None:
    with pytest.raises(sf.DTypeError, match="set_num_threads: 'n' must be int, not"):
        sf.set_num_threads(wrong)


def test_a_switch_is_no_number() -> None:
    with pytest.raises(sf.ThreadsError, match="an int, but got bool"):
        sf.set_num_threads(True)


def test_the_setting() -> None:
    done = ran("import staticflow as sf; print(sf.get_num_threads())")
    assert done.stdout == "3\n"


def test_no_more_than_the_process_may_use() -> None:
    assert threads.usable_processors() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({}, None),
    ],
)
def test_the_share_of_a_container(
    tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert threads.container_processors(tmp_path) == expected


# -- other machines ------------------------------------------------------------------------------


def test_the_pool_of_another_machine_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IS_X86", False)
    monkeypatch.setattr(pool, "FUTEX", 98)
    text = render_native([pool.parallel, pool.stop], Layout())
    assert "call void @llvm.aarch64.hint(i32 1)" in text
    assert "x86" not in text
    llvm.parse_assembly(text).verify()


def test_without_threads_the_caller_runs_alone() -> None:
    alone = [variant(pool.run_alone, "parallel"), variant(pool.do_nothing, "stop")]
    text = render_native([*alone, pool.jobs, pool.resume], Layout())
    assert re.findall(r"declare .*@(?!Py_)(\w+)", text) == ["stopping"]
    module = compile_native(text, pool.EXPORTS, {"stopping": host().address("stopping")})
    ranges: list[tuple[int, int, int]] = []
    kinds = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64

    @ctypes.PYFUNCTYPE(ctypes.c_int32, *kinds)
    def task(argument: int, *numbers: int) -> int:
        ranges.append(numbers)  # type: ignore[arg-type]
        return 5

    at = ctypes.cast(task, ctypes.c_void_p).value
    kinds = ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3
    parallel = ctypes.PYFUNCTYPE(ctypes.c_int32, *kinds)(module.address("parallel"))
    large, small = (1 << 20, 1 << 40, 1024), (1 << 20, 1 << 10, 1024)
    assert parallel(at, None, *large) == pool.run_alone(task, None, *large) == 5
    assert ranges == [(0, pool.piece_of(1 << 20, 1 << 40), 0)] * 2
    ranges.clear()
    assert parallel(at, None, *small) == 5  # little work is one piece
    assert ranges == [(0, 1 << 20, 0)]


# -- as Python -----------------------------------------------------------------------------------


def test_the_caller_looks_behind_every_range_whether_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where one range is all: a loop in a loop that threads share, many times in a row."""
    looks: list[int] = []
    monkeypatch.setattr(pool, "stopping", lambda: looks.append(len(ranges)) or len(ranges) == 3)
    ranges: list[tuple[int, int]] = []

    def task(argument: object, first: int, last: int, worker: int) -> int:
        ranges.append((first, last))
        return 0

    assert pool.run_alone(task, None, 8, 1, 1) == 0
    assert ranges == [(0, 8)] and looks == [1]
    ranges.clear()
    assert pool.run_alone(task, None, 8, pool.LONGEST * 7, 1) == pool.INTERRUPTED
    assert ranges == [(0, 1), (1, 2), (2, 3)] and looks == [1, 1, 2, 3]


@pytest.mark.parametrize("n", [1, 2, 5, 2000])
def test_pieces_of_all_shares_make_the_whole(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no worker there, as the system gives none, the caller takes the pieces of all shares."""
    monkeypatch.setattr(pool, "pthread_create", lambda *of: 11)
    monkeypatch.setattr(pool, "pthread_sigmask", lambda *of: 0)
    monkeypatch.setattr(pool.wanted, "value", Atomic(n), raising=False)
    monkeypatch.setattr(pool, "stopping", lambda: False)
    for count in (0, 1, 2, 7, 100, 1025):
        ranges: list[tuple[int, int]] = []

        def task(argument: object, first: int, last: int, worker: int, to: Any = ranges) -> int:
            to.append((first, last))
            return int(argument == "fails" and len(to) == 3)

        before = pool.jobs()
        assert pool.parallel(task, None, count, 1 << 30, 1024) == 0
        assert pool.jobs() - before == (min(n, count) > 1)
        assert [i for a, b in sorted(ranges) for i in range(a, b)] == [*range(count)]
        assert len(ranges) < 2 or max(b - a for a, b in ranges) <= max(
            count // min(n, count) // 8, 1
        )
        ranges.clear()
        assert pool.parallel(task, "fails", count, 1 << 30, 1024) == (len(ranges) == 3)
        assert pool.busy.value.load() == pool.opened.value.load() == 0
