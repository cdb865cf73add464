"""What it costs to write operations down, beyond what each counts itself.

The function in the place of an operation is Python's, where there was native code; it is called
otherwise, its arguments are packed anew, and memory is counted. So operations on a few elements are
timed with these functions in place, as a block ends, and once more without. This is done in a
thread of its own, in which gradients are recorded and nothing else of the user's is switched on.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from time import thread_time_ns

from staticflow.data_classes import dataclass
from staticflow.eager.creation import ones
from staticflow.eager.tensor import Tensor
from staticflow.measure.recorder import Operation, Recording

__all__ = ["HookCost", "Hooked", "find_hook_costs", "run_hooked"]

ROUNDS = 5

OUTLIER = 4
"""So many times the median is more than an operation that is not interrupted spends."""


@dataclass(frozen=True, slots=True)
class HookCost:
    """The seconds that it takes to write an operation down beyond what it counts itself, of the
    ``forward`` pass and of the ``backward`` one, with the operations inside of its steps."""

    forward: float
    backward: float


@dataclass(frozen=True, slots=True)
class Hooked:
    """What a loop took with the functions in place, without what its operations have counted
    themselves, in nanoseconds, and how many operations these were, forward and in all."""

    took: float
    forward: int
    operations: int


def _multiply(x: Tensor) -> None:
    for _ in range(100):
        x * x


def _differentiate(x: Tensor) -> None:
    for _ in range(20):
        (x * x).sum().backward()
        x.grad = None


LOOPS: tuple[Callable[[Tensor], None], ...] = (_multiply, _differentiate)


def _time(loop: Callable[[Tensor], None], x: Tensor) -> int:
    began = thread_time_ns()
    loop(x)
    return thread_time_ns() - began


def _sum_counts(operations: Sequence[Operation]) -> float:
    """What operations have counted themselves, in nanoseconds. It is time on the wall: one in which
    the processor was taken away counts as the others do."""
    usual = statistics.median(o.spent for o in operations)
    return sum(min(o.spent, OUTLIER * usual) for o in operations)


def _alone(work: Callable[[], None]) -> None:
    """Do ``work`` in a thread of its own, and wait for it."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def run_hooked(recording: Recording) -> list[list[Hooked]]:
    """Time the loops, round by round, while operations are written into ``recording``, whose block
    has ended: that these are in it, too, is undone."""
    threads, before = dict(recording.threads), len(recording.operations)
    rounds: list[list[Hooked]] = []

    def run() -> None:
        me, x = threading.get_ident(), ones(4, requires_grad=True)
        for number in range(ROUNDS + 1):
            found = []
            for loop in LOOPS:
                first = len(recording.operations)
                took = _time(loop, x)
                own = [o for o in recording.operations[first:] if o.thread == me]
                forward = sum(o.kind == "forward" for o in own)
                found.append(Hooked(took - _sum_counts(own), forward, len(own)))
            rounds[:] = [*rounds, found] if number else []  # the first warms up

    _alone(run)
    del recording.operations[before:]
    recording.threads.clear()
    recording.threads.update(threads)
    return rounds


def find_hook_costs(hooked: Sequence[Sequence[Hooked]]) -> list[HookCost]:
    """What writing down costs, by rounds, now that no operation is written down any more."""
    plain: list[list[int]] = [[] for _ in LOOPS]

    def run() -> None:
        x = ones(4, requires_grad=True)
        for _ in range(ROUNDS + 1):
            for times, loop in zip(plain, LOOPS, strict=True):
                times.append(_time(loop, x))

    _alone(run)
    multiplying, differentiating = (statistics.median(times[1:]) for times in plain)
    costs = []
    for one, other in hooked:
        forward = max(0.0, one.took - multiplying) / one.operations
        left = other.took - differentiating - other.forward * forward
        backward = max(0.0, left) / (other.operations - other.forward)
        costs.append(HookCost(forward / 1e9, backward / 1e9))
    return costs
