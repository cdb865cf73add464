"""The threads of native code: one pool for the process, which is native code itself.

`parallel` runs ``task(argument, first, last, worker)`` on ranges that together make 0..count, on
the workers and on the caller, and returns when all have run. Each thread has a share of its own, in
order, of which it takes a piece at a time, and then takes pieces of the others' shares; so a worker
that wakes late, or that the system gives no time, does not hold the rest up. A second caller at the
same time, such as a task itself, runs its own task alone. After each piece the caller looks whether
the user wants to stop.

A worker that finds nothing to do looks on for a while, then sleeps. Little work is shared with
workers that are awake; who computes it alone since they sleep adds it up, and wakes them when
together it would have paid, but ever later while the next such work finds them asleep again. A
worker *enters* a job by counting
itself as active and only then looks whether the job is still open; the caller closes the job and
only then waits until nobody is active. So nobody touches a job that is over.

The number of threads is read from ``wanted``, outside. `stop` ends the workers and keeps the pool
taken until `resume`; new ones are made when they are needed. Workers leave all signals to the
threads of the caller but those of their own faults, so that `faulthandler` says what it can.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from staticflow.codegen.statuses import INTERRUPTED
from staticflow.codegen.thresholds import SHARED_WORK, WAKING_WORK
from staticflow.native.language import (
    Atomic,
    Int32,
    Record,
    Row,
    address,
    constant,
    elsewhere,
    export,
    external,
    inline,
    native,
    space,
    trust,
    variable,
    variables,
    variant,
)
from staticflow.runtime import interpreter_lock

__all__ = ["EXPORTS", "POOL"]

MOST = 1024  # threads that a job can have shares for
PIECES = 8  # of a share: what the threads may end apart by, and what atomic operations cost
LEAST = SHARED_WORK // 2  # work that a thread is wanted for
LONGEST = 200 * WAKING_WORK  # work of a piece: some ten milliseconds, after which the caller looks
MOST_DOUBLINGS = 8  # of the work that is missed before workers are woken: some 15 milliseconds
SPINS = 4000  # looks of a worker before it sleeps: about as long as waking it up takes

FAULTS = 4, 7, 8, 11  # SIGILL, SIGBUS, SIGFPE and SIGSEGV, of Linux
SIGNALS = -1 - sum(1 << number - 1 for number in FAULTS)
SET_MASK = 2  # SIG_SETMASK
MASK_WORDS = 16  # of a sigset_t

MACHINE = platform.machine()
FUTEX = {"x86_64": 202, "aarch64": 98}.get(MACHINE, 0)  # the number of the system call
WAIT, WAKE = 128, 129  # FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE
EVERYBODY = (1 << 31) - 1
IS_X86 = MACHINE == "x86_64"

LINE = 64  # bytes of a line of the cache

Task = Callable[[object, int, int, int], Int32]


# -- what the threads share ----------------------------------------------------------------------


class Count(Record, alignment=LINE):
    """A number on a line of the cache of its own: who writes another holds nobody up."""

    value: Atomic[Int32]


class Wanted(Record):
    """How many threads the user wants."""

    value: Atomic[int]


class Job(Record, shared=True, alignment=LINE):
    """What is run: ``count`` iterations, as ``shares`` of ``size``, the first ``larger`` of which
    have one more, a ``piece`` at a time."""

    task: Task
    argument: object
    count: int
    shares: int
    size: int
    larger: int
    piece: int


class Share(Record, alignment=LINE):
    """The next iteration of a share that nobody has taken."""

    next: Atomic[int]


class Crew(Record):
    """How many workers there are, how many jobs they had, and how much work was ``missed``,
    which was done without them because they slept; ``doublings`` of what it pays to wake them for
    are what is missed before they are."""

    size: int
    jobs: int
    missed: int
    doublings: int


class Handle(Record):
    """A thread of the system."""

    number: int


stopping = elsewhere(interpreter_lock.stopping)
wanted = constant(Wanted, "wanted")
busy = variable(Count, "busy")
generation = variable(Count, "generation")
"""Counts the jobs; workers sleep on it."""
sleepers = variable(Count, "sleepers")
opened = variable(Count, "opened")
active = variable(Count, "active")
"""Workers in a job; the caller sleeps on it."""
waiting = variable(Count, "waiting")
leaving = variable(Count, "leaving")
status = variable(Count, "status")
job = variable(Job, "job")
shares = variables(Share, "shares", MOST)
crew = variable(Crew, "crew")
handles = variables(Handle, "handles", MOST)


# -- of the system -------------------------------------------------------------------------------


@external(runs=False)
def pthread_create(
    handle: Handle, attributes: object, start: Callable[[int], object], argument: int
) -> Int32:
    """A new thread; not 0 if the system gives none."""
    raise NotImplementedError


@external(runs=False)
def pthread_join(handle: int, result: object) -> Int32:
    """Wait for the end of a thread."""
    raise NotImplementedError


@external(runs=False)
def pthread_sigmask(how: Int32, mask: Row[int], before: Row[int] | None) -> Int32:
    """Let the thread leave signals to others."""
    raise NotImplementedError


@external(runs=False)
def sched_yield() -> Int32:
    """Let another thread run."""
    raise NotImplementedError


@external(runs=False)
def syscall(number: int, *arguments: int) -> int:
    """A call of the system, by its number."""
    raise NotImplementedError


@external(runs=False, symbol="llvm.x86.sse2.pause")
def pause_x86() -> None:
    """Let the other thread of the core go on."""
    raise NotImplementedError


@external(runs=False, symbol="llvm.aarch64.hint")
def hint_aarch64(number: Int32) -> None:
    """An instruction that only hints; 1 is a pause."""
    raise NotImplementedError


@inline
def pause() -> None:
    """Wait as long as one look takes."""
    if IS_X86:
        pause_x86()
    else:
        hint_aarch64(1)


@native
def sleep_on(word: Atomic[Int32], value: int) -> None:
    """Sleep until somebody wakes who sleeps on a word, unless it is no more as it was."""
    syscall(FUTEX, address(word), WAIT, value, 0)


@native
def wake(word: Atomic[Int32]) -> None:
    """Wake all who sleep on a word."""
    syscall(FUTEX, address(word), WAKE, EVERYBODY)


# -- a job ---------------------------------------------------------------------------------------


@native
def begin_of(share: int) -> int:
    """The first iteration of a share."""
    return share * job.size + min(share, job.larger)


@native
def work(worker: int) -> None:
    """Take pieces, of one's own share first, until there are none, or a task has failed."""
    task = trust(job.task, Task, "who called `parallel` waits until the job is over")
    argument = trust(job.argument, object, "who called `parallel` waits until the job is over")
    count = job.shares
    piece = job.piece
    if worker >= count:
        return
    for further in range(count):
        number = worker + further
        if number >= count:
            number -= count
        end = begin_of(number + 1)
        while True:
            first = shares[number].next.fetch_add(piece, "relaxed")
            if first >= end:
                break
            failed = task(argument, first, min(first + piece, end), worker)
            if failed == 0 and worker == 0 and stopping():
                failed = INTERRUPTED
            if failed != 0:
                status.value.store(failed, "relaxed")
                return
            if status.value.load("relaxed") != 0:
                return


