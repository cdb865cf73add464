"""Inputs of which each process is given its own part, and none the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from staticflow.data_classes import dataclass
from staticflow.distributed.mesh import Mesh
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, same
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, close, replace_sizes
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.ops.along.collectives import all_reduce_op, shard_op
from staticflow.ops.basics.creation import size_value
from staticflow.ops.declaring.required import asserted_op
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.partition import Axes

__all__ = ["Fed", "feed_parts", "hold_parts_alike"]


@dataclass(frozen=True, slots=True)
class Fed:
    """The inputs that are fed in ``parts``, with the axes that split them. A size that is not known
    is that of a part, which all processes along the axis of this number have alike."""

    parts: Mapping[Node, Axes]
    sizes: Mapping[Sym, int]


def feed_parts(graph: Graph, count: int, mesh: Mesh) -> tuple[Graph, Fed]:
    """The graph, whose unknown sizes are those of a part where one of the first ``count`` params is
    fed in parts: of each that is read by `shard` alone.

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
    return graph, Fed({graph.params[i]: axes for i, axes in splits.items()}, sizes)


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


def hold_parts_alike(graph: Graph, fed: Fed, mesh: Mesh) -> Graph:
    """The graph, which ends where the parts that processes are given have other sizes: what was
    computed from the size of the whole would be wrong."""
    if not fed.sizes:
        return graph
    at = min(range(len(graph.outputs)), key=lambda i: graph.outputs[i].tensor_type.ndim)
    value = Symbol(graph.outputs[at])
    with for_itself():
        for symbol, axis in fed.sizes.items():
            own = size_value.beside(value, size=Dim.of(symbol), dtype=int64)
            total = all_reduce_op(own, mesh=mesh.shape, axes=(axis,), reduce="sum")
            what = (
                f"compile(..., local=True): {symbol.name} is not the same on all processes along "
                f"{mesh.names[axis]}; all must be given parts of one size"
            )
            value = asserted_op(value, total == own * mesh.shape[axis], what=what)
    outputs = [value.node if i == at else o for i, o in enumerate(graph.outputs)]
    return close(graph.params, outputs, graph.equalities, graph.declared)
