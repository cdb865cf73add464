"""In which order the nodes of a file run, and how long their values are held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from staticflow.onnx.reading.plan import GraphPlan, NodePlan, Spec
from staticflow.onnx.reading.refuse import WrongModel, short

__all__ = ["free_names", "in_order", "last_uses"]


def free_names(proto: Any) -> Iterator[str]:
    """The names that a node takes: its inputs, and what its inner graphs take from around them."""
    yield from (n for n in proto.input if n)
    for attr in proto.attribute:
        graphs = [*attr.graphs, *([attr.g] if attr.HasField("g") else [])]
        for graph in graphs:
            own = {i.name for i in graph.input} | {i.name for i in graph.initializer}
            own |= {o for n in graph.node for o in n.output}
            for node in graph.node:
                yield from (n for n in free_names(node) if n not in own)
            yield from (o.name for o in graph.output if o.name not in own)


def in_order(protos: Any, known: Iterable[str], made: set[str], graph: str) -> list[Any]:
    """Nodes, each behind those whose values it takes; as they stand, where that is such an order.

    Raises `WrongModel` for a value that nothing makes, and for nodes that wait for each other.
    """
    known = set(known)
    waiting: dict[int, set[str]] = {}
    readers: dict[str, list[int]] = {}
    nodes = list(protos)
    for i, proto in enumerate(nodes):
        names = set(free_names(proto))
        for name in names:
            if name not in made and name not in known:
                raise WrongModel(
                    f"its node {short(proto.name or proto.op_type)} ({proto.op_type[:60]}) takes "
                    f"{short(name)}, which nothing in its graph {short(graph)} makes"
                )
        waiting[i] = {n for n in names if n in made}
        for name in waiting[i]:
            readers.setdefault(name, []).append(i)
    ordered: list[Any] = []
    ready = [i for i in range(len(nodes)) if not waiting[i]]  # sorted, so a heap
    while ready:
        i = heappop(ready)
        ordered.append(nodes[i])
        for name in nodes[i].output:
            for j in readers.pop(name, ()):
                waiting[j].discard(name)
                if not waiting[j]:
                    heappush(ready, j)
    if len(ordered) < len(nodes):
        stuck = next(nodes[i] for i in range(len(nodes)) if waiting[i])
        raise WrongModel(
            f"its node {short(stuck.name or stuck.op_type)} ({stuck.op_type[:60]}) needs its own "
            f"result, by a cycle in the graph {short(graph)}"
        )
    return ordered


def last_uses(
    plans: Sequence[NodePlan], outputs: Sequence[Spec], made: set[str]
) -> tuple[NodePlan, ...]:
    """The nodes, each with the values that nobody reads after it."""
    kept = {s.name for s in outputs}
    found: list[NodePlan] = []
    for plan in reversed(plans):
        names = {*plan.inputs, *plan.outputs}
        for value in plan.attrs.values():
            if isinstance(value, GraphPlan):
                names |= value.captured
        over = tuple(sorted(n for n in names if n in made and n not in kept))
        kept |= names
        found.append(replace(plan, over=over))
    return tuple(reversed(found))
