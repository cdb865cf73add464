"""A drawing as data: what is drawn of a graph or a tape, before anything has a place or a colour.

Whoever draws (SVG, DOT, the page, TensorBoard) reads a `Drawing` and nothing else. Its JSON is a
dict of this form, in which a field that is empty is left out::

    {"schema": "staticflow.drawing/1", "title": "step", "kind": "graph",
     "nodes": [{"id": 4, "kind": "op", "label": "mul", "name": "%2", "type": "f32[x_0, 3]",
                "key": 17, "parent": 3, "lines": ["net.py:12"], "attrs": {"dim": "1"},
                "outputs": ["output 0"], "operand": 1, "bytes": "24*x_0", "flops": "96"}],
     "edges": [{"source": 2, "target": 4, "type": "f32[x_0, 3]"}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError

__all__ = ["KINDS", "SCHEMA", "Drawing", "DrawnEdge", "DrawnNode"]

SCHEMA = "staticflow.drawing/1"
"""The form of the JSON. Its number grows where a field changes its meaning or goes."""

KINDS = {
    "input": "an argument of the program",
    "variable": "a tensor that the program reads by reference, as a weight",
    "parameter": "a param of a region: what the operand outside is called inside",
    "constant": "a value known when the graph was built",
    "op": "one operation",
    "item": "one result of an operation that has several",
    "kernel": "operations that run as one kernel",
    "loop": "operations that run once an iteration",
    "branch": "one of two regions, chosen as the program runs",
    "region": "a graph that an operation holds",
    "leaf": "a tensor whose gradient is wanted",
    "saved": "a value that the tape keeps for backward",
}
"""What a node can be."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One node. ``name`` is what ``print(graph)`` calls it. A node that is the ``parent`` of others
    is a group, which can be drawn closed; ``operand`` of a group's parameter is the node outside
    whose value it is. ``key`` is the same in drawings made together (a graph before and after a
    pass) exactly where the node is. ``outputs`` says which results of the graph it gives.

    ``bytes`` are those of its operands and results, a number or a formula of unknown sizes;
    ``flops`` what one run of a kernel computes where its sizes are known; both are None where there
    is nothing to tell."""

    id: int
    kind: str
    label: str
    name: str
    type: str
    key: int
    parent: int | None = None
    lines: tuple[str, ...] = ()
    attrs: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    operand: int | None = None
    bytes: str | None = None
    flops: str | None = None


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A value that flows from node ``source`` to node ``target``, which have the same parent."""

    source: int
    target: int
    type: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph or a tape to be drawn: ``kind`` is ``"graph"`` or ``"tape"``. A node stands
    behind its parent and behind those that its edges come from."""

    title: str
    kind: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]

    def as_dict(self) -> dict[str, Any]:
        """The drawing in types that JSON has."""
        return {
            "schema": SCHEMA,
            "title": _as_text(self.title),
            "kind": self.kind,
            "nodes": [_without_empty(n) for n in self.nodes],
            "edges": [asdict(e) for e in self.edges],
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Drawing:
        """The drawing that `as_dict` wrote. Raises `ArgumentError` for data of another form."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise ArgumentError(f"the data is no drawing of the form {SCHEMA!r}; make it anew")
        tuples = ("lines", "outputs")
        rows: list[dict[str, Any]] = [
            {name: tuple(value) if name in tuples else value for name, value in node.items()}
            for node in data["nodes"]
        ]
        nodes = tuple(DrawnNode(**row) for row in rows)
        edges = tuple(DrawnEdge(**e) for e in data["edges"])
        return Drawing(data["title"], data["kind"], nodes, edges)

    def children(self) -> dict[int | None, list[DrawnNode]]:
        """The nodes of each group, those outside of any under None."""
        found: dict[int | None, list[DrawnNode]] = {None: []}
        for node in self.nodes:
            found.setdefault(node.parent, []).append(node)
        return found


def _without_empty(node: DrawnNode) -> dict[str, Any]:
    """The fields of a node that say something, with lists for tuples."""
    found = {name: getattr(node, name) for name in node.__slots__}
    return {
        name: _as_text(value)
        for name, value in found.items()
        if value is not None and value != () and value != {}
    }


def _as_text(value: Any) -> Any:
    """A field as JSON has it. Half of a surrogate pair, which a name may have and no file can, is
    replaced."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, tuple):
        return [_as_text(v) for v in value]
    if isinstance(value, Mapping):
        return {_as_text(k): _as_text(v) for k, v in value.items()}
    return value
