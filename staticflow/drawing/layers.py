"""Rows of nodes, from the top down: which node stands in which row, and in which order.

The steps of K. Sugiyama, S. Tagawa and M. Toda, "Methods for Visual Understanding of Hierarchical
System Structures", IEEE Trans. SMC 11(2), 1981, without sizes: those depend on which groups are
open, and `staticflow.drawing.places` (and the page, in the browser) take care of them.

An edge that passes a row has a *bend* there, so that nothing stands in its way. All edges from one
node share their bends: in a row, the bend of node ``n`` is the number ``-1 - n``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile

__all__ = ["arrange", "bend_of", "segments"]

Rows = list[list[int]]
Edge = tuple[int, int]

_SWEEPS = 8
"""How often rows are put in the order of their neighbours; more changes little."""
_BENDS = 4
"""The most bends, as a multiple of the nodes: beyond it the longest edges run behind the nodes."""
_LONGEST = 100
"""Edges that pass more rows run behind the nodes, too: those of a value that is used in every row
would pass as many places as the square of the rows."""


def arrange(nodes: Sequence[int], edges: Sequence[Edge]) -> Rows:
    """Rows of ``nodes``, numbers from 0 on of which each stands behind those it has an edge from;
    every edge leads to a later row.

    >>> arrange([0, 1, 2], [(0, 1), (1, 2), (0, 2)])
    [[0], [1, -1], [2]]
    """
    rank = _ranks(nodes, edges)
    rows: Rows = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for node in nodes:
        rows[rank[node]].append(node)
    for node, last in _spans(rank, edges).items():
        for row in range(rank[node] + 1, last):
            rows[row].append(bend_of(node))
    return _order(rows, edges)


def bend_of(node: int) -> int:
    """The number of a bend of the edges from ``node``; the same gives the node of a bend."""
    return -1 - node


def segments(rows: Rows, edges: Iterable[Edge]) -> dict[Edge, list[tuple[int, int]]]:
    """The places that each edge goes through, as pairs of a row and what stands there."""
    rank = {item: r for r, row in enumerate(rows) for item in row if item >= 0}
    bends = {(r, item) for r, row in enumerate(rows) for item in row if item < 0}
    found = {}
    for source, target in edges:
        way = ((r, bend_of(source)) for r in range(rank[source] + 1, rank[target]))
        ends = (rank[source], source), (rank[target], target)
        found[source, target] = [ends[0], *takewhile(bends.__contains__, way), ends[1]]
    return found


def _ranks(nodes: Sequence[int], edges: Iterable[Edge]) -> dict[int, int]:
    """The row of each node: as early as can be, but right before its first user where that makes
    no more edges longer than shorter. What only its one user holds *floats* after that, with all
    that leads to it, and so does what nothing leads to: edges from these do not count. What leads
    to nothing comes right behind the last that leads to it."""
    before: dict[int, list[int]] = {n: [] for n in nodes}
    behind: dict[int, list[int]] = {n: [] for n in nodes}
    for source, target in dict.fromkeys(edges):
        before[target].append(source)
        behind[source].append(target)
    rank: dict[int, int] = {}
    for node in nodes:
        rank[node] = max((rank[n] + 1 for n in before[node]), default=0)
    floats: dict[int, bool] = {}
    for node in nodes:
        is_free = len(behind[node]) == 1 and all(floats[n] for n in before[node])
        floats[node] = is_free or not before[node]
    for node in reversed(nodes):
        users = [n for n in behind[node] if behind[n]] or behind[node]
        if users and len(users) >= sum(not floats[n] for n in before[node]):
            rank[node] = min(rank[n] for n in users) - 1
    for node in nodes:
        if before[node] and not behind[node]:
            rank[node] = max(rank[n] for n in before[node]) + 1
    first = min(rank.values(), default=0)
    return {node: r - first for node, r in rank.items()}


def _spans(rank: Mapping[int, int], edges: Iterable[Edge]) -> dict[int, int]:
    """The last row that edges with bends lead to, by the node that they come from."""
    lengths = [(rank[target] - rank[source], source, target) for source, target in edges]
    last: dict[int, int] = {}
    room = _BENDS * len(rank) + 100
    for length, source, target in sorted(lengths):
        if length > _LONGEST:
            break
        more = rank[target] - max(last.get(source, rank[source] + 1), rank[source] + 1)
        if more > room:
            break
        room -= max(more, 0)
        last[source] = max(last.get(source, 0), rank[target])
    return last


def _order(rows: Rows, edges: Iterable[Edge]) -> Rows:
    """The rows, each in the order of the means of its neighbours, by turns above and below."""
    above: list[dict[int, list[int]]] = [{} for _ in rows]
    below: list[dict[int, list[int]]] = [{} for _ in rows]
    known: set[tuple[int, int, int]] = set()
    for way in segments(rows, dict.fromkeys(edges)).values():
        for (r, a), (s, b) in pairwise(way):
            if s == r + 1 and (r, a, b) not in known:
                known.add((r, a, b))
                below[r].setdefault(a, []).append(b)
                above[s].setdefault(b, []).append(a)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        order = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
        for r in order:
            position = {item: i for i, item in enumerate(rows[r - 1 if down else r + 1])}
            near = above[r] if down else below[r]
            rows[r] = _sort_by_means(rows[r], near, position)
    return rows


def _sort_by_means(
    row: list[int], near: Mapping[int, list[int]], position: Mapping[int, int]
) -> list[int]:
    """A row in the order of the mean positions of its items' neighbours; what has none stays
    where it is."""
    means = {i: sum(position[n] for n in near[i]) / len(near[i]) for i in row if i in near}
    moved = iter(sorted(means, key=means.__getitem__))
    return [next(moved) if item in means else item for item in row]
