"""Positions that no kernel checks: those that pooling found, which lie inside, as it found them.

A file may hand anything to the ops that go there. Of such a graph it is asked where the positions
come from.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.ops.windows.pooling import (
    adaptive_max_index_op,
    max_pool_index_op,
    place_gather_op,
    place_scatter_op,
)

__all__ = ["find_free_positions"]

_FINDS = (max_pool_index_op, adaptive_max_index_op)

Sources = Mapping[Node, Shape | None]
"""By the params of a region the sizes of the planes in which they are positions."""


def find_free_positions(graph: Graph, sources: Sources | None = None) -> Node | None:
    """The first node that goes to positions of which it is not known that pooling found them, in
    planes of its size; None if there is none."""
    known = {} if sources is None else sources
    for node in graph.nodes:
        if node.op in (place_gather_op, place_scatter_op):
            shape = node.args[0].tensor_type.shape[2:]
            plane = shape if node.op is place_gather_op else node.attrs["size"]
            if _plane_of(node.args[1], known) != plane:
                return node
        for region in regions_of(node):
            found = find_free_positions(region, _sources_of(node, region, known))
            if found is not None:
                return found
    return None


def _plane_of(positions: Node, known: Sources) -> Shape | None:
    """The sizes of the planes in which these are positions."""
    if positions.op in _FINDS:
        return positions.args[0].tensor_type.shape[2:]
    return known.get(positions)


def _sources_of(node: Node, region: Graph, known: Sources) -> Sources:
    """The sizes of planes by the params of a region, None of one that each run gets anew."""
    pairs = list(
        zip(region.params, node.args[1:] if node.op is cond_op else node.args, strict=False)
    )
    if node.op in loop_ops():
        loop = Loop.of(node)
        pairs = pairs[loop.carries + loop.xs :]
    return {p: _plane_of(a, known) for p, a in pairs}
