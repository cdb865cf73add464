"""Arrays whose elements lie apart are copied for whatever takes memory whole, or reads it often."""

from __future__ import annotations

from staticflow.graph.dim_queries import coefficient
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
from staticflow.passes.access import canonical_index, is_inline, source_of
from staticflow.passes.arrays import AXES
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["copy_strided"]

_READS_BY_INDEX = (Attend, Contract, Elementwise, LoopNest, Reduce, View)
"""Lowerings that read an element of an argument where `TensorType.offset` says."""


def copy_strided(graph: Graph, counts: Counts) -> Graph:
    """Put a copy in row-major order before whatever takes a param with strides as one piece of
    memory: the caller, as an output, and loops, branches and Python, as an operand; and before
    attention that would read a number for each query and key across rows, again and again."""

    def dense(node: Node) -> Node:
        if isinstance(node.type, tuple) or node.type.strides is None:
            return node
        counts.note("copy_strided", node)
        return make_node(contiguous_op, (node,), {}, node.locs)

    def copy_across(before: Node, now: Node) -> Node:
        if not _lies_across(before):
            return now
        counts.note("copy_strided", before)
        return make_node(contiguous_op, (now,), {}, before.locs)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if isinstance(node.op.lowering, Attend):
            first = node.op.lowering.matrices + node.op.lowering.rows
            args = (*args[:first], *map(copy_across, node.args[first:], args[first:]))
        reads = isinstance(node.op.lowering, _READS_BY_INDEX)
        return with_args(node, args if reads else tuple(map(dense, args)))

    return rebuild(graph, visit, [dense(o) for o in graph.outputs])


def _lies_across(node: Node) -> bool:
    """Whether a float for each query and key is a view of what is in memory, in which the keys of a
    query are not neighbours: as a bias of positions by heads is, read from a table."""
    t = node.tensor_type
    if not t.dtype.is_floating or t.ndim < 2 or 1 in t.shape[-2:]:
        return False
    source, index = source_of(node, canonical_index(t.shape, AXES[: t.ndim]))
    if source is node or is_inline(source) or isinstance(source.op.lowering, Elementwise):
        return False
    return coefficient(source.tensor_type.offset(index), AXES[t.ndim - 1]) != 1
