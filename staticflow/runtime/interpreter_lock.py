"""Native code that runs a program with the lock of the interpreter or without it.

`go` runs a program. A short run keeps the lock; a long one lets it go, so that other threads of
Python run meanwhile, and so does one that turns out to be long as soon as it looks for the first
time whether the user wants to stop. `look` asks Python for that no more often than every
`PATIENCE`, and in the main thread, which alone sees signals: what a handler raises ends the run. A
program that updates variables takes its turn before it lets the lock go
(`staticflow.runtime.turn`). Threads that share a long kernel ask `stopping`, which looks for the
run of the main thread until that run says `commit`: then it overwrites variables, and goes on to
its end. `ask` calls a function of Python in the midst of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from staticflow.codegen.statuses import INTERRUPTED
from staticflow.native.cpython import Thread
from staticflow.native.language import (
    Inside,
    Int32,
    Object,
    Owned,
    Record,
    Row,
    constant,
    drop,
    drop_row,
    export,
    external,
    native,
    space,
    take,
    trust,
    variable,
    zero_record,
)

__all__ = ["BUSY", "Call", "ask", "commit", "go", "look", "stopping"]

BUSY = -2
"""What takes the place of a status if there was no run: someone else updates variables."""

PATIENCE = 50_000_000
"""Nanoseconds between two questions whether a signal has come."""

MONOTONIC = int(time.CLOCK_MONOTONIC)


Reference = Owned[Object | None]


class Call(Record):
    """A run: the thread that let the lock of the interpreter go, null while it has the lock;
    whether the program updates variables; whether it is its turn."""

    thread: Thread | None
    updates: bool
    has_turn: bool


class Number(Record, shared=True):
    """A number in memory."""

    value: int


class Watched(Record, shared=True):
    """The long run of the main thread that may still end early, if there is one."""

    call: Call | None


main_thread = constant(Number, "main_thread")
turn_held = constant(Number, "turn_held")
turn_acquire = constant(Object, "turn_acquire")
turn_release = constant(Object, "turn_release")
due = variable(Number, "due")
"""When the main thread asks next."""
watched = variable(Watched, "watched")


# -- of C ----------------------------------------------------------------------------------------


@external()
def PyObject_CallNoArgs(function: Object) -> Owned[Object | None]:
    """What a function of Python gives; null with an error set."""
    raise NotImplementedError


@external()
def PyObject_CallOneArg(function: Object, argument: Object) -> Owned[Object | None]:
    """What a function of Python gives; null with an error set."""
    raise NotImplementedError


@external()
def PyEval_SaveThread() -> Thread:
    """Let the lock of the interpreter go; gives the thread that had it."""
    raise NotImplementedError


@external()
def PyEval_RestoreThread(thread: Thread) -> None:
    """Take the lock of the interpreter again."""
    raise NotImplementedError


@external(runs=False)
def PyThread_get_thread_ident() -> int:
    """The number of the thread that runs."""
    raise NotImplementedError


@external(runs=False)
def PyLong_FromVoidPtr(address: object) -> Owned[Object | None]:
    """An address as an int; null with an error set."""
    raise NotImplementedError


@external()
def PyErr_CheckSignals() -> Int32:
    """Let the handlers of signals that have come run; below 0 with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyErr_Fetch(kind: Row[Reference], value: Row[Reference], traceback: Row[Reference]) -> None:
    """Write down the error that is set, and let none be."""
    raise NotImplementedError


@external()
def PyErr_Restore(kind: Reference, value: Reference, traceback: Reference) -> None:
    """Set the error that was written down."""
    raise NotImplementedError


@external(runs=False)
def clock_gettime(clock: Int32, time: Row[int]) -> Int32:
    """The time of a clock, in seconds and nanoseconds."""
    raise NotImplementedError


# -- the lock ------------------------------------------------------------------------------------


@native
def let_go(call: Call) -> Inside[Thread | None]:
    """Let the lock go, when it is the program's turn; gives the thread, or null if Python raised an
    error before."""
    if call.updates:
        acquired = PyObject_CallNoArgs(turn_acquire)
        if acquired is None:
            return None
        drop(acquired)
        turn_held.value += 1
        call.has_turn = True
    thread = trust(PyEval_SaveThread(), Thread, "it is there as long as the thread runs")
    call.thread = thread
    return thread


@native
def take_back(call: Call, thread: Thread) -> None:
    """Take the lock again, and end the program's turn; an error that Python raised stays."""
    PyEval_RestoreThread(thread)
    if call.has_turn:
        turn_held.value -= 1
        error = space(Reference, 3)
        PyErr_Fetch(error, error[1:], error[2:])
        released = PyObject_CallNoArgs(turn_release)
        drop(released)
        PyErr_Restore(take(error[0]), take(error[1]), take(error[2]))
        drop_row(error, 3)


# -- a run ---------------------------------------------------------------------------------------


@export
def go(
    run: Callable[[object, object, object, Call], int],
    table: object,
    sizes: object,
    state: object,
    long: bool,
    updates: bool,
) -> int:
    """The status of a run. One that is not long to begin with, and updates variables, leaves it to
    the caller if it is not its turn."""
    call = zero_record(Call)
    call.updates = updates
    if long:
        if let_go(call) is None:
            return INTERRUPTED
    elif updates and turn_held.value != 0:
        return BUSY
    if long and PyThread_get_thread_ident() == main_thread.value:
        around = trust(watched.call, Call | None, "who called this holds it")
        watched.call = trust(call, Call, "it is another's again before the call ends")
        status = run(table, sizes, state, call)
        watched.call = around
    else:
        status = run(table, sizes, state, call)
    thread = call.thread
    if thread is not None:
        take_back(call, thread)
    return status


@export
def look(call: Call) -> bool:
    """Whether a run has to stop, since the user wants it."""
    thread = call.thread
    if thread is None:
        return let_go(call) is None
    if PyThread_get_thread_ident() != main_thread.value or now() < due.value:
        return False
    PyEval_RestoreThread(thread)
    raised = PyErr_CheckSignals() != 0
    PyEval_SaveThread()
    due.value = now() + PATIENCE
    return raised


@export
def stopping() -> bool:
    """Whether a kernel has to stop in its midst, since the user wants it."""
    if PyThread_get_thread_ident() != main_thread.value:
        return False
    call = watched.call
    return call is not None and look(trust(call, Call, "the run that it is of goes on"))


@export
def commit() -> None:
    """Let a run go on to its end, since it overwrites variables from now on."""
    if PyThread_get_thread_ident() == main_thread.value:
        watched.call = None


@native
def now() -> int:
    """Nanoseconds of a clock that is not set."""
    time = space(int, 2)
    clock_gettime(MONOTONIC, time)
    return time[0] * 1_000_000_000 + time[1]


@export
def ask(call: Call, answer: Object, words: object) -> bool:
    """Whether a run has to stop, since a function of Python, which is called with the address of
    some words, raised an error."""
    thread = call.thread
    if thread is None:
        thread = let_go(call)
    if thread is None:
        return True
    PyEval_RestoreThread(thread)
    raised = raises(answer, words)
    PyEval_SaveThread()
    return raised


@native
def raises(answer: Object, words: object) -> bool:
    """Whether a function of Python raises an error when it is called with an address."""
    number = PyLong_FromVoidPtr(words)
    if number is None:
        return True
    result = PyObject_CallOneArg(answer, number)
    drop(number)
    if result is None:
        return True
    drop(result)
    return False
