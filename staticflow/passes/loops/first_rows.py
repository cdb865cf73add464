"""A stack of zeros but for the row of the first iteration is no stack: that row starts a carry,
which is zeros from then on. Such a stack is the derivative of the last row that another loop
stacks.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.graph.graph import Graph, new_param, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node, item, make_node
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.slicing import embed_op
from staticflow.ops.basics.view import reshape
from staticflow.ops.loops.loop import Loop, scan_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["first_rows"]


def first_rows(graph: Graph, counts: Counts) -> Graph:
    """Carry the row of the first iteration into that, and zeros into the others.

    That there is a first iteration is among the assumptions of the graph.
    """
    more: dict[Node, int] = {}  # how many carries a loop has more

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        made = with_args(node, args)
        if made.op is scan_op and (found := _first_rows(made)):
            counts["row of the first iteration"] += len(found)
            made = _start_from(made, found)
            more[made] = len(found)
            return made
        if made.op is item and (loop := made.args[0]) in more:
            index, first = made.attrs["index"], loop.attrs["carries"] - more[loop]
            at = index if index < first else index + more[loop]
            return make_node(item, (loop,), {"index": at}, made.locs)
        return made

    return rebuild(graph, visit)


def _first_rows(node: Node) -> dict[Node, Node]:
    """The params of a loop's body that get rows of which only the first iteration's is not zero;
    each with that row."""
    loop = Loop.of(node)
    first = loop.iterations - 1 if loop.reverse else 0
    found = {}
    for p, x in loop.pairs(node.args)[1]:
        t = p.tensor_type
        if x.op is embed_op and t.size != 0 and x.attrs["start"] == (first, *(0 for _ in t.shape)):
            (part,) = x.args
            if part.tensor_type.shape == (1, *t.shape):
                with using(x.locs):
                    found[p] = reshape(Symbol(part), t.shape).node
    return found


def _start_from(node: Node, rows: Mapping[Node, Node]) -> Node:
    """The loop with these rows as what carries start with."""
    loop = Loop.of(node)
    carries, xs, captured = loop.pairs(node.args)
    ends, ys = loop.results(loop.body.outputs)
    with using(node.locs):
        zeros = {
            new_param(row.tensor_type, "zeros"): zeros_like(Symbol(row)).node
            for row in rows.values()
        }
    return loop.remade(
        [*ends, *zeros, *ys],
        [*carries, *rows.items()],
        [(p, x) for p, x in xs if p not in rows],
        [*captured, *zeros.items()],
        node.locs,
    )
