"""Messages by MPI, of mpi4py.

A rank that ends by an error ends all others, with its error; one that is killed, mpirun ends them
for. One that comes to its end says so, and the others find that where they would wait for it.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from staticflow.config import config
from staticflow.distributed.siblings import refuse_missing
from staticflow.errors import RankError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.collectives import combine_parts
from staticflow.ops.declaring.communicator import (
    ENDED,
    Array,
    Carrier,
    Communicator,
    current,
    serve,
)

__all__ = ["join", "measuring_group"]

T = TypeVar("T")
LABEL, PART, ASKED = 1, 2, 3  # tags of messages
GRACE = 2.0
"""Seconds in which the others say what they wait for, once one has waited too long."""
STARTING = 10
"""Seconds by which processes may start one behind the other, besides."""
SPINS = 200
"""How often a rank looks for a message before it sleeps between looks: what comes soon comes within
some ten microseconds, and ranks may be more than there are processors."""
LONG = 1 << 20
"""Bytes of a message that is long."""
MEASURING = 8
"""How many ranks measure messages together at most."""
TURN = 0.25
"""Seconds from rank to rank in which they tell their errors: of one that several have the first
one tells and ends all."""
TURNS = 8
"""The ranks that have a turn of their own; those behind them have the last one."""
TOLD = 0.1
"""Seconds that mpirun is left to pass on an error before it says itself that all end."""
NAP = 50e-6
"""Seconds between two looks from then on."""


class _MPI(Communicator):
    """The ranks that mpirun has started."""

    def __init__(self, world: Any, module: Any) -> None:
        super().__init__(world.Get_rank(), world.Get_size())
        self._world, self._mpi = world.Dup(), module
        self._posted: list[Any] = []
        self._memory: list[Any] = []
        self._ended: set[int] = set()
        self._wanted = threading.Semaphore(0)
        self._helper: threading.Thread | None = None
        self._said = ""
        self._leaves = False

    @functools.cached_property
    def carrier(self) -> Carrier | None:
        """NCCL, where cupy has it."""
        from staticflow.distributed.nccl import find_nccl

        return find_nccl(self)

    def post(self, to: int, label: str, part: Array) -> None:
        """Send a label, and then the bytes."""
        word = label.encode()
        self._posted += (
            self._world.Isend([word, self._mpi.BYTE], to, LABEL),
            self._world.Isend([part, self._mpi.BYTE], to, PART),
        )
        self._memory += (word, part)

    def take(self, of: int, wanted: str) -> tuple[str, Array]:
        """The next message of a rank, looked for again and again."""
        what = f"rank {of} at {wanted}"
        label = self._receive(of, LABEL, what).tobytes().decode()
        if label.startswith(ENDED):
            self._ended.add(of)
        return label, self._receive(of, PART, what)

    def finish(self) -> None:
        """Wait until all was sent."""
        self._wait(
            lambda: self._mpi.Request.Testall(self._posted) or None, "its messages to arrive"
        )
        self._posted.clear()
        self._memory.clear()

    def _receive(self, of: int, tag: int, what: str) -> Array:
        status = self._mpi.Status()
        message = self._wait(lambda: self._world.Improbe(of, tag, status), what)
        found = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
        message.Recv([found, self._mpi.BYTE])
        return found

    def measure(self) -> None:
        """Add up some short and some long arrays with a few others, once in a process: what is sent
        is copied, added and joined, too."""
        if self.cost is None:
            members = measuring_group(self.rank, self.size)
            others = max(len(members) - 1, 1)
            short, long = (self._time_exchanges(members, *what) for what in ((8, 20), (LONG, 5)))
            self.cost = short / others, max(long - short, 1e-9) / (LONG * others)

    def _time_exchanges(self, members: Sequence[int], nbytes: int, times: int) -> float:
        """The seconds of one exchange with messages of so many bytes, of the two of a sum."""
        own = np.zeros(nbytes // 4 * len(members), np.float32)
        found = []
        for _ in range(times):
            began = time.perf_counter()
            shares = np.split(own.copy(), len(members))
            total = combine_parts(self.exchange(f"measurement of {nbytes} B", members, shares))
            parts = self.exchange(f"measurement of {nbytes} B", members, [total] * len(members))
            np.concatenate(parts)
            found.append((time.perf_counter() - began) / 2)
        return sorted(found)[times // 2]

    def begin(self, work: Callable[[], Any]) -> int:
        """Have the helping thread do it, while this one computes."""
        number = super().begin(work)
        if self._helper is None:
            self._helper = threading.Thread(target=self._help, name="messages", daemon=True)
            self._helper.start()
        self._wanted.release()
        return number

    def _help(self) -> None:
        while True:
            self._wanted.acquire()
            self.work_off()

    # -- waiting ---------------------------------------------------------------------------------

    def _wait(self, look: Callable[[], T | None], what: str) -> T:
        """What ``look`` gives as soon as that is not None. Python sees signals meanwhile."""
        for _ in range(SPINS):
            found = look()
            if found is not None:
                return found
            os.sched_yield()
        began, limit = time.monotonic(), config.wait_limit
        while (found := look()) is None:
            time.sleep(NAP)
            if limit:
                self._answer(what)
                if time.monotonic() - began > limit and not self._leaves:
                    self._give_up(what, limit)
        return found

    def _answer(self, what: str) -> None:
        """Say what this rank waits for, if another asks, which has waited too long."""
        status = self._mpi.Status()
        if self._world.Iprobe(self._mpi.ANY_SOURCE, ASKED, status):
            self._world.Recv([np.empty(1, np.uint8), self._mpi.BYTE], status.Get_source(), ASKED)
            if what != self._said:
                self._say(f"waits for {what}")
            self._said = what

    def _give_up(self, what: str, limit: int) -> None:
        """Ask all others what they wait for, which say so, and raise an error."""
        for rank in range(self.size):
            if rank != self.rank:
                self._world.Isend([np.zeros(1, np.uint8), self._mpi.BYTE], rank, ASKED)
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            self._answer(what)
            time.sleep(NAP)
        self._failure = (
            f"rank {self.rank} of {self.size} has waited {limit} s for {what}; what the others "
            "wait for, they say above, and those that say nothing compute; STATICFLOW_WAIT_LIMIT "
            "is the limit"
        )
        raise RankError(self._failure)

    def _say(self, text: str) -> None:
        print(f"rank {self.rank} of {self.size} {text}", file=sys.stderr, flush=True)

    # -- the end ---------------------------------------------------------------------------------

    def leave(self) -> None:
        """Say that this rank sends no other message, and wait until all have said so, however long
        one of them goes on alone: one that has not raises an error at its next exchange, which ends
        all."""
        self.work_off()
        self._leaves = True
        others = [r for r in range(self.size) if r != self.rank]
        nothing = np.empty(0, np.uint8)
        for r in others:
            self.post(r, f"{ENDED}has come to the end of its program", nothing)
        for r in others:
            while r not in self._ended:
                self.take(r, "the end")
        self.finish()

    def wait_to_tell(self) -> None:
        """Wait for this rank's turn to tell its error, until which one before it may end all."""
        time.sleep(TURN * min(self.rank, TURNS))

    def end_all(self, kind: type[BaseException], error: BaseException) -> None:
        """End all ranks, since this one ended by an error; its first line is said again."""
        first = str(error).partition("\n")[0]
        why = f": {first}" if first else ""  # a KeyboardInterrupt says nothing
        self._say(f"ended by {kind.__name__}{why}; all ranks end")
        time.sleep(TOLD)
        self._mpi.COMM_WORLD.Abort(1)


