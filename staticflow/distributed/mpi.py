"""Messages by MPI, of mpi4py.

A rank that ends by an error ends all others, with its error; one that is killed, mpirun ends them
for. One that comes to its end says so, and the others find that where they would wait for it.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from staticflow.errors import RankError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.communicator import ENDED, Array, Communicator, current, serve

__all__ = ["join"]

T = TypeVar("T")
LABEL, PART = 1, 2  # tags of messages
SPINS = 200
"""How often a rank looks for a message before it sleeps between looks: what comes soon comes within
some ten microseconds, and ranks may be more than there are processors."""
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
        label = self._receive(of, LABEL).tobytes().decode()
        if label.startswith(ENDED):
            self._ended.add(of)
        return label, self._receive(of, PART)

    def finish(self) -> None:
        """Wait until all was sent."""
        _wait(lambda: self._mpi.Request.Testall(self._posted) or None)
        self._posted.clear()
        self._memory.clear()

    def _receive(self, of: int, tag: int) -> Array:
        status = self._mpi.Status()
        message = _wait(lambda: self._world.Improbe(of, tag, status))
        found = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
        message.Recv([found, self._mpi.BYTE])
        return found

    # -- the end ---------------------------------------------------------------------------------

    def leave(self) -> None:
        """Say that this rank sends no other message, and wait until all have said so: one that has
        not raises an error at its next exchange, which ends all."""
        others = [r for r in range(self.size) if r != self.rank]
        nothing = np.empty(0, np.uint8)
        for r in others:
            self.post(r, f"{ENDED}has come to the end of its program", nothing)
        for r in others:
            while r not in self._ended:
                self.take(r, "the end")
        self.finish()

    def end_all(self, kind: type[BaseException], error: BaseException) -> None:
        """End all ranks, since this one ended by an error."""
        print(
            f"rank {self.rank} of {self.size} ended by {kind.__name__}: {error}; all ranks end",
            file=sys.stderr,
            flush=True,
        )
        self._mpi.COMM_WORLD.Abort(1)


def _wait(look: Callable[[], T | None]) -> T:
    """What ``look`` gives as soon as that is not None. Python sees signals meanwhile."""
    for _ in range(SPINS):
        found = look()
        if found is not None:
            return found
        os.sched_yield()
    while (found := look()) is None:
        time.sleep(NAP)
    return found


def join() -> None:
    """Have MPI carry the messages of this process; raises `RankError` where mpi4py is missing."""
    if isinstance(current(), _MPI):
        return
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RankError(
            f"this process was started by mpirun, and mpi4py cannot be imported ({error}); install "
            f"staticflow[distributed], at {format_locs(here())}"
        ) from None
    joined = _MPI(MPI.COMM_WORLD, MPI)
    serve(joined)
    atexit.register(joined.leave)
    before = sys.excepthook

    def end_all(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        before(kind, error, traceback)
        joined.end_all(kind, error)

    sys.excepthook = end_all
