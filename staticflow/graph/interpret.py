"""Runs a graph node by node with the ops' references: the oracle that compiled code is held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import VerifyError
from staticflow.graph.binding import Sizes, bind_arguments, check_equalities
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import Graph, map_attrs
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType, types_of

__all__ = ["Evaluate", "Region", "Watch", "interpret_graph"]

Array = Any
Watch = Callable[[Node, Sequence[Any], Sequence[Array], Sequence[tuple[Node, int]]], None]
"""``watch(node, operands, results, within)`` is told what each node gave; ``within`` are the nodes
whose regions it ran in, the outermost first, and how often each had run its region before."""

Evaluate = Callable[[Op, ModuleType, Sequence[Any], Mapping[str, Any]], Any]
"""``evaluate(op, xp, args, attrs)`` is what an op gives."""


def _by_reference(op: Op, xp: ModuleType, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    return op.reference(xp, *args, **attrs)


@dataclass(frozen=True, slots=True)
class _Run:
    """What is the same for all nodes of a graph while it runs once."""

    xp: ModuleType
    sizes: Sizes
    watch: Watch | None
    evaluate: Evaluate
    within: tuple[tuple[Node, int], ...] = ()


def interpret_graph(
    graph: Graph,
    args: Sequence[Array],
    xp: ModuleType = np,
    watch: Watch | None = None,
    evaluate: Evaluate = _by_reference,
) -> list[Array]:
    """The outputs of ``graph`` for ``args``, one array for each param; ``xp`` is NumPy or cupy.
    ``watch`` is told what every node gives, which is what ``evaluate`` does: the ops' references,
    unless it says otherwise.

    Sizes come from the shapes of ``args``. An op's reference receives numbers for the sizes in its
    attributes, and a `Region` for each graph. Outputs may share memory with ``args``. Warnings of
    floating-point arithmetic are off.

    Raises `ShapeError` where shapes contradict the params' types or the graph's equalities,
    `DTypeError` for an argument of another dtype, and `VerifyError` if a reference's result is not
    of the node's type. What a reference raises gets a note that names the op, types and lines.
    """
    with np.errstate(all="ignore"):
        return _run(graph, args, _Run(xp, Sizes(), watch, evaluate))


class Region:
    """A nested graph as references see it: ``region(*arrays)`` is the list of its outputs."""

    def __init__(self, graph: Graph, node: Node, outer: _Run) -> None:
        self._graph = graph
        self._node = node
        self._outer = outer
        self._calls = 0

    def __call__(self, *arrays: Array) -> list[Array]:
        """Run it once."""
        outer, call = self._outer, (self._node, self._calls)
        self._calls += 1
        inner = replace(outer, sizes=Sizes(outer.sizes), within=(*outer.within, call))
        return _run(self._graph, arrays, inner)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of its outputs, of numbers only: a loop may have no step to learn them from."""
        number = self._outer.sizes.number
        types = (o.tensor_type for o in self._graph.outputs)
        return tuple(TensorType(t.dtype, tuple(map(number, t.shape))) for t in types)


def _run(graph: Graph, args: Sequence[Array], run: _Run) -> list[Array]:
    sizes = run.sizes
    arrays = [run.xp.asarray(a) for a in args]
    types = graph.declared or tuple(p.tensor_type for p in graph.params)
    bind_arguments([p.attrs["name"] for p in graph.params], types, arrays, sizes)
    unchecked = check_equalities(graph.equalities, sizes)
    users = Counter(a for node in graph.nodes for a in set(node.args))
    users.update(set(graph.outputs))
    values: dict[Node, Array | tuple[Array, ...]] = dict(zip(graph.params, arrays, strict=True))
    for node in graph.nodes[len(graph.params) :]:
        values[node] = _apply(node, [values[a] for a in node.args], run)
        if unchecked:
            unchecked = check_equalities(unchecked, sizes)
        for arg in set(node.args):
            users[arg] -= 1
            if not users[arg]:
                del values[arg]
    return [values[o] for o in graph.outputs]


def _apply(node: Node, args: Sequence[Any], run: _Run) -> Array | tuple[Array, ...]:
    xp, sizes = run.xp, run.sizes
    try:
        for d in (d for t in types_of(node.type) for d in t.shape):
            if isinstance(d, Dim) and sizes.knows(d):
                sizes.length(d)
        known = {name: v for name, v in node.attrs.items() if name != "binds"}
        attrs = map_attrs(known, sizes.number, lambda graph: Region(graph, node, run))
        if "binds" in node.attrs:
            attrs["binds"] = node.attrs["binds"]  # known only after this
        result = run.evaluate(node.op, xp, args, attrs)
        if isinstance(node.type, tuple):
            arrays = tuple(map(xp.asarray, result))
        else:
            arrays = (xp.asarray(result),)
        _check_result(node, arrays, sizes)
    except Exception as error:
        types = ", ".join(str(t) for a in node.args for t in types_of(a.type))
        error.add_note(f"in {node.op.name}({types}), made at {format_locs(node.locs)}")
        raise
    if run.watch is not None:
        run.watch(node, args, arrays, run.within)
    return arrays if isinstance(node.type, tuple) else arrays[0]


def _check_result(node: Node, arrays: Sequence[Array], sizes: Sizes) -> None:
    """Bind the sizes that only the run could tell; for the rest hold the op to its own type."""
    types = types_of(node.type)
    what = f"the result of {node.op.name}"
    if len(arrays) != len(types):
        raise VerifyError(f"{what} has {len(arrays)} parts, not {len(types)}")
    for type, array in zip(types, arrays, strict=True):
        if dtype_of(array.dtype) is not type.dtype or array.ndim != type.ndim:
            raise VerifyError(f"{what} is {array.dtype} of shape {array.shape}, not {type}")
        sizes.bind(type, array, what)
        shape = tuple(map(sizes.number, type.shape))
        if array.shape != shape:
            raise VerifyError(f"{what} has the shape {array.shape}, not {type}, that is {shape}")
