"""Where gradients flow in a graph, before any is made.

A gradient that is zero for sure is None, as on the tape, where nothing leads back through what was
detached or made while operations were not recorded. So what a loss does not reach is left out of
its derivative, and an optimiser leaves it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, item, toposort
from staticflow.graph.types import TensorType, types_of
from staticflow.ops.declaring.lowering import Generate

__all__ = ["flow", "flow_through", "is_real", "operands", "reached_from", "ways_of"]


def operands(node: Node) -> tuple[Node, ...]:
    """The arguments whose values matter: not the ties of what follows from sizes alone."""
    return () if isinstance(node.op.lowering, Generate) else node.args


def is_real(node: Node) -> bool:
    """Whether a node gives floats, or several tensors, whose items tell."""
    return not isinstance(node.type, TensorType) or node.type.dtype.is_floating


def ways_of(node: Node) -> Sequence[Collection[int]]:
    """For each result of a node the positions of the arguments that its gradient may go to."""
    if node.op.flows is not None:
        return node.op.flows(**node.attrs)
    every = range(len(operands(node)))
    return [every if t.dtype.is_floating else () for t in types_of(node.type)]


def flow(order: Iterable[Node], starts: Mapping[Node, int]) -> dict[Node, tuple[int, ...]]:
    """For each result of each node of ``order`` (arguments before users) the bits of those
    ``starts`` that a gradient of it reaches."""
    found: dict[Node, tuple[int, ...]] = {}
    for node in order:
        if node in starts:
            found[node] = (starts[node],)
        elif node.op is item:
            found[node] = (found[node.args[0]][node.attrs["index"]],)
        else:
            inner = [found[a][0] if a in found and is_real(a) else 0 for a in node.args]
            found[node] = tuple(_union(inner, ways) for ways in ways_of(node))
    return found


def _union(bits: Sequence[int], ways: Collection[int]) -> int:
    total = 0
    for position in ways:
        total |= bits[position]
    return total


def reached_from(outputs: Sequence[Node], starts: Sequence[Node]) -> list[frozenset[int]]:
    """For each of ``outputs`` the numbers of the ``starts`` that its gradient reaches."""
    bits = {start: 1 << i for i, start in enumerate(starts) if is_real(start)}
    found = flow(toposort(outputs), bits)
    return [frozenset(i for i in range(len(starts)) if found[o][0] >> i & 1) for o in outputs]


def flow_through(region: Graph) -> list[frozenset[int]]:
    """For each output of a region the positions of the params that its gradient reaches."""
    return reached_from(region.outputs, region.params)
