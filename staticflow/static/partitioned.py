"""Programs of whole tensors for one process of a mesh, once all are known to have the same one."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from staticflow.distributed.mesh import Mesh
from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError, RankError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.communicator import current
from staticflow.passes.partition.partition import partition
from staticflow.static.written import Written, with_checked_sizes

__all__ = ["for_mesh"]


def for_mesh(written: Written, mesh: Mesh) -> Written:
    """The program of this process. Raises `RankError` where another has another graph, or tensors
    with other elements, and `ShapeError` for a split that the graph cannot have."""
    if not isinstance(mesh, Mesh):
        raise DTypeError(
            f"compile: mesh is {with_article(type(mesh))}; it must be one of "
            f"staticflow.distributed.mesh, at {format_locs(here())}"
        )
    _agree(written, mesh)
    n_out = len(written.graph.outputs) - len(written.updated)
    graph = partition(written.graph, mesh.names, mesh.shape, mesh.rank, n_out)
    return replace(written, graph=with_checked_sizes(graph))


def _agree(written: Written, mesh: Mesh) -> None:
    """Compare the graph, the mesh and the tensors with those of all other processes."""
    text = hashlib.sha256(f"{mesh}\n{written.graph}".encode()).digest()[:8]
    own = np.array(
        [int.from_bytes(text, "little"), *(_sum_of(v) for v in written.variables)], np.uint64
    )
    communicator = current()
    ranks = range(communicator.size)
    at = format_locs(here())
    for rank, other in zip(
        ranks, communicator.exchange(f"compile at {at}", ranks, [own] * len(ranks)), strict=True
    ):
        if len(other) != len(own) or other[0] != own[0]:
            raise RankError(
                f"compile: rank {rank} has another graph or mesh than rank {mesh.rank}, which has "
                f"{mesh}; every rank must write the same program, at {at}"
            )
        differ = np.flatnonzero(other != own)
        if len(differ):
            params = written.graph.params[len(written.names) :]
            names = _names([str(params[i - 1].attrs["name"]) for i in differ])
            raise RankError(
                f"compile: on rank {rank} {names} has other elements than on rank {mesh.rank}; "
                "seed all ranks alike (sf.manual_seed), or broadcast from one, at "
                f"{at}"
            )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} others" if len(names) > 1 else ""
    return f"the tensor {names[0]!r}{more}"


def _sum_of(variable: Tensor) -> int:
    data = variable._data
    own = np.ascontiguousarray(data.get() if hasattr(data, "get") else data)
    return zlib.crc32(own.reshape(-1).view(np.uint8).data)
