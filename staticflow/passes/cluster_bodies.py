"""The bodies of clusters, each made once for all clusters that compute alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.graph.graph import Graph, attrs_key, close, new_param, substitute_nodes
from staticflow.graph.locs import Locs
from staticflow.graph.node import Node, toposort

__all__ = ["Bodies"]


class Bodies:
    """The bodies of the clusters of one graph. What is computed alike of other arrays of the same
    types, and was written on the same lines, is one body, and whatever looks at bodies looks at it
    once: a training step may have a thousand equal updates.

    ``assumes``: the graph assumes sizes to be equal, of which a body has its part.
    """

    def __init__(self, assumes: bool) -> None:
        self._assumes = assumes
        self._known: dict[Any, tuple[list[Locs], Graph]] = {}

    def body_of(self, outside: Sequence[Node], outputs: Sequence[Node]) -> Graph:
        """The graph that computes ``outputs`` from the arrays ``outside``."""
        order = toposort(outputs, outside)
        number = {n: i for i, n in enumerate((*outside, *order))}
        steps = [
            (n.op, tuple([number[a] for a in n.args]), attrs_key(n.attrs), n.type) for n in order
        ]
        key = (
            tuple([n.type for n in outside]),
            tuple(steps),
            tuple([number[n] for n in outputs]),
        )
        lines = [n.locs for n in order]
        known = self._known.get(key)
        if known is not None and known[0] == lines:
            return known[1]
        body = self._make(outside, outputs)
        self._known[key] = lines, body
        return body

    def _make(self, outside: Sequence[Node], outputs: Sequence[Node]) -> Graph:
        params = {n: new_param(n.tensor_type, f"p{i}") for i, n in enumerate(outside)}
        takes, gives = tuple(params.values()), tuple(substitute_nodes(outputs, params))
        if self._assumes:
            return close(takes, gives)
        return Graph(takes, gives, (), tuple([p.tensor_type for p in takes]))
