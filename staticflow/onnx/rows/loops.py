"""Loops and branches: Scan, Loop and If."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.onnx.rows.views import ramp, reshape
from staticflow.onnx.writer import Value, Writer
from staticflow.ops.loops.loop import Loop

__all__ = ["WriteGraph", "write_cond", "write_scan", "write_while"]

WriteGraph: TypeAlias = Callable[[Graph, Sequence[Value]], list[Value]]
"""Writes the nodes of a region whose params have these values, and gives its outputs."""


def write_cond(w: Writer, node: Node, values: Sequence[Value], write: WriteGraph) -> list[Value]:
    """A branch, whose graphs see what they take around them."""
    pred, *args = values
    branches: Mapping[str, Graph] = {
        "then_branch": node.attrs["true"], "else_branch": node.attrs["false"],
    }  # fmt: skip
    graphs = {}
    for name, region in branches.items():
        with w.inner():
            outs = w.results(write(region, args))
            infos = [w.info(v, o.tensor_type) for v, o in zip(outs, region.outputs, strict=True)]
            graphs[name] = w.graph(w.name(name), [], infos)
    dtypes = [o.tensor_type.dtype for o in node.attrs["true"].outputs]
    return w.several("If", (pred,), dtypes, **graphs)


def _param(w: Writer, name: str, type: TensorType) -> tuple[Value, Any]:
    value = Value(w.name(name), type.dtype)
    return value, w.info(value, type)


def write_scan(w: Writer, node: Node, values: Sequence[Value], write: WriteGraph) -> list[Value]:
    """A loop whose number of iterations is known before it."""
    loop = Loop.of(node)
    carries, xs, captured = loop.operands(values)
    body = loop.body
    first, rows, _ = loop.operands(body.params)
    own = loop.operands(node.args)[1]
    xs = [_rows(w, loop, x, a.tensor_type) for x, a in zip(xs, own, strict=True)]
    with w.inner():
        given = [_param(w, p.attrs["name"], p.tensor_type) for p in (*first, *rows)]
        inputs = [info for _, info in given]
        if not rows:  # which Scan asks for
            inputs.append(_param(w, "iteration", TensorType(int64, ()))[1])
        outs = w.results(write(body, [*(v for v, _ in given), *captured]))
        infos = [w.info(v, o.tensor_type) for v, o in zip(outs, body.outputs, strict=True)]
        graph = w.graph(w.name("body"), inputs, infos)
    if not rows:
        assert loop.length is not None
        xs = [ramp(w, loop.length)]
    ways = {"scan_input_directions": [int(loop.reverse)] * len(xs)}
    if len(body.outputs) > loop.carries:
        ways["scan_output_directions"] = [int(loop.reverse)] * (len(body.outputs) - loop.carries)
    return w.several(
        "Scan", (*carries, *xs), [v.dtype for v in outs], body=graph, num_scan_inputs=len(xs),
        **ways,
    )  # fmt: skip


def _rows(w: Writer, loop: Loop, x: Value, type: TensorType) -> Value:
    """The first rows of ``x``, as many as there are iterations."""
    length, own = loop.length, type.shape[0]
    assert length is not None
    if isinstance(own - length, int) and own - length == 0:
        return x
    return w.apply("Slice", x, w.ints([0]), w.size(length), w.ints([0]), keep=(1, 2, 3))


def write_while(w: Writer, node: Node, values: Sequence[Value], write: WriteGraph) -> list[Value]:
    """A loop that asks its first carry before each iteration, with a count of them."""
    loop = Loop.of(node)
    carries, xs, captured = loop.operands(values)
    body = loop.body
    first, rows, _ = loop.operands(body.params)
    with w.inner():
        number, number_info = _param(w, "iteration", TensorType(int64, ()))
        _, flag_info = _param(w, "go_on", TensorType(bool_, ()))
        _, count_info = _param(w, "count", TensorType(int64, ()))
        given = [_param(w, p.attrs["name"], p.tensor_type) for p in first]
        here = [w.apply("Gather", x, number, keep=(1,), axis=0) for x in xs]
        for value, p in zip(here, rows, strict=True):
            w.note(value, p.tensor_type)
        outs = write(body, [*(v for v, _ in given), *here, *captured])
        count = w.apply("Add", number, w.number(1, int64))
        types = [TensorType(bool_, ()), TensorType(int64, ())]
        types += [o.tensor_type for o in body.outputs]
        outs = w.results([outs[0], count, *outs])
        infos = [w.info(v, t) for v, t in zip(outs, types, strict=True)]
        inputs = [number_info, flag_info, count_info, *(info for _, info in given)]
        graph = w.graph(w.name("body"), inputs, infos)
    most = None if loop.length is None else w.scalar(loop.length)
    found = w.several(
        "Loop", (most, carries[0], w.number(0, int64), *carries), [v.dtype for v in outs[1:]],
        body=graph,
    )  # fmt: skip
    w.bind(loop.binds[0], found[0])
    return [reshape(w, y, t.shape) if i >= loop.carries else y
            for i, (y, t) in enumerate(zip(found[1:], node.type, strict=True))]  # type: ignore[arg-type] # fmt: skip
