"""A stack of which only the last row is read becomes that row alone."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.slicing import select_op
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts

__all__ = ["last_rows"]


def last_rows(graph: Graph, counts: Counts) -> Graph:
    """``ys[-1]``, where nothing else is read of ``ys``, is one more carry, unless it is one; and if
    no carry is needed for a row, it is made of the last rows of the xs alone.

    That there is a last row is among the assumptions of the graph, which are checked as the sizes
    are known. The number of iterations that a loop itself `binds` is known by its stacks alone, so
    these stay: a loop of none has no last row, and nobody would tell.
    """
    while (found := _find(graph)) is not None:
        outputs = substitute_nodes(graph.outputs, found)
        graph = close(graph.params, outputs, graph.equalities, graph.declared)
        counts["last row"] += 1
    return graph


def _find(graph: Graph) -> dict[Node, Node] | None:
    """For one such stack, what its last row is instead, and the other results of its loop."""
    for stack in graph.nodes:
        if stack.op is item and stack.args[0].op in loop_ops() and stack not in graph.outputs:
            (node,), index = stack.args, stack.attrs["index"]
            loop = Loop.of(node)
            reads = graph.users[stack]
            if index < loop.carries or loop.binds:
                continue
            if all(_is_last(n, loop) for n in reads):
                row, others = _last_row(node, loop, index, graph.users[node])
                return dict.fromkeys(reads, row) | others
    return None


def _is_last(node: Node, loop: Loop) -> bool:
    """Whether a node is the last row of a stack."""
    return node.op is select_op and node.attrs == {"dim": 0, "index": _last(loop)}


def _last(loop: Loop) -> Size:
    """The row that the last iteration writes."""
    return 0 if loop.reverse else loop.iterations - 1


def _last_row(
    node: Node, loop: Loop, index: int, results: Sequence[Node]
) -> tuple[Node, dict[Node, Node]]:
    """The last row of the result ``index``, and what the other results are beside it."""
    y = loop.body.outputs[index]
    ends, ys = loop.results(loop.body.outputs)
    if y in ends:
        return make_node(item, (node,), {"index": ends.index(y)}, y.locs), {}
    needs_carry = not set(loop.body.params[: loop.carries]).isdisjoint(toposort([y]))
    if not needs_carry and not loop.body.bound_sizes:
        return _alone(node, loop, y), {}
    first = loop.carries
    carries, xs, captured = loop.pairs(node.args)
    with using(y.locs):
        last = new_param(y.tensor_type, "last"), zeros_like(Symbol(y)).node
    rest = [n for i, n in enumerate(ys, first) if i != index]
    new = loop.remade([*ends, y, *rest], [*carries, last], xs, captured, node.locs)

    def result(i: int, old: Node) -> Node:
        return make_node(item, (new,), {"index": i + (first <= i < index)}, old.locs)

    others = {r: result(r.attrs["index"], r) for r in results if r.attrs["index"] != index}
    return make_node(item, (new,), {"index": first}, y.locs), others


def _alone(node: Node, loop: Loop, y: Node) -> Node:
    """The last row of a stack whose rows need no carry."""
    _, xs, captured = loop.pairs(node.args)
    at = {"dim": 0, "index": _last(loop)}
    rows = {p: make_node(select_op, (x,), at, node.locs) for p, x in xs}
    (row,) = substitute_nodes([y], {**rows, **dict(captured)})
    return row
