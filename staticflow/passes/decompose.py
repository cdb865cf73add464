"""Ops that have no lowering of their own, said in ops that have."""

from __future__ import annotations

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["decompose"]


def decompose(graph: Graph, counts: Counts) -> Graph:
    """Replace every op that declares a decomposition by it, until none is left."""
    while any(n.op.decompose is not None for n in graph.nodes):
        graph = rebuild(graph, lambda node, args: _one(with_args(node, args), counts))
    return graph


def _one(node: Node, counts: Counts) -> Node:
    if node.op.decompose is None:
        return node
    counts[f"decompose {node.op.name}"] += 1
    with using(node.locs):
        result = node.op.decompose(*(Symbol(a) for a in node.args), **node.attrs)
    found: Node = result.node
    return found
