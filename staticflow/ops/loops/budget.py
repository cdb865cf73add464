"""Budgets of memory: what a loop asks of every program that runs it.

The mark `budget_op` stands at what the loop begins with, and so also in whatever is differentiated
through it. What a program takes shows when its memory is planned, or when it is called, with the
sizes of the call; that is where `staticflow.static.budget` holds it to the marks of its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph, new_param, regions_of
from staticflow.graph.locs import Locs
from staticflow.graph.node import param, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType, types_of
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.loops.region import types_of_result
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["Budget", "budget_op", "budgets_in", "bytes_of_iteration", "with_budget"]

budget_op = Op(
    name="budget",
    doc="``x``, which the loop ``what`` begins with; a program that computes it is to take no more "
    "memory than ``bytes``.",
    infer=lambda facts, x, *, bytes, what: x,
    reference=lambda xp, x, *, bytes, what: x,
    vjp=per_arg(lambda ct, out, x, *, bytes, what: ct),
    decompose=lambda x, *, bytes, what: x,
    grad_name="AliasBackward0",
)


@dataclass(frozen=True, slots=True)
class Budget:
    """The ``bytes`` that a loop, ``what`` made at ``locs``, allows a program."""

    bytes: int
    what: str
    locs: Locs


def with_budget(what: str, bytes: int, leaves: Sequence[Any]) -> list[Any]:
    """The ``leaves`` that a loop begins with, the first of them with the mark of its budget."""
    first, *rest = leaves
    return [budget_op(Symbol(to_node(first)), bytes=bytes, what=what), *rest]


def bytes_of_iteration(fn: Callable[[list[Symbol]], Any], types: Sequence[TensorType]) -> Size:
    """The bytes of all values that ``fn``, the iteration of a loop, computes of symbols of
    ``types``."""
    began = new_param(TensorType(bool_, ()), "").serial
    results = pytree.flatten(types_of_result(fn, types))[0]
    made = (
        n for n in toposort([to_node(v) for v in results]) if n.serial > began and n.op is not param
    )
    return sum((_bytes(t) for n in made for t in types_of(n.type)), start=0)


def _bytes(t: TensorType) -> Size:
    return prod(t.shape) * t.dtype.itemsize


def budgets_in(graph: Graph) -> Iterator[Budget]:
    """The budgets that the loops of ``graph``, and those in their bodies, ask for."""
    for node in graph.nodes:
        if node.op is budget_op:
            yield Budget(node.attrs["bytes"], node.attrs["what"], node.locs)
        yield from (b for region in regions_of(node) for b in budgets_in(region))
