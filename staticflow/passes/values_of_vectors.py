"""Eigenvalues and singular values are not computed alone where their vectors are, too.

A gradient of ``eigvalsh(a)`` or ``svdvals(a)`` is made of the vectors, and the op that gives these
gives the values beside them.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.node import Node, item, make_node
from staticflow.graph.op import Op
from staticflow.ops.matrices.factors import eigh_op, eigvalsh_op, svd_op, svdvals_op
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["values_of_vectors"]

_WITH_VECTORS: Mapping[Op, tuple[Op, int]] = {eigvalsh_op: (eigh_op, 0), svdvals_op: (svd_op, 1)}
"""Which op gives the values of another one beside their vectors, and as which of its results."""


def values_of_vectors(graph: Graph, counts: Counts) -> Graph:
    """``eigvalsh(a) = eigh(a)[0]`` and ``svdvals(a) = svd(a)[1]``, where both are computed."""
    both = {(n.op, n.args[0]): n for n in graph.nodes if n.op in (eigh_op, svd_op)}
    found = {
        n: vectors
        for n in graph.nodes
        if n.op in _WITH_VECTORS and (vectors := both.get((_WITH_VECTORS[n.op][0], n.args[0])))
    }
    if not found:
        return graph

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node in found:  # equal nodes of a closed graph are one
            counts.note("values beside their vectors", node)
            vectors = with_args(found[node], args)
            index = _WITH_VECTORS[node.op][1]
            return make_node(item, (vectors,), {"index": index}, node.locs)
        return with_args(node, args)

    return rebuild(graph, visit)
