"""A drawing without groups as nodes: what can only have edges between single nodes reads this."""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.drawing.model import Drawing, DrawnNode

__all__ = ["single_edges"]

Children = dict[int | None, list[DrawnNode]]


def single_edges(drawing: Drawing) -> Iterator[tuple[int, int]]:
    """The edges between nodes that are no groups, as numbers. What flows into a group leads to the
    parameters in it that stand for it, and what flows out comes from its results."""
    children = drawing.children()
    for node in drawing.nodes:
        if node.operand is not None:
            yield from ((source, node.id) for source in _results(node.operand, children))
    for edge in drawing.edges:
        if edge.target not in children:
            yield from ((source, edge.target) for source in _results(edge.source, children))


def _results(node: int, children: Children) -> list[int]:
    """The node itself, or what a group gives its results from."""
    if node not in children:
        return [node]
    inside = children[node]
    ends = [n for n in inside if n.outputs or n.kind == "region"] or inside[-1:]
    return [number for end in ends for number in _results(end.id, children)]
