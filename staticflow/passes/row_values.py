"""Where the rows of a value are: which of its dims tell for which row each element was computed.

A product ``x @ w`` has a row for each row of x. What follows from it element by element, is reduced
within rows or multiplied from the right keeps them, in whichever dims; a sum over the rows, or a
product that contracts them, is a *total*.
"""

from __future__ import annotations

from staticflow.graph.dims import Size, prod, same
from staticflow.graph.node import Node
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.view import reshape_op
from staticflow.ops.declaring.lowering import Elementwise, Reduce
from staticflow.ops.indexing.gather_ops import gather_op, scatter_add_op
from staticflow.ops.indexing.scatter_ops import scatter_op
from staticflow.ops.matrices.contract import matmul_op

__all__ = ["FIXED", "TOTAL", "Rows", "row_elements", "rows_after", "rows_before"]

Rows = tuple[int, ...]
"""The dims of a value that its rows are in, in the order in which these are counted."""

FIXED: Rows = ()
"""Of a value that is the same for all rows."""

TOTAL: Rows = (-1,)
"""Of a value that all rows were added up to."""

_ALONG = (gather_op, scatter_add_op, scatter_op)
"""Ops that choose elements along one dim and leave the others where they are."""


def row_elements(t: TensorType, rows: Rows) -> Size:
    """How many elements each row has."""
    return prod(n for d, n in enumerate(t.shape) if d not in rows)


def rows_after(node: Node, position: int, rows: Rows) -> Rows | None:
    """Where the rows of ``node`` are whose argument at ``position`` has them in ``rows``; None if
    it is not computed row by row."""
    op, arg = node.op, node.args[position]
    if not isinstance(node.type, TensorType):
        return None
    if type(op.lowering) is Elementwise or op is expand_op:
        more = node.type.ndim - arg.tensor_type.ndim
        return tuple(r + more for r in rows)
    if isinstance(op.lowering, Reduce):
        dims = node.attrs["dims"]
        if set(rows) <= set(dims):
            return TOTAL if op.lowering.combine == "add" else None
        if not set(rows).isdisjoint(dims):
            return None
        return rows if node.attrs["keepdim"] else tuple(r - sum(d < r for d in dims) for r in rows)
    if op is reshape_op:
        return _rows_of_reshape(arg.tensor_type.shape, node.type.shape, rows)
    if op is permute_op:
        return tuple(node.attrs["dims"].index(r) for r in rows)
    if op is matmul_op and node.type.ndim == 2 and arg.tensor_type.ndim == 2:
        return rows if rows == (position,) else TOTAL
    return rows if op in _ALONG and node.attrs["dim"] not in rows else None


def rows_before(node: Node, rows: Rows) -> tuple[Rows, ...] | None:
    """Where the rows of each argument are if those of ``node`` are in ``rows``, or were added up;
    None if it is not computed row by row."""
    op, shapes = node.op, [a.tensor_type.shape for a in node.args]
    if op is matmul_op and all(len(s) == 2 for s in shapes):
        return {(0,): ((0,), FIXED), (1,): (FIXED, (1,)), TOTAL: ((1,), (0,))}.get(rows)
    if rows == TOTAL:
        return None
    if type(op.lowering) is Elementwise or op is expand_op:
        found = [_rows_before_stretching(s, node.tensor_type.shape, rows) for s in shapes]
        return None if None in found else tuple(r for r in found if r is not None)
    if isinstance(op.lowering, Reduce):
        dims, ndim = node.attrs["dims"], len(shapes[0])
        kept = range(ndim) if node.attrs["keepdim"] else [d for d in range(ndim) if d not in dims]
        return (tuple(kept[r] for r in rows),)
    if op is reshape_op:
        before = _rows_of_reshape(node.tensor_type.shape, shapes[0], rows)
        return None if before is None else (before,)
    if op is permute_op:
        return (tuple(node.attrs["dims"][r] for r in rows),)
    if op is full or (op is iota and node.attrs["dim"] not in rows):
        return (FIXED,) * len(shapes)
    if op in _ALONG and node.attrs["dim"] not in rows:
        fits = all(same(s[r], shapes[0][r]) for s in shapes for r in rows)
        return (rows,) * len(shapes) if fits else None
    return None


def _rows_before_stretching(shape: Shape, to: Shape, rows: Rows) -> Rows | None:
    """Where the rows of an operand of ``shape`` are that is stretched to the shape ``to`` with rows
    in ``rows``; None if it has some of their dims and not the others."""
    own = tuple(r - len(to) + len(shape) for r in rows)
    missing = [r < 0 or (same(shape[r], 1) and not same(to[s], 1))
               for r, s in zip(own, rows, strict=True)]  # fmt: skip
    if not any(missing):
        return own
    return FIXED if all(missing) else None


def _rows_of_reshape(before: Shape, after: Shape, rows: Rows) -> Rows | None:
    """Where rows in ``rows`` are once a value of shape ``before`` is reshaped to ``after``; None if
    they are no dims of that. Dims of size 1 are no part of either, sizes that are equal at either
    end stay what they are, and the dims between them are all rows or have none."""
    old = [d for d, n in enumerate(before) if not same(n, 1)]
    new = [d for d, n in enumerate(after) if not same(n, 1)]
    found: list[int] = []
    while old and new and same(before[old[-1]], after[new[-1]]):
        d, e = old.pop(), new.pop()
        if d in rows:
            found.insert(0, e)
    front: list[int] = []
    while old and new and same(before[old[0]], after[new[0]]):
        d, e = old.pop(0), new.pop(0)
        if d in rows:
            front.append(e)
    inside = [d for d in old if d in rows]
    if inside and inside != old:
        return None
    ordered = [r for r in rows if not same(before[r], 1)]
    if ordered != sorted(ordered):
        return None
    return (*front, *(new if inside else ()), *found) or None
