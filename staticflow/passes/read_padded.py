"""What stands inside of a larger array is read there.

A convolution takes its images with a border of zeros. What makes an image, element by element, can
write it there at once; but the way back wants to know, too, where it was positive, and so it would
be in memory twice: the way forward of a net of padded convolutions and activations keeps two thirds
of what it kept.
"""

from __future__ import annotations

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.node import Node
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.access import is_elementwise, is_inline
from staticflow.passes.nests import fills_vectors
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["read_padded"]


def read_padded(graph: Graph, counts: Counts) -> Graph:
    """Read of ``embed(x)`` what else is read of ``x``, which is worked out element by element, by
    operations on elements."""
    outer = {e.args[0]: e for e in graph.nodes if e.op is embed_op and _is_read_inside(graph, e)}
    if not outer:
        return graph
    counts.note("read_padded", *outer)
    made: dict[Node, Node] = {}
    inside: dict[Node, Node] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node in made:
            return made[node]
        args = tuple(inside.get(a, new) for a, new in zip(node.args, args, strict=True))
        new = with_args(node, args)
        whole = outer.get(node)
        if whole is not None:
            made[whole] = with_args(whole, (new,))
            start, size, ones = whole.attrs["start"], node.tensor_type.shape, whole.attrs["step"]
            part = slice_op(Symbol(made[whole]), start=start, size=size, step=ones)
            inside[node] = part.node
        return new

    return rebuild(graph, visit)


def _is_read_inside(graph: Graph, whole: Node) -> bool:
    """Whether all that reads the argument of an embedding may read it there instead."""
    (x,) = whole.args
    row = x.tensor_type.shape[-1] if x.tensor_type.shape else 1
    if x in graph.outputs or is_inline(x) or not is_elementwise(x):
        return False
    if any(by != 1 for by in whole.attrs["step"]) or not fills_vectors(row):
        return False
    others = [u for u in graph.users[x] if u is not whole]
    return bool(others) and all(map(is_elementwise, others))
