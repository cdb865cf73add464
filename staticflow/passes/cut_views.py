"""A copy in the middle of a chain of views whose index would divide again and again."""

from __future__ import annotations

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.node import Node, make_node
from staticflow.ops.basics.view import contiguous_op, reshape_op
from staticflow.ops.declaring.lowering import View
from staticflow.passes.access import canonical_index, is_polynomial, source_of
from staticflow.passes.arrays import AXES
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["cut_views"]


def cut_views(graph: Graph, counts: Counts) -> Graph:
    """Copy what is reshaped a second time if both reshapes cost a division for each element: a
    reshape of a transpose does, unless its index cancels. Arithmetic on such an index grows with
    the length of the chain, in the kernel and more so in the compiler."""
    divided: set[Node] = set()

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        node = with_args(node, args)
        if not isinstance(node.op.lowering, View):
            return node
        arg = node.args[0]
        if node.op is reshape_op and not _is_strided(node):
            if arg in divided:
                counts.note("cut_views", node)
                return with_args(node, (make_node(contiguous_op, (arg,), {}, node.locs),))
            divided.add(node)
        elif node.op is not reshape_op and arg in divided:
            divided.add(node)
        return node

    return rebuild(graph, visit)


def _is_strided(node: Node) -> bool:
    """Whether the element of a view at an index is found without a division."""
    if not isinstance(node.args[0].op.lowering, View):
        return True
    shape = node.tensor_type.shape
    source, index = source_of(node, canonical_index(shape, AXES[: len(shape)]))
    return is_polynomial(source.tensor_type.offset(index))
