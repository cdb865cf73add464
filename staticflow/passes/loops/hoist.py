"""A pass that moves out of a loop the values that every iteration would compute alike."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.doubtful_sizes import doubtful_sizes
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, new_param, rebuild, substitute_nodes
from staticflow.graph.node import Node, constant
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.lowering import Checked, Contract, Elementwise, Reduce
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.passes.access import is_inline
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["hoist"]


def hoist(graph: Graph, counts: Counts) -> Graph:
    """Move invariant work out of the bodies of loops.

    Views and other values that kernels work out where they read them stay, and so does what may
    fail, a size that may come out negative among it: a loop without iterations must not.
    """

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        node = with_args(node, args)
        return _hoist_loop(node, graph.equalities, counts) if node.op in loop_ops() else node

    return rebuild(graph, visit)


def _hoist_loop(node: Node, assumed: Sequence[Equality], counts: Counts) -> Node:
    loop = Loop.of(node)
    params = loop.body.params
    outside = dict(zip(params, node.args, strict=True))
    varying = set(params[: loop.carries + loop.xs])
    same: set[Node] = set(params) - varying
    for inner in loop.body.nodes[len(params) :]:
        if inner.op is constant or (
            isinstance(inner.type, TensorType)
            and all(a in same for a in inner.args)
            and (is_inline(inner) or _is_movable(inner))
            and not any(doubtful_sizes([inner], assumed))
        ):
            same.add(inner)
    used = {a for n in loop.body.nodes if n not in same for a in n.args} | set(loop.body.outputs)
    moved = [n for n in loop.body.nodes if n in same and n in used and _is_work(n)]
    if not moved:
        return node
    counts.note("hoist", *moved)
    made = substitute_nodes(moved, outside)
    inner_params = {n: new_param(n.tensor_type, "same", locs=n.locs) for n in moved}
    outputs = substitute_nodes(loop.body.outputs, inner_params)
    carries, xs, captured = loop.pairs(node.args)
    more = zip(inner_params.values(), made, strict=True)
    return loop.remade(outputs, carries, xs, [*captured, *more], node.locs)


_MOVED = (Elementwise, Reduce, Contract)


def _is_work(node: Node) -> bool:
    """Whether a node is computed, not worked out where it is read, and not a param."""
    return _is_movable(node) and not is_inline(node)


def _is_movable(node: Node) -> bool:
    """Whether a node is work that cannot fail."""
    lowering = node.op.lowering
    return isinstance(lowering, _MOVED) and not isinstance(lowering, Checked)
