"""The walk over the nodes of a function of one row, in which each op is called on all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import SymbolicError
from staticflow.graph.called import function_at
from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, using
from staticflow.graph.node import Node, constant, item, param, toposort
from staticflow.ops.batching.loops import draws_within
from staticflow.ops.batching.row import Row, Value
from staticflow.ops.batching.table import BRANCHES, rule_of
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.late import measure_op
from staticflow.ops.declaring.lowering import Generate
from staticflow.ops.symbols.symbol import Symbol, results_of

__all__ = ["Batching", "outer_value"]


@dataclass(frozen=True, slots=True)
class Batching:
    """How a function of one row is called on ``size`` rows. ``beside`` is a tensor or symbol, in
    whose mode it is, and ``randomness`` says whether rows draw numbers of their own."""

    size: Size
    randomness: str
    beside: Any

    @property
    def is_eager(self) -> bool:
        """Whether the rows are tensors."""
        return not isinstance(self.beside, Symbol)

    def run(self, graph: Graph, values: Sequence[Value]) -> list[Value]:
        """The outputs of a region for ``values``, one for each of its params."""
        return self.outputs(graph.outputs, dict(zip(graph.params, values, strict=True)))

    def outputs(self, outputs: Sequence[Node], values: Mapping[Node, Any]) -> list[Value]:
        """The values of ``outputs`` where some nodes have ``values``."""
        found: dict[Node, Any] = dict(values)
        for node in toposort(outputs, known=found):
            with using(node.locs):
                found[node] = self._apply(node, found)
        return [found[o] for o in outputs]

    def _apply(self, node: Node, found: Mapping[Node, Any]) -> Any:
        if node.op is item:
            return found[node.args[0]][node.attrs["index"]]
        values = tuple(found[a] for a in node.args)
        some = any(v.is_batched for v in values)
        if not (some or draws_within(node) or (self.is_eager and node.op in BRANCHES)):
            return _as_values(node, self._the_same(node, [v.data for v in values]), False)
        rule = rule_of(node.op)
        if rule is None or (self.is_eager and "binds" in node.attrs and node.op not in BRANCHES):
            raise SymbolicError(_no_rule(node, some))
        return _as_values(node, rule(Row(self, node, values)), True)

    def _the_same(self, node: Node, args: Sequence[Any]) -> Any:
        """The result of a node that is the same for all rows."""
        if not self.is_eager:
            if all(a.node is b for a, b in zip(args, node.args, strict=True)):
                return results_of(node) if isinstance(node.type, tuple) else Symbol(node)
            return node.op(*args, **node.attrs)
        if node.op is param and node.attrs["source"] is not None:
            return node.attrs["source"]
        if node.op is constant:
            return eager.wrap(np.array(node.attrs["value"].array))
        if "binds" in node.attrs:
            raise SymbolicError(_no_rule(node, False))
        if isinstance(node.op.lowering, Generate):
            return node.op.beside(self.beside, **node.attrs)
        return node.op(*args, **node.attrs)


def outer_value(node: Node) -> Any:
    """The value of a node that the function of one row uses and did not make, which is the same for
    all rows; of several results a list."""
    if isinstance(node.type, tuple):
        return [Value(y, False) for y in results_of(node)]
    return Value(Symbol(node), False)


def _as_values(node: Node, found: Any, is_batched: bool) -> Any:
    """The results of a node as values: those that do not say it are ``is_batched``."""
    if isinstance(found, list):
        return found if isinstance(node.type, tuple) else found[0]
    if isinstance(found, tuple):
        return [Value(y, is_batched) for y in found]
    return Value(found, is_batched)


def _no_rule(node: Node, rows_differ: bool) -> str:
    if node.op is measure_op or "binds" in node.attrs:
        name = function_at(node.locs)
        if name == "scan" and rows_differ:
            return (
                "vmap: the lengths of a scan are of the rows of its own batch, and would differ "
                "from row to row; leave lengths out, and keep what has ended, as with "
                "sf.where(step < length, new, old), or use sf.map, "
                f"at {format_locs(node.locs)}"
            )
        why = (
            "would differ from row to row; mask instead of selecting, as with sf.where, count or "
            "add up into zeros of a known size, as with scatter_add, or use sf.map" if rows_differ
            else "is not known where rows are traced, though it is the same for all; select "
            "outside of the function, and give it what is selected, or compile sf.jit(sf.vmap(fn))"
        )  # fmt: skip
        masks = name is None or name == "nonzero"  # x[mask] is made of that, too
        of = "as of what a mask selects," if masks else f"that of {name},"
        return f"vmap: a size that depends on values, {of} {why}, at {format_locs(node.locs)}"
    return (
        f"vmap: {node.op.name} has no rule for rows that differ; compute it outside of vmap, or "
        f"use sf.map, at {format_locs(node.locs)}"
    )
