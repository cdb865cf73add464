"""Sums over ranks with fewer messages: of sums that are added to each other each rank adds up its
shares, and of a sum that is cut to parts each rank is sent its part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from staticflow.graph.dims import same
from staticflow.graph.graph import (
    Graph,
    close,
    map_attrs,
    rebuild,
    regions_of,
    substitute_nodes,
)
from staticflow.graph.locs import using
from staticflow.graph.node import Node, constant
from staticflow.graph.op import Op
from staticflow.ops.along.collectives import all_reduce_op, reduce_scatter_op, shard_op
from staticflow.ops.basics.arithmetic import add, div, mul
from staticflow.ops.basics.axes import permute_op, t_op, transpose_op
from staticflow.ops.basics.creation import full, size_value
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.basics.view import reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.declaring.late import behind
from staticflow.ops.declaring.lowering import Elementwise, Reduce
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.layouts import Place
from staticflow.passes.rewrite import with_args

__all__ = ["send_less", "share_of"]

_MOVES = (permute_op, reshape_op, squeeze_op, transpose_op, unsqueeze_op)
"""Ops that only move elements: of a sum they give the sum of what they give."""

Share = tuple[Node, tuple[int, ...], list[Node]]


def share_of(node: Node, with_zeros: bool = False) -> Share | None:
    """This rank's share of a sum over ranks, moved, added up, of several or times a number, over
    which axes the shares are to be added, and what would not be needed then; None of anything else.
    ``with_zeros`` it may be larger than the sum, which stands among zeros."""
    if node.op is all_reduce_op and node.attrs["reduce"] == "sum":
        return node.args[0], node.attrs["axes"], [node]
    if node.op is add:
        a, b = (share_of(x, with_zeros) for x in node.args)
        if a and b and a[1] == b[1] and a[0].type == b[0].type:
            return with_args(node, (a[0], b[0])), a[1], [*a[2], *b[2], node]
    elif (_is_move_or_sum(node) or (with_zeros and node.op is embed_op)) and (
        inner := share_of(node.args[0], with_zeros)
    ):
        return with_args(node, (inner[0],)), inner[1], [*inner[2], node]
    return _times_a_number(node, with_zeros)


def _is_move_or_sum(node: Node) -> bool:
    lowering = node.op.lowering
    return node.op in _MOVES or (isinstance(lowering, Reduce) and lowering.combine == "add")


def _times_a_number(node: Node, with_zeros: bool) -> Share | None:
    """The share of a sum that is multiplied or divided by a number, as that of a mean is, which
    all ranks have alike. 16-bit floats are left: a part of them may be too small."""
    if node.op not in (mul, div) or not _is_wide(node):
        return None
    for at in (0, 1) if node.op is mul else (0,):
        part, number = node.args[at], node.args[1 - at]
        if _is_number(number) and part.type == node.type and (found := share_of(part, with_zeros)):
            args = (found[0], number) if at == 0 else (number, found[0])
            return with_args(node, args), found[1], [*found[2], node]
    return None


def _is_wide(node: Node) -> bool:
    dtype = node.tensor_type.dtype
    return dtype.is_floating and dtype.itemsize >= 4


def _is_number(node: Node) -> bool:
    """Whether a node is one number, of constants and sizes alone."""
    if node.tensor_type.ndim:
        return False
    if not node.args:
        return node.op in (constant, full, size_value)
    return isinstance(node.op.lowering, Elementwise) and all(map(_is_number, node.args))


def send_less(graph: Graph, place: Place) -> Graph:
    """The graph, with its loops and branches, in which sums that are added are one, and of what a
    rank takes its part alone it is sent that."""

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if not regions_of(node):
            return with_args(node, args)
        attrs = map_attrs(node.attrs, lambda size: size, lambda inner: send_less(inner, place))
        return Node(node.op, args, attrs, node.type, node.locs)

    graph = _without_marks(_scatter_sums(_add_shares(graph), place))
    return rebuild(graph, visit) if any(map(regions_of, graph.nodes)) else graph


def _without_marks(graph: Graph) -> Graph:
    """The graph without the marks below the slices that `cut_to_parts` has made."""

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        return args[0] if node.op is shard_op else with_args(node, args)

    return rebuild(graph, visit) if any(n.op is shard_op for n in graph.nodes) else graph


def _add_shares(graph: Graph) -> Graph:
    """The graph in which two sums over the same ranks, that are added and needed for nothing else,
    are one: as the gradients of what several layers read."""
    shares: dict[Node, Share] = {}
    covered: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op is add and node not in covered:
            found = share_of(node)
            if found and all(_is_private(n, graph) for n in found[2] if n is not node):
                shares[node] = found
                covered.update(found[2])
    if not shares:
        return graph
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in shares:
            share, axes, inside = shares[node]
            mesh = next(n for n in inside if n.op is all_reduce_op).attrs["mesh"]
            (share,) = substitute_nodes([share], new)
            with for_itself(), using(node.locs):
                total = all_reduce_op(Symbol(share), mesh=mesh, axes=axes, reduce="sum")
            new[node] = total.node
        else:
            new[node] = with_args(node, tuple([new[a] for a in node.args]))
    outputs = [new[o] for o in graph.outputs]
    return close(graph.params, outputs, graph.equalities, graph.declared)


def _is_private(node: Node, graph: Graph) -> bool:
    return len(graph.users[node]) == 1 and node not in graph.outputs


def _scatter_sums(graph: Graph, place: Place) -> Graph:
    """The graph in which a sum over ranks, of which each rank takes nothing but its part, is sent
    in parts: as the gradient of a parameter whose state is split."""
    instead = {
        node: found
        for node in graph.nodes
        if (found := _find_part_of_sum(node, graph, place)) is not None
    }
    if not instead:
        return graph
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in instead:
            total, dim, moves = instead[node]
            x = new[total.args[0]]
            with for_itself(), using(node.locs), behind((x,)):
                part = _send_parts(Symbol(x), total, dim, place)
                for move in reversed(moves):
                    part = move.op(part, **move.attrs)
            new[node] = part.node
        else:
            new[node] = with_args(node, tuple([new[a] for a in node.args]))
    outputs = [new[o] for o in graph.outputs]
    return close(graph.params, outputs, graph.equalities, graph.declared)


def _find_part_of_sum(
    node: Node, graph: Graph, place: Place
) -> tuple[Node, int, list[Node]] | None:
    """The sum over ranks, the dim of it that is cut, and what moves its dims to others, where a
    node is this rank's own part and nobody else reads the sum: `reduce_scatter` gives the same.
    None for others."""
    if node.op is not slice_op:
        return None
    (mark,), size = node.args, node.attrs["size"]
    if mark.op is not shard_op or not _is_private(mark, graph):
        return None
    (total,) = mark.args
    start, step = node.attrs["start"], node.attrs["step"]
    shape = total.tensor_type.shape
    cut = [d for d, name in enumerate(mark.attrs["spec"]) if name]
    if len(cut) != 1:
        return None
    (dim,) = (inner,) = cut
    moves: list[Node] = []
    while total.op in _TURNS and _is_private(total, graph):
        inner = _TURNS[total.op](inner, total.attrs)
        moves.append(total)
        (total,) = total.args
    if total.op is not all_reduce_op or not _is_private(total, graph):
        return None
    axis, *others = total.attrs["axes"]
    if mark.attrs["spec"][dim] != str(axis):
        return None
    if others or total.attrs["reduce"] != "sum":
        return None
    first, count = place.part(shape[dim], place.split(shape[dim], axis))
    is_own = same(first, start[dim]) and same(count, size[dim]) and same(step[dim], 1)
    return (total, inner, moves) if is_own else None


_TURNS: Mapping[Op, Callable[[int, Mapping[str, Any]], int]] = {
    permute_op: lambda d, attrs: int(attrs["dims"][d]),
    t_op: lambda d, attrs: 1 - d,
    transpose_op: lambda d, attrs: {
        attrs["dim0"]: attrs["dim1"], attrs["dim1"]: attrs["dim0"]
    }.get(d, d),
}  # fmt: skip
"""Which dim of the argument of an op is the dim of its result."""


def _send_parts(x: Symbol, total: Node, dim: int, place: Place) -> Symbol:
    """This rank's part, along a dim, of the sum ``total`` of what each has as ``x``."""
    shape, (axis,) = total.tensor_type.shape, total.attrs["axes"]
    split = place.split(shape[dim], axis)
    count = place.part(shape[dim], split)[1]
    none, one = (0,) * len(shape), (1,) * len(shape)
    whole = split.chunk * place.shape[axis]
    if not same(whole, shape[dim]):
        padded = (*shape[:dim], whole, *shape[dim + 1 :])
        x = embed_op(x, shape=padded, start=none, step=one)
    x = reduce_scatter_op(x, mesh=place.shape, axes=(axis,), dim=dim)
    if not same(split.chunk, count):
        x = slice_op(x, start=none, size=(*shape[:dim], count, *shape[dim + 1 :]), step=one)
    return x
