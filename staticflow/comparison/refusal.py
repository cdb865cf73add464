"""Why a model cannot be a graph, and what to write instead."""

from __future__ import annotations

from typing import Any

from staticflow import pytree
from staticflow.comparison.contest import Contestant, static_contestant
from staticflow.comparison.job import Job, default_dtype
from staticflow.comparison.source import explain_failure
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node, constant, toposort
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["find_change", "try_statically"]


TRACES = 4
"""So many graphs of a model are compared."""


def try_statically(job: Job) -> tuple[Contestant | None, str | None]:
    """The static contestant of a job; or None, and why there is none."""
    changing = ""
    try:
        changing = find_change(job)
        found = static_contestant(job)
    except Exception as error:  # whatever the model raises where it meets symbols
        return None, explain_failure(error)
    return (None, changing) if changing else (found, None)


def find_change(job: Job) -> str:
    """What differs between two traces of the model, "" if nothing does: a graph is what one call
    did, and holds that for all."""
    model = job.make_model()

    def trace() -> list[Node]:
        symbols = job.placeholders()
        with default_dtype(job.dtype):
            output = job.output_of(model, symbols)
            outputs = [x for x in pytree.flatten(output)[0] if isinstance(x, Symbol)]
            if job.loss is not None:
                outputs.append(job.loss_of(output, symbols))
        return toposort([to_node(x) for x in outputs])

    first = trace()
    odd = next(filter(None, (_first_odd(first, trace()) for _ in range(TRACES - 1))), None)
    if odd is None:
        return ""
    return (
        f"two calls of the model make different graphs, from {odd.op.name} at "
        f"{format_locs(odd.locs)} on, so Python decides what is computed by what no graph knows; "
        "give it as an input and write sf.where, sf.cond or sf.fori_loop, or draw it with "
        "sf.randint"
    )


def _first_odd(first: list[Node], second: list[Node]) -> Node | None:
    """The first node by which two graphs differ."""
    for a, b in zip(first, second, strict=False):
        if _signature(a) != _signature(b):
            return b
    if len(first) != len(second):
        return max(first, second, key=len)[min(len(first), len(second))]
    return None


def _signature(node: Node) -> Any:
    value = node.attrs["value"] if node.op is constant else None
    shapes = getattr(node.type, "ndim", None)
    return node.op.name, shapes, value
