"""Totals over the rows that a kernel reduces.

The gradients of a layer norm's weight and bias are sums down the columns of what another kernel
computes row by row. A cluster of kind ``rows`` does both while a row is in the cache. It has a
domain and the dims that its rows run along, as one of kind ``reduce`` does, and *totals*: sums over
all rows of an element, which give a row of columns, or of a row's value or all its elements, which
give a number. What follows from totals has their shape, and is computed behind the last row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from staticflow.graph.dims import prod
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.basics.reduce import reduced_shape
from staticflow.ops.declaring.lowering import Elementwise, Index, Reduce
from staticflow.passes.access import member_index, reads, row_index

__all__ = [
    "adds_all", "adds_rows_up", "are_in_place", "follow_totals", "has_shape_of_total", "is_total",
    "operand_index", "row_shapes", "rows_of", "total_index",
]  # fmt: skip

_SHORT = 16
"""Elements of a row of known length; shorter ones are worked out side by side, in the lanes of
vectors, and no elements are added up beside them."""


def row_shapes(domain: Shape, dims: tuple[int, ...]) -> tuple[Shape, Shape]:
    """The shapes of a row's value: without the reduced dims, or with 1 in their place."""
    return reduced_shape(domain, dims, False), reduced_shape(domain, dims, True)


def adds_rows_up(
    domain: Shape, dims: tuple[int, ...], total: Shape, along: tuple[int, ...]
) -> bool:
    """Whether a reduction of the shape ``total`` over the dims ``along`` is over all rows of a
    ``domain`` whose rows are in ``dims``, and a kernel for both goes through memory as one for the
    rows does, and in order where the total is of elements."""
    sized = _long_axes(domain)
    outer = [axis for axis in sized if axis not in dims]
    columns = [domain[axis] for axis in sized if axis in dims]
    if not outer or not columns:
        return False
    if total == domain:
        length = prod(columns)
        short = isinstance(length, int) and length < _SHORT
        added = [axis for axis in along if domain[axis] != 1]
        return sized[-1] in dims and not short and added in (outer, sized)
    return total in row_shapes(domain, dims) and set(_long_axes(total)) <= set(along)


def _long_axes(shape: Shape) -> list[int]:
    """The dims that are not of size 1."""
    return [axis for axis, d in enumerate(shape) if d != 1]


def is_total(node: Node, domain: Shape, dims: tuple[int, ...]) -> bool:
    """Whether a member of a cluster of rows is a total."""
    if not isinstance(node.op.lowering, Reduce):
        return False
    return node.args[0].tensor_type.shape != domain or node.attrs["dims"] != dims


def adds_all(reduction: Node) -> bool:
    """Whether a reduction is over all dims of its operand."""
    return set(_long_axes(reduction.args[0].tensor_type.shape)) <= set(reduction.attrs["dims"])


def has_shape_of_total(shape: Shape, domain: Shape, dims: tuple[int, ...]) -> bool:
    """Whether a value may be a total, or follow from one: it is a number, or a row of columns."""
    sizes = [d for d in shape if d != 1]
    return not sizes or sizes == [domain[axis] for axis in dims if domain[axis] != 1]


def total_index(shape: Shape, full: Index, domain: Shape, dims: tuple[int, ...]) -> Index:
    """Where a value of the ``shape`` of a total stands when the loops over ``domain`` are at
    ``full``."""
    at = iter([full[axis] for axis in dims if domain[axis] != 1])
    return tuple(0 if d == 1 else next(at) for d in shape)


def operand_index(total: Node, full: Index, domain: Shape, dims: tuple[int, ...]) -> Index:
    """Where a total reads its operand when the loops over ``domain`` are at ``full``."""
    shape = total.args[0].tensor_type.shape
    return full if shape == domain else row_index(full, dims, len(shape) == len(domain))


def are_in_place(
    members: Iterable[Node],
    domain: Shape,
    dims: tuple[int, ...],
    arrays: Callable[[Node], Sequence[Node]],
    full: Index,
) -> bool:
    """Whether ``members``, in the order of the graph, can be one cluster of rows: each reads others
    where these are made, and nothing of a row follows from totals. ``arrays`` are what a node
    reads, ``full`` is the index in the domain."""
    members = list(members)
    found: dict[Node, Index] = {}  # where each stands
    late: set[Node] = set()
    of_rows = (domain, *row_shapes(domain, dims))
    inside = set(members)
    for node in members:
        shape = node.tensor_type.shape
        behind = False
        if is_total(node, domain, dims):
            at = operand_index(node, full, domain, dims)
            late.add(node)
            found[node] = total_index(shape, full, domain, dims)
        elif shape in of_rows and late.isdisjoint(arrays(node)):
            found[node] = member_index(node, full, domain, dims)
            at = full if isinstance(node.op.lowering, Reduce) else found[node]
        elif has_shape_of_total(shape, domain, dims) and _is_elementwise(node):
            found[node] = at = total_index(shape, full, domain, dims)
            late.add(node)
            behind = True
        else:
            return False
        for source, index in reads(node, at):
            if source in inside and ((source in late) != behind or index != found[source]):
                return False
    return True


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.op.lowering, Elementwise)


def follow_totals(body: Graph, domain: Shape, dims: tuple[int, ...]) -> set[Node]:
    """The totals of a cluster of rows, and what is worked out behind the last row."""
    of_rows = (domain, *row_shapes(domain, dims))
    late: set[Node] = set()
    for node in body.nodes:
        if is_total(node, domain, dims) or not late.isdisjoint(node.args):
            late.add(node)
    return late | {o for o in body.outputs if o.tensor_type.shape not in of_rows}


def rows_of(body: Graph) -> tuple[Shape, tuple[int, ...]]:
    """The domain of a cluster of rows, and the dims that its rows run along: the reductions of the
    largest operands are along rows, or are totals of columns, and then the innermost dim is one of
    a row."""
    reductions = [n for n in body.nodes if isinstance(n.op.lowering, Reduce)]
    shapes = [n.args[0].tensor_type.shape for n in reductions]
    domain = max(shapes, key=lambda shape: len(_long_axes(shape)))
    last = _long_axes(domain)[-1]
    found = [
        n.attrs["dims"] for n, shape in zip(reductions, shapes, strict=True)
        if shape == domain and not adds_all(n)
    ]  # fmt: skip
    return domain, next((dims for dims in found if last in dims), found[0])
