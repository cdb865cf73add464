"""One element of each row, by a tensor of columns: ``x[arange(n), i]`` is a gather.

A gather along a dim leaves the others where they are, so that what is computed row by row is seen
to be that, as in the losses of many classes. Its gradient is a comparison: a kernel that writes the
row anyway needs no zeros in memory, and no kernel more that adds to them.
"""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import same, same_shape
from staticflow.graph.dtypes import int32, int64
from staticflow.ops.along.class_losses import class_op
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.basics.view import squeeze_op, unsqueeze_op
from staticflow.ops.indexing.gather_ops import gather_op, scatter_add_op
from staticflow.ops.indexing.index_ops import index_op, index_put_op
from staticflow.ops.symbols.pattern import Rule, attr, rule

__all__ = ["ROW_INDICES"]


def _columns(x: Any, rows: Any, i: Any) -> Any:
    """The columns ``i`` of a matrix, from 0 on, as a column; None where ``rows`` are not all rows
    in their order, or not as many as there are columns."""
    at, count = rows.node, x.__sf_shape__[0]
    if x.ndim != 2 or at.op is not iota or at.tensor_type.ndim != 1 or i.ndim != 1:
        return None
    if not same(at.tensor_type.shape[0], count) or not same(i.__sf_shape__[0], count):
        return None
    inside = where(i < 0, i + x.__sf_shape__[1], i)
    return unsqueeze_op(inside, dims=(1,))


def _gather(x: Any, rows: Any, i: Any) -> Any:
    columns = _columns(x, rows, i)
    return None if columns is None else squeeze_op(gather_op(x, columns, dim=1), dims=(1,))


def _scatter(x: Any, v: Any, rows: Any, i: Any) -> Any:
    columns = _columns(x, rows, i)
    if columns is None or v.ndim != 1 or not same(v.__sf_shape__[0], x.__sf_shape__[0]):
        return None
    return scatter_add_op(x, columns, unsqueeze_op(v, dims=(1,)), dim=1)


def _compare(zero: Any, i: Any, v: Any, dim: int) -> Any:
    """``v`` in the column ``i`` of each row along ``dim`` and 0 elsewhere; None where the first is
    not zeros, where a row has not one index, and where not all rows have. Added to 0, -0.0 is 0."""
    node, shape = zero.node, zero.__sf_shape__
    if node.op is not full or node.attrs["value"] != 0 or not shape:
        return None
    rows = (*shape[:dim], 1, *shape[dim + 1 :])
    if not all(same_shape(rows, t.__sf_shape__) for t in (i, v)):
        return None
    size = shape[dim]
    dtype = int32 if isinstance(size, int) and size < 2**31 else int64
    attrs = {"classes": size, "ignore_index": None, "dtype": dtype, "of": "scatter_add"}
    column = class_op(i, **attrs)
    each = iota.beside(zero, shape=shape, dim=dim, dtype=dtype)
    nothing = full.beside(v, shape=(), value=0, dtype=v.dtype)
    return where(each == column, v + nothing if v.dtype.is_floating else v, nothing)


ROW_INDICES: tuple[Rule, ...] = (
    rule(
        "one_of_each_row", "x[arange(n), i] = gather of x by i, in each of its n rows",
        lambda x, rows, i: index_op(x, rows, i, dims=(0, 1)), _gather,
    ),
    rule(
        "into_each_row", "x with v added at [arange(n), i] = scatter_add of v by i",
        lambda x, v, rows, i: index_put_op(x, v, rows, i, dims=(0, 1), accumulate=True), _scatter,
    ),
    rule(
        "one_in_each_row", "zeros with v added at i, one in each row = v where arange = i, else 0",
        lambda zero, i, v: scatter_add_op(zero, i, v, dim=attr("dim")), _compare,
    ),
)  # fmt: skip
"""Rules for an index of rows that are all of them."""
