"""The reverse walk over a graph.

It knows nothing of tensors or nodes: a *vertex* is whatever stands for one operation, an *edge*
``(vertex, index)`` is one of the values that it gave, and cotangents are added with the caller's
own ``add``. Iterative, so a chain of any length works; contributions are added in an order that
depends on the structure only. (The tape, whose vertices are numbered as they are made, needs no
count of users and walks by those numbers: `staticflow.eager.tape`.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

__all__ = ["reverse"]

V = TypeVar("V", bound=Hashable)


def reverse(
    roots: Iterable[tuple[V, int, Any]],
    parents: Callable[[V], Sequence[tuple[V, int] | None]],
    pull: Callable[[V, dict[int, Any]], Sequence[Any]],
    add: Callable[[Any, Any], Any],
) -> None:
    """Walk from ``roots`` (vertex, output index, cotangent) towards the leaves.

    ``parents(v)`` are the edges that v's arguments came from, None where no cotangent is wanted.
    ``pull(v, cotangents)`` is called once for each vertex, after all its users, with the summed
    cotangents by output index; it gives one cotangent (or None) for each parent. A leaf's parents
    are empty and its ``pull`` is where the caller collects.
    """
    starts = list(roots)
    waiting = _count_users({v for v, _, _ in starts}, [v for v, _, _ in starts], parents)
    cotangents: dict[V, dict[int, Any]] = {}
    for vertex, index, ct in starts:
        _deposit(cotangents.setdefault(vertex, {}), index, ct, add)
    ready = [v for v in dict.fromkeys(v for v, _, _ in starts) if waiting[v] == 0]
    while ready:
        vertex = ready.pop()
        edges = parents(vertex)
        mine = cotangents.pop(vertex, None)
        pulled: Sequence[Any] = pull(vertex, mine) if mine else (None,) * len(edges)
        for edge, ct in zip(edges, pulled, strict=True):
            if edge is None:
                continue
            parent, index = edge
            if ct is not None:
                _deposit(cotangents.setdefault(parent, {}), index, ct, add)
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append(parent)


def _deposit(into: dict[int, Any], index: int, ct: Any, add: Callable[[Any, Any], Any]) -> None:
    before = into.get(index)
    into[index] = ct if before is None else add(before, ct)


def _count_users(
    seen: set[V], stack: list[V], parents: Callable[[V], Sequence[tuple[V, int] | None]]
) -> dict[V, int]:
    """How many edges lead into each vertex that the roots reach."""
    waiting = dict.fromkeys(stack, 0)
    stack = list(waiting)
    while stack:
        for edge in parents(stack.pop()):
            if edge is None:
                continue
            parent = edge[0]
            waiting[parent] = waiting.get(parent, 0) + 1
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return waiting
