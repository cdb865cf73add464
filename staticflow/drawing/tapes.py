"""From the tape of eager operations to its drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from staticflow.drawing.costs import Costs
from staticflow.drawing.graphs import GraphDrawer, attrs_text, lines_of
from staticflow.drawing.model import Drawing, DrawnEdge, DrawnNode
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import Output, TapeEntry, Vertex
from staticflow.errors import AutogradError
from staticflow.graph.dtypes import BY_NUMPY, BY_PYTHON
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType

__all__ = ["draw_tape"]


def draw_tape(tensors: Sequence[Tensor], title: str = "tape") -> Drawing:
    """The drawing of what backward from ``tensors`` would walk over: each recorded operation, the
    leaves whose gradients are wanted, and the values that are kept for backward although no
    gradient goes to them. What an operation keeps of the results of others is in its attributes.
    A call of a jitted function is a group: the graph that it runs.

    Raises `AutogradError` where nothing was recorded.

    >>> import staticflow as sf
    >>> w = sf.ones(3, requires_grad=True)
    >>> [(node.kind, node.label) for node in draw_tape([(w * sf.ones(3)).sum()]).nodes]
    [('leaf', 'leaf'), ('saved', 'saved'), ('op', 'mul'), ('op', 'sum')]
    """
    roots = []
    for tensor in tensors:
        edge = tensor._current_vertex()
        if edge is None:
            raise AutogradError(
                f"draw: the tensor {tensor.dtype.name}{list(tensor.shape)} has no tape, since no "
                "gradient is wanted of what it was made of; draw a result that a tensor with "
                f"requires_grad=True leads to, at {format_locs(here())}"
            )
        roots.append(edge)
    drawer = _TapeDrawer()
    outputs: dict[int, tuple[str, ...]] = {}
    for i, (edge, tensor) in enumerate(zip(roots, tensors, strict=True)):
        drawer.types.setdefault(id(edge), _type_text(tensor))
        name = tensor.name or ("output" if len(tensors) == 1 else f"output {i}")
        outputs[id(edge)] = (*outputs.get(id(edge), ()), name)
    drawer.draw_vertices(_walk(roots), outputs)
    return Drawing(title, "tape", tuple(drawer.nodes), tuple(drawer.edges))


def _walk(roots: Iterable[Vertex]) -> list[Vertex]:
    """Every vertex that ``roots`` lead to, leaves first, each behind those that it leads to."""
    found: dict[int, Vertex] = {}
    stack = list(roots)[::-1]
    while stack:
        vertex = stack.pop()
        if id(vertex) not in found:
            found[id(vertex)] = vertex
            stack += [e for e in _edges_of(vertex) if e is not None][::-1]
    return sorted(found.values(), key=lambda vertex: int(vertex.serial))


def _edges_of(vertex: Vertex) -> Sequence[Vertex | None]:
    """The vertices that the arguments came from; a leaf, whose serial number is 0, has none."""
    edges: Sequence[Vertex | None] = vertex.edges if vertex.serial else ()
    return edges


class _Argument(NamedTuple):
    """An argument of a recorded operation: the vertex that a gradient for it goes to, its type as
    far as it is known, and the array that is kept of it, or the number that it is."""

    edge: Vertex | None
    type: str
    array: Any = None
    number: Any = None


class _TapeDrawer(GraphDrawer):
    """The nodes and edges of a tape so far; by the ids of vertices and of kept arrays, the numbers
    of their nodes; and the types of what vertices gave, which only those know that took it."""

    def __init__(self) -> None:
        super().__init__({}, Costs(), {})
        self.types: dict[int, str] = {}
        self.numbers: dict[int, int] = {}

    def draw_vertices(self, vertices: list[Vertex], outputs: dict[int, tuple[str, ...]]) -> None:
        """Draw all, after the latest were asked first what their arguments were. ``outputs`` names
        what some of them give."""
        for vertex in reversed(vertices):
            for argument in self.arguments(vertex):
                if argument.edge is not None and argument.type:
                    self.types.setdefault(id(argument.edge), argument.type)
        for vertex in vertices:
            sources = list(self.draw_sources(vertex))
            node = _node_of(vertex, self.new_id(), list(self.arguments(vertex)))
            type, names = self.types.get(id(vertex), node.type), outputs.get(id(vertex), ())
            self.nodes.append(replace(node, type=type, outputs=names))
            self.numbers[id(vertex)] = node.id
            self.edges += (DrawnEdge(number, node.id, text) for number, text in sources)
            if isinstance(vertex, TapeEntry) and "traced" in vertex.attrs:
                graph = vertex.attrs["traced"].every_program[0].optimized
                self.kinds[node.id] = node.kind
                results = [f"result {i}" for i in range(len(graph.outputs))]
                self.draw(graph, node.id, [number for number, _ in sources], results)

    def arguments(self, vertex: Vertex) -> Iterator[_Argument]:
        """The arguments of a vertex; what it has kept may be freed by now."""
        edges = _edges_of(vertex)
        kept = (vertex.args or ()) if isinstance(vertex, TapeEntry) else ()
        for edge, value in zip_longest(edges, kept):
            if isinstance(value, tuple):
                yield _Argument(edge, _type_text(value[0]), value[0])
            elif type(value) in BY_PYTHON:
                yield _Argument(edge, "", number=value)
            elif hasattr(value, "shape"):
                yield _Argument(edge, _type_text(value))
            else:  # as the result, where anything is kept
                yield _Argument(edge, self.types.get(id(vertex), "") if kept else "")

    def draw_sources(self, vertex: Vertex) -> Iterator[tuple[int, str]]:
        """The nodes that a vertex takes, with the types of their values. Draws those that are kept
        values and were not drawn before."""
        for edge, type, array, _ in self.arguments(vertex):
            if edge is not None:
                yield self.numbers[id(edge)], self.types.get(id(edge), type)
            elif array is not None:
                number = self.numbers.get(id(array))
                if number is None:
                    number = self.numbers[id(array)] = self.new_id()
                    held = getattr(array, "nbytes", None)
                    text = None if held is None else str(held)
                    self.nodes.append(
                        DrawnNode(number, "saved", "saved", "", type, -1 - number, bytes=text)
                    )
                yield number, type


def _node_of(vertex: Vertex, number: int, arguments: Sequence[_Argument]) -> DrawnNode:
    """The node of a vertex."""
    key = -1 - number  # what a node of a graph never has
    if not vertex.serial:
        return DrawnNode(number, "leaf", vertex.name or "leaf", "", _type_text(vertex), key)
    name, lines = vertex.name(), lines_of(vertex.locs)
    if isinstance(vertex, Output):
        return DrawnNode(number, "item", f"item {vertex.index}", name, "", key, lines=lines)
    if not isinstance(vertex, TapeEntry):
        return DrawnNode(number, "op", name, name, "", key, lines=lines)
    kind = "region" if "traced" in vertex.attrs else "op"
    attrs = {} if kind == "region" else attrs_text(vertex.op, vertex.attrs)
    for i, argument in enumerate(arguments):
        if argument.number is not None:
            attrs[f"argument {i}"] = str(argument.number)
    attrs["keeps"] = _kept_text(vertex, arguments)
    label = vertex.op.name.removeprefix("_")
    return DrawnNode(number, kind, label, name, "", key, lines=lines, attrs=attrs)


def _kept_text(entry: TapeEntry, arguments: Sequence[_Argument]) -> str:
    """What an entry keeps for backward."""
    if entry.args is None:
        lines = ", ".join(lines_of(entry.result)) or "<unknown line>"
        return f"nothing: freed by the backward at {lines}"
    kept = [f"argument {i}: {a.type}" for i, a in enumerate(arguments) if a.array is not None]
    results = entry.result if isinstance(entry.result, list) else [entry.result]
    kept += [f"its result: {_type_text(r[0])}" for r in results if isinstance(r, tuple)]
    return "; ".join(kept) or "nothing"


def _type_text(value: Any) -> str:
    """The dtype and shape of a tensor, an array, or what stands for one."""
    return str(TensorType(BY_NUMPY.get(value.dtype, value.dtype), tuple(value.shape)))
