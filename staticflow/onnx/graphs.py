"""From a graph to the nodes of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.codegen.builder import Loose
from staticflow.errors import SymbolicError
from staticflow.graph.dims import Dim
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, using
from staticflow.graph.node import Node, constant, item, toposort
from staticflow.graph.types import TensorType, types_of
from staticflow.onnx.scalars import NodeScalars
from staticflow.onnx.table import REGIONS, composition_of, row_of, way_of, why_refused
from staticflow.onnx.writer import Value, Writer
from staticflow.ops.declaring.late import behind
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["write_region"]

Results = list[Value]


def write_region(w: Writer, graph: Graph, values: Sequence[Value]) -> list[Value]:
    """Write the nodes of a graph whose params have these ``values``; its outputs."""
    known: dict[Node, Results] = {}
    for p, value in zip(graph.params, values, strict=True):
        known[p] = [value]
        w.learn(value, p.tensor_type)
    return _write(w, graph.outputs, known, graph.nodes[len(graph.params) :])


def _write(
    w: Writer, outputs: Sequence[Node], known: dict[Node, Results], nodes: Sequence[Node]
) -> list[Value]:
    for node in nodes:
        if node not in known:
            with w.of(node.op.name, node.locs):
                known[node] = _node(w, node, known)
    return [known[o][0] for o in outputs]


def _node(w: Writer, node: Node, known: Mapping[Node, Results]) -> Results:
    if node.op is item:
        return [known[node.args[0]][node.attrs["index"]]]
    if node.op is constant:
        return [w.constant(node.attrs["value"].array)]
    values = [known[a][0] for a in node.args]
    found = _results(w, node, values)
    for value, type in zip(found, types_of(node.type), strict=True):
        w.note(value, type)
    return found


def _results(w: Writer, node: Node, values: Sequence[Value]) -> Results:
    if node.op in REGIONS:
        return REGIONS[node.op](w, node, values, lambda g, vs: write_region(w, g, vs))
    if _is_empty(node):
        return [_empty(w, node.tensor_type)]
    row = row_of(node.op)
    if row is not None:
        found: Any = row(w, node, *values)
        if found is not NotImplemented:
            return found if isinstance(found, list) else [found]
    if isinstance(node.op.lowering, Elementwise) and way_of(node.op) != "refused":
        return [_by_element(w, node, values)]
    compose = composition_of(node.op)
    if compose is not None:
        return _write_composition(w, node, values, compose)
    raise SymbolicError(
        f"onnx.export: {node.op.name}({', '.join(str(a.type) for a in node.args)}) has no form in "
        f"ONNX: {why_refused(node.op)}; write it in other operations (docs/onnx.md lists all), or "
        "compute it outside of what is exported, at "
        f"{format_locs(node.locs)}"
    )


def _is_empty(node: Node) -> bool:
    """Whether a result has no elements, whatever the sizes are: only its shape is left to tell."""
    types = types_of(node.type)
    return "binds" not in node.attrs and len(types) == 1 and any(d == 0 for d in types[0].shape)


def _empty(w: Writer, type: TensorType) -> Value:
    return w.apply("Expand", w.number(0, type.dtype), w.shape(type.shape), keep=(1,))


def _by_element(w: Writer, node: Node, values: Sequence[Value]) -> Value:
    """What the op computes of one element, of all."""
    k = NodeScalars(w, node.op.name)
    attrs = {name: _loose(w, k, v) for name, v in node.attrs.items()}
    operands = [k.register(v) for v in values]
    with np.errstate(all="ignore"):
        found = k.value(node.op.lowering.emit(k, *operands, **attrs))
    found = w.cast(found, node.tensor_type.dtype)
    return found


def _loose(w: Writer, k: NodeScalars, value: Any) -> Any:
    """A size among attributes, as a number that the run knows."""
    return Loose(k.register(w.scalar(value))) if isinstance(value, Dim) else value


def _write_composition(
    w: Writer, node: Node, values: Sequence[Value], compose: Callable[..., Any]
) -> Results:
    """The ops that an op is composed of."""
    with using(node.locs), behind(node.args):
        result = compose(*(Symbol(a) for a in node.args), **node.attrs)
    parts = [r.node for r in result] if isinstance(node.type, tuple) else [result.node]
    known = {a: [v] for a, v in zip(node.args, values, strict=True)}
    return _write(w, parts, known, toposort(parts, known=known))
