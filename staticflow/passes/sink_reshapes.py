"""Elementwise operations on a reshaped matrix product go before the reshape.

A product of tensors of more than two dims is a product of matrices, and a reshape of it. Behind
that reshape a bias and an activation would be a kernel of their own, since a kernel stores a
product in the product's shape; before it they are computed as the product is stored.
"""

from __future__ import annotations

from staticflow.graph.dims import Size, same, same_shape
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.node import Node, make_node
from staticflow.graph.types import Shape
from staticflow.ops.basics.view import reshape_op
from staticflow.ops.declaring.lowering import Contract
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.access import is_elementwise, is_inline
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["sink_reshapes"]


def sink_reshapes(graph: Graph, counts: Counts) -> Graph:
    """Move reshapes of products of matrices, which keep the rows, behind operations on elements."""
    made: set[Node] = set()  # products, and what is made of their elements

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        node = with_args(node, args)
        if type(node.op.lowering) is Contract and node.tensor_type.ndim == 2:
            made.add(node)
        if not is_elementwise(node) or not node.tensor_type.shape:
            return node
        whole = node.tensor_type.shape
        product = next((a.args[0] for a in node.args if _is_of(made, a, whole)), None)
        if product is None:
            return node
        shape = product.tensor_type.shape
        inner = [_in_shape(a, whole, shape) for a in node.args]
        if None in inner:
            return node
        counts.note("sink_reshapes", node)
        own = make_node(node.op, tuple(a for a in inner if a is not None), node.attrs, node.locs)
        made.add(own)
        return _give_shape(own, whole)

    return rebuild(graph, visit)


def _is_of(made: set[Node], node: Node, whole: Shape) -> bool:
    """Whether a node is a reshape of one of those that were made, with the same rows, to the shape
    ``whole``."""
    if node.op is not reshape_op or node.args[0] not in made:
        return False
    is_row = same(whole[-1], node.args[0].tensor_type.shape[-1])
    return is_row and same_shape(node.tensor_type.shape, whole)


def _in_shape(x: Node, whole: Shape, shape: Shape) -> Node | None:
    """An operand of what has the shape ``whole``, for what has another ``shape`` with the same
    rows; None of one for which that would be work."""
    own = x.tensor_type.shape
    if all(_is_one(size) for size in own[:-1]):
        return _give_shape(x, own[-1:])
    if not same_shape(own[:-1], whole[:-1]):
        return None
    inner = (*shape[:-1], own[-1])
    if x.op is reshape_op and same_shape(x.args[0].tensor_type.shape, inner):
        return x.args[0]
    in_memory = not is_elementwise(x) and not is_inline(x)
    return _give_shape(x, inner) if in_memory and x.tensor_type.strides is None else None


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def _give_shape(x: Node, shape: Shape) -> Node:
    if same_shape(x.tensor_type.shape, shape):
        return x
    reshaped: Node = reshape_op(Symbol(x), shape=shape).node
    return reshaped
