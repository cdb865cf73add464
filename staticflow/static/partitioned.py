"""Programs of whole tensors for one process of a mesh, once all are known to have the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from staticflow.distributed.mesh import Mesh
from staticflow.distributed.parts import checksum, refuse_other_elements
from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError, RankError, ShapeError
from staticflow.graph.articles import with_article
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.graph.printer import print_graph
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
from staticflow.static.fed_parts import agree_on_sizes, feed_parts
from staticflow.static.written import Written, with_checked_sizes

__all__ = ["for_mesh", "graph_of_rank"]


def for_mesh(written: Written, mesh: Mesh, local: bool = False) -> Written:
    """The program of this process, which is given its own part of what is split if the inputs are
    ``local``. Raises `RankError` where another has another graph, or tensors with other elements,
    and `ShapeError` for a split that the graph cannot have."""
    if not isinstance(mesh, Mesh):
        raise DTypeError(
            f"compile: mesh is {with_article(type(mesh))}; it must be one of "
            f"staticflow.distributed.mesh, at {format_locs(here())}"
        )
    _agree(written, mesh)
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


def _agree(written: Written, mesh: Mesh) -> None:
    """Compare the mesh, the graph and the tensors with those of all other processes."""
    own = np.array(
        [_digest(str(mesh)), _digest(print_graph(written.graph)),
         *(_digest(str(_split_of(v, mesh))) for v in written.variables),
         *(_sum_of(v) for v in written.variables)], np.uint64
    )  # fmt: skip
    others = _exchange("", own)
    at = format_locs(here())
    for rank, other in enumerate(others):
        if other[0] != own[0]:
            raise RankError(
                f"compile: rank {rank} has another mesh than rank {mesh.rank}, which has {mesh}; "
                f"every rank must make the same, at {at}"
            )
    if any(other[1] != own[1] for other in others):  # which all ranks find
        _refuse_other_graph(written.graph, mesh)
    params = written.graph.params[len(written.names) :]
    names = [str(param.attrs["name"]) for param in params]
    for rank, other in enumerate(others):
        splits, elements = np.split(other[2:] != own[2:], 2)
        for name, differs in zip(names, splits, strict=True):
            if differs:
                raise RankError(
                    f"compile: on rank {rank} the tensor {name!r} is split otherwise than on rank "
                    f"{mesh.rank}; every rank must split it alike, at {at}"
                )
        if elements.any():
            different = [names[i] for i in np.flatnonzero(elements)]
            refuse_other_elements("compile", different, rank)


def _refuse_other_graph(graph: Graph, mesh: Mesh) -> NoReturn:
    """Raise the error of a graph that is another one on another rank, with the first line in which
    it is: every rank tells the digests of its lines."""
    lines = print_graph(graph).splitlines()
    own = np.array([_digest(line) for line in lines], np.uint64)
    others = _exchange(", the graphs of which are others", own)
    rank = next(r for r, other in enumerate(others) if not np.array_equal(other, own))
    shared = min(len(own), len(others[rank]))
    first = next((i for i in range(shared) if own[i] != others[rank][i]), shared)
    shown = print_graph(graph, locs=True).splitlines()
    raise RankError(
        f"compile: rank {rank} has another graph than rank {mesh.rank}, which has\n"
        f"    {shown[min(first, len(shown) - 1)].strip()}\nwhere the other has something else; "
        f"every rank must write the same program, at {format_locs(here())}"
    )


def _exchange(what: str, numbers: Any) -> list[Any]:
    """The numbers of all ranks."""
    communicator = current()
    ranks = range(communicator.size)
    told = communicator.exchange(
        f"compile{what} at {format_locs(here())}", ranks, [numbers] * len(ranks)
    )
    return list(told)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _sum_of(variable: Tensor) -> int:
    return 0 if part_of(variable) is not None else checksum(variable)  # of a part: all have others
