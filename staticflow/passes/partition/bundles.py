"""Sums over ranks that are begun early, several in one message, and waited for late.

A sum that no other collective waits for, as that of a gradient, is begun as soon as what it adds up
is there, and ended behind all that can be begun before: while kernels compute, messages are on
their way. Sums that come one after the other are sent together, since a message costs some time
however short it is. The order of what is begun is that of the graph, the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, close, regions_of, substitute_nodes
from staticflow.graph.locs import Locs, merge_locs, using
from staticflow.graph.node import Node
from staticflow.ops.along.collectives import (
    COLLECTIVES,
    all_reduce_op,
    begin_sums_op,
    end_sums_op,
)
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["BUNDLE", "bundle_sums"]

BUNDLE = 1 << 20
"""Bytes from which on a bundle is sent, and the next sum begins another."""


def bundle_sums(graph: Graph) -> Graph:
    """The graph with the sums over ranks that can wait in bundles."""
    bundles = _bundles(graph, _sums_that_can_wait(graph))
    if not bundles:
        return graph
    instead: dict[Node, Node] = {}
    with for_itself():
        last = Symbol(constant_node(0, int64))
        begun = []
        for sums in bundles:
            with using(_locs_of(sums)):
                last = begin_sums_op(last, *map(Symbol, _operands(sums)), **_over(sums))
            begun.append(last)
        for own, sums in zip(begun, bundles, strict=True):
            with using(_locs_of(sums)):
                found = end_sums_op(own, last, *map(Symbol, _operands(sums)), **_over(sums))
            instead |= {n: y.node for n, y in zip(sums, found, strict=True)}
    outputs = substitute_nodes(graph.outputs, instead)
    return close(graph.params, outputs, graph.equalities, graph.declared)


def _operands(sums: Sequence[Node]) -> list[Node]:
    return [n.args[0] for n in sums]


def _over(sums: Sequence[Node]) -> dict[str, tuple[int, ...]]:
    return {name: sums[0].attrs[name] for name in ("mesh", "axes")}


def _locs_of(sums: Sequence[Node]) -> Locs:
    found = sums[0].locs
    for n in sums[1:]:
        found = merge_locs(found, n.locs)
    return found


def _sums_that_can_wait(graph: Graph) -> list[Node]:
    """The sums that no other collective needs, those first whose operands the fewest operations
    come before."""
    needed: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in needed or _sends(node):
            needed.update(node.args)
    depth: dict[Node, int] = {}
    for node in graph.nodes:
        depth[node] = 1 + max((depth[a] for a in node.args), default=0)
    found = [
        n for n in graph.nodes
        if n.op is all_reduce_op and n.attrs["reduce"] == "sum" and n not in needed
    ]  # fmt: skip
    return sorted(found, key=lambda n: depth[n])


def _sends(node: Node) -> bool:
    return node.op in COLLECTIVES or any(
        _sends(inner) for region in regions_of(node) for inner in region.nodes
    )


def _bundles(graph: Graph, sums: Sequence[Node]) -> list[list[Node]]:
    """The sums in bundles of one dtype over the same ranks, in the order in which they are
    complete."""
    done: list[list[Node]] = []
    begun: dict[object, list[Node]] = {}
    for node in sums:
        key = (node.attrs["mesh"], node.attrs["axes"], node.tensor_type.dtype)
        own = begun.setdefault(key, [])
        own.append(node)
        total: Size = sum((_bytes(n) for n in own), start=0)
        if not isinstance(total, int) or total >= BUNDLE:
            done.append(begun.pop(key))
    return [*done, *begun.values()]


def _bytes(node: Node) -> Size:
    return node.tensor_type.size * node.tensor_type.dtype.itemsize
