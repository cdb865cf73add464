"""Ranks that are threads of one process and run in turns, so that tests of many are repeatable."""

from __future__ import annotations

import functools
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from staticflow.eager.random import default_generator
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, RankError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.communicator import ENDED, Array, Carrier, Communicator, using
from staticflow.runtime.turn import updating

__all__ = ["simulate"]

T = TypeVar("T")
ORDERS = ("forward", "reverse", "seeded")


class _Lost(BaseException):
    """Ends a rank that is to be lost."""


class _Stage:
    """The ranks, of which one runs, and the messages on their way. A rank runs until it waits for a
    message that is not there."""

    def __init__(self, size: int, order: str, seed: int, delay: int) -> None:
        self.size, self.order, self.delay = size, order, delay
        self.chance = random.Random(seed)
        self.changed = threading.Condition()
        self.running = 0
        self.clock = 0
        self.mail: dict[tuple[int, int], deque[tuple[int, str, Array]]] = {}
        self.waiting: dict[int, tuple[int, str]] = {}
        self.ended: dict[int, str] = {}

    def send(self, of: int, to: int, label: str, part: Array) -> None:
        """Put a message on its way: it arrives after some turns, and behind those before it."""
        box = self.mail.setdefault((of, to), deque())
        due = self.clock + (self.chance.randint(0, self.delay) if self.delay else 0)
        box.append((max(due, box[-1][0]) if box else due, label, part.copy()))

    def has_come(self, of: int, to: int) -> bool:
        """Whether there is a message, or will never be one."""
        box = self.mail.get((of, to))
        return box[0][0] <= self.clock if box else of in self.ended

    def give_turn(self) -> None:
        """Let another rank run: the next, the one before, or any, that has something to do."""
        self.clock += 1
        alive = [r for r in range(self.size) if r not in self.ended]
        able = [r for r in alive if r not in self.waiting or self.has_come(self.waiting[r][0], r)]
        while not able and any(self.mail.get((self.waiting[r][0], r)) for r in alive):
            self.clock += 1
            able = [r for r in alive if self.has_come(self.waiting[r][0], r)]
        choices = able or alive  # of those that all wait, one finds out
        if not choices:
            return
        if self.order == "seeded":
            self.running = self.chance.choice(choices)
        else:
            step = 1 if self.order == "forward" else -1
            self.running = min(choices, key=lambda r: ((r - self.running) * step - 1) % self.size)
        self.changed.notify_all()

    def wait_for_turn(self, rank: int, drawn: Tensor) -> None:
        """Wait until it is the turn of a rank, which goes on from what it has ``drawn``, a state of
        the default generator: a process would have a generator of its own."""
        with updating.give_way():
            self.changed.wait_for(lambda: self.running == rank)
        default_generator.set_state(drawn)

    def let_others(self, rank: int) -> None:
        """Give a rank's turn away and wait for the next one."""
        drawn = default_generator.get_state()
        self.give_turn()
        self.wait_for_turn(rank, drawn)


class _Simulated(Communicator):
    """One rank on the stage."""

    def __init__(self, stage: _Stage, rank: int, lost_at: int | None) -> None:
        super().__init__(rank, stage.size)
        self.stage, self.lost_at = stage, lost_at

    @functools.cached_property
    def carrier(self) -> Carrier | None:
        """NCCL, where cupy has it."""
        from staticflow.distributed.nccl import find_nccl

        return find_nccl(self)

    def _exchange(self, what: str, members: Any, parts: Any) -> list[Array]:
        if self._exchanges == self.lost_at:
            raise _Lost
        return super()._exchange(what, members, parts)

    def post(self, to: int, label: str, part: Array) -> None:
        """Send a copy."""
        self.stage.send(self.rank, to, label, part)

    def take(self, of: int, wanted: str) -> tuple[str, Array]:
        """The next message of a rank, while the others run."""
        stage = self.stage
        with stage.changed:
            while not stage.has_come(of, self.rank):
                stage.waiting[self.rank] = of, wanted
                stage.let_others(self.rank)
                if (
                    not stage.has_come(of, self.rank)
                    and len(stage.waiting) + len(stage.ended) == stage.size
                ):
                    raise RankError(f"all ranks wait: {self._describe_waiting()}")
            stage.waiting.pop(self.rank, None)
            box = stage.mail.get((of, self.rank))
            if not box:
                return ENDED + stage.ended[of], np.empty(0, np.uint8)
            return box.popleft()[1:]

    def finish(self) -> None:
        """Copies were sent."""

    def _describe_waiting(self) -> str:
        return "; ".join(
            f"rank {r} for rank {of} at {wanted}"
            for r, (of, wanted) in sorted(self.stage.waiting.items())
        )


def simulate(
    function: Callable[[], T],
    ranks: int,
    *,
    order: str = "forward",
    seed: int = 0,
    delay: int = 0,
    lost: tuple[int, int] | None = None,
) -> list[T]:
    """What ``function`` gives on each of so many ranks, which are threads of this process: inside,
    `mesh` finds them as it does processes of MPI.

    One rank runs at a time, until it waits for a message, so that each run with the same arguments
    is the same: next comes the rank behind it (``order="forward"``), the one before it
    (``"reverse"``), or one by a generator of this ``seed`` (``"seeded"``). A message is on its way
    for up to ``delay`` turns. ``lost=(rank, n)`` ends a rank without a word where its exchange
    number ``n``, counted from 0, would be. An error of a rank is raised here, with a note which
    rank it was: of several the first.

    Tensors and programs that one rank makes are its own only if ``function`` makes them. Its
    default generator is its own: it begins where the caller's stands, which stays there.

    >>> import staticflow as sf
    >>> def total():
    ...     mesh = sf.distributed.mesh(data=-1)
    ...     return sf.distributed.all_reduce(sf.tensor(mesh.rank), mesh).item()
    >>> sf.distributed.simulate(total, 4)
    [6, 6, 6, 6]
    """
    if order not in ORDERS:
        raise ArgumentError(
            f"simulate: order is one of {', '.join(ORDERS)}, not {order!r}, "
            f"at {format_locs(here())}"
        )
    stage = _Stage(ranks, order, seed, delay)
    drawn = default_generator.get_state()
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        lost_at = lost[1] if lost is not None and lost[0] == rank else None
        reason = "has come to the end of its program"
        with stage.changed:
            stage.wait_for_turn(rank, drawn)
        try:
            with using(_Simulated(stage, rank, lost_at)):
                results[rank] = function()
        except _Lost:
            reason = "was lost"
        except BaseException as error:
            reason = f"ended by {type(error).__name__}: {error}"
            error.add_note(f"on rank {rank} of {ranks}")
            errors.append(error)
        with stage.changed:
            stage.ended[rank] = reason
            stage.waiting.pop(rank, None)
            stage.give_turn()

    threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    default_generator.set_state(drawn)
    if errors:
        raise errors[0]
    return [results[r] for r in range(ranks) if r in results]
