"""The order in which the nodes of a graph run, by the memory that their results take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from staticflow.codegen.program.buffers import nbytes
from staticflow.codegen.program.memory_order import Work, order_by_memory
from staticflow.codegen.program.update_order import root_of
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, constant, item, param
from staticflow.graph.types import types_of
from staticflow.ops.declaring.late import prefix_op
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.passes.access import rows_start, shows_memory
from staticflow.passes.cluster import cluster

__all__ = ["Scratches", "order_nodes"]

Scratches: TypeAlias = Callable[[Node, Mapping[int, Node]], Size]
"""The bytes that the kernel of a cluster works in, of which these results are read."""

_EXAMPLE = 64
"""What an unknown size is taken for where orders are compared."""


def order_nodes(
    graph: Graph,
    edges: Sequence[Sequence[int]],
    outside: Collection[Node],
    kept: Collection[Node],
    scratch: Scratches,
) -> list[Node]:
    """The nodes of ``graph`` in an order that keeps to ``edges``, of a few the one that takes least
    memory (`memory_order`).

    ``edges`` may have more numbers than there are nodes, of what takes no time. The values of
    ``outside`` nodes lie in memory that is there in any case; those of ``kept`` ones are needed
    until the end. ``scratch`` gives the bytes that the kernel of a cluster with some results
    works in.
    """
    if len(graph.nodes) <= _FEW + len(graph.params) and len(edges) == len(graph.nodes):
        return list(graph.nodes)
    blocks = _Blocks(graph, outside)
    read: list[list[int]] = [blocks.read_by(n) for n in graph.nodes]
    made: list[list[int]] = [blocks.made.get(n, []) for n in graph.nodes]
    number = {n: i for i, n in enumerate(graph.nodes)}
    results = [number[o] for o in graph.outputs]
    rest = len(edges) - len(graph.nodes)
    last = sorted({b for n in kept if (b := blocks.of.get(n)) is not None})
    after = [[*later, len(edges)] for later in edges] if last else edges
    read += [[] for _ in range(rest)]
    made += [[] for _ in range(rest)]
    if last:
        after = [*after, []]
        read.append(last)
        made.append([])
    inside = {i: _bytes_inside(n) for i, n in enumerate(graph.nodes) if n.op in loop_ops()}
    for i, n in enumerate(graph.nodes):
        if n.op is cluster:
            inside[i] = _evaluate(scratch(n, blocks.results_of(n)))
    order = order_by_memory(Work(after, made, read, blocks.bytes, results, inside))
    return [graph.nodes[i] for i in order if i < len(graph.nodes)]


_FEW = 2
"""Nodes that have but one order, or whose order does not matter."""


class _Blocks:
    """The memory that the nodes of a graph fill: a block for each result that has one of its
    own."""

    def __init__(self, graph: Graph, outside: Collection[Node]) -> None:
        self.bytes: list[int] = []
        self.of: dict[Node, int | None] = {}
        self.made: dict[Node, list[int]] = {}
        self.sizes: dict[Size, int] = {}
        self.items: dict[Node, dict[int, Node]] = {}
        outside = set(outside)
        for node in graph.nodes:
            if node.op is item:
                self.items.setdefault(node.args[0], {})[node.attrs["index"]] = node
        for node in graph.nodes:
            if node.op in (item, param, constant):
                self.of.setdefault(node, None)
            elif _lies_in_argument(node, outside):
                self.of[node] = self.of[node.args[0]]
            else:
                results = self.results_of(node)
                if node.op in loop_ops():
                    self._add_loop(node, results, outside)
                    continue
                for i, t in enumerate(types_of(node.type)):
                    result = results.get(i)
                    block = None if result in outside else self.new(nbytes(t))
                    if block is not None:
                        self.made.setdefault(node, []).append(block)
                    if result is not None:
                        self.of[result] = block

    def results_of(self, node: Node) -> Mapping[int, Node]:
        """The results of a node that anybody reads, by number."""
        return self.items.get(node, {}) if isinstance(node.type, tuple) else {0: node}

    def _add_loop(self, node: Node, results: Mapping[int, Node], outside: Collection[Node]) -> None:
        """The blocks of a loop: one for all results that hold one value of its body, since what is
        stacked as iterations begin and end, and what is left of it, lie in one memory."""
        loop, found = Loop.of(node), dict[Node, int]()
        for i, result in sorted(results.items(), reverse=True):  # stacks first
            self.of[result] = None
            if result not in outside:
                value = _value_of(loop, i)
                if value not in found:
                    found[value] = self.new(nbytes(result.tensor_type))
                self.of[result] = found[value]
        self.made[node] = [*found.values()]

    def new(self, bytes_: Size) -> int:
        """The number of a new block."""
        if bytes_ not in self.sizes:
            self.sizes[bytes_] = _evaluate(bytes_)
        self.bytes.append(self.sizes[bytes_])
        return len(self.bytes) - 1

    def read_by(self, node: Node) -> list[int]:
        """The blocks that a node reads."""
        if node.op is item:
            return []
        found = {self.of.get(a): None for a in node.args}
        return [b for b in found if b is not None]


def _value_of(loop: Loop, i: int) -> Node:
    """The value of the body that iterations make for result ``i``: for a carry as they begin, what
    it is as they end."""
    carries = loop.body.params[: loop.carries]
    value = root_of(loop.body.outputs[i])
    for _ in carries:
        if value not in carries:
            break
        value = root_of(loop.body.outputs[carries.index(value)])
    return value


def _bytes_inside(loop: Node) -> int:
    """About how many bytes an iteration works in beside the results of the loop: what it makes for
    itself, and what it begins with where that is not stacked."""
    found = Loop.of(loop)
    carries, ys = found.results([root_of(o) for o in found.body.outputs])
    made = (n for n in found.body.nodes if n.op is cluster and n not in (*carries, *ys))
    inside = (*made, *(c for c in carries if c not in ys))
    return sum(_evaluate(nbytes(t)) for n in inside for t in types_of(n.type))


def _lies_in_argument(node: Node, outside: Collection[Node]) -> bool:
    """Whether a value lies in the memory of its argument, or of rows of that."""
    if node.op is prefix_op or shows_memory(node):
        return True
    return (
        node.op is cluster
        and len(node.args) == 1
        and node not in outside
        and rows_start(node.attrs["body"]) is not None
    )


def _evaluate(bytes_: Size) -> int:
    """About how many bytes that is."""
    try:
        return max(evaluate_dim(bytes_, dict.fromkeys(symbols_of(bytes_), _EXAMPLE)), 0)
    except (ValueError, ZeroDivisionError):
        return 0
