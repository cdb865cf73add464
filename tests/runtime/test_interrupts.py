"""Native code stops where the user wants it to: Ctrl-C in loops of every kind.

A thread of Python sends the signals, which also shows that other threads run meanwhile.
"""

from __future__ import annotations

import contextlib
import dis
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.llvm.render import called_in
from staticflow.ops.declaring.thread import thread
from staticflow.runtime import shared_kernels
from staticflow.runtime.turn import updating

SOON = 0.1
"""Seconds until the signal comes; by then every loop here is under way."""


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """What cannot be interrupted would hang for good."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@contextmanager
def signalled(number: int = signal.SIGINT) -> Iterator[None]:
    """The process gets a signal soon."""
    timer = threading.Timer(SOON, os.kill, (os.getpid(), number))
    timer.start()
    yield
    timer.join()


def stops(call: Callable[[], Any]) -> None:
    """Call what does not end, and interrupt it. The signal never comes outside of the block, where
    it would end the tests."""
    ended = False
    with pytest.raises(KeyboardInterrupt), signalled():
        call()
        ended = True
    assert not ended, "it ended before the signal came"


def number(name: str = "n", dtype: str = "int64") -> Any:
    return sf.placeholder((), dtype, name=name)


MANY = 10**10
"""Iterations that nobody waits for, and that a test can have none of."""


def numbers_while(n: Any) -> Any:
    return sf.while_loop(lambda k: k < n, lambda k: (k * 3 + 1) % 7, n * 0)


def numbers_scan(n: Any) -> Any:
    return sf.scan(lambda c, _: ((c * 3 + n) % 7, None), n * 0, length=MANY)[0]


def numbers_nested(n: Any) -> Any:
    """Inner loops of few iterations."""

    def outer(k: Any) -> Any:
        return sf.fori_loop(0, k % 5 + 1, lambda i, c: c + i, k) % 7

    return sf.while_loop(lambda k: k < n, outer, n * 0)


def arrays_while(n: Any) -> Any:
    x = sf.zeros(3) + n
    return sf.while_loop(lambda x: x.sum() > 0, lambda x: (x * 2).clamp(max=9), x)


def large_arrays_while(n: Any) -> Any:
    x = sf.zeros(1000, 1000) + n
    return sf.while_loop(lambda x: x.sum() > 0, lambda x: x.clamp(max=9), x).sum()


def arrays_scan(n: Any) -> Any:
    x = sf.ones(3) * n
    return sf.scan(lambda c, _: (c * 0.5 + x, None), x, length=MANY)[0]


def arrays_around_numbers(n: Any) -> Any:
    def body(x: Any) -> Any:
        k = sf.while_loop(lambda k: k < 9, lambda k: k + 1, x.sum().to(sf.int64) * 0)
        return x * 0 + k

    return sf.while_loop(lambda x: x.sum() > 0, body, sf.zeros(3) + n)


def by_branches(n: Any) -> Any:
    x = sf.zeros(3) + n
    return sf.while_loop(
        lambda x: x.sum() > 0,
        lambda x: sf.cond(x.sum() > 5, lambda: x / 2, lambda: x * 4),
        x,
    )


ENDLESS = [
    numbers_while, numbers_nested, arrays_while, large_arrays_while, arrays_around_numbers,
    by_branches,
]  # fmt: skip


@pytest.mark.parametrize("loop", ENDLESS)
def test_a_loop_without_end_stops(call_path: bool, loop: Callable[[Any], Any]) -> None:
    n = number()
    program = sf.compile([n], loop(n))
    none = program(np.int64(0))
    for _ in range(2):
        stops(lambda: program(np.int64(8)))
        assert np.array_equal(program(np.int64(0)).numpy(), none.numpy())


@pytest.mark.parametrize("loop", [numbers_scan, arrays_scan])
def test_a_scan_of_many_iterations_stops(call_path: bool, loop: Callable[[Any], Any]) -> None:
    n = number()
    program = sf.compile([n], loop(n))
    stops(lambda: program(np.int64(8)))


def test_a_loop_that_keeps_what_it_makes_stops(call_path: bool) -> None:
    """Its memory stays with the program, and is used again."""
    n = number()
    _, ys = sf.scan(
        lambda c, _: (c + 1, c), n * 0, length=10**9, until=lambda c, y: (c == n).logical_and(n > 0)
    )
    program = sf.compile([n], ys.sum())
    stops(lambda: program(np.int64(-1)))
    arena = program._executable._state.cell.value
    assert arena
    assert program(np.int64(1000)).item() == 999 * 500
    assert program._executable._state.cell.value == arena


def test_nothing_is_updated(call_path: bool) -> None:
    n = number()
    before, after = sf.tensor([1.0, 2.0, 3.0]), sf.zeros(3)
    last = arrays_while(n)
    program = sf.compile([n], [], updates={before: sf.symbol(before) + n, after: last})
    version = before._version
    stops(lambda: program(np.int64(8)))
    assert before.tolist() == [1, 2, 3]
    assert after.tolist() == [0, 0, 0]
    # it may come as the run has ended, so it counts as a change
    assert before._version == version + 1
    # the turn of programs that update variables was given back, to other threads as well
    thread = threading.Thread(target=program, args=(np.int64(0),))
    thread.start()
    thread.join()
    assert before.tolist() == [1, 2, 3]
    assert before._version == version + 2


def test_a_program_of_many_kernels_stops_between_them(call_path: bool) -> None:
    x = sf.placeholder((None, None), name="x")
    y = x
    for _ in range(200):
        y = (y @ x).tanh()
    count = sf.zeros(())
    program = sf.compile([x], y.sum(), updates={count: sf.symbol(count) + 1})
    few, large = np.eye(4, dtype=np.float32), np.eye(700, dtype=np.float32)
    sf.set_num_threads(2)  # or many processors are done too soon
    program(few)
    stops(lambda: program(large))
    assert count.item() == 1
    program(few)
    assert count.item() == 2


def shared_product() -> tuple[Any, tuple[np.ndarray, ...]]:
    x = sf.placeholder((None, None), name="x")
    return sf.compile([x], (x @ x).tanh().sum()), (np.ones((6000, 6000), np.float32),)


def shared_sum() -> tuple[Any, tuple[np.ndarray, ...]]:
    n = number()
    x = sf.placeholder((None,), name="x")
    squares = (x.reshape(-1, 1) - x).tanh()
    return sf.compile([n, x], squares.sum() * n), (np.int64(1), np.ones(100_000, np.float32))


def serial_sort() -> tuple[Any, tuple[np.ndarray, ...]]:
    x = sf.placeholder((None,), name="x")
    return sf.compile([x], x.sort()[0]), (np.arange(1e7, dtype=np.float32) * 7919 % 10007,)


def serial_elimination() -> tuple[Any, tuple[np.ndarray, ...]]:
    x = sf.placeholder((None, None), name="x")
    return sf.compile([x], sf.linalg.inv(x).sum()), (np.eye(4000, dtype=np.float32),)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [shared_product, shared_sum, serial_sort, serial_elimination])
def test_one_long_kernel_stops(make: Callable[[], Any], threads: int, call_path: bool) -> None:
    sf.set_num_threads(threads)
    program, inputs = make()
    stops(lambda: program(*inputs))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_overwritten_is_overwritten_whole(threads: int, call_path: bool) -> None:
    sf.set_num_threads(threads)
    x = sf.placeholder((None, None), name="x")
    total = sf.zeros(2500, 2500)
    program = sf.compile([x], [], updates={total: x @ x})
    with contextlib.suppress(KeyboardInterrupt), signalled():
        program(np.ones((2500, 2500), np.float32))
    assert np.ptp(total.numpy()) == 0
    assert total[0, 0].item() == 0 or total._version > 0


LONG_KERNELS = {
    "cumsum": lambda x: x.cumsum(0), "cummax": lambda x: x.cummax(0)[0],
    "logcumsumexp": lambda x: x.logcumsumexp(0), "sort": lambda x: x.sort()[0],
    "scatter_add": lambda x: x.scatter_add(0, x.to(sf.int64) % 3, x),
    "cholesky": lambda x: sf.linalg.cholesky(x.reshape(-1, 1) + x),
    "solve": lambda x: sf.linalg.solve(x.reshape(-1, 1) + x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG_KERNELS)
def test_a_kernel_that_no_threads_share_looks(name: str) -> None:
    """Its own text, or that of a kernel that programs share and that it calls."""
    x = sf.placeholder((None,), name="x")
    text = sf.compile([x], LONG_KERNELS[name](x)).source("llvm")
    texts = [text, *(shared_kernels._text(called) for called in called_in(text))]
    assert any("call i1 @stopping" in t for t in texts)
    few = sf.placeholder((5,), name="few")
    if name != "sort":  # rounds whose pairs only the run counts
        assert "call i1 @stopping" not in sf.compile([few], LONG_KERNELS[name](few)).source("llvm")


def test_a_loop_that_ends_by_a_value_asks_between_its_strips_alone() -> None:
    """Of which each is less than a tenth of a millisecond of work: to ask in one took Collatz a fifth
    of its time."""
    start = sf.placeholder((), "int64", name="start")
    _, count = sf.while_loop(
        lambda n, count: n != 1,
        lambda n, count: (sf.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1),
        (start, 0),
    )
    text = sf.compile([start], count).source("llvm")
    assert "call i1 @look" in text
    assert "call i1 @stopping" not in text


def test_a_run_that_turns_out_to_be_long_takes_its_turn(call_path: bool) -> None:
    n, count = number(), sf.zeros((), dtype="int64")
    last = sf.fori_loop(0, n, lambda i, c: (c * 3 + i) % 1000, n * 0)
    program = sf.compile([n], last, updates={count: sf.symbol(count) * 2 + n})
    thread = threading.Thread(target=program, args=(np.int64(1 << 26),))
    thread.start()
    while not updating._held.value:  # which is counted before the lock is let go
        time.sleep(0.001)
    program(np.int64(1))  # and so waits
    thread.join()
    assert count.item() == (1 << 27) + 1


@contextmanager
def handling(handler: Callable[..., None]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_that_returns_lets_the_loop_go_on(call_path: bool) -> None:
    n = number()
    program = sf.compile([n], sf.fori_loop(0, n, lambda i, c: (c * 3 + i) % 1000, n * 0))
    few, many, seen = np.int64(5), np.int64(1 << 28), []

    def handler(*_: Any) -> None:
        seen.append(program(few).item())  # which may run meanwhile

    with handling(handler), signalled(signal.SIGUSR1):
        result = program(many).item()
    assert seen == [program(few).item()]
    assert result == program(many).item()


def test_a_handler_is_called_for_every_signal(call_path: bool) -> None:
    n, seen = number(), []
    program = sf.compile([n], numbers_while(n))

    def handler(*_: Any) -> None:
        seen.append(None)
        if len(seen) == 3:
            raise LookupError("enough")
        threading.Timer(SOON, os.kill, (os.getpid(), signal.SIGUSR1)).start()

    with handling(handler), pytest.raises(LookupError, match="enough"), signalled(signal.SIGUSR1):
        program(np.int64(8))


def test_what_a_handler_raises_comes_out(call_path: bool) -> None:
    def handler(*_: Any) -> None:
        raise LookupError("enough")

    n = number()
    program = sf.compile([n], numbers_while(n))
    with handling(handler), pytest.raises(LookupError, match="enough"), signalled(signal.SIGUSR1):
        program(np.int64(8))


def test_only_the_main_thread_is_interrupted(call_path: bool) -> None:
    n = number()
    program = sf.compile([n], sf.fori_loop(0, n, lambda i, c: (c * 3 + i) % 1000, n * 0))
    many, results = 1 << 26, []
    thread = threading.Thread(target=lambda: results.append(program(np.int64(many)).item()))

    def wait() -> None:
        thread.start()
        while not results:
            time.sleep(0.01)

    stops(wait)
    thread.join()
    assert results == [program(np.int64(many)).item()]


@pytest.mark.parametrize(
    ("run", "code", "says"),
    [
        ("program(1)", -signal.SIGINT, "KeyboardInterrupt"),
        ("threading.Thread(target=program, args=(1,), daemon=True).start()", 0, ""),
    ],
    ids=["interrupted", "left alone"],
)
def test_a_process_ends(run: str, code: int, says: str) -> None:
    """Also one whose loop runs in a thread that nobody waits for."""
    text = f"""
