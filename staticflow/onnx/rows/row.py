"""The form of a row: which nodes of ONNX an op is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from staticflow.graph.dtypes import DType
from staticflow.graph.node import Node
from staticflow.onnx.writer import Value

__all__ = ["Row", "one_node", "out_dtype"]

Row: TypeAlias = Callable[..., Any]
"""``row(w, node, *values)`` writes by the writer ``w`` what ``node`` is, whose arguments are the
``values``, and gives its result, or a list of them; NotImplemented where it says another thing."""


def out_dtype(node: Node) -> DType:
    """The dtype of the one result of a node."""
    return node.tensor_type.dtype


def one_node(kind: str, result: DType | None = None) -> Row:
    """The row of an op that one operator without attributes is, whose result has the dtype of the
    operands, or ``result``."""

    def row(w: Any, node: Node, *values: Value) -> Value:
        found: Value = w.apply(kind, *values, dtype=result)
        return found

    return row
