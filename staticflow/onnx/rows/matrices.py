"""Products of matrices, and matrices of which a part is kept."""

from __future__ import annotations

from staticflow.graph.dtypes import int64
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.onnx.rows.row import Row, one_node
from staticflow.onnx.writer import Value, Writer
from staticflow.ops import OPS

__all__ = ["MATRICES"]


def _linear(w: Writer, node: Node, x: Value, weight: Value, bias: Value) -> Value:
    if node.args[0].tensor_type.ndim == 2 and x.dtype.is_floating:
        return w.apply("Gemm", x, weight, bias, transB=1)
    columns = w.apply("Transpose", weight, perm=[1, 0])
    return w.apply("Add", w.apply("MatMul", x, columns), bias)


def _part(w: Writer, node: Node, x: Value) -> Value:
    upper = int(node.op.name == "triu")
    by = w.number(node.attrs["diagonal"], int64)
    return w.apply("Trilu", x, by, keep=(1,), upper=upper)


MATRICES: dict[Op, Row] = {
    OPS["linear"]: _linear,
    OPS["matmul"]: one_node("MatMul"),
    OPS["tril"]: _part,
    OPS["triu"]: _part,
}
"""Rows by op."""
