"""Runs a graph node by node with the ops' references: the oracle that compiled code is held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, ShapeError, VerifyError
from staticflow.graph.dim_queries import as_symbol, evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import Equality, Graph, map_attrs
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType, types_of

__all__ = ["Region", "interpret_graph"]

Array = Any


def interpret_graph(graph: Graph, args: Sequence[Array], xp: ModuleType = np) -> list[Array]:
    """The outputs of ``graph`` for ``args``, one array for each param; ``xp`` is NumPy or cupy.

    Sizes come from the shapes of ``args``. An op's reference receives numbers for the sizes in its
    attributes, and a `Region` for each graph. Outputs may share memory with ``args``. Warnings of
    floating-point arithmetic are off.

    Raises `ShapeError` where shapes contradict the params' types or the graph's equalities,
    `DTypeError` for an argument of another dtype, and `VerifyError` if a reference's result is not
    of the node's type. What a reference raises gets a note that names the op, types and lines.
    """
    with np.errstate(all="ignore"):
        return _run(graph, args, xp, _Sizes())


class Region:
    """A nested graph as references see it: ``region(*arrays)`` is the list of its outputs."""

    def __init__(self, graph: Graph, xp: ModuleType, sizes: _Sizes) -> None:
        self._graph = graph
        self._xp = xp
        self._sizes = sizes

    def __call__(self, *arrays: Array) -> list[Array]:
        """Run it once."""
        return _run(self._graph, arrays, self._xp, _Sizes(self._sizes))

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of its outputs, of numbers only: a loop may have no step to learn them from."""
        number = self._sizes.number
        types = (o.tensor_type for o in self._graph.outputs)
        return tuple(TensorType(t.dtype, tuple(map(number, t.shape))) for t in types)


class _Sizes:
    """The numbers that dim symbols stand for, and where each was found."""

    def __init__(self, around: _Sizes | None = None) -> None:
        self.values: dict[Sym, int] = dict(around.values) if around else {}
        self.origins: dict[Sym, str] = dict(around.origins) if around else {}

    def bind(self, type: TensorType, array: Array, what: str) -> None:
        """Give the symbols that stand alone in the shape of ``type`` the sizes of ``array``, if
        they have none yet."""
        for axis, (size, actual) in enumerate(zip(type.shape, array.shape, strict=True)):
            symbol = as_symbol(size)
            if symbol is not None and symbol not in self.values:
                self.values[symbol] = actual
                self.origins[symbol] = f"dim {axis} of {what}"

    def number(self, size: Size) -> int:
        """The number that ``size`` is."""
        try:
            return evaluate_dim(size, self.values)
        except KeyError as error:
            raise VerifyError(f"the size {size} is used before {error.args[0]} is known") from None

    def know(self, equality: Equality) -> bool:
        """Whether both sizes of an equality are known."""
        return symbols_of(equality.a) | symbols_of(equality.b) <= self.values.keys()

    def describe(self, size: Size) -> str:
        """``N is 3 (dim 0 of x)``, for each symbol of ``size``."""
        symbols = sorted(symbols_of(size), key=Sym.sort_key)
        return ", ".join(f"{s} is {self.values[s]} ({self.origins[s]})" for s in symbols)


def _run(graph: Graph, args: Sequence[Array], xp: ModuleType, sizes: _Sizes) -> list[Array]:
    arrays = [xp.asarray(a) for a in args]
    _take_sizes(graph, arrays, sizes)
    unchecked = _check_equalities(graph.equalities, sizes)
    users = Counter(a for node in graph.nodes for a in set(node.args))
    users.update(set(graph.outputs))
    values: dict[Node, Array | tuple[Array, ...]] = dict(zip(graph.params, arrays, strict=True))
    for node in graph.nodes[len(graph.params) :]:
        values[node] = _apply(node, [values[a] for a in node.args], xp, sizes)
        if unchecked:
            unchecked = _check_equalities(unchecked, sizes)
        for arg in set(node.args):
            users[arg] -= 1
            if not users[arg]:
                del values[arg]
    return [values[o] for o in graph.outputs]


def _take_sizes(graph: Graph, arrays: Sequence[Array], sizes: _Sizes) -> None:
    """Bind the dim symbols of the params, and check the arguments against their types."""
    if len(arrays) != len(graph.params):
        raise ShapeError(f"the graph takes {len(graph.params)} arguments, not {len(arrays)}")
    types = graph.declared or tuple(p.tensor_type for p in graph.params)
    names = [f"argument {p.attrs['name']!r}" for p in graph.params]
    for type, array, name in zip(types, arrays, names, strict=True):
        if dtype_of(array.dtype) is not type.dtype:
            raise DTypeError(f"{name} is {array.dtype}, not {type.dtype.name}")
        if array.ndim != type.ndim:
            raise ShapeError(f"{name} has the shape {array.shape}, which is not {type}")
        sizes.bind(type, array, name)
    for type, array, name in zip(types, arrays, names, strict=True):
        _check_shape(type, array, name, sizes)


def _check_shape(type: TensorType, array: Array, what: str, sizes: _Sizes) -> None:
    for axis, (size, actual) in enumerate(zip(type.shape, array.shape, strict=True)):
        if sizes.number(size) != actual:
            because = f", where {sizes.describe(size)}" if symbols_of(size) else ""
            raise ShapeError(f"dim {axis} of {what} is {actual}, not {size}{because}")


def _check_equalities(equalities: Sequence[Equality], sizes: _Sizes) -> list[Equality]:
    """Check those whose sizes are known; the others."""
    for e in filter(sizes.know, equalities):
        if sizes.number(e.a) != sizes.number(e.b):
            known = ", ".join(filter(None, map(sizes.describe, (e.a, e.b))))
            raise ShapeError(
                f"{e.reason}: {e.a} and {e.b} must be equal, but {known}; at {format_locs(e.locs)}"
            )
    return [e for e in equalities if not sizes.know(e)]


def _apply(
    node: Node, args: Sequence[Any], xp: ModuleType, sizes: _Sizes
) -> Array | tuple[Array, ...]:
    try:
        known = {name: v for name, v in node.attrs.items() if name != "binds"}
        attrs = map_attrs(known, sizes.number, lambda graph: Region(graph, xp, sizes))
        if "binds" in node.attrs:
            attrs["binds"] = node.attrs["binds"]  # known only after this
        result = node.op.reference(xp, *args, **attrs)
        if isinstance(node.type, tuple):
            arrays = tuple(map(xp.asarray, result))
        else:
            arrays = (xp.asarray(result),)
        _check_result(node, arrays, sizes)
    except Exception as error:
        types = ", ".join(str(t) for a in node.args for t in types_of(a.type))
        error.add_note(f"in {node.op.name}({types}), made at {format_locs(node.locs)}")
        raise
    return arrays if isinstance(node.type, tuple) else arrays[0]


def _check_result(node: Node, arrays: Sequence[Array], sizes: _Sizes) -> None:
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
