"""Reductions, and what goes along one dim: running values, order, softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.onnx.rows.row import Row, out_dtype
from staticflow.onnx.types import computed_in
from staticflow.onnx.writer import Value, Writer
from staticflow.ops import OPS

__all__ = ["ALONG", "COMBINED"]

COMBINED = {
    "add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin",
}  # fmt: skip
"""What elements are combined by, and the operator that does it."""


def _dims(node: Node) -> Sequence[int]:
    dims = node.attrs["dims"]
    if dims is None:
        return tuple(range(node.args[0].tensor_type.ndim))
    return (dims,) if isinstance(dims, int) else tuple(dims)


def write_reduction(w: Writer, node: Node, x: Value) -> Value:
    """Any reduction, by what it combines with."""
    combine = node.op.lowering.combine
    if combine not in ("and", "or"):
        return _reduce(w, node, x, COMBINED[combine])
    # counted, since no runtime has the extremes of no bools
    hit = w.cast(x, bool_)
    hit = w.node("Not", hit, dtype=bool_) if combine == "and" else hit
    count = w.node(
        "ReduceSum", w.cast(hit, int64), w.ints(_dims(node)), dtype=int64,
        keepdims=int(node.attrs["keepdim"]), noop_with_empty_axes=1,
    )  # fmt: skip
    kind = "Equal" if combine == "and" else "Greater"
    return w.apply(kind, count, w.number(0, int64), dtype=bool_)


def _reduce(w: Writer, node: Node, x: Value, kind: str) -> Value:
    dims = _dims(node)
    keep = int(node.attrs["keepdim"])
    found = w.apply(
        kind, x, w.ints(dims), keep=(1,), keepdims=keep, noop_with_empty_axes=1,
    )  # fmt: skip
    return w.cast(found, out_dtype(node))


def _mean(w: Writer, node: Node, x: Value) -> Any:
    sizes = [node.args[0].tensor_type.shape[d] for d in _dims(node)]
    if not all(isinstance(n, int) and n for n in sizes):
        return NotImplemented  # of nothing it is NaN, which the operator does not say
    return _reduce(w, node, x, "ReduceMean")


def _softmax(kind: str) -> Row:
    def row(w: Writer, node: Node, x: Value) -> Value:
        return w.apply(kind, x, axis=node.attrs["dim"])

    return row


def _running(w: Writer, node: Node, x: Value) -> Value:
    kind = "CumSum" if node.op.name == "cumsum" else "CumProd"
    dim = w.number(node.attrs["dim"], int64)
    return w.apply(kind, x, dim, keep=(1,), reverse=int(node.attrs["reverse"]))


def _sort(w: Writer, node: Node, x: Value) -> list[Value]:
    dim = node.attrs["dim"]
    size = node.args[0].tensor_type.shape[dim]
    return _top(w, x, w.size(size), dim, node.attrs["descending"])


def _topk(w: Writer, node: Node, x: Value) -> list[Value]:
    attrs = node.attrs
    return _top(w, x, w.size(attrs["k"]), attrs["dim"], attrs["largest"])


def _top(w: Writer, x: Value, count: Value, dim: int, largest: bool) -> list[Value]:
    wide = w.cast(x, computed_in("TopK", x.dtype))
    values, places = w.several(
        "TopK", (wide, count), (wide.dtype, int64), axis=dim, largest=int(largest), sorted=1
    )
    return [w.cast(values, x.dtype), places]


ALONG: dict[Op, Row] = {
    OPS["mean"]: _mean,
    OPS["softmax"]: _softmax("Softmax"),
    OPS["log_softmax"]: _softmax("LogSoftmax"),
    OPS["cumsum"]: _running,
    OPS["cumprod"]: _running,
    OPS["sort"]: _sort,
    OPS["topk"]: _topk,
    OPS["top_few"]: _topk,
}
"""Rows by op; a reduction that is not here is written by what it combines with."""
