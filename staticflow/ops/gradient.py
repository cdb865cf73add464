"""Gradients of symbols: the reverse walk over nodes, giving more nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.autodiff.reverse import reverse
from staticflow.errors import AutogradError
from staticflow.graph.locs import format_locs, using
from staticflow.graph.node import Node, constant, item, toposort
from staticflow.graph.types import TensorType
from staticflow.ops.arithmetic import add
from staticflow.ops.symbol import Symbol

__all__ = ["pullback"]


def pullback(
    outputs: Sequence[Symbol], cotangents: Sequence[Any], wrt: Sequence[Symbol]
) -> list[Any]:
    """The cotangents of ``wrt`` that those of ``outputs`` give rise to; None where an entry of
    ``wrt`` is not reached. ``cotangents`` may have None for an output that takes no part.
    """
    wanted = {w.node for w in wrt}
    reaching = _reaching(toposort(o.node for o in outputs), wanted)
    found: dict[Node, Any] = {}

    def parents(node: Node) -> Sequence[tuple[Node, int] | None]:
        if node.op is item:
            return [(node.args[0], node.attrs["index"])] if node in reaching else [None]
        return [(a, 0) if a in reaching and _is_real(a) else None for a in node.args]

    def pull(node: Node, cts: dict[int, Any]) -> Sequence[Any]:
        if node in wanted:
            found[node] = cts[0]
        edges = parents(node)
        if node.op is item:
            return [cts[0]]
        needs = [e is not None for e in edges]
        if not any(needs):
            return [None] * len(edges)
        return _pull(node, needs, cts)

    roots = [
        (o.node, 0, ct)
        for o, ct in zip(outputs, cotangents, strict=True)
        if ct is not None and o.node in reaching
    ]
    reverse(roots, parents, pull, add)
    return [found.get(w.node) for w in wrt]


def _reaching(order: Sequence[Node], wanted: set[Node]) -> set[Node]:
    """The nodes that depend on one of ``wanted``."""
    reaching: set[Node] = set()
    for node in order:
        if node in wanted or any(a in reaching for a in node.args):
            reaching.add(node)
    return reaching


def _is_real(node: Node) -> bool:
    return not isinstance(node.type, TensorType) or node.type.dtype.is_floating


def _pull(node: Node, needs: Sequence[bool], cts: dict[int, Any]) -> Sequence[Any]:
    if node.op.vjp is None:
        raise AutogradError(
            f"{node.op.name} has no derivative, made at {format_locs(node.locs)}; keep it out of "
            "what is differentiated, or pass its argument through .detach()"
        )
    with using(node.locs):
        args = [_as_argument(a) for a in node.args]
        if isinstance(node.type, tuple):
            many = [cts.get(i) for i in range(len(node.type))]
            return node.op.vjp(needs, many, None, *args, **node.attrs)
        return node.op.vjp(needs, cts[0], Symbol(node), *args, **node.attrs)


def _as_argument(node: Node) -> Any:
    """A node as a vjp takes it: a number where it is a 0-d constant, so that a rule can tell
    ``x ** 2`` from ``x ** y`` in both modes."""
    if node.op is constant and not node.tensor_type.shape:
        return node.attrs["value"].array.item()
    return Symbol(node)
