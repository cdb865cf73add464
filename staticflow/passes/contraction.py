"""A directed acyclic graph of which edges are contracted, as fusion does, and which stays acyclic.

Every vertex has a rank, higher than those of all that lead to it, so that a search for a second
path looks only at what lies between the two ends of an edge. It goes from both ends at once: the
end that has less beside it decides, and only what was found from there gets another rank. After
Bender, Fineman, Gilbert and Tarjan, "A new approach to incremental cycle detection and related
problems" (2016): contracting ``a -> b`` is inserting ``b -> a`` beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

__all__ = ["Contraction"]

V = TypeVar("V", bound=Hashable)

MOST_SEARCHED = 500
"""Vertices that a search looks at from either end before it gives up and counts as having found a
second path: between ends that both have so much beside them there nearly always is one."""


class Contraction(Generic[V]):
    """``before`` gives for each vertex those that lead to it, all of which come earlier in it."""

    def __init__(self, before: Mapping[V, Iterable[V]]) -> None:
        self._before = {v: dict.fromkeys(sources) for v, sources in before.items()}
        self._after: dict[V, dict[V, None]] = {v: {} for v in self._before}
        for v, sources in self._before.items():
            for s in sources:
                self._after[s][v] = None
        self._rank = {v: float(rank) for rank, v in enumerate(self._before)}

    def contract(self, a: V, b: V, into: V) -> bool:
        """Put ``into`` in the place of ``a`` and ``b``, joined by an edge, and say that it is done;
        False, and nothing is changed, if another path leads from ``a`` to ``b``."""
        ranks = self._ranks_without_path(a, b)
        if ranks is None:
            return False
        rank, others = ranks
        self._rank |= others
        self._replace(a, b, into)
        self._rank[into] = rank
        return True

    def contract_any(self, a: V, b: V, into: V) -> bool:
        """`contract` of two that no edge needs to join, in either order."""
        first, second = sorted((a, b), key=self._rank.__getitem__)
        return self.contract(first, second, into)

    def _ranks_without_path(self, a: V, b: V) -> tuple[float, Mapping[V, float]] | None:
        """The rank of ``a`` and ``b`` as one vertex, and those of others that have to change; None
        if a second path leads from ``a`` to ``b``, or if that takes too long to tell."""
        low, high = self._rank[a], self._rank[b]
        if len(self._after[a]) == 1 and b in self._after[a]:
            return high, {}
        if len(self._before[b]) == 1 and a in self._before[b]:
            return low, {}
        below, above = [a], [b]  # what follows a, and what leads to b, each nearest first
        reached, leading = {a}, {b}
        for i in range(MOST_SEARCHED):
            if i == len(below):
                others = self._move_behind(below[1:], high)
                return None if others is None else (high, others)
            if i == len(above):
                others = self._move_before(above[1:], low)
                return None if others is None else (low, others)
            for v in self._after[below[i]]:
                if v in leading and (i or v != b):
                    return None
                if v not in reached and v != b and self._rank[v] <= high:
                    reached.add(v)
                    below.append(v)
            for v in self._before[above[i]]:
                if v in reached and (i or v != a):
                    return None
                if v not in leading and v != a and self._rank[v] >= low:
                    leading.add(v)
                    above.append(v)
        return None

    def _move_behind(self, vertices: Sequence[V], rank: float) -> Mapping[V, float] | None:
        """Ranks above ``rank`` for all that can be reached from somewhere at or below it."""
        moved = set(vertices)
        later = (self._rank[w] for v in vertices for w in self._after[v] if w not in moved)
        return self._spread(vertices, rank, min(later, default=rank + len(moved) + 1))

    def _move_before(self, vertices: Sequence[V], rank: float) -> Mapping[V, float] | None:
        """Ranks below ``rank`` for all that lead to something from at or above it."""
        moved = set(vertices)
        earlier = (self._rank[u] for v in vertices for u in self._before[v] if u not in moved)
        return self._spread(vertices, max(earlier, default=rank - len(moved) - 1), rank)

    def _spread(self, vertices: Sequence[V], low: float, high: float) -> Mapping[V, float] | None:
        """Ranks between two others, in the order of those that the vertices have; None if there are
        not so many numbers."""
        in_order = sorted(vertices, key=self._rank.__getitem__)
        step = (high - low) / (len(in_order) + 1)
        ranks = [low + step * (i + 1) for i in range(len(in_order))]
        if any(r >= s for r, s in itertools.pairwise((low, *ranks, high))):
            return None
        return dict(zip(in_order, ranks, strict=True))

    def _replace(self, a: V, b: V, into: V) -> None:
        before = self._before.pop(a) | self._before.pop(b)
        after = self._after.pop(a) | self._after.pop(b)
        for edges, back in ((before, self._after), (after, self._before)):
            for old in (a, b):
                edges.pop(old, None)
            for v in edges:
                for old in (a, b):
                    back[v].pop(old, None)
                back[v][into] = None
        self._before[into], self._after[into] = before, after
        for old in (a, b):
            del self._rank[old]
