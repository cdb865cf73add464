"""The passes in their order, and the report of what each did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from staticflow.config import config
from staticflow.errors import ArgumentError
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.graph.verify import verify_graph
from staticflow.ops.declaring.thread import recording
from staticflow.passes.copy_strided import copy_strided
from staticflow.passes.cut_views import cut_views
from staticflow.passes.decompose import decompose
from staticflow.passes.fold import fold_constants
from staticflow.passes.fuse import fuse
from staticflow.passes.join import join
from staticflow.passes.loops.batch_products import batch_products
from staticflow.passes.loops.first_rows import first_rows
from staticflow.passes.loops.hoist import hoist
from staticflow.passes.loops.last_rows import last_rows
from staticflow.passes.loops.merge import merge
from staticflow.passes.loops.prune import prune_loops
from staticflow.passes.loops.scalar import scalar_loops
from staticflow.passes.loops.share_products import share_products
from staticflow.passes.order_products import order_products
from staticflow.passes.rewrite import Counts, Pass, each_region, rewrite
from staticflow.passes.rules import CANONICAL, FAST, STABILIZE
from staticflow.passes.transpose import transpose_products

__all__ = ["INTO_KERNELS", "PASSES", "SIMPLIFY", "PassReport", "optimize"]


def stabilize(graph: Graph, counts: Counts) -> Graph:
    """Rewrite what rounds badly into what does not."""
    return rewrite(graph, STABILIZE, counts)


def canonicalize(graph: Graph, counts: Counts) -> Graph:
    """Rewrite to simpler forms, results unchanged to the last bit or better."""
    return rewrite(graph, CANONICAL, counts)


def relax(graph: Graph, counts: Counts) -> Graph:
    """Rewrite as ``numerics="fast"`` allows: signed zeros, infinities and NaN may differ."""
    return rewrite(graph, FAST, counts)


SIMPLIFY: tuple[tuple[str, Pass], ...] = (
    ("canonicalize", canonicalize),
    ("stabilize", stabilize),
    ("relax", relax),
    ("order_products", order_products),
    ("decompose", decompose),
    ("stabilize_parts", stabilize),
    ("merge", merge),
    ("last_rows", last_rows),
    ("first_rows", first_rows),
    ("prune_loops", prune_loops),
    ("hoist", hoist),
    ("share_products", share_products),
    ("batch_products", batch_products),
    ("prune_more", prune_loops),
    ("transpose_products", transpose_products),
    ("simplify", canonicalize),
    ("join", join),
    ("fold", fold_constants),
)
"""What is done to a graph of ops."""

INTO_KERNELS: tuple[tuple[str, Pass], ...] = (
    ("copy_strided", copy_strided),
    ("cut_views", cut_views),
    ("fuse", fuse),
    ("scalar_loops", scalar_loops),
)
"""What makes clusters of them."""

PASSES = (*SIMPLIFY, *INTO_KERNELS)
"""Every pass in the order in which it runs; those of `_FAST_ONLY` only for fast numerics."""

_FAST_ONLY = ("relax", "order_products")


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did: the graphs before and after, and how often each of its rules fired."""

    name: str
    before: Graph
    after: Graph
    counts: Counts


def optimize(
    graph: Graph, numerics: str = "strict", passes: Sequence[tuple[str, Pass]] = PASSES
) -> tuple[Graph, list[PassReport]]:
    """The graph through all ``passes``, each also on every nested graph, and their reports.

    ``numerics`` is ``"strict"`` (IEEE results kept, sums may be reordered) or ``"fast"``.
    """
    if numerics not in ("strict", "fast"):
        raise ArgumentError(
            f'numerics is "strict" or "fast", not {numerics!r}, at {format_locs(here())}'
        )
    reports = []
    for name, run in passes:
        if name in _FAST_ONLY and numerics == "strict":
            continue
        counts: Counts = Counter()
        with recording(True):  # whoever compiles, a rule means what it says
            after = each_region(graph, run, counts)
        if config.verify:
            verify_graph(after)
        if config.debug:
            print(f"-- after {name} {dict(counts)}\n{after}")
        reports.append(PassReport(name, graph, after, counts))
        graph = after
    return graph, reports
