"""Which element of what a node reads, followed through views: the analysis that fusion and lowering
share.

Views, filled tensors, index ramps and numbers are never computed into memory for a kernel's sake:
they are *inlined*, as index arithmetic or constants, wherever they are read.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from staticflow.graph.dims import Call, Dim, Size, Sym, prod, terms_of
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, constant
from staticflow.graph.types import Shape
from staticflow.ops.basics.slicing import slice_op
from staticflow.ops.basics.view import reshape_op
from staticflow.ops.declaring.lowering import (
    Checked,
    Elementwise,
    Generate,
    Index,
    LoopNest,
    Place,
    Reduce,
    View,
)

__all__ = [
    "broadcast_index", "canonical_index", "chooses_element", "chosen_from", "is_elementwise",
    "is_inline", "is_one_element", "is_polynomial", "member_index", "reads", "root_of", "row_index",
    "rows_start", "shows_memory", "source_of",
]  # fmt: skip

_REPEATED = (Elementwise, View)

MOST_REPEATED = 8
"""Operations on numbers that are done again wherever their result is read."""


def is_elementwise(node: Node) -> bool:
    """Whether each element of ``node`` is computed from the elements of its operands that broadcast
    to it."""
    return type(node.op.lowering) is Elementwise


def is_inline(node: Node) -> bool:
    """Whether a kernel that reads ``node`` works it out where it stands."""
    lowering = node.op.lowering
    if isinstance(lowering, Elementwise):
        return not node.tensor_type.shape and _is_scalar_arithmetic(node)
    return isinstance(lowering, View) or _is_given(node)


def _is_given(node: Node) -> bool:
    """A value that follows from the index alone, or a number."""
    if node.op is constant:
        return bool(node.attrs["value"].array.size == 1)
    return isinstance(node.op.lowering, Generate)


_scalar_arithmetic: weakref.WeakKeyDictionary[Node, bool] = weakref.WeakKeyDictionary()


def _is_scalar_arithmetic(node: Node) -> bool:
    """A 0-d number worked out from sizes and numbers in a few operations: cheaper to repeat than to
    keep."""
    known = _scalar_arithmetic.get(node)  # it is asked of each reader, and of each cluster
    if known is None:
        known = _scalar_arithmetic[node] = _count_operations(node) <= MOST_REPEATED
    return known


def _count_operations(node: Node) -> float:
    """How many operations on numbers a node is worked out by, or a few more than are repeated;
    infinitely many where it is no number that follows from sizes and numbers."""
    operations, stack = 0, [node]
    while stack:
        at = stack.pop()
        if _is_given(at):
            continue
        lowering = at.op.lowering
        if not isinstance(lowering, _REPEATED) or isinstance(lowering, Checked):
            return math.inf
        if at.tensor_type.shape:
            return math.inf
        operations += 1
        if operations > MOST_REPEATED:
            return operations
        stack.extend(at.args)
    return operations


def is_polynomial(index: Size) -> bool:
    """Whether a position is worked out without divisions, maxima and minima."""
    return not any(isinstance(atom, Call) for m, _ in terms_of(index) for atom in m)


def shows_memory(node: Node) -> bool:
    """Whether a node is the memory of its argument under another shape: a reshape, unless the
    elements of that array lie apart."""
    return node.op is reshape_op and node.args[0].tensor_type.strides is None


def rows_start(body: Graph) -> Size | None:
    """The byte from which on the result of ``body`` lies in its one param, if it is nothing but
    some rows of that, one after the other; None if it is anything else."""
    if len(body.outputs) != 1 or len(body.params) != 1:
        return None
    (node,), (x,) = body.outputs, body.params
    row = prod(x.tensor_type.shape[1:]) * x.tensor_type.dtype.itemsize
    first: Size = 0
    while node is not x:
        if node.op is not slice_op or not _takes_rows(node):
            return None
        first = first + node.attrs["start"][0] * row
        node = node.args[0]
    return first


def _takes_rows(node: Node) -> bool:
    """Whether a slice is of whole rows that lie one after the other."""
    x, start = node.args[0].tensor_type, node.attrs["start"]
    whole = node.tensor_type.shape[1:] == x.shape[1:] and all(s == 0 for s in start[1:])
    return whole and x.strides is None and all(s == 1 for s in node.attrs["step"])


def root_of(node: Node) -> Node:
    """The node whose memory a chain of reshapes shows."""
    while shows_memory(node):
        node = node.args[0]
    return node


def broadcast_index(index: Index, shape: Shape) -> Index:
    """``index`` of a broadcast result as the index into an operand of ``shape``."""
    own = index[len(index) - len(shape) :]
    return tuple(0 if d == 1 else i for i, d in zip(own, shape, strict=True))


def source_of(node: Node, index: Index) -> tuple[Node, Index]:
    """The node behind a chain of views, and the index in it that stands at ``index``."""
    while isinstance(node.op.lowering, View):
        arg = node.args[0]
        source = node.op.lowering.source
        index = source(index, arg.tensor_type.shape, node.tensor_type.shape, **node.attrs)
        node = arg
    return node, index


@lru_cache(256)
def canonical_index(shape: Shape, names: tuple[Sym, ...]) -> Index:
    """The index that loops over ``shape`` with variables ``names`` stand at. Each variable is known
    to be below its size, so that what is merged and split again cancels."""
    return tuple(
        0 if d == 1 else Dim.of(replace(s, upper=d)) for d, s in zip(shape, names, strict=True)
    )


def row_index(index: Index, dims: tuple[int, ...], keepdim: bool) -> Index:
    """Where in the result of a reduction the element at ``index`` of its argument goes."""
    kept: list[Size] = []
    for axis, i in enumerate(index):
        if axis not in dims:
            kept.append(i)
        elif keepdim:
            kept.append(0)
    return tuple(kept)


def is_one_element(shape: Shape) -> bool:
    """Whether all dims of a shape are of size 1."""
    return all(d == 1 for d in shape)


def member_index(node: Node, full: Index, domain: Shape, dims: tuple[int, ...]) -> Index:
    """Where a node of a cluster stands when the loops over ``domain`` are at ``full``: at its own
    element if it has one for each, at its row if ``dims`` of the domain are reduced before it."""
    shape = node.tensor_type.shape
    if is_one_element(shape):
        return (0,) * len(shape)
    if not dims or (shape == domain and not isinstance(node.op.lowering, Reduce)):
        return full
    return row_index(full, dims, len(shape) == len(domain))


_ANYWHERE = Sym("anywhere", -1)


def chosen_from(node: Node, index: Index) -> tuple[Sequence[Index], Place] | None:
    """Where the element at ``index`` of a node comes from that chooses single elements of its first
    argument: the index in each of the others, and from what they hold that in the first; None for
    other nodes."""
    lowering = node.op.lowering
    if not isinstance(lowering, LoopNest) or lowering.source is None:
        return None
    shapes = (a.tensor_type.shape for a in node.args)
    return lowering.source(index, *shapes, **node.attrs)


def chooses_element(node: Node) -> bool:
    """Whether each element of a node is one of its first argument that index tensors name."""
    if not isinstance(node.type, tuple):
        return chosen_from(node, (0,) * node.type.ndim) is not None
    return False


def reads(node: Node, index: Index) -> Iterator[tuple[Node, Index]]:
    """What an elementwise node or view at ``index`` reads: the nodes that are not inlined, with the
    index in each. A reduction reads its argument at ``index`` of that argument."""
    stack = [(node, index, True)]
    while stack:
        at, where, root = stack.pop()
        if isinstance(at.op.lowering, View):
            at, where = source_of(at, where)
            stack.append((at, where, False))
        elif isinstance(at.op.lowering, Generate):
            continue
        elif root and (chosen := chosen_from(at, where)) is not None:
            indices, place = chosen
            at_any = place([Dim.of(_ANYWHERE)] * len(indices))
            stack.extend((a, i, False) for a, i in zip(at.args[1:], indices, strict=True))
            stack.append((at.args[0], at_any, False))
        elif root or is_inline(at):
            for arg in reversed(at.args):
                shape = arg.tensor_type.shape
                own = where if isinstance(at.op.lowering, Reduce) else broadcast_index(where, shape)
                stack.append((arg, own, False))
        else:
            yield at, where
