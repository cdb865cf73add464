"""Two branches by one condition that compute something alike are one, with the results of both.

The derivative of a branch is another one by the same condition, which computes the chosen side
again; in one branch, that is the side itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import merge_locs
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.ops.loops.cond_op import cond_op
from staticflow.passes.rewrite import Counts

__all__ = ["merge_conds"]


def merge_conds(graph: Graph, counts: Counts, inside: Callable[[Graph], Graph]) -> Graph:
    """Join branches that ask the same and share work, where neither needs what the other gives.
    ``inside`` is done to joined sides."""
    while (found := _find_pair(graph, inside)) is not None:
        outputs = substitute_nodes(graph.outputs, found)
        graph = close(graph.params, outputs, graph.equalities, graph.declared)
        counts["merge conds"] += 1
    return graph


def _find_pair(graph: Graph, inside: Callable[[Graph], Graph]) -> dict[Node, Node] | None:
    """The results of two branches, each with what it is of one for both."""
    groups: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.op is cond_op:
            groups.setdefault(node.args[0], []).append(node)
    for group in groups.values():
        for a, b in itertools.combinations(group, 2):
            if a in toposort(b.args) or b in toposort(a.args):
                continue
            if (joined := _join(a, b, inside)) is not None:
                both, positions = joined
                return _results(graph, a, both, positions) | _results(
                    graph, b, both, positions[len(a.attrs["true"].outputs) :]
                )
    return None


def _results(graph: Graph, one: Node, both: Node, positions: Sequence[int]) -> dict[Node, Node]:
    return {
        n: make_node(item, (both,), {"index": positions[n.attrs["index"]]}, n.locs)
        for n in graph.users[one]
    }


def _join(a: Node, b: Node, inside: Callable[[Graph], Graph]) -> tuple[Node, list[int]] | None:
    """The branch that does the work of both, and where the results of ``a``, then those of ``b``,
    stand in it; None if they share no work."""
    operands = dict.fromkeys((*a.args[1:], *b.args[1:]))
    saved = 0
    sides: dict[str, Graph] = {}
    for name in ("true", "false"):
        graphs: tuple[Graph, Graph] = a.attrs[name], b.attrs[name]
        # Params of their own: both may have one that stands for another operand in each.
        params: dict[Node, Node] = {}
        outputs: list[Node] = []
        for node, side in zip((a, b), graphs, strict=True):
            values = {}
            for operand, p in zip(node.args[1:], side.params, strict=True):
                own = new_param(p.tensor_type, p.attrs["name"])
                values[p] = params.setdefault(operand, own)
            outputs += substitute_nodes(side.outputs, values)
        equalities = [e for g in graphs for e in g.equalities]
        sides[name] = inside(close([params[n] for n in operands], outputs, equalities))
        saved += sum(map(_work, graphs)) - _work(sides[name])
    if saved == 0:
        return None
    results = list(zip(*(side.outputs for side in sides.values()), strict=True))
    kept = list(dict.fromkeys(results))
    attrs = {
        name: replace(side, outputs=outputs)
        for (name, side), outputs in zip(sides.items(), zip(*kept, strict=True), strict=True)
    }
    both = make_node(cond_op, (a.args[0], *operands), attrs, merge_locs(a.locs, b.locs))
    return both, [kept.index(r) for r in results]


def _work(graph: Graph) -> int:
    return sum(bool(n.args) for n in graph.nodes)
