"""A graph run op by op, by the references, as a program of it runs: with subnormal numbers, or with
zeros for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from staticflow.graph.graph import Graph
from staticflow.graph.interpret import Watch, interpret_graph
from staticflow.graph.op import Op
from staticflow.ops.declaring.lowering import Host, View
from staticflow.runtime.float_mode import run_flushing, run_keeping

__all__ = ["Interpret", "interpreter"]

Interpret = Callable[..., list[Any]]
"""As `interpret_graph`: of a graph and arrays, one for each param, the arrays of its outputs; a
``watch`` is told what every node gives."""


def interpreter(flushes: bool) -> Interpret:
    """What runs graphs as a program does that ``flushes`` subnormal numbers, or not."""
    return _interpret_flushing if flushes else interpret_graph


def _interpret_flushing(
    graph: Graph, arrays: Sequence[Any], watch: Watch | None = None
) -> list[Any]:
    return run_flushing(lambda: interpret_graph(graph, arrays, watch=watch, evaluate=_evaluate))


def _evaluate(op: Op, xp: ModuleType, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The result of an op. What a program asks of NumPy, and what only moves elements, keeps
    subnormal numbers."""
    if not isinstance(op.lowering, Host | View):
        return op.reference(xp, *args, **attrs)
    return run_keeping(lambda: op.reference(xp, *args, **attrs))