@native
def announce() -> None:
    """Let the workers look."""
    generation.value.fetch_add(1)
    if sleepers.value.load() != 0:
        wake(generation.value)


# -- a worker ------------------------------------------------------------------------------------


@native
def serve(worker: int) -> object:
    """The life of a worker."""
    while True:
        seen = generation.value.load("acquire")
        if leaving.value.load("acquire") != 0:
            return None
        active.value.fetch_add(1)
        if opened.value.load() != 0:
            work(worker)
        before = active.value.fetch_add(-1)
        if waiting.value.load() != 0 and before == 1:
            wake(active.value)
        await_job(seen)


@native
def await_job(seen: int) -> None:
    """Return when jobs are no more as many as were ``seen``."""
    looks = 0
    while generation.value.load("acquire") == seen:
        if looks < SPINS:
            looks += 1
            pause()
        else:
            looks = 0
            sleepers.value.fetch_add(1)
            sleep_on(generation.value, seen)
            sleepers.value.fetch_add(-1)


@native
def hire(helpers: int) -> None:
    """Make workers until there are ``helpers``, or the system gives no more."""
    all_signals = space(int, MASK_WORDS)
    before = space(int, MASK_WORDS)
    for i in range(MASK_WORDS):
        all_signals[i] = -1
    all_signals[0] = SIGNALS
    pthread_sigmask(SET_MASK, all_signals, before)
    while crew.size < helpers:
        number = crew.size
        if pthread_create(handles[number], None, serve, number + 1) != 0:
            break
        crew.size = number + 1
    pthread_sigmask(SET_MASK, before, None)


