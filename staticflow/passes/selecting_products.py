"""Rules of products with a matrix of zeros but for one number in each row.

A diagonal matrix scales, a one-hot one picks rows, and its transpose adds into rows. The zeros of
such a matrix meet infinite values and NaN in the product, which makes them NaN everywhere, and not
in what it becomes here.
"""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import same, same_shape
from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.view import reshape, reshape_op, unsqueeze
from staticflow.ops.indexing.gather_ops import scatter_add_op
from staticflow.ops.indexing.index_ops import embedding_op
from staticflow.ops.indexing.scatter_ops import scatter_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.matrices.triangle import diag_embed_op
from staticflow.ops.symbols.pattern import Rule, number_of, rule
from staticflow.ops.symbols.symbol import STATIC, Symbol

__all__ = ["SELECTING"]


def _diagonal(x: Any) -> Any:
    """The diagonal of matrices that are 0 elsewhere; None for others."""
    node: Node = x.node
    rank = x.ndim
    if node.op is permute_op and node.attrs["dims"] == (*range(rank - 2), rank - 1, rank - 2):
        node = node.args[0]
    if node.op is not diag_embed_op or node.attrs["offset"] != 0:
        return None
    planes = {node.attrs["dim1"], node.attrs["dim2"]}
    square = same(*node.tensor_type.shape[-2:])
    return Symbol(node.args[0]) if square and planes == {rank - 2, rank - 1} else None


def _scale_rows(x: Any, y: Any) -> Any:
    w = _diagonal(x)
    return None if w is None else unsqueeze(w, -1) * y


def _scale_columns(x: Any, y: Any) -> Any:
    w = _diagonal(y)
    return None if w is None else x * unsqueeze(w, -2)


def _classes(node: Node) -> Any:
    """The column of each row of a matrix in which it has a 1 among zeros; None for others."""
    while node.op in (reshape_op, cast):
        before, after = node.args[0].tensor_type.shape, node.tensor_type.shape
        if not before or not same_shape(before[-1:], after[-1:]):
            return None
        node = node.args[0]
    if node.op is not scatter_op or node.attrs["dim"] != node.tensor_type.ndim - 1:
        return None
    empty, column, ones = node.args
    single = same_shape(column.tensor_type.shape, (*node.tensor_type.shape[:-1], 1))
    if number_of(empty) != 0 or number_of(ones) != 1 or not single:
        return None
    return Symbol(column)


def _pick_rows(x: Any, y: Any) -> Any:
    at = _classes(x.node) if y.ndim == 2 else None
    if at is None:
        return None
    return embedding_op(y, reshape(at, x.__sf_shape__[:-1]), dims=(0,), padding_idx=None)


def _add_rows(x: Any, y: Any) -> Any:
    turned = x.ndim == 2 and y.ndim == 2 and x.node.op is permute_op
    at = _classes(x.node.args[0]) if turned and x.node.attrs["dims"] == (1, 0) else None
    if at is None:
        return None
    shape = (x.__sf_shape__[0], y.__sf_shape__[1])
    zeros = STATIC.apply(full, (), {"shape": shape, "value": 0.0, "dtype": y.dtype})
    where = expand(reshape(at, (x.__sf_shape__[1], 1)), y.__sf_shape__)
    return scatter_add_op(zeros, where, y, dim=0)


SELECTING: tuple[Rule, ...] = (
    rule(
        "diagonal_times", "diag(w) x = w x, each row by its number",
        lambda x, y: matmul_op(x, y), _scale_rows,
    ),
    rule(
        "times_diagonal", "x diag(w) = x w, each column by its number",
        lambda x, y: matmul_op(x, y), _scale_columns,
    ),
    rule(
        "one_hot_times", "one_hot(i) x = x[i]", lambda x, y: matmul_op(x, y), _pick_rows,
    ),
    rule(
        "turned_one_hot_times", "one_hot(i).T x = 0 with the rows of x added at i",
        lambda x, y: matmul_op(x, y), _add_rows,
    ),
)  # fmt: skip
"""Rules that are wrong where what is not selected is infinite or NaN."""