import os, signal, threading, time
import staticflow as sf
n = sf.placeholder((), "int64", name="n")
program = sf.compile([n], sf.while_loop(lambda k: k < n, lambda k: (k * 3 + 1) % 7 - 9, n * 0))
if {code}:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
{run}
time.sleep(0.2)
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr


def test_a_loop_that_nobody_needs_is_taken_to_end() -> None:
    n = number()
    assert sf.compile([n], sf.while_loop(lambda x: x > 0, lambda x: x, n))(np.int64(8)).item() == 8
    _, x = sf.while_loop(lambda k, x: k > 0, lambda k, x: (k, x), (n, n + 1))
    assert sf.compile([n], x)(np.int64(8)).item() == 9


def test_what_is_known_to_be_short_does_not_look() -> None:
    n = number()
    program = sf.compile([n], numbers_while(n))
    assert "call i1 @look" in program.source("llvm")
    few = sf.compile([n], sf.scan(lambda c, _: (c * 3 % 7, None), n, length=100)[0])
    assert "call i1 @look" not in few.source("llvm")


# -- the end of a block ---------------------------------------------------------------------------

BLOCKS = {
    "no_grad": sf.no_grad, "enable_grad": sf.enable_grad, "inference_mode": sf.inference_mode,
    "set_grad_enabled": lambda: sf.set_grad_enabled(False),
    "detect_anomaly": sf.autograd.detect_anomaly,
    "set_detect_anomaly": lambda: sf.autograd.set_detect_anomaly(True),
    "saved_tensors_hooks": lambda: sf.autograd.graph.saved_tensors_hooks(abs, abs),
}  # fmt: skip

