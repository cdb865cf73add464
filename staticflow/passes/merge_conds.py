"""Two branches by one condition that compute something alike are one, with the results of both.

The derivative of a branch is another one by the same condition, which computes the chosen side
again; in one branch, that is the side itself.
"""

from __future__ import annotations

import itertools

from staticflow.graph.graph import Graph, close, substitute_nodes
from staticflow.graph.locs import merge_locs
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.ops.cond import cond_op
from staticflow.passes.rewrite import Counts

__all__ = ["merge_conds"]


def merge_conds(graph: Graph, counts: Counts) -> Graph:
    """Join branches that ask the same and share work, where neither needs what the other gives."""
    while (found := _find_pair(graph)) is not None:
        outputs = substitute_nodes(graph.outputs, found)
        graph = close(graph.params, outputs, graph.equalities, graph.declared)
        counts["merge conds"] += 1
    return graph


def _find_pair(graph: Graph) -> dict[Node, Node] | None:
    """The results of two branches, each with what it is of one for both."""
    groups: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.op is cond_op:
            groups.setdefault(node.args[0], []).append(node)
    for group in groups.values():
        for a, b in itertools.combinations(group, 2):
            if a in toposort(b.args) or b in toposort(a.args):
                continue
            if (joined := _join(a, b)) is not None:
                return _results(graph, {a: 0, b: len(a.attrs["true"].outputs)}, joined)
    return None


def _results(graph: Graph, first: dict[Node, int], joined: Node) -> dict[Node, Node]:
    return {
        n: make_node(item, (joined,), {"index": first[n.args[0]] + n.attrs["index"]}, n.locs)
        for n in graph.nodes if n.op is item and n.args[0] in first
    }  # fmt: skip


def _join(a: Node, b: Node) -> Node | None:
    """The branch that gives the results of ``a``, then those of ``b``; None if they share no
    work."""
    operands = dict.fromkeys((*a.args[1:], *b.args[1:]))
    saved = 0
    sides: dict[str, Graph] = {}
    for name in ("true", "false"):
        graphs: tuple[Graph, Graph] = a.attrs[name], b.attrs[name]
        pairs = [p for n, g in zip((a, b), graphs, strict=True)
                 for p in zip(n.args[1:], g.params, strict=True)]  # fmt: skip
        param = dict(reversed(pairs))  # the first that stands for each operand
        values = {p: param[operand] for operand, p in pairs}
        outputs = substitute_nodes((o for g in graphs for o in g.outputs), values)
        equalities = [e for g in graphs for e in g.equalities]
        sides[name] = close([param[n] for n in operands], outputs, equalities)
        saved += sum(map(_work, graphs)) - _work(sides[name])
    if saved == 0:
        return None
    return make_node(cond_op, (a.args[0], *operands), sides, merge_locs(a.locs, b.locs))


def _work(graph: Graph) -> int:
    return sum(bool(n.args) for n in graph.nodes)
