"""What carries messages between the processes that run one program, each a *rank*.

Every rank runs the same program, so all come to the same exchanges in the same order. Each message
begins with a label that says which exchange it is of: ranks that have come to different ones say
so, where they would wait for each other for ever.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.errors import RankError

__all__ = ["ENDED", "Carrier", "Communicator", "current", "running", "serve", "using"]

Array = np.ndarray[Any, Any]

ENDED = "ended: "
"""How the label of a message begins by which a rank says that it sends no other, and why."""


class Carrier(ABC):
    """What carries arrays of GPUs between ranks, where the host does not."""

    @abstractmethod
    def exchange(
        self, members: Sequence[int], parts: Sequence[Any], counts: Sequence[int]
    ) -> list[Any]:
        """One part from each of the members, flat and of so many elements, for the one that each is
        given; all know that the others are at the same exchange."""

    @abstractmethod
    def aside(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """Have ``work`` done beside what is computed meanwhile; gives what waits for its result."""

    @abstractmethod
    def abort(self) -> None:
        """End all exchanges, since another rank is at none of them."""


class Communicator(ABC):
    """The messages of one rank: how many ranks there are, its number among them, and what it says
    to which. Messages from one rank to another arrive in the order in which they were sent.

    What was begun is done in the order in which it was begun, by whoever comes to it first: a
    thread of the communicator, if it has one, or the thread that needs a result, or that is at an
    exchange behind it. So the messages are the same in the same order in either case.
    """

    rank: int
    size: int
    cost: tuple[float, float] | None = None
    """The seconds that a message takes, and those of each byte, where they were measured."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._exchanges = 0
        self._in_group: Counter[tuple[int, ...]] = Counter()  # ranks of others may make more
        self._failure = ""
        self._begun = 0
        self._waiting: deque[tuple[int, Callable[[], Any]]] = deque()
        self._done: dict[int, tuple[Any, Exception | None]] = {}
        self._aside: set[int] = set()
        self._carried_by: Carrier | None = None
        self._working = threading.RLock()
        self._is_working = False

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
        the one that each is given. Parts are flat, of one dtype; those of a GPU go by the
        `carrier`, and the host says how long they are.

        ``what`` names it in errors. Raises `RankError` where a member is at another exchange, or
        has ended, and from then on always: what the others have sent meanwhile fits nothing.
        """
        with self._working:
            if not self._is_working:
                self.work_off()
            if isinstance(parts[0], np.ndarray):
                return self._exchange(what, members, parts)
            sizes = [np.array([p.size], np.int64) for p in parts]
            given = self._exchange(f"{what} on GPUs", members, sizes)
            carrier = self._carried_by = self.carrier
            assert carrier is not None  # or the parts would be the host's
            return carrier.exchange(members, parts, [int(n[0]) for n in given])

    def exchange_on_host(
        self, what: str, members: Sequence[int], parts: Sequence[Array]
    ) -> list[Array]:
        """What `exchange` gives, in the middle of another exchange."""
        return self._exchange(what, members, parts)

    @property
    def carrier(self) -> Carrier | None:
        """What carries arrays of GPUs; None where they go by the memory of the host."""
        return None

    def _exchange(self, what: str, members: Sequence[int], parts: Sequence[Array]) -> list[Array]:
        if self._failure:
            raise RankError(self._failure)
        group = tuple(members)
        label = f"exchange {self._in_group[group]}, {what}"
        self._in_group[group] += 1
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
                if self._carried_by is not None:
                    self._carried_by.abort()
                raise RankError(self._failure)
            found[i] = part.view(parts[at].dtype)
        self.finish()
        return [found[i] for i in range(len(members))]

    def measure(self) -> None:
        """Note the ``cost`` of messages, on all ranks at once. Where none go between processes, as
        among threads, it stays unknown."""
        self.cost = None

    # -- what is begun and ended later -----------------------------------------------------------

    def begin(self, work: Callable[[], Any]) -> int:
        """Have ``work``, which makes exchanges, done behind all that was begun before. Gives its
        number, from 1 on."""
        self._begun += 1
        self._waiting.append((self._begun, work))
        return self._begun

    def begin_aside(self, work: Callable[[], Any]) -> int:
        """Have the `carrier` do ``work`` beside what is computed. Gives its number, as `begin`."""
        self.work_off()
        carrier = self.carrier
        assert carrier is not None
        self._begun += 1
        self._done[self._begun] = carrier.aside(work), None
        self._aside.add(self._begun)
        return self._begun

    def end(self, number: int) -> Any:
        """What the work of this number gives. It is done now if it was not yet."""
        self.work_off(number)
        result, error = self._done.pop(number)
        if error is not None:
            raise error
        if number in self._aside:
            self._aside.remove(number)
            result = result()
        return result

    def forget(self) -> None:
        """Do what was begun and never ended, as the other ranks do, and drop what it gave: a
        program ended by an error in between."""
        self.work_off()
        self._done.clear()
        self._aside.clear()

    def work_off(self, last: int = sys.maxsize) -> None:
        """Do what was begun up to the number ``last``, and is not done."""
        with self._working:
            while self._waiting and self._waiting[0][0] <= last:
                number, work = self._waiting.popleft()
                try:
                    self._is_working = True
                    with np.errstate(all="ignore"):  # in whatever thread, as in a program
                        self._done[number] = work(), None
                except Exception as error:
                    self._done[number] = None, error
                finally:
                    self._is_working = False

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
