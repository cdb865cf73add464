"""What takes the place of the results of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticflow.graph.graph import Graph, has_regions, rebuild
from staticflow.graph.node import Node, item
from staticflow.passes.rewrite import with_args

__all__ = ["replace_results"]


def replace_results(graph: Graph, values_of: Callable[[Node], Sequence[Node] | None]) -> Graph:
    """The graph in which the results of each loop and branch are what ``values_of`` gives for it;
    None leaves it as it is. The pass is done again on what it made until nothing changes."""
    while True:
        instead: dict[Node, Sequence[Node]] = {}

        def visit(
            node: Node, args: tuple[Node, ...], instead: dict[Node, Sequence[Node]] = instead
        ) -> Node:
            node = with_args(node, args)
            if node.op is item and node.args[0] in instead:
                index: int = node.attrs["index"]
                return instead[node.args[0]][index]
            if has_regions(node) and (values := values_of(node)) is not None:
                instead[node] = values
            return node

        graph = rebuild(graph, visit)
        if not instead:
            return graph
