"""When the new value of a variable may be written over the old one, and in which order that lets
kernels run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import networkx as nx

from staticflow.graph.graph import Graph, binders_of, regions_of
from staticflow.graph.node import Node, item, maker_of
from staticflow.ops.declaring.late import prefix_op
from staticflow.ops.declaring.lowering import Contract, Host, LoopNest
from staticflow.ops.loops.loop import loop_ops
from staticflow.passes.access import (
    canonical_index,
    is_inline,
    reads,
    root_of,
    shows_memory,
    source_of,
)
from staticflow.passes.cluster import cluster
from staticflow.passes.fuse import AXES

__all__ = ["order_updates", "root_of"]


def _has_no_memory(node: Node) -> bool:
    """Whether a value lies in the memory of its argument."""
    return node.op is prefix_op or shows_memory(node)


def _memory_of(node: Node) -> Node:
    """The node in whose memory a value lies, if it has none of its own."""
    while _has_no_memory(node):
        node = node.args[0]
    return node


def order_updates(
    graph: Graph, updates: Sequence[tuple[Node, Node]]
) -> tuple[list[Node], set[Node]]:
    """An order for the graph's nodes, and the params that may be overwritten in place.

    ``updates`` are (new value, param). Whatever else reads the param, and whatever may end the
    program before its time, runs before the kernel that overwrites it; where that is impossible, or
    where that kernel reads the param elsewhere than it writes, the new value goes through a copy.
    """
    dag = nx.DiGraph()
    rank = {n: i for i, n in enumerate(graph.nodes)}
    dag.add_nodes_from(graph.nodes)
    dag.add_edges_from((a, n) for n in graph.nodes for a in n.args)
    dag.add_edges_from((b, n) for n, found in binders_of(graph.nodes).items() for b in found)
    in_place: set[Node] = set()
    for value, over in updates:
        maker = maker_of(value)
        if maker.op is not cluster or not _reads_in_place(maker, value, over):
            continue
        if _may_end(maker) and not _updates(maker, over):
            continue
        before = {r for r in _readers(graph, over) if r is not maker}
        before |= {n for n in graph.nodes if n is not maker and _may_end(n)}
        if any(nx.has_path(dag, maker, r) for r in before):
            continue
        dag.add_edges_from((r, maker) for r in before)
        in_place.add(over)
    return list(nx.lexicographical_topological_sort(dag, key=rank.__getitem__)), in_place


def _readers(graph: Graph, node: Node) -> Iterator[Node]:
    """What reads the memory of ``node``, under whatever shape."""
    stack = [node]
    while stack:
        for user in graph.users[stack.pop()]:
            if _has_no_memory(user):
                stack.append(user)
            if not shows_memory(user):
                yield user


def _may_end(node: Node) -> bool:
    """Loop nests check indices, loops look whether the user wants to stop, and Python may raise
    whatever it likes."""
    if node.op is cluster:
        return node.attrs["kind"] in ("nest", "loop")
    if node.op in loop_ops() or isinstance(node.op.lowering, Host):
        return True
    return any(_may_end(n) for region in regions_of(node) for n in region.nodes)


def _updates(maker: Node, over: Node) -> bool:
    """Whether a loop nest puts elements into ``over``, of which it reads nothing else; it ends, if
    it does, before the first is there."""
    body: Graph = maker.attrs["body"]
    (result,) = body.outputs if len(body.outputs) == 1 else (None,)
    if result is None or not isinstance(result.op.lowering, LoopNest):
        return False
    within = [p for p, a in zip(body.params, maker.args, strict=True) if _memory_of(a) is over]
    return (
        result.op.lowering.updates
        and within == [result.args[0]]
        and body.users[within[0]] == (result,)
        and result.args.count(within[0]) == 1
    )


def _reads_in_place(maker: Node, value: Node, over: Node) -> bool:
    """Whether each element of ``over`` is read, if at all, just where the new one is written."""
    body: Graph = maker.attrs["body"]
    result = body.outputs[value.attrs["index"] if value.op is item else 0]
    params = {p for p, a in zip(body.params, maker.args, strict=True) if _memory_of(a) is over}
    if not params:
        return True
    if _updates(maker, over):
        return True
    if maker.attrs["kind"] not in ("map", "contract") or len(params) > 1:
        return False
    (old,) = params
    shape = result.tensor_type.shape
    if old.tensor_type.dense != result.type:
        return False
    here = canonical_index(shape, AXES[: len(shape)])
    for node in body.nodes:
        if isinstance(node.op.lowering, Contract):
            for a in node.args:
                inner = a.tensor_type.shape
                if source_of(a, canonical_index(inner, AXES[: len(inner)]))[0] is old:
                    return False
        elif (
            node.args
            and (not is_inline(node) or node is result)
            and any(source is old and index != here for source, index in reads(node, here))
        ):
            return False
    return True
