"""An inverse that only multiplies is never made: ``inv(a) b`` is the x with ``a x = b``.

That is fewer operations, and rounded less, as long as ``b`` has no more columns than ``a``.
"""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import is_provably_ge, same, same_shape
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import merge_locs, using
from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import cast, eq
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.matrices.solving import solve_matrices, solve_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["solve_inverses"]


def solve_inverses(graph: Graph, counts: Counts) -> Graph:
    """``inv(a) b = solve(a, b)``, where nobody else wants the inverse."""
    inverses = {n for n in graph.nodes if _is_inverse(n) and len(graph.users[n]) == 1}
    inverses.difference_update(graph.outputs)
    if not inverses:
        return graph

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op is matmul_op:
            for side, factor in enumerate(node.args):
                if factor in inverses and _pays(node, side):
                    counts.note("inverse times a matrix", node)
                    with using(merge_locs(node.locs, factor.locs)):
                        return _solve(args[side].args[0], args[1 - side], side)
        return with_args(node, args)

    return rebuild(graph, visit)


def _pays(product: Node, side: int) -> bool:
    """Whether the other factor is no larger than the inverse, and of no more batches."""
    inverse, other = product.args[side].tensor_type, product.args[1 - side].tensor_type
    count = other.shape[-1] if side == 0 else other.shape[-2]
    smaller = same(count, 1) or is_provably_ge(inverse.shape[-1], count)
    return smaller and same_shape(product.tensor_type.shape[:-2], inverse.shape[:-2])


def _solve(a: Node, b: Node, side: int) -> Node:
    x, y = Symbol(a), Symbol(b)
    solved: Any = solve_matrices(x, y) if side == 0 else mT(solve_matrices(mT(x), mT(y)))
    found: Node = solved.node
    return found


def _is_inverse(node: Node) -> bool:
    return node.op is solve_op and _is_identity(node.args[1])


def _is_identity(node: Node) -> bool:
    """Whether a node is the matrix that has 1 where the numbers of row and column are equal."""
    while node.op is expand_op:
        node = node.args[0]
    if node.op is not cast or node.args[0].op is not eq:
        return False
    rank = node.tensor_type.ndim
    sides = node.args[0].args
    dims = [s.attrs["dim"] for s in sides if s.op is iota]
    return sorted(dims) == [rank - 2, rank - 1] and all(
        same_shape(s.tensor_type.shape, node.tensor_type.shape) for s in sides
    )
