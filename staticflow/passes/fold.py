"""Constant folding: what depends on constants alone is computed now, up to a size, and a size that
a constant is becomes that number."""

from __future__ import annotations

import numpy as np

from staticflow.errors import StaticflowError
from staticflow.graph.dims import Size, Sym, is_provably_ge
from staticflow.graph.graph import Graph, bound_symbols, rebuild, replace_sizes, substitute_nodes
from staticflow.graph.node import Literal, Node, constant, item
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.late import measure_op
from staticflow.ops.declaring.lowering import Host, Region
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["fold_constants"]

MOST_ELEMENTS = 4096
"""A folded constant is at most this large; larger ones are cheaper to compute than to keep."""


def fold_constants(graph: Graph, counts: Counts) -> Graph:
    """Replace nodes whose arguments are all constants by their value, computed by the reference.

    An op that fails on its constants is left to fail when the program runs, where its error
    belongs. So is a size that is measured as a constant which it must not be.
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

    folded = rebuild(graph, visit)
    settled = _settle_sizes(folded, counts)
    return folded if settled is folded else fold_constants(settled, counts)


def _settle_sizes(graph: Graph, counts: Counts) -> Graph:
    """The graph with numbers for the sizes that constants measure."""
    known = {n: size for n in graph.nodes if (size := _known_size(n)) is not None}
    if not known:
        return graph
    sizes: dict[Sym, Size] = {}
    for node, size in known.items():
        (symbol,) = bound_symbols(node)
        if sizes.setdefault(symbol, size) != size:
            return graph
    values = {n: _rows_without_elements(n, size) for n, size in known.items()}
    try:
        settled = replace_sizes(graph, substitute_nodes(graph.outputs, values), sizes)
    except StaticflowError:  # it differs from what it must be, and is left to say so
        return graph
    for node in known:
        counts.note("settle a size", node)
    return settled


def _known_size(node: Node) -> int | None:
    """The number that a node measures, if that is a constant and may be a size."""
    if node.op is not measure_op or node.args[0].op is not constant:
        return None
    size = int(node.args[0].attrs["value"].array)
    return size if size >= 0 and is_provably_ge(node.attrs["most"], size) else None


def _rows_without_elements(node: Node, size: int) -> Node:
    literal = Literal(np.zeros((size, 0), node.tensor_type.dtype.numpy))
    t = TensorType(node.tensor_type.dtype, (size, 0))
    return Node(constant, (), {"value": literal, "type": t}, t, node.locs)


def _foldable(node: Node) -> bool:
    if not node.args or node.op is item or isinstance(node.op.lowering, Region | Host):
        return False
    if not isinstance(node.type, TensorType) or not all(a.op is constant for a in node.args):
        return False
    known = all(isinstance(d, int) for d in node.type.shape)  # of no elements, too
    return known and node.type.size <= MOST_ELEMENTS
