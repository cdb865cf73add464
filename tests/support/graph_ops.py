"""Small ops of every form that the graph layer has to deal with, for its own tests, and short ways
to build graphs of them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import float32, int64
from staticflow.graph.graph import Graph
from staticflow.graph.locs import Loc
from staticflow.graph.node import Literal, Node, constant, make_node
from staticflow.graph.op import Op
from staticflow.graph.parser import parse_graph
from staticflow.graph.types import Facts, TensorType

__all__ = ["OPS", "L", "M", "N", "constant_of", "f32", "node", "parsed"]

L, M, N = (Dim.of(Sym(name)) for name in "LMN")


def _op(name: str, infer: Any, reference: Any) -> Op:
    return Op(name=name, doc="", infer=infer, reference=reference, vjp=None)


def _matmul_type(facts: Facts, x: TensorType, y: TensorType) -> TensorType:
    facts.equal(x.shape[1], y.shape[0], "inner sizes")
    return TensorType(x.dtype, (x.shape[0], y.shape[1]))


def _halves_type(facts: Facts, x: TensorType) -> tuple[TensorType, ...]:
    half = TensorType(x.dtype, (x.shape[0] // 2, *x.shape[1:]))
    return half, half


def _pairs_type(facts: Facts, x: TensorType) -> TensorType:
    facts.equal(2 * (x.shape[0] // 2), x.shape[0], "an even size")
    return TensorType(x.dtype, (x.shape[0] // 2, 2))


def _repeat_type(facts: Facts, *types: TensorType, times: Any, body: Any) -> Any:
    if len(body.params) != len(types):
        raise ShapeError(f"the body takes {len(body.params)} values, not {len(types)}")
    return tuple(o.type for o in body.outputs)


def _repeat(xp: Any, *arrays: Any, times: int, body: Any) -> list[Any]:
    for _ in range(times):
        arrays = tuple(body(*arrays))
    return list(arrays)


def _steps_type(facts: Facts, x: TensorType, *, times: Size, body: Graph) -> TensorType:
    out = body.outputs[0].tensor_type
    return TensorType(out.dtype, (times, *out.shape))


def _steps(xp: Any, x: Any, *, times: int, body: Any) -> Any:
    (type,) = body.output_types
    out = xp.empty((times, *type.shape), type.dtype.numpy)
    for step in range(times):
        (x,) = (out[step],) = body(x)
    return out


def _choose(xp: Any, which: Any, *arrays: Any, branches: Any) -> Any:
    return branches[int(which)](*arrays)[0]


neg = _op("neg", lambda facts, x: x, lambda xp, x: -x)
add = _op(
    "add",
    lambda facts, x, y: TensorType(x.dtype, facts.broadcast([x.shape, y.shape])),
    lambda xp, x, y: x + y,
)
matmul = _op("matmul", _matmul_type, lambda xp, x, y: x @ y)
total = _op("total", lambda facts, x: TensorType(x.dtype, ()), lambda xp, x: x.sum(dtype=x.dtype))
halves = _op(
    "halves",
    _halves_type,
    lambda xp, x: (x[: len(x) // 2], x[len(x) // 2 : len(x) // 2 * 2]),
)
pairs = _op("pairs", _pairs_type, lambda xp, x: x.reshape(-1, 2))
fill = _op(
    "fill",
    lambda facts, *, shape, value, dtype: TensorType(dtype, shape),
    lambda xp, *, shape, value, dtype: xp.full(shape, value, dtype.numpy),
)
nonzero = _op(
    "nonzero",
    lambda facts, x, *, binds: TensorType(int64, binds),
    lambda xp, x, *, binds: xp.flatnonzero(x),
)
repeat = _op("repeat", _repeat_type, _repeat)
steps = _op("steps", _steps_type, _steps)
choose = _op("choose", lambda facts, which, *types, branches: types[0], _choose)
tagged = _op("tagged", lambda facts, x, **tags: x, lambda xp, x, **tags: x)
narrowed = _op(  # its reference does not keep what its rule says
    "narrowed", lambda facts, x: x, lambda xp, x: x.astype("float16")
)
OPS: dict[str, Op] = {
    op.name: op
    for op in (
        neg, add, matmul, total, halves, pairs, fill, nonzero, repeat, steps, choose, tagged,
        narrowed,
    )
}  # fmt: skip


def f32(*shape: Size) -> TensorType:
    """The type of a float32 tensor."""
    return TensorType(float32, shape)


def node(name: str, *args: Node, **attrs: Any) -> Node:
    """A node that belongs to the line of the caller."""
    caller = sys._getframe(1)
    return make_node(OPS[name], args, attrs, (Loc(caller.f_code, caller.f_lasti),))


def constant_of(array: Any) -> Node:
    """A constant."""
    value = Literal(np.asarray(array))
    return make_node(constant, (), {"value": value, "type": value.type})


def parsed(text: str) -> Graph:
    """The graph that a text of the ops here describes."""
    return parse_graph(text, OPS)