# -- the caller ----------------------------------------------------------------------------------


@export
def parallel(task: Task, argument: object, count: int, cost: int, threads: int) -> Int32:
    """Run a task on ranges of 0..count, on as many threads as are wanted, ``threads`` at most, or
    alone if it is of little ``cost``, or of less than `WAKING_WORK` while workers sleep; gives 0,
    what one of the tasks returned that failed, or `INTERRUPTED`. The number that a task is given of
    its worker is below ``count`` and ``threads``, and 0 is the caller's."""
    if cost < SHARED_WORK:
        return task(argument, 0, count, 0)
    most = min(min(wanted.value.load("relaxed"), count), min(threads, min(cost // LEAST, MOST)))
    if most < 2 or not busy.value.compare_exchange(0, 1):
        return run_alone(task, argument, count, cost, 1)
    if cost < WAKING_WORK and not is_due(most, cost):
        busy.value.store(0, "release")
        return task(argument, 0, count, 0)
    if crew.size < most - 1:
        hire(most - 1)
    lay_out(task, argument, count, cost, most)
    opened.value.store(1)
    announce()
    work(0)
    opened.value.store(0)
    await_workers()
    failed = status.value.load("relaxed")
    busy.value.store(0, "release")
    return failed


@native
def is_due(threads: int, cost: int) -> bool:
    """Whether little work is shared by so many ``threads``: if the workers are awake, or missed so
    much that they are woken."""
    if crew.size >= threads - 1 and sleepers.value.load("relaxed") == 0:
        crew.missed = 0
        crew.doublings = 0
        return True
    crew.missed += cost
    if crew.missed < WAKING_WORK << crew.doublings:
        return False
    crew.missed = 0
    crew.doublings = min(crew.doublings + 1, MOST_DOUBLINGS)
    return True


@inline
def piece_of(count: int, cost: int) -> int:
    """The most iterations that are no more than `LONGEST` work, but one at least."""
    return max(count // (cost // LONGEST + 1), 1)


@export
def run_alone(task: Task, argument: object, count: int, cost: int, threads: int) -> Int32:
    """Run a task on all of 0..count on the caller, which is `parallel` where there is no pool,
    however many ``threads`` may run it."""
    piece = piece_of(count, cost)
    first = 0
    while first < count:
        last = min(first + piece, count)
        failed = task(argument, first, last, 0)
        if failed != 0:
            return failed
        if stopping():  # behind the last range, too: what is around may go on for long
            return INTERRUPTED
        first = last
    return 0


@native
def lay_out(task: Task, argument: object, count: int, cost: int, most: int) -> None:
    """Write down a job of so many shares, which is not open yet."""
    crew.jobs += 1
    job.task = task
    job.argument = argument
    job.count = count
    job.shares = most
    job.size = count // most
    job.larger = count % most
    job.piece = min(max(count // (most * PIECES), 1), piece_of(count, cost))
    status.value.store(0, "relaxed")
    for share in range(most):
        shares[share].next.store(begin_of(share), "relaxed")


@native
def await_workers() -> None:
    """Return when nobody is active in the job, which is closed."""
    looks = 0
    while active.value.load() != 0:
        if looks < SPINS:
            looks += 1
            pause()
        else:
            looks = 0
            waiting.value.store(1)
            inside = active.value.load()
            if inside != 0:
                sleep_on(active.value, inside)
            waiting.value.store(0)


@export
def jobs() -> int:
    """How many jobs had several threads so far."""
    return crew.jobs


@export
def stop() -> None:
    """End the workers; nobody has the pool until `resume`."""
    while not busy.value.compare_exchange(0, 1):
        sched_yield()
    leaving.value.store(1)
    announce()
    for i in range(crew.size):
        pthread_join(handles[i].number, None)
    crew.size = 0
    leaving.value.store(0)


@export
def resume() -> None:
    """Let the pool be had again."""
    busy.value.store(0, "release")


# -- where there are no threads ------------------------------------------------------------------


@export
def do_nothing() -> None:
    """`stop` where there is nobody to stop."""


EXPORTS = ("parallel", "jobs", "stop", "resume")
HAS_THREADS = platform.system() == "Linux" and FUTEX != 0
POOL: list[Callable[..., Any]] = (
    [parallel, jobs, stop, resume]
    if HAS_THREADS
    else [variant(run_alone, "parallel"), jobs, variant(do_nothing, "stop"), resume]
)
"""The functions of the pool, which go by the names `EXPORTS`."""
