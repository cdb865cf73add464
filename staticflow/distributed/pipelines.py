"""Networks of stages, one behind the other, each on processes of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from staticflow import pytree
from staticflow.distributed.sharding import shard
from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.indexing.roll_repeat import roll
from staticflow.ops.loops.scan import scan

__all__ = ["pipeline"]

T = TypeVar("T")


def pipeline(stages: Callable[[T, Any], Any], weights: T, batches: Any, axis: str) -> Any:
    """What all stages of a network, one behind the other, give of each of some micro-batches.

    ``weights`` is a tensor, or a tree of tensors, that has those of stage ``i`` as row ``i``.
    ``stages(weights, x)`` gives the output of all stages at once, each of its row of ``x``, in the
    shape and dtype of ``x``: it is ``sf.vmap(stage)`` of a function of one stage. ``batches`` has a
    micro-batch in each row, and so has the result.

    In a program that is compiled for a mesh the rows of ``weights`` are split over the ``axis`` of
    that name: each process computes its stages, all processes at once on different micro-batches,
    and sends what they give to the next one. The result and the gradients are those of one process.

    There are as many turns as micro-batches and stages together, less one, and in the first and
    last of them some stages compute what nobody reads. So there should be many more micro-batches
    than stages, and as many stages as processes along the axis. The schedule is that of GPipe
    (Huang et al. 2019, arXiv:1811.06965): the gradient goes back when all micro-batches are
    through. Raises `ShapeError` where the weights have no rows, or not equally many.

    >>> import staticflow as sf
    >>> w = sf.full((4, 2, 2), 0.5)                       # of four stages
    >>> x = sf.placeholder((6, 3, 2), name="x")           # six micro-batches of three rows
    >>> y = sf.distributed.pipeline(sf.vmap(lambda w, x: x @ w), w, x, "stage")
    >>> run = sf.compile([x], y, mesh=sf.distributed.mesh(stage=-1))
    >>> run(sf.ones(6, 3, 2)).shape
    (6, 3, 2)
    """
    leaves, tree = pytree.flatten(weights)
    counts = {tuple(w.shape[:1]) for w in leaves}
    if len(counts) != 1 or counts == {()}:
        raise ShapeError(
            f"pipeline: the weights have the shapes {[list(w.shape) for w in leaves]}; each must "
            f"have a row for each stage, equally many, at {format_locs(here())}"
        )
    ((count,),) = counts

    parts = pytree.unflatten(tree, [shard(w, axis, *(None,) * (w.ndim - 1)) for w in leaves])
    is_first = (np.arange(count) == 0).reshape(count, *(1,) * (batches.ndim - 1))
    # Stages that have no batch yet, or none left, compute with one that they may be given.
    begun = expand(unsqueeze(batches[0], 0), (count, *batches.shape[1:]))
    behind = expand(batches[-1:], (count - 1, *batches.shape[1:]))

    def turn(given: Any, batch: Any) -> tuple[Any, Any]:
        taken = where(is_first, unsqueeze(batch, 0), roll(given, 1, 0))
        given = stages(parts, taken)
        return given, given

    _, found = scan(turn, begun, cat([batches, behind]))
    return found[count - 1 :, count - 1]
