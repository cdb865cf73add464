"""Which results are written over inputs that the caller gives away."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from staticflow.codegen.program.update_order import order_updates, root_of
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, maker_of
from staticflow.passes.cluster import cluster

__all__ = ["find_donations"]


def find_donations(
    graph: Graph, given: Collection[Node], n_out: int, updates: Sequence[tuple[Node, Node]]
) -> dict[int, Node]:
    """Those of the first ``n_out`` outputs of a fused graph that take the place of a param among
    those ``given`` away, each by its number with that param: of one type with it, and written by a
    kernel that can run after all that reads it. ``updates`` are (new value, param) of variables.
    """
    pairs: dict[int, Node] = {}
    makers: set[Node] = {root_of(value) for value, _ in updates}
    left = list(given)
    for i, output in enumerate(graph.outputs[:n_out]):
        root = root_of(output)
        if maker_of(root).op is not cluster or root in makers:
            continue
        kind = output.tensor_type
        over = next((p for p in left if p.tensor_type == kind and kind.strides is None), None)
        if over is not None and _is_in_place(graph, [*updates, *_values(graph, pairs)], root, over):
            pairs[i] = over
            left.remove(over)
            makers.add(root)
    return pairs


def _values(graph: Graph, pairs: dict[int, Node]) -> list[tuple[Node, Node]]:
    return [(root_of(graph.outputs[i]), over) for i, over in pairs.items()]


def _is_in_place(
    graph: Graph, updates: Sequence[tuple[Node, Node]], value: Node, over: Node
) -> bool:
    _, in_place = order_updates(graph, [*updates, (value, over)])
    return over in in_place
