"""Loops of few iterations are these iterations, one after the other.

What each does can then be fused with what is around it, rows are views, and nothing is stacked that
nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.graph import Graph, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node, make_node
from staticflow.graph.types import TensorType
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.joining import cat_op
from staticflow.ops.basics.slicing import select_op
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.lowering import Contract, Host, LoopNest, Region
from staticflow.ops.loops.loop import Loop, scan_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.loops.results import replace_results
from staticflow.passes.rewrite import Counts

__all__ = ["unroll"]

_MOST = 4
"""Iterations that are written out, where the body has no product: those of several iterations may
be one outside of the loop (`batch_products`)."""

_MOST_NODES = 48
"""Operations in all iterations together; more take longer to compile than the loop."""


def unroll(graph: Graph, counts: Counts) -> Graph:
    """A loop of 0 or 1 iterations, or of a few small ones, is what these compute."""
    if not any(n.op is scan_op for n in graph.nodes):
        return graph
    return replace_results(graph, lambda node: _iterations(node, counts))


def _iterations(node: Node, counts: Counts) -> Sequence[Node] | None:
    """The results of a loop, each iteration written out."""
    if node.op is not scan_op or not _is_short(Loop.of(node)):
        return None
    counts.note("loop written out", node)
    loop = Loop.of(node)
    length = loop.iterations
    assert isinstance(length, int)
    carries, xs, captured = loop.operands(node.args)
    rows: dict[int, Sequence[Node]] = {}
    for i in reversed(range(length)) if loop.reverse else range(length):
        at = [make_node(select_op, (x,), {"dim": 0, "index": i}, node.locs) for x in xs]
        values = dict(zip(loop.body.params, (*carries, *at, *captured), strict=True))
        carries, rows[i] = loop.results(substitute_nodes(loop.body.outputs, values))
    with using(node.locs):
        ys = [
            _stack([rows[i][k] for i in range(length)], y.tensor_type)
            for k, y in enumerate(loop.results(loop.body.outputs)[1])
        ]
    return [*carries, *ys]


def _is_short(loop: Loop) -> bool:
    """Whether a loop has so few iterations, and these so few operations, that they are written
    out. What a body assumes of sizes that only it knows is checked inside of it."""
    length, body = loop.length, loop.body
    if not isinstance(length, int) or length > _MOST or body.bound_sizes:
        return False
    kinds = {type(n.op.lowering) for n in body.nodes}
    if Host in kinds:
        return False
    few = length * (len(body.nodes) - len(body.params)) <= _MOST_NODES
    return length <= 1 or (
        few and kinds.isdisjoint((Contract, Region)) and not any(map(_has_checks, body.nodes))
    )


def _has_checks(node: Node) -> bool:
    """Whether an index may be wrong, of which an error says in which iteration it is."""
    lowering = node.op.lowering
    return isinstance(lowering, LoopNest) and lowering.checks is not None


def _stack(rows: Sequence[Node], row: TensorType) -> Node:
    """Rows under one another; of none, which have the type ``row``, a tensor of none."""
    if not rows:
        nothing = row.dtype.numpy.type(0).item()
        attrs = {"shape": (0, *row.shape), "value": nothing, "dtype": row.dtype}
        return make_node(full, (), attrs, ())
    parts = [reshape(Symbol(r), (1, *row.shape)) for r in rows]
    made: Node = (parts[0] if len(parts) == 1 else cat_op(*parts, dim=0)).node
    return made
