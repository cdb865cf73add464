"""What carries messages between the processes that run one program, each a *rank*.

Every rank runs the same program, so all come to the same exchanges in the same order. Each message
begins with a label that says which exchange it is of: ranks that have come to different ones say
so, where they would wait for each other for ever.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.errors import RankError

__all__ = ["ENDED", "Communicator", "current", "running", "serve", "using"]

Array = np.ndarray[Any, Any]

ENDED = "ended: "
"""How the label of a message begins by which a rank says that it sends no other, and why."""


class Communicator(ABC):
    """The messages of one rank: how many ranks there are, its number among them, and what it says
    to which. Messages from one rank to another arrive in the order in which they were sent."""

    rank: int
    size: int

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._exchanges = 0
        self._failure = ""

    @abstractmethod
    def post(self, to: int, label: str, part: Array) -> None:
        """Send bytes to another rank, without waiting for it to take them."""

    @abstractmethod
    def take(self, of: int, wanted: str) -> tuple[str, Array]:
        """The label and bytes of the next message of a rank. It is waited for, for as long as
        that rank runs; one that has ended without sending it is a `RankError`, which names what was
        ``wanted``."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until the memory of all that was posted may be written again."""

    def exchange(self, what: str, members: Sequence[int], parts: Sequence[Array]) -> list[Array]:
        """One part from each of the ``members`` (ranks, of which this is one), in their order, for
        the one that each is given. Parts are flat, of one dtype.

        ``what`` names it in errors. Raises `RankError` where a member is at another exchange, or
        has ended, and from then on always: what the others have sent meanwhile fits nothing.
        """
        if self._failure:
            raise RankError(self._failure)
        label = f"exchange {self._exchanges}, {what}"
        self._exchanges += 1
        at = members.index(self.rank)
        others = [(at + i) % len(members) for i in range(1, len(members))]
        for i in others:
            self.post(members[i], label, parts[i].view(np.uint8))
        found = {at: parts[at]}
        for i in others:
            theirs, part = self.take(members[i], label)
            if theirs != label:
                self._failure = self._differs(label, members[i], theirs)
                raise RankError(self._failure)
            found[i] = part.view(parts[at].dtype)
        self.finish()
        return [found[i] for i in range(len(members))]

    def _differs(self, label: str, of: int, theirs: str) -> str:
        if theirs.startswith(ENDED):
            return (
                f"rank {of} of {self.size} {theirs.removeprefix(ENDED)}, while rank {self.rank} "
                f"waits for it at {label}"
            )
        return (
            f"rank {self.rank} is at {label}, and rank {of} at {theirs}; every rank must run the "
            "same program: let nothing that differs between them decide what is computed"
        )


class _Alone(Communicator):
    """The communicator of a process that is alone: its groups have one member, which sends nothing
    and waits for nothing."""

    def post(self, to: int, label: str, part: Array) -> None:
        """Refuse: there is no other rank."""
        raise RankError(f"there is one rank, and no rank {to} to send to, at {label}")

    def take(self, of: int, wanted: str) -> tuple[str, Array]:
        """Refuse: there is no other rank."""
        raise RankError(f"there is one rank, and no rank {of} to wait for, at {wanted}")

    def finish(self) -> None:
        """Nothing was posted."""


class _Served:
    """The communicator of the process."""

    communicator: Communicator = _Alone(0, 1)


_served = _Served()
_of_thread = threading.local()


def current() -> Communicator:
    """The communicator of this thread, else that of the process."""
    return getattr(_of_thread, "communicator", None) or _served.communicator


def running() -> bool:
    """Whether there is more than one rank."""
    return current().size > 1


def serve(communicator: Communicator) -> None:
    """Make a communicator that of the process."""
    _served.communicator = communicator


@contextmanager
def using(communicator: Communicator) -> Iterator[None]:
    """A block in which this thread has another communicator."""
    before = getattr(_of_thread, "communicator", None)
    try:
        _of_thread.communicator = communicator
        yield
    finally:
        _of_thread.communicator = before
