"""Which values stand in memory, and which arrays each node reads through what is inlined."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.dim_queries import coefficient, symbols_of
from staticflow.graph.dims import Sym, prod
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, item
from staticflow.ops.basics.view import contiguous_op
from staticflow.ops.declaring.lowering import (
    Attend,
    Contract,
    Elementwise,
    Index,
    LoopNest,
    Reduce,
    View,
)
from staticflow.passes.access import (
    canonical_index,
    chooses_element,
    is_inline,
    is_polynomial,
    root_of,
    shows_memory,
    source_of,
)

__all__ = [
    "AXES", "MOST_MEMBERS", "arrays_in_memory", "arrays_read_by", "operand_strides", "rows_behind",
]  # fmt: skip

MOST_MEMBERS = 48
"""Ops in one kernel; beyond that registers spill and nothing is gained."""

AXES = tuple(Sym(f"i{axis}", -1) for axis in range(32))
"""Stand-ins for the loop variables of a domain, in the analysis only."""


def arrays_in_memory(graph: Graph) -> set[Node]:
    """Inlined nodes that something needs as an array: outputs, operands of loops, operands of
    matrix products that are no strided view, and of loop nests if they are none."""
    kept: set[Node] = set()
    wanted = list(graph.outputs)
    for node in graph.nodes:
        lowering = node.op.lowering
        if isinstance(lowering, Contract):
            wanted += [a for i, a in enumerate(node.args) if operand_strides(node, i) is None]
        elif isinstance(lowering, Attend):
            matrices = range(lowering.matrices)
            wanted += [node.args[i] for i in matrices if operand_strides(node, i) is None]
        elif isinstance(lowering, LoopNest):
            args = node.args[:1] if chooses_element(node) else node.args
            made = [a for a in args if lowering.inlines and _is_made_for_it(graph, a)]
            wanted += [a for a in args if a not in made and not _reads_plainly(a)]
        elif not isinstance(lowering, Elementwise | View | Reduce) and node.op is not item:
            wanted += node.args
    while wanted:
        node = wanted.pop()
        if node in kept or not is_inline(node):
            continue
        kept.add(node)
        if shows_memory(node):
            wanted.append(node.args[0])
    return kept


def _reads_plainly(node: Node) -> bool:
    """Whether a loop nest reads an inlined operand as cheaply where it stands as from memory: the
    index is free of divisions. A reshape of what is in memory costs nothing there."""
    if root_of(node) is not node and not is_inline(root_of(node)):
        return False
    shape = node.tensor_type.shape
    _, index = source_of(node, canonical_index(shape, AXES[: len(shape)]))
    return all(map(is_polynomial, index))


def rows_behind(node: Node) -> Node | None:
    """What a chain of views shows each row of, once and as a row; None if it is any other."""
    shape = node.tensor_type.shape
    index = canonical_index(shape, AXES[: len(shape)])
    source, at = source_of(node, index)
    inner = source.tensor_type.shape
    is_row = shape[-1:] == inner[-1:] and index[-1:] == at[-1:] and prod(shape) == prod(inner)
    return source if is_row and all(map(is_polynomial, at)) else None


def _is_made_for_it(graph: Graph, node: Node) -> bool:
    """Whether views show rows of what is computed element by element, and nobody else reads it: a
    nest may work it out."""
    source = rows_behind(node)
    if source is None or type(source.op.lowering) is not Elementwise:
        return False
    while node is not source and len(graph.users[node]) == 1 and node not in graph.outputs:
        node = node.args[0]
    return node is source


def arrays_read_by(node: Node, kept: set[Node]) -> list[Node]:
    """The arrays that a node reads, through what is inlined on the way. Elementwise work, views and
    reductions inline whatever can be; other ops take it from memory where it was kept for them."""
    if isinstance(node.op.lowering, Attend):
        return _arrays_of_attention(node, kept)
    inlines = isinstance(node.op.lowering, Elementwise | View | Reduce)
    if shows_memory(node):
        inlines = False
    if chooses_element(node):
        table = _arrays_behind(node.args[:1], kept, False)
        return [*dict.fromkeys((*table, *_arrays_behind(node.args[1:], kept, True)))]
    return _arrays_behind(node.args, kept, inlines)


def _arrays_of_attention(node: Node, kept: set[Node]) -> list[Node]:
    """The arrays that attention reads. What has a number for each query and each key is worked out
    there, again and again, so that it need not be in memory, unless it is a copy; and masks, so
    that it is known which keys are seen."""
    matrices = node.op.lowering.matrices + node.op.lowering.rows
    found = dict.fromkeys(_arrays_behind(node.args[:matrices], kept, False))
    stack = list(reversed(_arrays_behind(node.args[matrices:], kept, True)))
    anew: set[Node] = set()
    while stack:
        array = stack.pop()
        t = array.tensor_type
        large = not t.dtype.is_floating or (t.ndim > 1 and 1 not in t.shape[-2:])
        large = large and array.op is not contiguous_op
        if large and type(array.op.lowering) is Elementwise and len(anew) < MOST_MEMBERS:
            if array not in anew:
                anew.add(array)
                stack += reversed(_arrays_behind(array.args, kept, True))
        else:
            found[array] = None
    return [array for array in found if array not in anew]


def _arrays_behind(args: Sequence[Node], kept: set[Node], inlines: bool) -> list[Node]:
    """The arrays that values are read from; what is ``kept`` stands in memory unless it is worked
    out anew wherever a reader ``inlines``."""
    found: dict[Node, None] = {}
    stack = list(reversed(args))
    while stack:
        arg = stack.pop()
        if not is_inline(arg) or (arg in kept and not inlines):
            found[arg] = None
        else:
            stack.extend(reversed(arg.args))
    return list(found)


def operand_strides(node: Node, which: int) -> tuple[Node, Index] | None:
    """The array behind an operand of a matrix product and the index in it of element (b, row, col),
    in terms of `AXES`; None unless that is a strided view of an array."""
    arg = node.args[which]
    shape = arg.tensor_type.shape
    source, index = source_of(arg, canonical_index(shape, AXES[: len(shape)]))
    if is_inline(source):
        return None
    at = source.tensor_type.offset(index)
    names = set(AXES[: len(shape)])
    for sym in names:
        stride = coefficient(at, sym)
        if stride is None or symbols_of(stride) & names:
            return None
    return source, index
