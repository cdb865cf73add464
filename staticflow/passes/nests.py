"""What a loop nest works out where it reads it, element by element, so that it is never in memory:
`cat` of `tanh(x)` and others, or an image with a border around it. It does so row by row, and rows
of a concatenation or of a part of an array lie apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from staticflow.graph.dims import Size
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.passes.access import is_inline
from staticflow.passes.arrays import rows_behind

__all__ = ["fills_vectors", "is_worked_out"]

_VECTOR = 16
"""Elements of a vector, of whatever machine and dtype."""

_FULL = 0.75
"""The share of the lanes of its vectors that a row has to fill to be worked out by itself. All rows
of an array are worked out as one, whose vectors are full: tanh of 1,000 rows of 17 elements takes
1.3 times as long row by row, in two vectors each."""


def fills_vectors(row: Size) -> bool:
    """Whether rows of so many elements, which lie apart, leave little of their vectors empty, as
    far as is known."""
    return not isinstance(row, int) or row >= _FULL * -(-row // _VECTOR) * _VECTOR > 0


def is_worked_out(
    made: Sequence[Node],
    domain: Shape,
    members: Sequence[Node],
    readers: Mapping[Node, Sequence[Node]],
    results: Set[Node],
) -> bool:
    """Whether the nest among ``members`` may work out what others ``made`` element by element of
    ``domain``: nobody else reads it, and it is read once, as it is."""
    (nest,) = (n for n in members if isinstance(n.op.lowering, LoopNest))
    if not nest.op.lowering.inlines or not domain or not fills_vectors(domain[-1]):
        return False
    inside = {*made, *members}
    if any(node in results or not inside.issuperset(readers[node]) for node in made):
        return False
    outside = {node: [r for r in readers[node] if r in members] for node in made}
    return all(
        node.tensor_type.shape == domain and all(_reads_once(r, node, r is nest) for r in seen)
        for node, seen in outside.items()
        if seen
    )


def _reads_once(reader: Node, node: Node, is_nest: bool) -> bool:
    """Whether each element of ``node`` is read for one of ``reader``: by elements as often as may
    be, but in its place."""
    through = [a for a in reader.args if _is_seen_in(a, node)]
    if is_nest:
        return len(through) == 1 and rows_behind(through[0]) is node
    return {*through} == {node} and reader.tensor_type.shape == node.tensor_type.shape


def _is_seen_in(arg: Node, node: Node) -> bool:
    """Whether an argument is ``node``, or views of it."""
    while arg is not node and is_inline(arg) and arg.args:
        arg = arg.args[0]
    return arg is node
