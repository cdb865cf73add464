"""A directed acyclic graph of which edges are contracted, as fusion does, and which stays acyclic.

A topological order is kept up to date, so that a search for a second path looks only at what lies
between the two ends of an edge. After Pearce and Kelly, "A dynamic topological sort algorithm for
directed acyclic graphs" (2006): contracting ``a -> b`` is inserting ``b -> a`` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

__all__ = ["Contraction"]

V = TypeVar("V", bound=Hashable)

MOST_SEARCHED = 500
"""Vertices that a search looks at before it gives up and counts as having found a second path:
between ends that are so far apart there nearly always is one."""


class Contraction(Generic[V]):
    """``before`` gives for each vertex those that lead to it, all of which come earlier in it."""

    def __init__(self, before: Mapping[V, Iterable[V]]) -> None:
        self._before = {v: set(sources) for v, sources in before.items()}
        self._after: dict[V, set[V]] = {v: set() for v in self._before}
        for v, sources in self._before.items():
            for s in sources:
                self._after[s].add(v)
        self._rank = {v: rank for rank, v in enumerate(self._before)}

    def contract(self, a: V, b: V, into: V) -> bool:
        """Put ``into`` in the place of ``a`` and ``b``, joined by an edge, and say that it is done;
        False, and nothing is changed, if another path leads from ``a`` to ``b``."""
        low, high = self._rank[a], self._rank[b]
        below = self._between_ends(a, b, self._after, lambda rank: rank < high)
        above = self._between_ends(b, a, self._before, lambda rank: rank > low)
        if below is None or above is None:
            return False
        positions = sorted(self._rank[v] for v in (*above, a, *below, b))
        in_order = [*sorted(above, key=self._rank_of), into, *sorted(below, key=self._rank_of)]
        self._replace((a, b), into)
        self._rank.update(zip(in_order, positions, strict=False))  # one position is left over
        return True

    def contract_any(self, a: V, b: V, into: V) -> bool:
        """`contract` of two that no edge needs to join, in either order."""
        first, second = sorted((a, b), key=self._rank_of)
        return self.contract(first, second, into)

    def _rank_of(self, v: V) -> int:
        return self._rank[v]

    def _between_ends(
        self, start: V, end: V, edges: Mapping[V, set[V]], between: Callable[[int], bool]
    ) -> set[V] | None:
        """What lies between the two ends and can be reached from ``start``; None if ``end`` can be
        through it, or if it is too much."""
        found: set[V] = set()
        stack = [start]
        while stack:
            v = stack.pop()
            for other in edges[v]:
                if other == end:
                    if v != start:
                        return None
                elif other not in found and between(self._rank[other]):
                    found.add(other)
                    stack.append(other)
            if len(found) > MOST_SEARCHED:
                return None
        return found

    def _replace(self, old: tuple[V, V], into: V) -> None:
        before = self._before.pop(old[0]) | self._before.pop(old[1])
        after = self._after.pop(old[0]) | self._after.pop(old[1])
        self._before[into] = before.difference(old)
        self._after[into] = after.difference(old)
        for v in self._before[into]:
            self._after[v].difference_update(old)
            self._after[v].add(into)
        for v in self._after[into]:
            self._before[v].difference_update(old)
            self._before[v].add(into)
        for v in old:
            del self._rank[v]
