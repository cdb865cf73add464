"""Ops that have no lowering of their own, said in ops that have."""

from __future__ import annotations

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node, item
from staticflow.ops.declaring.late import behind
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["decompose"]


def decompose(graph: Graph, counts: Counts) -> Graph:
    """Replace every op that declares a decomposition by it, until none is left."""
    while any(n.op.decompose is not None for n in graph.nodes):
        graph = _once(graph, counts)
    return graph


def _once(graph: Graph, counts: Counts) -> Graph:
    parts: dict[Node, tuple[Node, ...]] = {}
    return rebuild(graph, lambda node, args: _one(with_args(node, args), parts, counts))


def _one(node: Node, parts: dict[Node, tuple[Node, ...]], counts: Counts) -> Node:
    """What stands for ``node``. One that gives several results stays, and its results are in
    ``parts``, from which its items are taken."""
    if node.op is item and node.args[0] in parts:
        part: Node = parts[node.args[0]][node.attrs["index"]]
        return part
    if node.op.decompose is None:
        return node
    counts.note(f"decompose {node.op.name}", node)
    with using(node.locs), behind(node.args):
        result = node.op.decompose(*(Symbol(a) for a in node.args), **node.attrs)
    if isinstance(node.type, tuple):
        parts[node] = tuple(r.node for r in result)
        return node
    found: Node = result.node
    return found
