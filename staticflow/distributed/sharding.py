"""How a user says what is split over which axis of a mesh."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.collectives import shard_op
from staticflow.ops.symbols.captured import note_split

__all__ = ["shard"]


def shard(input: Any, *axes: str | None) -> Any:
    """``input``, each of whose dims is to be split over the mesh axis that is named in its place,
    or is whole on each process where that is None.

    It changes no value. In a graph that is compiled for a mesh, with ``compile(..., mesh=mesh)``,
    each process then computes its part of all that follows from it; elsewhere it is ``input``. Of a
    tensor, as a parameter, it is a view, which a graph has as the tensor, split. Of a size that the
    axis does not divide, the last parts have fewer elements, or none.

    Raises `DTypeError` for what is no tensor or symbol and for a name that is none, and
    `ShapeError` where there is not one for each dim, or one splits two.

    >>> import staticflow as sf
    >>> mesh = sf.distributed.mesh(data=-1)
    >>> x = sf.placeholder((None, 3), name="x")
    >>> rows = sf.distributed.shard(x, "data", None)
    >>> sf.compile([x], (rows * rows).sum(), mesh=mesh)(sf.ones(2, 3))
    tensor(6.)
    """
    for name in axes:
        if name is not None and not isinstance(name, str):
            raise DTypeError(
                f"shard: {name!r} is no name of an axis; there is a name or None for each dim, as "
                f'in shard(x, "data", None), at {format_locs(here())}'
            )
    spec = tuple([name or "" for name in axes])
    found = shard_op(input, spec=spec)
    if not found.__sf_mode__.rank:
        note_split(found, input, spec)
    return found
