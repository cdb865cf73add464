"""In which order nodes run, so that as little memory as possible is in use at one time.

Finding the best order is hard; a few are found, each in time nearly linear in the nodes, and the
one with the lowest peak is taken, of several the one that is lowest on average. One is as the
program was written. The others run whatever frees as much as it takes as soon as it is ready, such
as the update of a weight as soon as its gradient is there, and go on with what comes first: as it
was written; as the results need it, the latest result first, which for a training step is the layer
that backward reaches first; each branch alone, the one first that works with most and leaves least
(Sethi and Ullman 1970, "The generation of optimal code for arithmetic expressions"); or with what
adds least. No order changes a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from heapq import heappop, heappush

from staticflow.data_classes import dataclass

__all__ = ["Work", "order_as_written", "order_by_memory", "use_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """Nodes by number, in the order in which they were written; ``after[i]`` run later than ``i``.

    Of the blocks of memory ``made[i]`` are those that a
    node fills, ``read[i]`` those that it reads, ``bytes`` how large they are; a block is free once
    all that read it have run. ``results`` are the nodes for which the others run;
    ``inside`` are bytes that some nodes work in while they run.
    """

    after: Sequence[Sequence[int]]
    made: Sequence[Sequence[int]]
    read: Sequence[Sequence[int]]
    bytes: Sequence[int]
    results: Sequence[int]
    inside: Mapping[int, int] = field(default_factory=dict)

    def waits(self) -> list[int]:
        """How many nodes each waits for."""
        found = [0] * len(self.after)
        for later in self.after:
            for j in later:
                found[j] += 1
        return found

    def readers(self) -> list[int]:
        """How many nodes read each block."""
        found = [0] * len(self.bytes)
        for blocks in self.read:
            for b in blocks:
                found[b] += 1
        return found


def order_by_memory(work: Work) -> list[int]:
    """The order with the lowest peak of a few, of several such the one with the least use.

    >>> # two branches: 0 -> 1 and 2 -> 3 make 100 bytes and reduce them to 1, 4 needs both
    >>> after = [[1], [4], [3], [4], []]
    >>> blocks, sizes = [[0], [1], [2], [3], []], [100, 1, 100, 1]
    >>> order_by_memory(Work(after, blocks, [[], [0], [], [2], [1, 3]], sizes, [4]))
    [0, 1, 2, 3, 4]
    """
    count = len(work.after)
    best = order_as_written(work)
    lowest = use_of(work, best)
    least = max(work.bytes, default=0)  # no order does with less
    slack = lowest[0] // (_PARTS * max(count, 1))
    before = _before(work)
    ranks: tuple[Callable[[], Sequence[int]], ...] = (
        lambda: range(count),
        lambda: _rank_from(work.results[::-1], before, [0] * count),
        lambda: _rank_from(work.results, before, _needs(work, before)),
        lambda: [0] * count,
    )
    for rank in ranks:
        if lowest[0] <= least:
            break
        order = _list_schedule(work, rank(), slack)
        use = use_of(work, order)
        if use < lowest:
            best, lowest = order, use
    return best


def order_as_written(work: Work) -> list[int]:
    """The order in which each node is as early as what it waits for lets it be."""
    return _list_schedule(work, range(len(work.after)), None)


_PARTS = 64
"""What adds less than this part of its share of the peak counts as nothing: the numbers that an
update needs, which are ready long before."""


def use_of(work: Work, order: Sequence[int]) -> tuple[int, int]:
    """The most bytes in use at one time where nodes run in an ``order``, and the sum over all
    times."""
    left = work.readers()
    used = most = total = 0
    for i in order:
        used += sum(work.bytes[b] for b in work.made[i])
        most = max(most, used + work.inside.get(i, 0))
        total += used
        for b in work.made[i]:
            if not left[b]:
                used -= work.bytes[b]
        for b in work.read[i]:
            left[b] -= 1
            if not left[b]:
                used -= work.bytes[b]
    return most, total


def _before(work: Work) -> list[list[int]]:
    """The nodes that each waits for, first those that come first."""
    found: list[list[int]] = [[] for _ in work.after]
    for i, later in enumerate(work.after):
        for j in later:
            found[j].append(i)
    return found


def _list_schedule(work: Work, rank: Sequence[int], slack: int | None) -> list[int]:
    """The order that runs, of what is ready, whatever adds no more than ``slack`` bytes, what frees
    most first, and else what comes first by ``rank``, of equal rank what adds least."""
    waits, left = work.waits(), work.readers()
    alone: list[list[int]] = [[] for _ in work.bytes]  # the readers of each block that are not run
    for i, blocks in enumerate(work.read):
        for b in blocks:
            alone[b].append(i)
    added = [sum(work.bytes[b] for b in made) for made in work.made]
    for b, count in enumerate(left):
        if count == 1:
            added[alone[b][0]] -= work.bytes[b]
    done = [False] * len(waits)
    ready: list[tuple[int, int, int, int]] = []

    def push(i: int) -> None:
        free = slack is not None and added[i] <= slack
        heappush(ready, (-1, added[i], rank[i], i) if free else (rank[i], added[i], 0, i))

    for i, n in enumerate(waits):
        if not n:
            push(i)
    order: list[int] = []
    while ready:
        *_, i = heappop(ready)
        if done[i]:
            continue  # it was pushed again as it came to add less
        done[i] = True
        order.append(i)
        for b in work.read[i]:
            left[b] -= 1
            if left[b] == 1:
                last = next(j for j in alone[b] if not done[j])
                added[last] -= work.bytes[b]
                if not waits[last]:
                    push(last)
        for j in work.after[i]:
            waits[j] -= 1
            if not waits[j]:
                push(j)
    return order


def _rank_from(
    results: Sequence[int], before: Sequence[Sequence[int]], need: Sequence[int]
) -> list[int]:
    """The places of nodes in a walk from the ``results``, one after the other, to all that each
    waits for: what needs most is first."""
    rank = [-1] * len(before)
    place = 0
    stack = [(i, False) for i in reversed(results)]
    while stack:
        i, is_done = stack.pop()
        if rank[i] >= 0:
            continue
        if is_done:
            rank[i] = place
            place += 1
            continue
        stack.append((i, True))
        first = sorted(before[i], key=lambda j: need[j])  # the last that is pushed is the first
        stack.extend((j, False) for j in first if rank[j] < 0)
    for i, at in enumerate(rank):
        if at < 0:
            rank[i] = place
            place += 1
    return rank


def _needs(work: Work, before: Sequence[Sequence[int]]) -> list[int]:
    """How much more each node and what it alone waits for work with than they leave, about: as if
    nothing were read twice."""
    peak = [0] * len(before)
    need = [0] * len(before)
    for i, earlier in enumerate(before):
        kept = most = 0
        for j in sorted(earlier, key=lambda j: -need[j]):
            most = max(most, kept + peak[j])
            kept += peak[j] - need[j]
        own = sum(work.bytes[b] for b in work.made[i])
        peak[i] = max(most, kept + own)
        need[i] = peak[i] - own
    return need
