"""Rules of products of matrices, and of attention."""

from __future__ import annotations

from typing import Any

from staticflow.ops.batching.general import align, write_out
from staticflow.ops.batching.row import Row, Rule
from staticflow.ops.matrices.contract import matmul

__all__ = ["attention_rule", "linear_rule", "product_rule"]


def product_rule(row: Row) -> Any:
    """One product of all rows where the second matrix is the same for all of them."""
    x, y = row.args
    if row.only(0) and row.ndim(1) == 2:
        return matmul(x, y)
    return align(row)


def linear_rule(row: Row) -> Any:
    """The rows are leading dims of the input where weight and bias are the same for all."""
    return row.op(*row.args) if row.only(0) else write_out(row)


def attention_rule(first: int) -> Rule:
    """The leading dims of the ``first`` arguments are equal; the others broadcast with them."""

    def rule(row: Row) -> Any:
        rank = row.ndim(0)
        extras = (row.align(i, rank) for i in range(first, len(row.values)))
        return row.op(*map(row.whole, range(first)), *extras, **row.attrs)

    return rule
