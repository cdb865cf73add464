"""Two loops over the same values that carry the same state are one loop with the ys of both.

The derivative of a scan asks for a second loop that stacks the carries; this makes it the first.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from staticflow.graph.graph import Graph, attrs_key, close, rebuild, substitute_nodes
from staticflow.graph.locs import merge_locs
from staticflow.graph.node import Node, item, make_node
from staticflow.ops.loop import loop_ops
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["merge_scans"]


def merge_scans(graph: Graph, counts: Counts) -> Graph:
    """Join loops with equal operands, length and direction whose bodies give equal carries."""
    while (pair := _find_pair(graph)) is not None:
        graph = _replace(graph, *pair)
        counts["merge scans"] += 1
    return graph


@dataclass(frozen=True, slots=True)
class _Joined:
    """One loop for two, and where the results of the second stand in it."""

    loop: Node
    places: dict[int, int]


def _find_pair(graph: Graph) -> tuple[Node, Node, _Joined] | None:
    groups: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if node.op in loop_ops():
            attrs = attrs_key({k: v for k, v in node.attrs.items() if k != "body"})
            groups.setdefault((node.op, node.args, attrs), []).append(node)
    for group in groups.values():
        for a, b in itertools.combinations(group, 2):
            joined = _join(a, b)
            if joined is not None:
                return a, b, joined
    return None


def _replace(graph: Graph, a: Node, b: Node, joined: _Joined) -> Graph:
    """The graph with the results of ``a`` and ``b`` taken from the joined loop."""
    new: list[Node] = []

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op is not item or node.args[0] not in (a, b):
            return with_args(node, args)
        if not new:
            new.append(with_args(joined.loop, args[0].args))
        index = node.attrs["index"]
        place = joined.places[index] if node.args[0] is b else index
        return make_node(item, (new[0],), {"index": place}, node.locs)

    return rebuild(graph, visit)


def _join(a: Node, b: Node) -> _Joined | None:
    """The loop that does the work of both; None if their carries differ."""
    body_a: Graph = a.attrs["body"]
    body_b: Graph = b.attrs["body"]
    renamed = substitute_nodes(body_b.outputs, dict(zip(body_b.params, body_a.params, strict=True)))
    both = close(
        body_a.params, (*body_a.outputs, *renamed), (*body_a.equalities, *body_b.equalities)
    )
    n_a, carries = len(body_a.outputs), a.attrs["carries"]
    outs_a, outs_b = both.outputs[:n_a], both.outputs[n_a:]
    if outs_a[:carries] != outs_b[:carries]:
        return None
    outputs = list(outs_a)
    places = {i: i for i in range(carries)}
    for i, out in enumerate(outs_b[carries:], carries):
        if out not in outputs[carries:]:
            outputs.append(out)
        places[i] = outputs.index(out, carries)
    body = close(both.params, outputs, both.equalities)
    loop = make_node(a.op, a.args, {**a.attrs, "body": body}, merge_locs(a.locs, b.locs))
    return _Joined(loop, places)
