"""Parts that stand side by side in a sum of zeros are joined.

The derivative of slices is a sum of tensors that are zero but for a slice each. Where the slices
fill a dim one behind the other the sum is `cat`, and no zero is written or added. A zero that is
not added to -0.0 leaves it its sign, as the derivative of the whole tensor would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import add
from staticflow.ops.basics.joining import cat_op
from staticflow.ops.basics.slicing import embed_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["join"]


def join(graph: Graph, counts: Counts) -> Graph:
    """Replace sums of embedded parts that fill a dim by their `cat`."""
    users = graph.users
    inner = {  # sums that only add to another sum, and once
        n for n in graph.nodes
        if n.op is add and len(users[n]) == 1 and users[n][0].op is add
        and users[n][0].args.count(n) == 1
        and n not in graph.outputs and users[n][0].type == n.type
    }  # fmt: skip
    groups = {
        n: found
        for n in graph.nodes
        if n.op is add and n not in inner and (found := _filling(_terms(n, inner)))
    }
    if not groups:
        return graph
    counts.note("sum of parts is a cat", *groups)
    new: dict[Node, Node] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        made = with_args(node, args)
        if node in groups:
            parts, dim, rest = groups[node]
            with using(node.locs):
                total = cat_op(*(Symbol(new[p.args[0]]) for p in parts), dim=dim)
                for other in rest:
                    total = total + Symbol(new[other])
            made = total.node
        new[node] = made
        return made

    for p in graph.params:
        new[p] = p
    return rebuild(graph, visit)


def _terms(root: Node, inner: set[Node]) -> list[Node]:
    """What a tree of sums adds up, from left to right."""
    found: list[Node] = []
    stack = list(reversed(root.args))
    while stack:
        node = stack.pop()
        if node in inner:
            stack.extend(reversed(node.args))
        else:
            found.append(node)
    return found


def _filling(terms: Sequence[Node]) -> tuple[list[Node], int, list[Node]] | None:
    """Terms that are parts one behind the other and fill a dim, that dim, and the other terms."""
    for first in terms:
        if first.op is not embed_op:
            continue
        for dim in range(first.tensor_type.ndim):
            parts = [t for t in terms if _runs_along(t, dim) and t.type == first.type]
            chain = list(_chain(parts, dim))
            if len(chain) > 1 and _end(chain[-1], dim) == first.tensor_type.shape[dim]:
                return chain, dim, [t for t in terms if t not in chain]
    return None


def _runs_along(n: Node, dim: int) -> bool:
    """Whether ``n`` is a part that is whole in every dim but ``dim``."""
    if n.op is not embed_op or n.attrs["step"][dim] != 1:
        return False
    sizes = n.args[0].tensor_type.shape
    return all(
        i == dim or (sizes[i] == size and n.attrs["start"][i] == 0)
        for i, size in enumerate(n.tensor_type.shape)
    )


def _chain(parts: Sequence[Node], dim: int) -> Iterator[Node]:
    """The parts from the first position on, each where the one before ends. Of several at one
    position, one of which may be without elements, the others stay among the terms or come next."""
    at: object = 0
    waiting = [*parts]
    while following := [p for p in waiting if p.attrs["start"][dim] == at]:
        waiting.remove(following[0])
        yield following[0]
        at = _end(following[0], dim)


def _end(part: Node, dim: int) -> object:
    return part.attrs["start"][dim] + part.args[0].tensor_type.shape[dim]
