"""Constant folding: what depends on constants alone is computed now, up to a size."""

from __future__ import annotations

import numpy as np

from staticflow.errors import StaticflowError
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.node import Literal, Node, constant, item
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.lowering import Host, Region
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["fold_constants"]

MOST_ELEMENTS = 4096
"""A folded constant is at most this large; larger ones are cheaper to compute than to keep."""


def fold_constants(graph: Graph, counts: Counts) -> Graph:
    """Replace nodes whose arguments are all constants by their value, computed by the reference.

    An op that fails on its constants is left to fail when the program runs, where its error
    belongs.
    """

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        node = with_args(node, args)
        if not _foldable(node):
            return node
        try:
            with np.errstate(all="ignore"):
                value = node.op.reference(
                    np, *(a.attrs["value"].array for a in node.args), **node.attrs
                )
        except (StaticflowError, ArithmeticError, ValueError):
            return node
        counts.note(f"fold {node.op.name}", node)
        t = node.tensor_type
        literal = Literal(np.asarray(value, dtype=t.dtype.numpy))
        return Node(constant, (), {"value": literal, "type": t}, t, node.locs)

    return rebuild(graph, visit)


def _foldable(node: Node) -> bool:
    if not node.args or node.op is item or isinstance(node.op.lowering, Region | Host):
        return False
    if not isinstance(node.type, TensorType):
        return False
    size = node.type.size
    return (
        isinstance(size, int) and size <= MOST_ELEMENTS and all(a.op is constant for a in node.args)
    )
