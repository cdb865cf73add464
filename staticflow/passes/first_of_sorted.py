"""The first or last few elements of a sorted row are found without ordering the others.

``x.sort()[0][:k]`` is ``x.topk(k, largest=False)[0]``: both put NaN last and keep the order of
equal elements, so that every bit is the same, of values and of indices. The last ``k`` are the
first of the opposite order of the row read backwards, where equal elements stand the other way
round, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node, item, make_node
from staticflow.ops.along.order import FEW, sort_op, topk_op
from staticflow.ops.basics.axes import flip_op
from staticflow.ops.basics.slicing import select_op, slice_op
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["first_of_sorted"]


def first_of_sorted(graph: Graph, counts: Counts) -> Graph:
    """``sort(x)[:k] = topk(x, k)``, where nothing else is wanted of the sorted."""
    ends = {n: end for n in graph.nodes if n.op is sort_op and (end := _end_of(n, graph))}
    if not ends:
        return graph
    found: dict[Node, tuple[Any, Any]] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        source = node.args[0] if node.args else None
        if node in ends:
            with using(node.locs):
                found[node] = ends[node].order(node, Symbol(args[0]))
            counts.note("a few of a sorted row", node)
            made: Node = found[node][0].node
            return made
        if node.op is item and source in ends:
            result: Node = found[source][node.attrs["index"]].node
            return result
        if source is not None and source.op is item and source.args[0] in ends:
            return ends[source.args[0]].cut(node, args[0])
        return with_args(node, args)

    return rebuild(graph, visit)


@dataclass(frozen=True, slots=True)
class _End:
    """The ``count`` elements of the sorted rows of ``dim`` from ``start`` on are wanted: the first,
    where that is 0, or else the last."""

    dim: int
    count: int
    start: Size

    def order(self, node: Node, x: Any) -> tuple[Any, Any]:
        """These elements of what ``node`` makes of ``x``, and where each came from."""
        dim, last, descending = self.dim, self.start != 0, node.attrs["descending"]
        row = flip_op(x, dims=(dim,)) if last else x
        largest = descending != last
        values, indices = topk_op(row, k=self.count, dim=dim, largest=largest)
        if self.count == 1 and largest and x.dtype.is_floating:  # the one among 0.0 and -0.0
            values = gather_op(row, indices, dim=dim)
        if last and self.count > 1:
            values, indices = (flip_op(y, dims=(dim,)) for y in (values, indices))
        if last:
            indices = self.start + self.count - 1 - indices
        return values, indices

    def cut(self, node: Node, source: Node) -> Node:
        """The part ``node`` of the sorted rows, taken of their end ``source``."""
        attrs = dict(node.attrs)
        if node.op is select_op:
            attrs["index"] = attrs["index"] - self.start
        else:
            starts = [*attrs["start"]]
            starts[self.dim] = starts[self.dim] - self.start
            attrs["start"] = tuple(starts)
        return make_node(node.op, (source,), attrs, node.locs)


def _end_of(node: Node, graph: Graph) -> _End | None:
    """The first or the last elements of sorted rows that everybody who reads these takes; None
    where somebody wants all, or so many that they are sorted anyway."""
    kept = set(graph.outputs)
    dim: int = node.attrs["dim"]
    n = node.args[0].tensor_type.shape[dim]
    reads = [r for i in graph.users[node] for r in _reads_of(i, dim, graph)]
    if not reads or None in reads or any(i in kept for i in graph.users[node]):
        return None
    spans = [r for r in reads if r is not None]
    first = [end for _, end in spans]
    if all(isinstance(end, int) for end in first) and max(first) <= FEW:
        return _End(dim, int(max(first)), 0)
    last = [n - start for start, _ in spans]
    if all(isinstance(size, int) for size in last) and max(last) <= FEW:
        return _End(dim, int(max(last)), n - max(last))
    return None


def _reads_of(values: Node, dim: int, graph: Graph) -> Iterator[tuple[Size, Size] | None]:
    """The first element of a row that a node takes of the sorted ``values`` or indices, and the one
    behind its last, for each such node; None for one that takes another part."""
    for user in graph.users[values]:
        if user.op is select_op and user.attrs["dim"] == dim:
            yield user.attrs["index"], user.attrs["index"] + 1
        elif user.op is slice_op and user.attrs["size"][dim] != 0:
            start, size, step = (user.attrs[a][dim] for a in ("start", "size", "step"))
            yield start, start + (size - 1) * step + 1
        else:
            yield None