SWITCHES = ("recording", "inference", "anomaly", "saved_hooks", "usual")


@pytest.mark.parametrize("name", BLOCKS)
def test_no_error_of_a_signal_comes_amid_the_end_of_a_block(name: str) -> None:
    """CPython looks for signals as a function begins and as a call ends, and in loops."""
    end = type(BLOCKS[name]()).__exit__
    sf.set_grad_enabled(True), sf.autograd.set_detect_anomaly(False)
    found = {i.opname for i in dis.get_instructions(end)}
    assert not {o for o in found if o.startswith("CALL") or "JUMP_BACKWARD" in o}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_within_itself_and_once_more_leaves_all_as_it_was(name: str) -> None:
    def switches() -> list[Any]:
        return [getattr(thread.state, s) for s in SWITCHES]

    before = switches()
    block = BLOCKS[name]()
    try:
        for _ in range(2):
            with block, contextlib.suppress(ZeroDivisionError):
                within = switches()
                with BLOCKS[name](), sf.no_grad(), sf.inference_mode(False):
                    raise ZeroDivisionError
            if not name.startswith("set"):
                with block, block:
                    assert switches()[:4] == within[:4]
        assert switches() == before
    finally:
        for switch, value in zip(SWITCHES, before, strict=True):
            setattr(thread.state, switch, value)
