"""What the passes are, how a graph goes through them, and the report of what each did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticflow.config import config
from staticflow.data_classes import dataclass
from staticflow.graph.graph import Graph
from staticflow.graph.verify import verify_graph
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.stable_forms import STABLE_FORMS
from staticflow.passes.attention import attention, write_attention
from staticflow.passes.copy_strided import copy_strided
from staticflow.passes.cut_views import cut_views
from staticflow.passes.decompose import decompose
from staticflow.passes.embed_once import embed_once
from staticflow.passes.factor_products import factor_products
from staticflow.passes.first_of_sorted import first_of_sorted
from staticflow.passes.fold import fold_constants
from staticflow.passes.fuse import fuse, separate
from staticflow.passes.join import join
from staticflow.passes.loops.batch_products import batch_products
from staticflow.passes.loops.count_iterations import count_iterations
from staticflow.passes.loops.decide import decide
from staticflow.passes.loops.first_rows import first_rows
from staticflow.passes.loops.hoist import hoist
from staticflow.passes.loops.last_rows import last_rows
from staticflow.passes.loops.merge import merge
from staticflow.passes.loops.pair_scans import pair_scans
from staticflow.passes.loops.prune import prune_loops
from staticflow.passes.loops.scalar import scalar_loops
from staticflow.passes.loops.share_products import share_products
from staticflow.passes.loops.unroll import unroll
from staticflow.passes.loops.unswitch import unswitch
from staticflow.passes.narrow_products import narrow_products
from staticflow.passes.narrow_windows import narrow_windows
from staticflow.passes.order import PASSES, check_numerics, passes_for
from staticflow.passes.order_products import order_products
from staticflow.passes.read_padded import read_padded
from staticflow.passes.rewrite import Counts, Pass, each_region, rewrite
from staticflow.passes.row_blocks import row_blocks
from staticflow.passes.row_products import row_products
from staticflow.passes.rules import CANONICAL, FAST, PARTS, REORDER
from staticflow.passes.sink_reshapes import sink_reshapes
from staticflow.passes.solve_inverses import solve_inverses
from staticflow.passes.stack_vectors import stack_vectors
from staticflow.passes.transpose import transpose_products
from staticflow.passes.values_of_vectors import values_of_vectors
from staticflow.passes.widen_products import widen_products

if TYPE_CHECKING:
    from staticflow.passes.dump import Dump

__all__ = ["RUNS", "PassReport", "optimize"]


def stabilize(graph: Graph, counts: Counts) -> Graph:
    """Rewrite what overflows or rounds badly into what does not."""
    return rewrite(graph, STABLE_FORMS, counts)


def stabilize_parts(graph: Graph, counts: Counts) -> Graph:
    """Rewrite what rounds badly among the parts that ops are made of."""
    return rewrite(graph, PARTS, counts)


def canonicalize(graph: Graph, counts: Counts) -> Graph:
    """Rewrite to simpler forms, results unchanged to the last bit or better."""
    return rewrite(graph, CANONICAL, counts)


def reorder(graph: Graph, counts: Counts) -> Graph:
    """Rewrite sums and products in an order that takes less."""
    return rewrite(graph, REORDER, counts)


def relax(graph: Graph, counts: Counts) -> Graph:
    """Rewrite as ``numerics="fast"`` allows: signed zeros, infinities and NaN may differ."""
    return rewrite(graph, FAST, counts)


RUNS: dict[str, Pass] = {
    "stabilize": stabilize,
    "attention": attention,
    "canonicalize": canonicalize,
    "stabilize_more": stabilize,
    "relax": relax,
    "reorder": reorder,
    "factor_products": factor_products,
    "order_products": order_products,
    "solve_inverses": solve_inverses,
    "values_of_vectors": values_of_vectors,
    "first_of_sorted": first_of_sorted,
    "decompose": decompose,
    "count_iterations": count_iterations,
    "decide": decide,
    "unroll": unroll,
    "narrow_products": narrow_products,
    "widen_products": widen_products,
    "row_products": row_products,
    "stabilize_parts": stabilize_parts,
    "merge": merge,
    "last_rows": last_rows,
    "first_rows": first_rows,
    "prune_loops": prune_loops,
    "hoist": hoist,
    "share_products": share_products,
    "batch_products": batch_products,
    "unswitch": unswitch,
    "pair_scans": pair_scans,
    "stack_vectors": stack_vectors,
    "prune_more": prune_loops,
    "transpose_products": transpose_products,
    "simplify": canonicalize,
    "row_blocks": row_blocks,
    "join": join,
    "fold": fold_constants,
    "copy_strided": copy_strided,
    "cut_views": cut_views,
    "sink_reshapes": sink_reshapes,
    "embed_once": embed_once,
    "read_padded": read_padded,
    "fuse": fuse,
    "scalar_loops": scalar_loops,
    "write_attention": write_attention,
    "separate": separate,
    "narrow_windows": narrow_windows,
}
"""What each pass does, by name."""


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did: the graphs before and after, how often each of its rules fired, and how
    many seconds it took."""

    name: str
    before: Graph
    after: Graph
    counts: Counts
    seconds: float


def _begin_dump(folder: str, graph: Graph) -> Dump:
    from staticflow.passes.dump import Dump

    return Dump(folder, graph)


def optimize(
    graph: Graph, numerics: str = "strict", passes: Sequence[str] = PASSES
) -> tuple[Graph, list[PassReport]]:
    """The graph through all ``passes``, each also on every nested graph, and their reports.

    ``numerics`` is ``"exact"`` (every order as it was written), ``"strict"`` (IEEE results kept,
    products and sums may be reordered) or ``"fast"``.
    """
    check_numerics(numerics)
    reports: list[PassReport] = []
    dump = _begin_dump(config.dump, graph) if config.dump else None
    for name in passes_for(numerics, passes):
        counts = Counts()
        began = time.perf_counter()
        with for_itself():  # whoever compiles, a rule means what it says
            after = each_region(graph, RUNS[name], counts)
        seconds = time.perf_counter() - began
        if config.verify and (after is not graph or not reports):
            verify_graph(after)
        if config.debug:
            print(f"-- after {name} {dict(counts)}\n{after}")
        if dump is not None:
            dump.note(name, graph, after)
        reports.append(PassReport(name, graph, after, counts, seconds))
        graph = after
    return graph, reports
