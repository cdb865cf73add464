"""Collectives as users write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from staticflow.distributed.mesh import Axis, Mesh
from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.graph.numbers import unwrap_integer
from staticflow.ops.along.collectives import (
    all_gather_op,
    all_reduce_op,
    all_to_all_op,
    broadcast_op,
    exchange_op,
    reduce_scatter_op,
)
from staticflow.ops.basics.reduce import narrow_as, widen
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.foreign import refuses_foreign_in

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "exchange", "reduce_scatter"]


def _over(over: Mesh | Axis, what: str) -> dict[str, tuple[int, ...]]:
    """The attributes that say which ranks a collective is over."""
    if isinstance(over, Mesh | Axis):
        mesh, axes = over.over
        return {"mesh": mesh, "axes": axes}
    raise DTypeError(
        f"{what}: over is {with_article(type(over))}; it must be a mesh or an axis of one, as "
        f'mesh.axis("data"), at {format_locs(here())}'
    )


def all_reduce(input: Any, over: Mesh | Axis, reduce: str = "sum") -> Any:
    """The elements of ``input`` of all processes of the mesh or axis together, on each of them:
    their ``"sum"``, ``"mean"``, largest (``"amax"``) or smallest (``"amin"``). It has the shape and
    dtype of ``input``, which are the same on all.

    Sums are added in the order of the ranks, those of 16-bit floats in float32. The gradient of a
    sum is the sum of the cotangents; that of an extreme goes to the elements that are it, shared
    evenly.

    >>> import staticflow as sf
    >>> sf.distributed.all_reduce(sf.tensor([1.0, 2.0]), sf.distributed.mesh(data=-1))
    tensor([1., 2.])
    """
    attrs = _over(over, "all_reduce")
    if reduce == "mean":
        if not input.dtype.is_floating:
            raise DTypeError(
                f"all_reduce: the mean of {input.dtype.name}; take its sum, or cast it to a "
                f"floating dtype, at {format_locs(here())}"
            )
        # The sum of 16-bit floats may be out of their range, their mean is not.
        return narrow_as(all_reduce_op(widen(input), **attrs, reduce="sum") / over.size, input)
    if reduce not in ("sum", "amax", "amin"):
        raise ArgumentError(
            f'all_reduce: reduce is "sum", "mean", "amax" or "amin", not {reduce!r}, '
            f"at {format_locs(here())}"
        )
    return all_reduce_op(input, **attrs, reduce=reduce)


def all_gather(input: Any, over: Mesh | Axis, dim: int = 0) -> Any:
    """``input`` of all processes of the mesh or axis, joined along ``dim`` in the order of the
    ranks, on each of them. Shapes are the same on all. The gradient is `reduce_scatter`.

    >>> import staticflow as sf
    >>> sf.distributed.all_gather(sf.tensor([1.0, 2.0]), sf.distributed.mesh(data=-1))
    tensor([1., 2.])
    """
    attrs = _over(over, "all_gather")
    return all_gather_op(input, **attrs, dim=normalize_dim(dim, input.ndim, "all_gather"))


def reduce_scatter(input: Any, over: Mesh | Axis, dim: int = 0) -> Any:
    """A part along ``dim``, whose size they divide evenly, of the sum of ``input`` over all
    processes of the mesh or axis: the first on the first of them. The sum has the order of the
    ranks, as that of `all_reduce`. The gradient is `all_gather`.

    >>> import staticflow as sf
    >>> sf.distributed.reduce_scatter(sf.tensor([1.0, 2.0]), sf.distributed.mesh(data=-1))
    tensor([1., 2.])
    """
    attrs = _over(over, "reduce_scatter")
    return reduce_scatter_op(input, **attrs, dim=normalize_dim(dim, input.ndim, "reduce_scatter"))


def all_to_all(input: Any, over: Mesh | Axis, split_dim: int, join_dim: int) -> Any:
    """Each process deals its ``input`` out along ``split_dim``, whose size they divide evenly, to
    the processes of the mesh or axis in their order, and joins what it is dealt along ``join_dim``:
    what was split along one dim is split along another. The gradient is the exchange back.

    >>> import staticflow as sf
    >>> sf.distributed.all_to_all(sf.ones(2, 3), sf.distributed.mesh(data=-1), 0, 1).shape
    (2, 3)
    """
    attrs = _over(over, "all_to_all")
    split, join = (normalize_dim(d, input.ndim, "all_to_all") for d in (split_dim, join_dim))
    return all_to_all_op(input, **attrs, dim0=split, dim1=join)


def broadcast(input: Any, over: Mesh | Axis, root: int = 0) -> Any:
    """The ``input`` of the process ``root``, counted along the mesh or axis, on all its processes.
    Shapes are the same on all. The gradient reaches the root alone, and is the sum of the
    cotangents.

    >>> import staticflow as sf
    >>> sf.distributed.broadcast(sf.tensor([1.0, 2.0]), sf.distributed.mesh(data=-1))
    tensor([1., 2.])
    """
    attrs = _over(over, "broadcast")
    root = unwrap_integer(root)
    if type(root) is not int or not 0 <= root < over.size:
        raise ArgumentError(
            f"broadcast: root is {root!r}; it must be an integer from 0 to {over.size - 1}, "
            f"at {format_locs(here())}"
        )
    return broadcast_op(input, **attrs, root=root)


def exchange(input: Any, over: Mesh | Axis, pairs: Iterable[tuple[int, int]]) -> Any:
    """What another process sends to this one. Of each pair the first process of the mesh or axis
    sends its ``input`` to the second; each may send to one and receive from one, and has zeros
    where none sends to it. So one call is the ``send`` of some and the ``receive`` of others, and
    every process calls it. Shapes are the same on all. The gradient is sent back.

    >>> import staticflow as sf
    >>> def from_the_left():
    ...     mesh = sf.distributed.mesh(data=-1)
    ...     pairs = [(i, i + 1) for i in range(mesh.size - 1)]
    ...     return sf.distributed.exchange(sf.tensor(float(mesh.rank + 5)), mesh, pairs).item()
    >>> sf.distributed.simulate(from_the_left, 3)
    [0.0, 5.0, 6.0]
    """
    attrs = _over(over, "exchange")
    given = [
        tuple(map(unwrap_integer, pair)) if isinstance(pair, tuple | list | np.ndarray) else pair
        for pair in pairs
    ]
    for pair in given:
        if (
            not isinstance(pair, tuple)
            or len(pair) != 2
            or not all(type(place) is int and 0 <= place < over.size for place in pair)
        ):
            raise ArgumentError(
                f"exchange: {pair!r} is no pair; there are pairs (who sends, who receives) of "
                f"integers from 0 to {over.size - 1}, at {format_locs(here())}"
            )
    senders, receivers = tuple([p[0] for p in given]), tuple([p[1] for p in given])
    return exchange_op(input, **attrs, senders=senders, receivers=receivers)


refuses_foreign_in(globals())
