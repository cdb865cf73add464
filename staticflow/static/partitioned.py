"""Programs of whole tensors for one process of a mesh, once all are known to have the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import staticflow
from staticflow.distributed.mesh import Mesh
from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.articles import with_article
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.ops.declaring.communicator import current
from staticflow.ops.symbols.captured import part_of
from staticflow.passes.loops.merge import merge
from staticflow.passes.loops.share_products import share_products
from staticflow.passes.partition.again import gather_again
from staticflow.passes.partition.layouts import Place
from staticflow.passes.partition.moves import Moved, moves_left
from staticflow.passes.partition.partition import Axes, partition
from staticflow.passes.partition.schedule import order_collectives
from staticflow.passes.partition.shares import send_less
from staticflow.passes.rewrite import Counts
from staticflow.static.agreement import agree
from staticflow.static.fed_parts import agree_on_sizes, feed_parts
from staticflow.static.written import Written, with_checked_sizes

__all__ = ["for_mesh", "graph_of_rank"]


def for_mesh(written: Written, mesh: Mesh, options: str, local: bool = False) -> Written:
    """The program of this process, which is given its own part of what is split if the inputs are
    ``local``. Raises `RankError` where another has another graph, other ``options``, in words, or
    tensors with other elements, and `ShapeError` for a split that the graph cannot have."""
    if not isinstance(mesh, Mesh):
        raise DTypeError(
            f"compile: mesh is {with_article(type(mesh))}; it must be one of "
            f"staticflow.distributed.mesh, at {format_locs(here())}"
        )
    facts = {
        "version of staticflow": staticflow.__version__,
        "mesh": str(mesh),
        "way to compile": f"{options}, local={local}",
    }
    names = [str(p.attrs["name"]) for p in written.graph.params[len(written.names) :]]
    splits = [_split_of(t, mesh) for t in written.variables]
    agree(facts, written.graph, list(zip(names, written.variables, splits, strict=True)))
    current().measure()
    graph, moved = graph_of_rank(written, mesh, local)
    return replace(written, graph=graph, moved=moved)


def graph_of_rank(
    written: Written, mesh: Mesh, local: bool = False
) -> tuple[Graph, tuple[Moved, ...]]:
    """The graph of the process that is ``mesh.rank``, which need not be this one: nothing is
    sent; and what it sends only since it is split otherwise than it is wanted."""
    graph, count = written.graph, len(written.names)
    fed: Mapping[Node, Axes] = {}
    if local:
        graph, fed = feed_parts(graph, count, mesh)
    n_out = len(graph.outputs) - len(written.updated)
    params = graph.params[count:]
    kept = {
        p: split
        for p, t in zip(params, written.variables, strict=True)
        if (split := _split_of(t, mesh))
    }
    updated = [_split_of(t, mesh) for t in written.updated]
    numbers = [i for i, p in enumerate(graph.params) if p in kept]
    parts = {**fed, **kept}
    graph = merge(graph, Counts())
    graph, moved = partition(graph, mesh.names, mesh.shape, mesh.rank, n_out, parts, updated, kept)
    graph = share_products(graph, Counts())  # before a sum is taken in parts on the way back alone
    moves = moves_left(moved, graph)
    graph = send_less(graph, Place(mesh.shape, mesh.rank))
    graph = gather_again(graph, [graph.params[i] for i in numbers])
    ordered = order_collectives(graph, agree_on_sizes(graph, count, mesh))
    return with_checked_sizes(ordered), moves


def _split_of(tensor: Tensor, mesh: Mesh) -> Axes | None:
    """Which axes split the dims of a variable, if this process has a part of it. Raises
    `ShapeError` if that is of another mesh."""
    part = part_of(tensor)
    if part is None:
        return None
    if part.axis.mesh != mesh:
        raise ShapeError(
            f"compile: {tensor.name or 'a variable'} is split over {part.axis}, and the program is "
            f"for {mesh}; split it over an axis of that, at {format_locs(here())}"
        )
    return tuple([part.axis.number if d == part.dim else None for d in range(len(part.shape))])
