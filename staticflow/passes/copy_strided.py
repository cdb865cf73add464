"""Arrays whose elements lie apart are copied for whatever takes memory whole."""

from __future__ import annotations

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.node import Node, make_node
from staticflow.ops.basics.view import contiguous_op
from staticflow.ops.declaring.lowering import (
    Attend,
    Contract,
    Elementwise,
    LoopNest,
    Reduce,
    View,
)
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["copy_strided"]

_READS_BY_INDEX = (Attend, Contract, Elementwise, LoopNest, Reduce, View)
"""Lowerings that read an element of an argument where `TensorType.offset` says."""


def copy_strided(graph: Graph, counts: Counts) -> Graph:
    """Put a copy in row-major order before whatever takes a param with strides as one piece of
    memory: the caller, as an output, and loops, branches and Python, as an operand."""

    def dense(node: Node) -> Node:
        if isinstance(node.type, tuple) or node.type.strides is None:
            return node
        counts.note("copy_strided", node)
        return make_node(contiguous_op, (node,), {}, node.locs)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        reads = isinstance(node.op.lowering, _READS_BY_INDEX)
        return with_args(node, args if reads else tuple(map(dense, args)))

    return rebuild(graph, visit, [dense(o) for o in graph.outputs])
