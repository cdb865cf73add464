"""From a graph to its drawing: nodes as they are, regions as groups."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from staticflow.drawing.costs import Costs
from staticflow.drawing.model import Drawing, DrawnEdge, DrawnNode
from staticflow.graph.graph import Graph
from staticflow.graph.locs import Locs
from staticflow.graph.node import Literal, Node, constant, item, param
from staticflow.graph.op import Op
from staticflow.graph.printer import ATTR_CLASSES, value_names
from staticflow.graph.types import Type, types_of
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import loop_ops
from staticflow.passes.cluster import cluster

__all__ = ["GraphDrawer", "attrs_text", "draw_graph", "lines_of"]

_KINDS: Mapping[Op, str] = {
    constant: "constant",
    item: "item",
    cluster: "kernel",
    cond_op: "branch",
    **dict.fromkeys(loop_ops(), "loop"),
}
_TEXTUAL = ATTR_CLASSES - {Graph} | {list}
_MOST_OPS = 4
"""How many ops of a kernel its label names."""


def draw_graph(
    graph: Graph,
    title: str = "graph",
    outputs: Sequence[str] = (),
    keys: dict[Node, int] | None = None,
    costs: Costs | None = None,
    tensors: Mapping[Any, str] | None = None,
) -> Drawing:
    """The drawing of a graph with a node for each of its nodes, those of nested graphs included.
    ``outputs`` are what its results are called. ``keys`` numbers nodes: drawings made with one dict
    give a node that they share one key. ``costs`` knows sizes, ``tensors`` the
    names of tensors that params stand for.

    >>> import staticflow as sf
    >>> x = sf.placeholder((None,), name="x")
    >>> drawing = draw_graph(sf.compile([x], x.exp()).graph)
    >>> [(node.kind, node.label) for node in drawing.nodes]
    [('input', 'x'), ('op', 'exp')]
    """
    drawer = GraphDrawer({} if keys is None else keys, costs or Costs(), tensors or {})
    names = outputs or [f"output {i}" for i in range(len(graph.outputs))]
    drawer.draw(graph, None, (), names)
    return Drawing(title, "graph", tuple(drawer.nodes), tuple(drawer.edges))


def lines_of(locs: Locs) -> tuple[str, ...]:
    """Source lines as ``net.py:12``, each once: a file without its folders, which are the business
    of whoever drew, and of nobody who looks."""
    return tuple(dict.fromkeys(f"{os.path.basename(loc.file)}:{loc.line}" for loc in locs))


class GraphDrawer:
    """The nodes and edges so far."""

    def __init__(self, keys: dict[Node, int], costs: Costs, tensors: Mapping[Any, str]) -> None:
        self.keys, self.costs, self.tensors = keys, costs, tensors
        self.nodes: list[DrawnNode] = []
        self.edges: list[DrawnEdge] = []
        self.kinds: dict[int, str] = {}
        self._next = 0

    def new_id(self) -> int:
        """A number that no node has."""
        self._next += 1
        return self._next - 1

    def draw(
        self, graph: Graph, parent: int | None, operands: Sequence[int], outputs: Sequence[str]
    ) -> None:
        """Add a graph, whose params are the nodes ``operands`` outside, to group ``parent``."""
        names, ids = value_names(graph), dict[Node, int]()
        results: dict[Node, list[str]] = {}
        for node, output in zip(graph.outputs, outputs, strict=True):
            results.setdefault(node, []).append(output)
        outside = dict(zip(graph.params, operands, strict=False))
        is_kernel = parent is not None and self.kinds[parent] == "kernel"
        for node in graph.nodes:
            ids[node] = number = self.new_id()
            kind = self.kinds[number] = _kind_of(node, parent)
            self.nodes.append(
                DrawnNode(
                    id=number,
                    kind=kind,
                    label=self.tensors.get(node.attrs.get("source"))
                    or _label_of(node, names[node]),
                    name=names[node],
                    type=_type_text(node.type),
                    key=self.keys.setdefault(node, len(self.keys)),
                    parent=parent,
                    lines=lines_of(node.locs),
                    attrs=attrs_text(node.op, node.attrs),
                    outputs=tuple(results.get(node, ())),
                    operand=outside.get(node),
                    bytes=None if is_kernel else self.costs.bytes_of(node),
                    flops=None if is_kernel else self.costs.flops_of(node),
                )
            )
            self.edges += (DrawnEdge(ids[a], number, _type_text(a.type)) for a in node.args)
            self._draw_regions(node, number, [ids[a] for a in node.args])

    def _draw_regions(self, node: Node, number: int, args: Sequence[int]) -> None:
        regions = list(_regions_by_name(node))
        for name, region in regions:
            inside = number
            if len(regions) > 1:
                inside = self.new_id()
                key = self.keys[node]
                self.kinds[inside] = "region"
                self.nodes.append(DrawnNode(inside, "region", name, "", "", key, number))
            first = max(len(args) - len(region.params), 0)  # a branch is chosen by what comes first
            names = [f"result {i}" for i in range(len(region.outputs))]
            self.draw(region, inside, args[first:], names)


def _regions_by_name(node: Node) -> Iterator[tuple[str, Graph]]:
    for name, value in node.attrs.items():
        if isinstance(value, Graph):
            yield name, value
        elif isinstance(value, tuple):
            yield from ((f"{name} {i}", v) for i, v in enumerate(value) if isinstance(v, Graph))


def _kind_of(node: Node, parent: int | None) -> str:
    if node.op is not param:
        return _KINDS.get(node.op) or ("region" if any(_regions_by_name(node)) else "op")
    if parent is not None:
        return "parameter"
    return "input" if node.attrs.get("source") is None else "variable"


def _label_of(node: Node, name: str) -> str:
    if node.op is param:
        return str(node.attrs["name"]) if name.startswith('%"') else name.removeprefix("%")
    value = node.attrs.get("value")
    if node.op is constant and isinstance(value, Literal):
        return str(value.array[()]) if value.array.ndim == 0 else "constant"
    if node.op is item:
        return f"item {node.attrs['index']}"
    if node.op is cluster:
        ops = [n.op.name for n in node.attrs["body"].nodes if n.op not in (param, constant, item)]
        shown = " ".join(ops[:_MOST_OPS])
        return shown + (f" +{len(ops) - _MOST_OPS}" if len(ops) > _MOST_OPS else "")
    return node.op.name


def attrs_text(op: Op, attrs: Mapping[str, Any]) -> dict[str, str]:
    """Attributes as text, without what the drawing shows elsewhere."""
    unwritten = ("type", "source", "name") if op is param else ("type",)
    return {
        name: value if isinstance(value, str) else _SHORT.repr(value)
        for name, value in attrs.items()
        if name not in unwritten and type(value) in _TEXTUAL
    }


def _type_text(type: Type) -> str:
    text = ", ".join(map(str, types_of(type)))
    return f"({text})" if isinstance(type, tuple) else text


class _Short(reprlib.Repr):
    """A size or a dtype is its text; what is long is cut."""

    def repr_instance(self, x: Any, level: int) -> str:
        text = str(x)
        return text if len(text) <= 120 else text[:117] + "..."


_SHORT = _Short()
_SHORT.maxtuple = _SHORT.maxlist = 12
_SHORT.maxstring = 120