def measuring_group(rank: int, size: int) -> list[int]:
    """The ranks, of so many, with which one measures messages: some that come next to it, and at
    most `MEASURING` with itself, since all others of a thousand would be sent gigabytes."""
    groups = np.array_split(np.arange(size), -(-size // MEASURING))
    (found,) = [group.tolist() for group in groups if rank in group]
    return list(found)


@contextmanager
def _time_limit() -> Iterator[None]:
    """A block that may take as long as a rank waits for others, and `STARTING`. What is longer ends
    the process, and mpirun all others, with a traceback: no Python runs where MPI begins."""
    limit, where = config.wait_limit, sys.__stderr__
    if not limit or where is None:
        yield
        return
    faulthandler.dump_traceback_later(limit + STARTING, exit=True, file=where)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def join() -> None:
    """Have MPI carry the messages of this process; raises `RankError` where mpi4py is missing."""
    if isinstance(current(), _MPI):
        return
    try:
        import mpi4py

        # All is loaded first: between the look for other ranks and the beginning none ends unseen.
        mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RankError(
            f"this process was started by mpirun, and mpi4py cannot be imported ({error}); install "
            f"staticflow[distributed], at {format_locs(here())}"
        ) from None
    if not MPI.Is_initialized():
        refuse_missing()
        with _time_limit():
            MPI.Init_thread()  # which waits until all processes have come so far
    joined = _MPI(MPI.COMM_WORLD, MPI)
    serve(joined)
    atexit.register(joined.leave)
    before = sys.excepthook

    def end_all(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        joined.wait_to_tell()
        before(kind, error, traceback)
        joined.end_all(kind, error)

    sys.excepthook = end_all
