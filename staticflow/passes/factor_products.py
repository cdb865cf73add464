"""A sum of products with a factor in common is one product: ``a b + a c = a (b + c)``.

Half the multiply-adds are left, for a sum of what is multiplied instead of the results.
"""

from __future__ import annotations

from typing import Any

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import merge_locs, using
from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import add, sub
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["factor_products"]


def factor_products(graph: Graph, counts: Counts) -> Graph:
    """``a b + a c = a (b + c)`` and ``b a + c a = (b + c) a``, where nobody else wants the
    products."""
    kept = set(graph.outputs)
    users = graph.users
    once = {
        n for n in graph.nodes if n.op is matmul_op and n not in kept and len(users[n]) == 1
    }  # fmt: skip

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        made = with_args(node, args)
        if node.op not in (add, sub) or not once.issuperset(node.args):
            return made
        with using(merge_locs(node.locs, merge_locs(*(a.locs for a in node.args)))):
            product = _factor(node, *args)
        if product is None:
            return made
        counts.note("sum of products with a factor in common", node)
        return product

    return rebuild(graph, visit)


def _factor(node: Node, first: Node, second: Node) -> Node | None:
    """The product that a sum of two is; None if these have no factor in common. In 16 bits the sum
    of the other factors would be rounded before it is multiplied."""
    products = (first, second)
    if any(p.op is not matmul_op for p in products) or node.tensor_type.dtype.bits < 32:
        return None
    for side in (0, 1):
        common, other = first.args[side], (first.args[1 - side], second.args[1 - side])
        if common is second.args[side] and other[0].type == other[1].type:
            total: Any = node.op(*map(Symbol, other))
            pair = (Symbol(common), total)
            result: Node = matmul_op(*(pair if side == 0 else pair[::-1])).node
            return result
    return None
