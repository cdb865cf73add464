"""Symbols with their dims in another order: what programs of arrays that are turned alike give.

A program takes such arrays in the order in which they lie. What it computes of them is in the order
of the dims that its function knows, and would be turned by a copy at the end. Here the operations
themselves are turned, as far as they go by element, take a part, or put elements along a dim, down
to the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.graph.node import Node, make_node
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.indexing.gather_ops import scatter_add_op
from staticflow.ops.indexing.index_ops import index_add_op, index_copy_op, index_put_op
from staticflow.ops.indexing.scatter_ops import scatter_op, scatter_reduce_op
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["turn"]

Order = tuple[int, ...]

_BY_DIM = frozenset((embed_op, expand_op, slice_op))
"""Ops whose attributes have an entry for each dim."""

_ALONG_DIM = frozenset((scatter_add_op, scatter_op, scatter_reduce_op))
"""Ops of tensors of as many dims, which they treat alike but for the one that they go along."""

_ROWS_PUT = frozenset((index_add_op, index_copy_op, index_put_op))
"""Ops that put values, along the dims that they name, where index tensors say."""


def turn(y: Symbol, order: Order) -> Symbol:
    """``y`` with its dims in an order, if it has so many; ``y`` itself if not."""
    return Symbol(_turn_node(y.node, order, {})) if y.ndim == len(order) else y


def _turn_node(y: Node, order: Order, known: dict[Node, Node]) -> Node:
    """A node of as many dims as an ``order`` has, in that; ``known`` are those that were turned."""
    if y not in known:
        known[y] = _turn_operation(y, order, known)
    return known[y]


def _turn_operation(y: Node, order: Order, known: dict[Node, Node]) -> Node:
    rank = len(order)
    if y.op is permute_op:
        dims = tuple(y.attrs["dims"][d] for d in order)
        (x,) = y.args
        return x if dims == tuple(range(rank)) else make_node(permute_op, (x,), {"dims": dims})
    ranks = [a.tensor_type.ndim for a in y.args]
    by_element = type(y.op.lowering) is Elementwise
    repeats = y.op is expand_op and ranks == [0]
    if by_element or repeats or (y.op in _BY_DIM and ranks == [rank]):
        args = [_turn_operand(a, order, known) for a in y.args]
        attrs = y.attrs if by_element else _turn_attrs(y.attrs, order)
        return make_node(y.op, tuple(args), attrs, y.locs)
    if y.op in _ALONG_DIM and set(ranks) == {rank}:
        args = [_turn_node(a, order, known) for a in y.args]
        return make_node(y.op, tuple(args), {**y.attrs, "dim": order.index(y.attrs["dim"])}, y.locs)
    if y.op in _ROWS_PUT and ranks == [rank, rank, 1]:
        (dim,) = y.attrs["dims"]
        x, values, index = y.args
        args = [_turn_node(x, order, known), _turn_node(values, order, known), index]
        return make_node(y.op, tuple(args), {**y.attrs, "dims": (order.index(dim),)}, y.locs)
    return make_node(permute_op, (y,), {"dims": order})


def _turn_operand(x: Node, order: Order, known: dict[Node, Node]) -> Node:
    """An operand of what is done by element, turned as its result is: of fewer dims with dims of
    size 1 before them, and a number as it is."""
    missing = len(order) - x.tensor_type.ndim
    if missing == len(order):
        return x
    if missing:
        x = reshape(Symbol(x), (*(1 for _ in range(missing)), *x.tensor_type.shape)).node
    return _turn_node(x, order, known)


def _turn_attrs(attrs: Mapping[str, Any], order: Order) -> dict[str, Any]:
    return {name: tuple(value[d] for d in order) for name, value in attrs.items()}
