"""Several embeddings of one tensor among zeros are read out of a single wider one.

The gradient of a stencil adds up copies of one tensor, each embedded among zeros at another place.
Each copy would be an array of its own, written for nothing but to be read once: seven in three
dims. Embedded once, with a border as wide as its places are apart, the tensor is read from there by
slices.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.dims import is_provably_ge, prod
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.access import is_elementwise
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["embed_once"]


def embed_once(graph: Graph, counts: Counts) -> Graph:
    """Read several embeddings of one tensor, which operations on elements take, out of one with a
    wider border, where that has no more elements than they have together."""
    groups = [*filter(_is_worth_it, _groups(graph))]
    if not groups:
        return graph
    counts.note("embed_once", *(e for group in groups for e in group))
    group_of = {e: tuple(group) for group in groups for e in group}
    made: dict[tuple[Node, ...], Node] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        group = group_of.get(node)
        if group is None:
            return with_args(node, args)
        if group not in made:
            shape, first = _wide(group)
            ones = (1,) * len(first)
            made[group] = embed_op(Symbol(args[0]), shape=shape, start=first, step=ones).node
        first = made[group].attrs["start"]
        start = tuple(f - s for f, s in zip(first, node.attrs["start"], strict=True))
        size, ones = node.tensor_type.shape, (1,) * len(start)
        part: Node = slice_op(Symbol(made[group]), start=start, size=size, step=ones).node
        return part

    return rebuild(graph, visit)


def _groups(graph: Graph) -> list[list[Node]]:
    """Embeddings of one tensor in arrays of one shape, whose places differ by known numbers."""
    groups: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if node.op is not embed_op or any(by != 1 for by in node.attrs["step"]):
            continue
        if node in graph.outputs or not all(map(is_elementwise, graph.users[node])):
            continue
        unknown = tuple(None if isinstance(s, int) else s for s in node.attrs["start"])
        key = node.args[0], node.tensor_type.shape, unknown
        groups.setdefault(key, []).append(node)
    return [*groups.values()]


def _is_worth_it(group: Sequence[Node]) -> bool:
    """Whether there are several places, and the one array is not the larger."""
    if len({e.attrs["start"] for e in group}) == 1:
        return False
    together = sum(e.tensor_type.size for e in group)
    return is_provably_ge(together, prod(_wide(group)[0]))


def _wide(group: Sequence[Node]) -> tuple[Shape, Shape]:
    """The shape of an array that has a border wide enough for all of a group, and where the tensor
    begins in it."""
    starts = [*zip(*(e.attrs["start"] for e in group), strict=True)]
    ints = [all(isinstance(s, int) for s in at) for at in starts]
    first = tuple(max(at) if known else at[0] for at, known in zip(starts, ints, strict=True))
    least = tuple(min(at) if known else at[0] for at, known in zip(starts, ints, strict=True))
    shape = group[0].tensor_type.shape
    return tuple(size + f - s for size, f, s in zip(shape, first, least, strict=True)), first
