"""Inputs of which each process is given its own part, and none the whole; and unknown sizes, which
all must be given alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from staticflow.distributed.mesh import Mesh
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import as_symbol, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, same
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, replace_sizes
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.ops.along.collectives import shard_op
from staticflow.ops.along.ordered_collectives import agree_op
from staticflow.ops.basics.creation import size_value
from staticflow.ops.basics.joining import stack
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.partition import Axes

__all__ = ["agree_on_sizes", "feed_parts"]


def feed_parts(graph: Graph, count: int, mesh: Mesh) -> tuple[Graph, Mapping[Node, Axes]]:
    """The graph, and which of the first ``count`` params are fed in parts, with the axes that split
    them: those that are read by `shard` alone. A size of these that is not known is that of a part,
    which all processes along the axis have alike.

    Raises `ShapeError` for one that is read whole, too, or whose size is computed from others."""
    sizes: dict[Sym, int] = {}
    splits: dict[int, Axes] = {}
    for position, p in enumerate(graph.params[:count]):
        spec = _spec_of(p, graph)
        if spec is None:
            continue
        axes = [mesh.names.index(name) if name in mesh.names else None for name in spec]
        splits[position] = tuple(axes)
        for n, axis in zip(p.tensor_type.shape, axes, strict=True):
            if axis is not None and not isinstance(n, int):
                (symbol, *others) = symbols_of(n)
                if others or not same(n, Dim.of(symbol)) or sizes.get(symbol, axis) != axis:
                    raise ShapeError(
                        f"compile: with local=True the size {n} of {p.attrs['name']!r} must be an "
                        f"unknown of its own, split over one axis, at {format_locs(here())}"
                    )
                sizes[symbol] = axis
    whole: dict[Sym, Size] = {s: Dim.of(s) * mesh.shape[axis] for s, axis in sizes.items()}
    if whole:
        declared = tuple([t.substitute(whole) for t in graph.declared])
        graph = replace_sizes(replace(graph, declared=declared), graph.outputs, whole)
    return graph, {graph.params[i]: axes for i, axes in splits.items()}


def _spec_of(p: Node, graph: Graph) -> tuple[str, ...] | None:
    """How the user splits an input; None of one that is whole."""
    users = graph.users[p]
    specs = {u.attrs["spec"] for u in users if u.op is shard_op}
    if not any(map(any, specs)):
        return None
    if len(specs) > 1 or any(u.op is not shard_op for u in users) or p in graph.outputs:
        raise ShapeError(
            f"compile: with local=True a process has its part of {p.attrs['name']!r}, which is "
            "read whole, too, or split otherwise; read shard(...) of it everywhere, at "
            f"{format_locs(next(u.locs for u in users if u.op is shard_op))}"
        )
    spec: tuple[str, ...] = users[0].attrs["spec"]
    return spec


def agree_on_sizes(graph: Graph, count: int, mesh: Mesh) -> Symbol:
    """The number 0, once all processes have told each other which unknown sizes the first ``count``
    params have, and these are the same: each computes from its own which part it has."""
    where: dict[Sym, tuple[Node, int]] = {}
    for p, t in zip(graph.params[:count], graph.declared, strict=False):
        for d, n in enumerate(t.shape):
            symbol = None if isinstance(n, int) else as_symbol(n)
            if symbol is not None:
                where.setdefault(symbol, (p, d))
    if not where or mesh.size == 1:
        return Symbol(constant_node(0, int64))
    with for_itself():
        sizes = [
            size_value.beside(Symbol(p), size=Dim.of(symbol), dtype=int64)
            for symbol, (p, _) in where.items()
        ]
        names = tuple([f"size of dim {d} of {p.attrs['name']!r}" for p, d in where.values()])
        axes = tuple(range(len(mesh.shape)))
        found: Symbol = agree_op(stack(sizes), mesh=mesh.shape, axes=axes, names=names)
    return found
