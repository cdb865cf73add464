"""A branch in a loop by a condition that no iteration changes is a branch between two loops."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import Loop, scan_op
from staticflow.passes.loops.results import replace_results
from staticflow.passes.rewrite import Counts

__all__ = ["unswitch"]

_MOST_NODES = 200
"""Operations of a loop that is written twice; of more the second one takes too long to compile."""


def unswitch(graph: Graph, counts: Counts) -> Graph:
    """Take branches by conditions from outside out of loops."""
    if not any(n.op is scan_op for n in graph.nodes):
        return graph
    return replace_results(graph, lambda node: _branch_outside(node, counts))


def _branch_outside(node: Node, counts: Counts) -> Sequence[Node] | None:
    """The results of a branch between a loop with one side in its body and one with the other."""
    condition = None if node.op is not scan_op else _invariant_condition(Loop.of(node))
    if condition is None:
        return None
    counts.note("branch out of a loop", node)
    loop = Loop.of(node)
    sides = {name: _loop_of_side(node, condition, name) for name in ("true", "false")}
    outside = dict(zip(loop.body.params, node.args, strict=True))
    branch = make_node(cond_op, (outside[condition], *node.args), sides, node.locs)
    results = range(len(loop.body.outputs))
    return [make_node(item, (branch,), {"index": i}, node.locs) for i in results]


def _invariant_condition(loop: Loop) -> Node | None:
    """A captured param that a branch of the body asks. What is assumed of sizes that only the
    inside knows is checked there, and so that branch stays."""
    captured = set(loop.operands(loop.body.params)[2])
    if loop.body.bound_sizes or len(loop.body.nodes) > _MOST_NODES:
        return None
    for n in loop.body.nodes:
        if n.op is cond_op and n.args[0] in captured and not _binds(n):
            return n.args[0]
    return None


def _loop_of_side(node: Node, condition: Node, side: str) -> Graph:
    """The graph of a loop whose branches by ``condition`` are all their ``side``."""
    loop = Loop.of(node)
    outputs: Sequence[Node] = loop.body.outputs
    while (branch := _first_branch(outputs, condition)) is not None:
        chosen: Graph = branch.attrs[side]
        values = dict(zip(chosen.params, branch.args[1:], strict=True))
        results = substitute_nodes(chosen.outputs, values)
        instead = {
            n: results[n.attrs["index"]]
            for n in toposort(outputs)
            if n.op is item and n.args[0] is branch
        }
        outputs = substitute_nodes(outputs, instead)
    operands = [new_param(a.tensor_type, "outer", locs=a.locs) for a in node.args]
    made = loop.remade(outputs, *loop.pairs(operands), node.locs)
    count = range(len(outputs))
    return close(operands, [make_node(item, (made,), {"index": i}, node.locs) for i in count])


def _first_branch(outputs: Sequence[Node], condition: Node) -> Node | None:
    """The first branch by ``condition`` among what ``outputs`` need."""
    for n in toposort(outputs):
        if n.op is cond_op and n.args[0] is condition and not _binds(n):
            return n
    return None


def _binds(branch: Node) -> bool:
    """Whether a side of a branch knows sizes that nothing outside of it does."""
    return bool(branch.attrs["true"].bound_sizes or branch.attrs["false"].bound_sizes)
