"""Functions of single elements that one operator is, or a few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from staticflow.graph.dtypes import DType, bool_, float32, float64
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.onnx.rows.row import Row, one_node, out_dtype
from staticflow.onnx.scalars import FUNCTIONS, trunc
from staticflow.onnx.writer import Value, Writer
from staticflow.ops import OPS

__all__ = ["ELEMENTWISE"]


def _same(w: Writer, node: Node, x: Value, *_: Value) -> Value:
    return x


def _cast(w: Writer, node: Node, x: Value) -> Value:
    return w.cast(x, out_dtype(node))


def _log1p(w: Writer, node: Node, x: Value) -> Value:
    # log(u) x / (u - 1) with u = 1 + x as it is rounding (Kahan); x where u is 1 or infinite
    wide = w.cast(x, _real(x))
    one = w.number(1, wide.dtype)
    u = w.apply("Add", wide, one)
    less = w.apply("Sub", u, one)
    exact = w.apply("Mul", w.apply("Log", u), w.apply("Div", wide, less))
    plain = w.apply("Or", w.apply("Equal", less, w.number(0, wide.dtype), dtype=bool_),
                    w.apply("Equal", u, w.number(np.inf, wide.dtype), dtype=bool_))  # fmt: skip
    return w.cast(w.apply("Where", plain, wide, exact, keep=(0,)), x.dtype)


def _expm1(w: Writer, node: Node, x: Value) -> Value:
    # tanh(x / 2) (e^x + 1)
    wide = w.cast(x, _real(x))
    half = w.apply("Tanh", w.apply("Mul", wide, w.number(0.5, wide.dtype)))
    sum = w.apply("Add", w.apply("Exp", wide), w.number(1, wide.dtype))
    return w.cast(w.apply("Mul", half, sum), x.dtype)


def _exp2(w: Writer, node: Node, x: Value) -> Value:
    wide = w.cast(x, _real(x))
    return w.cast(w.apply("Pow", w.number(2, wide.dtype), wide), x.dtype)


def _real(x: Value) -> DType:
    """The dtype in which functions of floats are computed."""
    return x.dtype if x.dtype is float64 else float32


def _where(w: Writer, node: Node, c: Value, x: Value, y: Value) -> Value:
    if x.dtype is bool_:
        taken = w.apply("And", c, x)
        return w.apply("Or", taken, w.apply("And", w.node("Not", c, dtype=bool_), y))
    return w.apply("Where", c, x, y, keep=(0,))


def _of_integers_itself(row: Row) -> Row:
    """A row of rounding, which leaves integers as they are."""

    def rounding(w: Writer, node: Node, x: Value) -> Any:
        return row(w, node, x) if x.dtype.is_floating else x

    return rounding


def _fmod(w: Writer, node: Node, x: Value, y: Value) -> Any:
    if not x.dtype.is_floating:
        return NotImplemented
    return w.apply("Mod", x, y, fmod=1)


def _floor_rest(w: Writer, x: Value, y: Value) -> tuple[Value, Value]:
    """What is left of floats with the sign of ``x``, and whether that is not the sign of ``y``."""
    rest = w.apply("Mod", x, y, fmod=1)
    signs = w.apply("Mul", w.apply("Sign", rest), w.apply("Sign", y))
    return rest, w.apply("Less", signs, w.number(0, x.dtype), dtype=bool_)


def _remainder(w: Writer, node: Node, x: Value, y: Value) -> Any:
    if not x.dtype.is_floating:
        return NotImplemented
    a, b = w.cast(x, _real(x)), w.cast(y, _real(x))
    rest, differ = _floor_rest(w, a, b)
    return w.cast(w.apply("Where", differ, w.apply("Add", rest, b), rest, keep=(0,)), x.dtype)


def _floor_divide(w: Writer, node: Node, x: Value, y: Value) -> Any:
    if not x.dtype.is_floating:
        return NotImplemented
    wide = _real(x)
    a, b = w.cast(x, wide), w.cast(y, wide)
    rest, differ = _floor_rest(w, a, b)
    towards_zero = w.apply("Round", w.apply("Div", w.apply("Sub", a, rest), b))
    whole = w.apply("Sub", towards_zero, w.cast(differ, wide))
    by_zero = w.apply("Equal", b, w.number(0, wide), dtype=bool_)
    return w.cast(w.apply("Where", by_zero, w.apply("Div", a, b), whole, keep=(0,)), x.dtype)


def _masked_fill(w: Writer, node: Node, mask: Value, value: Value, x: Value) -> Value:
    return _where(w, node, mask, value, x)


_KINDS: Mapping[str, str] = {
    "abs": "Abs", "add": "Add", "div": "Div", "mul": "Mul", "reciprocal": "Reciprocal",
    "relu": "Relu", "sqrt": "Sqrt", "sub": "Sub",
    **{name: name.title() for name in FUNCTIONS},
}  # fmt: skip

ELEMENTWISE: dict[Op, Row] = {
    **{OPS[name]: one_node(kind) for name, kind in _KINDS.items()},
    **{OPS[n]: _of_integers_itself(one_node(n.title())) for n in ("ceil", "floor", "round")},
    **{OPS[n]: _same for n in ("asserted", "clone", "contiguous", "stop_gradient")},
    OPS["cast"]: _cast,
    OPS["exp2"]: _exp2,
    OPS["expm1"]: _expm1,
    OPS["floor_divide"]: _floor_divide,
    OPS["fmod"]: _fmod,
    OPS["log1p"]: _log1p,
    OPS["masked_fill"]: _masked_fill,
    OPS["remainder"]: _remainder,
    OPS["trunc"]: _of_integers_itself(lambda w, node, x: trunc(w, x)),
    OPS["where"]: _where,
}
"""Rows by op; an elementwise op that is not here is written as its declaration says it."""
