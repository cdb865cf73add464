"""Tensors in other shapes, parts of tensors, and tensors made of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, fresh_sym, prod
from staticflow.graph.dtypes import int64
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.terms import Call, Sym, terms_of
from staticflow.onnx.rows.row import Row, out_dtype
from staticflow.onnx.writer import Value, Writer
from staticflow.ops import OPS

__all__ = ["VIEWS", "move", "reshape", "write_view"]

_FIRST = -(1 << 63)
"""Before the first position, for a slice that goes backwards."""


def reshape(w: Writer, x: Value, shape: Sequence[Size]) -> Value:
    """``x`` in another shape."""
    return w.apply("Reshape", x, w.shape(tuple(shape)), keep=(1,), allowzero=1)


def move(w: Writer, x: Value, dims: Sequence[int]) -> Value:
    """``x`` with its dims in this order."""
    if list(dims) == list(range(len(dims))):
        return x
    return w.apply("Transpose", x, perm=list(dims))


def _same(w: Writer, node: Node, x: Value, *_: Value) -> Value:
    return x


def _reshape(w: Writer, node: Node, x: Value) -> Value:
    return reshape(w, x, node.tensor_type.shape)


def _expand(w: Writer, node: Node, x: Value) -> Value:
    if any(d == 0 for d in node.tensor_type.shape):  # which runtimes do not make of a 1
        x = w.number(0, x.dtype)
    return w.apply("Expand", x, w.shape(node.tensor_type.shape), keep=(1,))


def _permute(w: Writer, node: Node, x: Value) -> Value:
    return w.apply("Transpose", x, perm=list(node.attrs["dims"]))


def _transpose(w: Writer, node: Node, x: Value) -> Value:
    order = list(range(node.tensor_type.ndim))
    if node.op.name == "t":
        order.reverse()
    else:
        a, b = node.attrs["dim0"], node.attrs["dim1"]
        order[a], order[b] = order[b], order[a]
    return w.apply("Transpose", x, perm=order)


def _squeeze(w: Writer, node: Node, x: Value) -> Value:
    kind = "Squeeze" if node.op.name == "squeeze" else "Unsqueeze"
    if kind == "Unsqueeze" or not node.attrs["dims"]:
        return reshape(w, x, node.tensor_type.shape)
    return w.apply(kind, x, w.ints(node.attrs["dims"]), keep=(1,))


def _select(w: Writer, node: Node, x: Value) -> Value:
    index = w.scalar(node.attrs["index"])
    return w.apply("Gather", x, index, keep=(1,), axis=node.attrs["dim"])


def _slice(w: Writer, node: Node, x: Value) -> Value:
    attrs, whole = node.attrs, node.args[0].tensor_type.shape
    parts = [
        (axis, a, a + s * by, by)
        for axis, (n, a, s, by) in enumerate(
            zip(whole, attrs["start"], attrs["size"], attrs["step"], strict=True)
        )
        if not (a == 0 and by == 1 and isinstance(s - n, int) and s - n == 0)
    ]
    if not parts:
        return x
    axes, starts, ends, steps = zip(*parts, strict=True)
    return w.apply(
        "Slice", x, w.shape(starts), w.shape(ends), w.ints(axes), w.ints(steps),
        keep=(1, 2, 3, 4),
    )  # fmt: skip


def _flip(w: Writer, node: Node, x: Value) -> Value:
    dims = node.attrs["dims"]
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    if not dims:
        return x
    count = len(dims)
    return w.apply(
        "Slice", x, w.ints([-1] * count), w.ints([_FIRST] * count), w.ints(dims),
        w.ints([-1] * count), keep=(1, 2, 3, 4),
    )  # fmt: skip


def _full(w: Writer, node: Node, *_: Value) -> Value:
    value, dtype = node.attrs["value"], out_dtype(node)
    shape = node.tensor_type.shape
    if isinstance(value, Dim):
        number = w.cast(w.scalar(value), dtype)
    else:
        with np.errstate(all="ignore"):
            number = w.number(value, dtype)
    if not shape:
        return number
    return w.apply("Expand", number, w.shape(shape), keep=(1,))


def ramp(w: Writer, size: Size) -> Value:
    """The numbers from 0 on, ``size`` of them, as int64."""
    if isinstance(size, int):
        return w.constant(np.arange(size, dtype=np.int64))
    return w.node("Range", w.number(0, int64), w.scalar(size), w.number(1, int64), dtype=int64)


def _iota(w: Writer, node: Node, *_: Value) -> Value:
    shape, dim = node.tensor_type.shape, node.attrs["dim"]
    numbers = w.cast(ramp(w, shape[dim]), out_dtype(node))
    if len(shape) == 1:
        return numbers
    ones = [shape[dim] if axis == dim else 1 for axis in range(len(shape))]
    found = reshape(w, numbers, ones)
    return w.apply("Expand", found, w.shape(shape), keep=(1,))


def _size(w: Writer, node: Node, *_: Value) -> Value:
    return w.cast(w.scalar(node.attrs["size"]), out_dtype(node))


def write_view(w: Writer, node: Node, x: Value) -> Value:
    """Any view: the elements that stand where its declaration says."""
    own, result = node.args[0].tensor_type.shape, node.tensor_type.shape
    index = [fresh_sym("i", n) for n in result]
    source = node.op.lowering.source(tuple(index), own, result, **node.attrs)
    at: Size = 0
    for i, n in zip(source, own, strict=True):
        at = at * n + i
    ramps = {}
    for axis, (i, n) in enumerate(zip(index, result, strict=True)):
        ones = [n if a == axis else 1 for a in range(len(result))]
        ramps[i] = reshape(w, ramp(w, n), ones)
    number = _evaluate(w, at, ramps)
    positions = w.apply("Expand", number, w.shape(result), keep=(1,)) if result else number
    flat = reshape(w, x, (prod(own),))
    if not result:
        positions = w.apply("Reshape", positions, w.ints([]))
    return w.apply("Gather", flat, positions, keep=(1,))


def _evaluate(w: Writer, size: Size, ramps: Any) -> Value:
    """An expression of sizes and of the positions along dims, which ``ramps`` are."""
    if not isinstance(size, Dim) or not any(_names(size, i) for i in ramps):
        return w.size(size)
    if size in ramps:
        found: Value = ramps[size]
        return found
    total: Value | None = None
    for monomial, c in terms_of(size):
        product: Value | None = w.ints([c]) if c != 1 or not monomial else None
        for atom in monomial:
            if isinstance(atom, Sym):
                factor = _evaluate(w, Dim.of(atom), ramps)
            else:
                factor = _call(w, atom, ramps)
            product = factor if product is None else w.apply("Mul", product, factor)
        assert product is not None
        total = product if total is None else w.apply("Add", total, product)
    assert total is not None
    return total


def _call(w: Writer, atom: Call, ramps: Any) -> Value:
    a, b = _evaluate(w, atom.a, ramps), _evaluate(w, atom.b, ramps)
    return w.call(atom.fn, a, b)


def _names(size: Dim, symbol: Dim) -> bool:
    return not symbols_of(size).isdisjoint(symbols_of(symbol))


VIEWS: dict[Op, Row] = {
    OPS["expand"]: _expand,
    OPS["flip"]: _flip,
    OPS["full"]: _full,
    OPS["iota"]: _iota,
    OPS["permute"]: _permute,
    OPS["required"]: _same,
    OPS["reshape"]: _reshape,
    OPS["select"]: _select,
    OPS["size"]: _size,
    OPS["slice"]: _slice,
    OPS["squeeze"]: _squeeze,
    OPS["t"]: _transpose,
    OPS["tied"]: _same,
    OPS["transpose"]: _transpose,
    OPS["unsqueeze"]: _squeeze,
}
"""Rows by op; a view that is not here is gathered from where its declaration says."""
