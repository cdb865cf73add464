"""Parameters in parts that are gathered for each use, and dropped after it.

What a step gathers on its way to the loss it needs again on the way back. One gathering for both
would keep the whole in memory from the one use to the other, and the parameters of all layers at
once; so what a use leads to gathers for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from staticflow.graph.graph import Graph, close, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.along.collectives import all_gather_op
from staticflow.ops.basics.slicing import embed_op
from staticflow.ops.declaring.late import tied_op
from staticflow.ops.declaring.lowering import View
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import with_args

__all__ = ["gather_again"]


def gather_again(graph: Graph, parts: Collection[Node]) -> Graph:
    """The graph in which each use of one of these params, which a rank has a part of, that waits
    for another use of the same gathering has a gathering of its own, begun once what else it needs
    of the other is there."""
    instead: dict[Node, dict[Node, Node]] = {}  # by user, what takes the place of an argument
    for node in graph.nodes:
        if node.op is all_gather_op and (source := _source(node)) in parts:
            first, *others = dict.fromkeys(_uses(node, graph))
            behind = _nodes_behind(first[0], graph)
            for user, value in others:
                late = next((a for a in user.args if a in behind), None)
                if late is not None:
                    with for_itself(), using(user.locs):
                        again = tied_op(Symbol(source), Symbol(late)).node
                    (found,) = substitute_nodes([value], {source: again})
                    instead.setdefault(user, {})[value] = found
    if not instead:
        return graph
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        own = instead.get(node, {})
        values = [substitute_nodes([own[a]], new)[0] if a in own else new[a] for a in node.args]
        new[node] = with_args(node, tuple(values))
    outputs = [new[o] for o in graph.outputs]
    return close(graph.params, outputs, graph.equalities, graph.declared)


def _source(node: Node) -> Node:
    """The node that ``node`` is made of by views, gathers and zeros around it alone; ``node``
    itself if it is none of these."""
    while len(node.args) == 1 and (_moves(node) or node.op in (all_gather_op, embed_op)):
        (node,) = node.args
    return node


def _moves(node: Node) -> bool:
    return isinstance(node.op.lowering, View) and len(node.args) == 1


def _uses(node: Node, graph: Graph) -> Iterator[tuple[Node, Node]]:
    """What reads a value, or a view of it, in order, with that view."""
    views = {node}
    for user in graph.nodes:
        for value in user.args:
            if value in views:
                if _moves(user):
                    views.add(user)
                else:
                    yield user, value


def _nodes_behind(node: Node, graph: Graph) -> set[Node]:
    """The nodes that wait for one, and itself."""
    found = {node}
    stack = [node]
    while stack:
        for user in graph.users[stack.pop()]:
            if user not in found:
                found.add(user)
                stack.append(user)
    return found
