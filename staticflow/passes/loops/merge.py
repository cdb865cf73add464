"""What is done twice in two loops, or in two branches, is done once: the pass of `merge_scans` and
`merge_conds`, which also looks into what they have joined."""

from __future__ import annotations

from staticflow.graph.graph import Graph
from staticflow.passes.loops.merge_conds import merge_conds
from staticflow.passes.loops.merge_scans import merge_scans
from staticflow.passes.rewrite import Counts

__all__ = ["merge"]


def merge(graph: Graph, counts: Counts) -> Graph:
    """Join pairs of loops and pairs of branches until there are none left."""
    while True:
        joined = merge_scans(graph, counts, _inside)
        joined = merge_conds(joined, counts, _inside)
        if joined is graph:
            return graph
        graph = joined


def _inside(body: Graph) -> Graph:
    return merge(body, Counts())
