"""Convolutions and pooling."""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import float64, int32, int64
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.onnx.rows.row import Row
from staticflow.onnx.rows.views import reshape
from staticflow.onnx.types import computed_in
from staticflow.onnx.writer import Value, Writer
from staticflow.ops import OPS

__all__ = ["WINDOWS"]


def _convolution(w: Writer, node: Node, x: Value, kernel: Value, *bias: Value) -> Any:
    shapes = node.args[0].tensor_type.shape, node.args[1].tensor_type.shape
    if not x.dtype.is_floating or not _is_known(shapes):
        return NotImplemented
    attrs = node.attrs
    return w.apply(
        "Conv", x, kernel, *bias, strides=list(attrs["stride"]), dilations=list(attrs["dilation"]),
        pads=[*attrs["padding"], *attrs["padding"]], group=attrs["groups"],
    )  # fmt: skip


def _is_known(shapes: tuple[tuple[Size, ...], ...]) -> bool:
    """Whether a convolution has something to sum and to give, which runtimes ask for."""
    return all(d != 0 for shape in shapes for d in shape)


def _correlate(w: Writer, node: Node, x: Value, kernel: Value) -> Any:
    shapes = node.args[0].tensor_type.shape, node.args[1].tensor_type.shape
    if not x.dtype.is_floating or not _is_known(shapes):
        return NotImplemented
    attrs = node.attrs
    return w.apply(
        "Conv", x, kernel, strides=list(attrs["stride"]), dilations=list(attrs["dilation"]),
        group=attrs["groups"],
    )  # fmt: skip


def _convolution_transpose(w: Writer, node: Node, y: Value, kernel: Value, *bias: Value) -> Any:
    attrs, own = node.attrs, node.args[0].tensor_type.shape
    sizes = node.args[1].tensor_type.shape
    if not y.dtype.is_floating or not _is_known((own, sizes, node.tensor_type.shape)):
        return NotImplemented
    more = []
    each = zip(own[2:], sizes[2:], attrs["size"], attrs["stride"], attrs["padding"],
               attrs["dilation"], strict=True)  # fmt: skip
    for n, k, size, s, p, d in each:
        rest = size - ((n - 1) * s + (k - 1) * d + 1 - 2 * p)
        if not isinstance(rest, int) or not 0 <= rest < max(s, d):
            return NotImplemented
        more.append(rest)
    return w.apply(
        "ConvTranspose", y, kernel, *bias, strides=list(attrs["stride"]), output_padding=more,
        dilations=list(attrs["dilation"]), pads=[*attrs["padding"], *attrs["padding"]],
        group=attrs["groups"],
    )  # fmt: skip


def _pool_maxima(w: Writer, node: Node, x: Value) -> tuple[Value, list[Value]] | None:
    """The operand and the results of MaxPool; None for numbers that no float holds."""
    attrs, shape = node.attrs, node.args[0].tensor_type.shape
    if x.dtype is int64 or not _is_known((shape,)):
        return None
    wide = w.cast(x, computed_in("MaxPool", x.dtype))
    wide = w.cast(wide, float64) if wide.dtype is int32 else wide
    return wide, w.several(
        "MaxPool", (wide,), (wide.dtype, int64), kernel_shape=list(attrs["kernel"]),
        strides=list(attrs["stride"]), pads=[*attrs["padding"], *attrs["padding"]],
        dilations=list(attrs["dilation"]), ceil_mode=int(attrs["ceil"]),
    )  # fmt: skip


def _max_pool(w: Writer, node: Node, x: Value) -> Any:
    found = _pool_maxima(w, node, x)
    return NotImplemented if found is None else w.cast(found[1][0], x.dtype)


def _max_pool_index(w: Writer, node: Node, x: Value) -> Any:
    found = _pool_maxima(w, node, x)
    if found is None:
        return NotImplemented
    plane = w.size(prod(node.args[0].tensor_type.shape[2:]))
    return w.apply("Mod", found[1][1], plane)  # counted through all planes by the operator


def _flat(w: Writer, x: Value, shape: tuple[Size, ...]) -> Value:
    """(N, C, ...) as (N, C, P)."""
    return reshape(w, x, (*shape[:2], prod(shape[2:])))


def _place_gather(w: Writer, node: Node, x: Value, index: Value) -> Value:
    x, index = (
        _flat(w, v, a.tensor_type.shape) for v, a in zip((x, index), node.args, strict=True)
    )
    found = w.apply("GatherElements", x, index, keep=(1,), axis=2)
    return reshape(w, found, node.tensor_type.shape)


def _border(w: Writer, node: Node, x: Value) -> Any:
    attrs, lead = node.attrs, node.tensor_type.ndim - len(node.attrs["before"])
    if not _is_known((node.args[0].tensor_type.shape,)):
        return NotImplemented
    mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[attrs["mode"]]
    zeros = (0,) * lead
    pads = w.shape((*zeros, *attrs["before"], *zeros, *attrs["after"]))
    return w.apply("Pad", x, pads, keep=(1,), mode=mode)


def _adaptive_avg_pool(w: Writer, node: Node, x: Value) -> Any:
    shape, sizes = node.args[0].tensor_type.shape, node.attrs["size"]
    if not x.dtype.is_floating or not _is_known((shape, sizes)):
        return NotImplemented
    if all(n == 1 for n in sizes):
        return w.apply("GlobalAveragePool", x)
    if not all(isinstance(n, int) and n % m == 0 for n, m in zip(shape[2:], sizes, strict=True)):
        return NotImplemented
    windows = [int(n // m) for n, m in zip(shape[2:], sizes, strict=True)]
    return w.apply("AveragePool", x, kernel_shape=windows, strides=windows)


def _avg_pool(w: Writer, node: Node, x: Value) -> Any:
    attrs = node.attrs
    known = _is_known((node.args[0].tensor_type.shape,))
    if not (x.dtype.is_floating and known and attrs["divisor"] is None) or attrs["ceil"]:
        return NotImplemented
    return w.apply(
        "AveragePool", x, kernel_shape=list(attrs["kernel"]), strides=list(attrs["stride"]),
        pads=[*attrs["padding"], *attrs["padding"]], count_include_pad=int(attrs["include_pad"]),
    )  # fmt: skip


WINDOWS: dict[Op, Row] = {
    OPS["adaptive_avg_pool"]: _adaptive_avg_pool,
    OPS["avg_pool"]: _avg_pool,
    OPS["border"]: _border,
    OPS["convolution"]: _convolution,
    OPS["convolution_transpose"]: _convolution_transpose,
    OPS["correlate"]: _correlate,
    OPS["max_pool"]: _max_pool,
    OPS["max_pool_index"]: _max_pool_index,
    OPS["place_gather"]: _place_gather,
}
"""Rows by op; NotImplemented where an operator of ONNX has another meaning."""
