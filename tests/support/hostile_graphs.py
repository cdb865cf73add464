"""Graphs whose attributes somebody has changed: of another kind, negative, huge, twice, left out, or
one that the op does not know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import bfloat16, bool_, float32, int64
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, constant, param
from staticflow.graph.types import Facts

__all__ = ["changed_graphs"]

LONG = ("length",)
"""Attributes that make a run long where they are large."""

STRANGE = (None, True, 2, -1, 0.0, "other", (), (1, "x"), float32)
"""Values of every kind."""


def changed_graphs(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """What was changed, and the graph with it: as its text is read, types are as they were, and as
    the op's rule gives them."""
    for node in graph.nodes:
        if node.op in (param, constant):
            continue
        for name, attrs in _changed_attrs(node):
            what = f"{node.op.name} {name}={attrs.get(name, 'left out')!r}"
            yield what, _with_attrs(graph, node, attrs, False)
            try:
                again = _with_attrs(graph, node, attrs, True)
            except Exception:  # which the rule refuses in any way, as verifying does
                continue
            yield f"{what}, typed", again


def _changed_attrs(node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in node.attrs.items():
        rest = {k: v for k, v in node.attrs.items() if k != name}
        yield name, rest
        seen = {_key(value)}
        for other in _other_values(name, value):
            if _key(other) not in seen:
                seen.add(_key(other))
                yield name, {**rest, name: other}
    yield "unheard_of", {**node.attrs, "unheard_of": 1}


def _key(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"


def _other_values(name: str, value: Any) -> Iterator[Any]:
    yield from STRANGE
    yield from _alike(name, value)
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            for other in (*_alike(name, part), None, True, 0.5, "x"):
                yield (*value[:i], other, *value[i + 1 :])
        if value:
            yield value[:-1]
            yield (*value, value[-1])
            yield (value[0],) * len(value)
            yield tuple(reversed(value))
            yield value[0]
    elif not isinstance(value, Graph):
        yield (value,)
        yield (value, value)


def _alike(name: str, value: Any) -> Iterator[Any]:
    """Values of the same kind."""
    if isinstance(value, bool):
        yield from (not value, 0, 1)
    elif isinstance(value, int):
        yield from (-1, 0, 1, 3, value + 1, value - 1, -value, 2.5)
        if name not in LONG:
            yield from (1000, 1 << 40, (1 << 61) + 1, -(1 << 61))
    elif isinstance(value, float):
        yield from (-1.0, 0.0, -0.0, 1e300, float("inf"), float("-inf"), float("nan"), 1)
    elif isinstance(value, Dim):
        yield from (value + 1, value - 5, -value, value * 0 - 1, value // 2, 3)
    elif isinstance(value, str):
        yield from ("", "mean", "reflect", "{x.__class__}", "\0")
    elif isinstance(value, type(float32)):
        yield from (float32, bfloat16, int64, bool_)


def _with_attrs(graph: Graph, changed: Node, attrs: dict[str, Any], typed: bool) -> Graph:
    """The graph with other attributes of one node, and, if ``typed``, with the types that follow."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op in (param, constant):
            new[node] = node
            continue
        args = tuple(new[a] for a in node.args)
        own = attrs if node is changed else node.attrs
        facts = Facts()
        type = node.op.type_of(facts, [a.type for a in args], own) if typed else node.type
        if typed and list(facts.assumptions):
            raise ShapeError("sizes that the graph does not assume to be equal")
        new[node] = Node(node.op, args, own, type, node.locs)
    return replace(graph, outputs=tuple(new[o] for o in graph.outputs))
