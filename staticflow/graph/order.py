"""An order for things that wait for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeVar

__all__ = ["in_order"]

T = TypeVar("T", bound=Hashable)


def in_order(later: Mapping[T, Iterable[T]], rank: Mapping[T, int]) -> Iterator[T]:
    """The keys of ``later``, each before all that it leads to; of several that could come, the one
    of the lowest ``rank``, of which each has its own. Things that wait for each other in a circle
    never come.

    >>> [*in_order({"c": ["a"], "b": [], "a": []}, {"a": 0, "b": 1, "c": 2})]
    ['b', 'c', 'a']
    """
    things = {rank[thing]: thing for thing in later}
    waits = Counter(thing for after in later.values() for thing in after)
    ready = [rank[thing] for thing in later if not waits[thing]]
    heapify(ready)
    while ready:
        thing = things[heappop(ready)]
        yield thing
        for after in later[thing]:
            waits[after] -= 1
            if not waits[after]:
                heappush(ready, rank[after])
