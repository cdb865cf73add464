"""The order of two products is chosen by what it costs: ``(x w) v`` or ``x (w v)``.

Products of real numbers associate; those of floats do but for rounding, so this is for
``numerics="fast"``. Unknown sizes show only at the call: the order is changed where the other one
costs no more if all of them are 8, and less if all are 1000.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size, prod
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["order_products"]


def order_products(graph: Graph, counts: Counts) -> Graph:
    """``(x w) v = x (w v)``, either way, where that is less work and the product of two is wanted
    for nothing else."""
    shared = {n for n in graph.nodes if len(graph.users[n]) > 1}.union(graph.outputs)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if _is_product(node):
            (left, right), (a, b) = node.args, args
            if left not in shared and _is_product(a) and _pays((*a.args, b), ahead=False):
                (x, w), v = map(Symbol, a.args), Symbol(b)
                counts.note("from_the_right", node)
                with using(node.locs):
                    return to_node(matmul_op(x, matmul_op(w, v)))
            if right not in shared and _is_product(b) and _pays((a, *b.args), ahead=True):
                x, (w, v) = Symbol(a), map(Symbol, b.args)
                counts.note("from_the_left", node)
                with using(node.locs):
                    return to_node(matmul_op(matmul_op(x, w), v))
        return with_args(node, args)

    return rebuild(graph, visit)


def _is_product(node: Node) -> bool:
    return node.op is matmul_op and all(a.tensor_type.ndim == 2 for a in node.args)


def _pays(factors: Sequence[Node], ahead: bool) -> bool:
    """Whether of three ``factors`` the first two are to be multiplied first, or the last two."""
    (m, k), (_, n), (_, p) = (a.tensor_type.shape for a in factors)
    costs = prod((m, k, n)) + prod((m, n, p)), prod((k, n, p)) + prod((m, k, p))
    new, old = costs if ahead else costs[::-1]
    return _at(new, 8) <= _at(old, 8) and _at(new, 1000) < _at(old, 1000)


def _at(cost: Size, size: int) -> int:
    return evaluate_dim(cost, dict.fromkeys(symbols_of(cost), size))
