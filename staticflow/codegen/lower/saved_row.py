"""A costly value that several passes over a row need is worked out once and saved.

The exponentials of a softmax are summed in one pass and divided in the next. Where the kernel
writes a tensor of that shape in a later pass anyway, they wait in its memory until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticflow.codegen.kernel import Reg
from staticflow.codegen.maths.scalars import Scalars
from staticflow.data_classes import dataclass
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Elementwise, Reduce

__all__ = ["SavedRow", "find_saved_row", "statements_of"]

_COSTLY = 8
"""Statements of Kernel IR; a value of fewer is computed again sooner than it is loaded."""


@dataclass(frozen=True, slots=True)
class SavedRow:
    """``node`` is stored in ``buffer`` in the pass ``first`` and loaded in those after it."""

    node: Node
    buffer: str
    first: int


def find_saved_row(
    nodes: Sequence[Node], passes: Sequence[Sequence[Node]], free: Mapping[str, Node], domain: Shape
) -> SavedRow | None:
    """The value to save, if any. ``passes`` are the values that each pass needs, ``free`` the
    outputs with an element for each of ``domain`` whose memory nothing else is in."""
    worked_out = [_nodes_to_compute(roots) for roots in passes]
    for node in reversed(nodes):
        needing = [i for i, found in enumerate(worked_out) if node in found]
        if len(needing) < 2 or node.tensor_type.shape != domain or statements_of(node) < _COSTLY:
            continue
        for buffer, out in free.items():
            written = next(i for i, roots in enumerate(passes) if out in roots)
            # not before the last pass that needs it, since writing the output overwrites it
            if written >= needing[-1] and out.tensor_type.dtype is node.tensor_type.dtype:
                return SavedRow(node, buffer, needing[0])
    return None


def _nodes_to_compute(roots: Sequence[Node]) -> set[Node]:
    """The nodes that are computed for ``roots``; reductions are known by then."""
    found: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found and not isinstance(node.op.lowering, Reduce):
            found.add(node)
            stack.extend(node.args)
    return found


def statements_of(node: Node) -> int:
    """The statements that one element takes, its operands given."""
    if not isinstance(node.op.lowering, Elementwise):
        return 0
    k = Scalars([], [])
    operands = [Reg(f"a{i}", a.tensor_type.dtype) for i, a in enumerate(node.args)]
    node.op.lowering.emit(k, *operands, **node.attrs)
    return len(k.kernel("cost").body)
