"""Elements chosen by tensors of indices and by masks, and tensors joined or put into others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import bool_, float32, int64, uint8
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Facts
from staticflow.onnx.rows.row import Row, out_dtype
from staticflow.onnx.rows.views import move, ramp, reshape
from staticflow.onnx.writer import Value, Writer
from staticflow.ops import OPS
from staticflow.ops.indexing.index_ops import Frame

__all__ = ["INDEXING"]


def _cat(w: Writer, node: Node, *xs: Value) -> Value:
    return w.apply("Concat", *xs, axis=node.attrs["dim"])


def _frame(node: Node, first: int) -> Frame:
    shapes = [a.tensor_type.shape for a in node.args[first:]]
    return Frame(node.args[0].tensor_type.shape, node.attrs["dims"], Facts().broadcast(shapes))


def _positions(w: Writer, frame: Frame, indices: Sequence[Value]) -> Value:
    """Indices, one for each dim, as the rows of one tensor."""
    shape = w.shape(frame.batch)
    rows = []
    for index in indices:
        wide = w.cast(index, int64)
        full = w.apply("Expand", wide, shape, keep=(1,)) if len(indices) > 1 else wide
        rows.append(reshape(w, full, (*frame.batch, 1)))
    return rows[0] if len(rows) == 1 else w.apply("Concat", *rows, axis=len(frame.batch))


def _order_in_front(frame: Frame) -> list[int]:
    """The order of dims in which those that are indexed come first."""
    ndim = len(frame.dims) + len(frame.head) + len(frame.tail)
    return [*frame.dims, *(d for d in range(ndim) if d not in frame.dims)]


def _inverse(order: Sequence[int]) -> list[int]:
    return [list(order).index(i) for i in range(len(order))]


def _behind(frame: Frame) -> list[int]:
    """The order in which the dims of indices, which come first, go where they belong."""
    batch, head = len(frame.batch), len(frame.head)
    ndim = batch + head + len(frame.tail)
    return [*range(batch, batch + head), *range(batch), *range(batch + head, ndim)]


def _pick(w: Writer, node: Node, x: Value, *indices: Value) -> Value:
    if len(indices) == 1:
        index = w.cast(indices[0], int64)
        return w.apply("Gather", x, index, keep=(1,), axis=node.attrs["dims"][0])
    frame = _frame(node, 1)
    at = _positions(w, frame, indices)
    found = w.apply("GatherND", move(w, x, _order_in_front(frame)), at, keep=(1,))
    return move(w, found, _behind(frame))


def _put(w: Writer, node: Node, x: Value, values: Value, *indices: Value) -> Value:
    frame = _frame(node, 2)
    at = _positions(w, frame, indices)
    order = _order_in_front(frame)
    reduction = "add" if node.attrs["accumulate"] else "none"
    src = move(w, values, _inverse(_behind(frame)))
    found = _put_or_combine(w, "ScatterND", move(w, x, order), at, src, reduction)
    return move(w, found, _inverse(order))


def _gather(w: Writer, node: Node, x: Value, index: Value) -> Value:
    index = w.cast(index, int64)
    cut = _cut(w, x, node.args[0].tensor_type.shape, node.args[1].tensor_type.shape, node.attrs)
    return w.apply("GatherElements", cut, index, keep=(1,), axis=node.attrs["dim"])


def _cut(w: Writer, x: Value, own: Any, wanted: Any, attrs: Any) -> Value:
    """``x`` as long as an index in all dims but that along which it indexes."""
    axes = [
        a for a, (n, m) in enumerate(zip(own, wanted, strict=True))
        if a != attrs.get("dim") and not (isinstance(n - m, int) and n - m == 0)
    ]  # fmt: skip
    if not axes:
        return x
    ends = w.shape(tuple(wanted[a] for a in axes))
    return w.apply("Slice", x, w.ints([0] * len(axes)), ends, w.ints(axes), keep=(1, 2, 3))


def _scatter(w: Writer, node: Node, x: Value, index: Value, src: Value) -> Any:
    reduction = "add" if node.op.name == "scatter_add" else "none"
    own, wanted = node.args[2].tensor_type.shape, node.args[1].tensor_type.shape
    src = _cut(w, src, own, wanted, {})
    at, dim = w.cast(index, int64), node.attrs["dim"]
    return _put_or_combine(w, "ScatterElements", x, at, src, reduction, axis=dim)


def _put_or_combine(
    w: Writer, kind: str, x: Value, at: Value, src: Value, reduction: str, **attrs: Any
) -> Value:
    """Elements put or combined; floats of 16 bits are combined in 32, as all runtimes do."""
    wide = x.dtype
    if reduction != "none" and wide.is_floating and wide.bits == 16:
        wide = float32
    found = w.node(
        kind, w.cast(x, wide), at, w.cast(src, wide), dtype=wide, reduction=reduction, **attrs
    )
    return w.cast(found, x.dtype)


def _put_at_steps(w: Writer, x: Value, start: Sequence[Size], step: Sequence[int], shape: Any,
             src: Value, sizes: Any) -> Value:  # fmt: skip
    """``x`` of ``shape``, with ``src`` of ``sizes`` from ``start`` on at every ``step``-th."""
    at: Value | None = None
    for axis, (a, by, n) in enumerate(zip(start, step, sizes, strict=True)):
        own = w.apply("Add", w.apply("Mul", ramp(w, n), w.ints([by])), w.size(a))
        ones = [n if i == axis else 1 for i in range(len(shape))]
        behind = 1
        for d in shape[axis + 1 :]:
            behind = behind * d
        own = w.apply("Mul", reshape(w, own, ones), w.size(behind))
        at = own if at is None else w.apply("Add", at, own)
    if at is None:
        return src
    places = reshape(w, w.apply("Expand", at, w.shape(tuple(sizes)), keep=(1,)), (-1,))
    flat, given = (reshape(w, v, (-1,)) for v in (x, src))
    found = w.apply("ScatterElements", flat, places, given, keep=(1,), axis=0)
    return reshape(w, found, shape)


def _embed(w: Writer, node: Node, x: Value) -> Any:
    shape, attrs = node.tensor_type.shape, node.attrs
    zeros = w.apply("Expand", w.number(0, out_dtype(node)), w.shape(shape), keep=(1,))
    sizes = node.args[0].tensor_type.shape
    if any(s == 0 for s in shape):
        return zeros
    return _put_at_steps(w, zeros, attrs["start"], attrs["step"], shape, x, sizes)


def _slice_scatter(w: Writer, node: Node, x: Value, src: Value) -> Value:
    shape, attrs = node.tensor_type.shape, node.attrs
    sizes = node.args[1].tensor_type.shape
    return _put_at_steps(w, x, attrs["start"], attrs["step"], shape, src, sizes)


def _first_rows(w: Writer, node: Node, x: Value, rows: Value) -> Value:
    count = w.node("Shape", rows, dtype=int64, start=0, end=1)
    return w.apply("Slice", x, w.ints([0]), count, w.ints([0]), keep=(1, 2, 3))


def _unprefix(w: Writer, node: Node, x: Value, rows: Value) -> Value:
    shape, own = node.tensor_type.shape, node.args[0].tensor_type.shape
    rest = (shape[0] - own[0], *shape[1:])
    zeros = w.apply("Expand", w.number(0, x.dtype), w.shape(rest), keep=(1,))
    return w.apply("Concat", x, zeros, axis=0)


def _measure(w: Writer, node: Node, count: Value) -> Value:
    number = w.apply("Reshape", count, w.ints([1]))
    w.bind(node.attrs["binds"][0], count)
    shape = w.node("Concat", number, w.ints([0]), dtype=int64, axis=0)
    return w.apply("Expand", w.number(False, bool_), shape, keep=(1,))


_REDUCTIONS = {"prod": "mul", "amax": "max", "amin": "min", "sum": "add"}


def _scatter_reduce(w: Writer, node: Node, x: Value, index: Value, src: Value, *_: Value) -> Any:
    reduce = node.attrs["reduce"]
    if reduce not in _REDUCTIONS or len(node.args) > 3:
        return NotImplemented
    own, wanted = node.args[2].tensor_type.shape, node.args[1].tensor_type.shape
    at, dim = w.cast(index, int64), node.attrs["dim"]
    src = _cut(w, src, own, wanted, {})
    return _put_or_combine(w, "ScatterElements", x, at, src, _REDUCTIONS[reduce], axis=dim)


def _masked_scatter(w: Writer, node: Node, x: Value, mask: Value, src: Value) -> Any:
    if node.args[2].tensor_type.shape[0] == 0:
        return x
    flat = w.cast(reshape(w, mask, (-1,)), int64)
    count = w.apply("CumSum", flat, w.number(0, int64), keep=(1,))
    at = w.apply("Max", w.apply("Sub", count, w.number(1, int64)), w.number(0, int64))
    found = reshape(w, w.apply("Gather", src, at, keep=(1,)), node.tensor_type.shape)
    if x.dtype is bool_:
        wide = w.apply("Where", mask, w.cast(found, uint8), w.cast(x, uint8), keep=(0,))
        return w.cast(wide, bool_)
    return w.apply("Where", mask, found, x, keep=(0,))


def _masked_take(w: Writer, node: Node, x: Value, mask: Value) -> Value:
    """The elements behind which zeros stand that a mask which is true chooses, too."""
    size = w.size(node.attrs["size"])
    zeros, ones = (
        w.apply("Expand", w.number(v, v_of), size, keep=(1,))
        for v, v_of in ((0, x.dtype), (True, bool_))
    )
    flat = w.apply("Concat", reshape(w, x, (-1,)), zeros, axis=0)
    chosen = w.apply("Concat", reshape(w, mask, (-1,)), ones, axis=0)
    found = w.apply("Compress", flat, chosen, keep=(1,), axis=0)
    return w.apply("Slice", found, w.ints([0]), size, w.ints([0]), keep=(1, 2, 3))


INDEXING: dict[Op, Row] = {
    **dict.fromkeys((OPS[n] for n in ("embedding", "index", "index_select", "take")), _pick),
    **dict.fromkeys((OPS[n] for n in ("index_add", "index_copy", "index_put")), _put),
    OPS["cat"]: _cat,
    OPS["embed"]: _embed,
    OPS["gather"]: _gather,
    OPS["measure"]: _measure,
    OPS["prefix"]: _first_rows,
    OPS["scatter"]: _scatter,
    OPS["masked_scatter"]: _masked_scatter,
    OPS["masked_take"]: _masked_take,
    OPS["scatter_add"]: _scatter,
    OPS["scatter_reduce"]: _scatter_reduce,
    OPS["slice_scatter"]: _slice_scatter,
    OPS["unprefix"]: _unprefix,
}
"""Rows by op."""
