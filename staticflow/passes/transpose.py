"""A transposed product is the product of the transposes, the other way round.

The gradient of ``x @ w.T`` with respect to ``w`` asks for ``(x.T @ g).T``. Written as ``g.T @ x``
the transposes are strides of the operands, and what follows the product can be fused into it.
"""

from __future__ import annotations

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.basics.axes import mT, permute_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["transpose_products"]


def transpose_products(graph: Graph, counts: Counts) -> Graph:
    """``(x y).T = y.T x.T``, where nobody else wants the product."""
    shared = {n for n in graph.nodes if len(graph.users[n]) > 1}.union(graph.outputs)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        node_after = with_args(node, args)
        if not _swaps_a_product(node) or node.args[0] in shared:
            return node_after
        x, y = (Symbol(a) for a in args[0].args)
        counts.note("transpose_products", node)
        with using(node.locs):
            swapped: Node = matmul_op(mT(y), mT(x)).node
        return swapped

    return rebuild(graph, visit)


def _swaps_a_product(node: Node) -> bool:
    """Whether a node exchanges the last two dims of a product and leaves the batches alone."""
    if node.op is not permute_op or node.args[0].op is not matmul_op:
        return False
    rank = len(node.attrs["dims"])
    return bool(node.attrs["dims"] == (*range(rank - 2), rank - 1, rank - 2))
