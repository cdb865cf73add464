"""Collectives in the one order that all ranks have them in: what begins some, and ends them.

The collectives of a program are a chain. `agree` is its first link, each `begin` gives a number
that the next one takes, and `end` waits. Only a pass writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, RankError, ShapeError
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType, types_of
from staticflow.ops.along.collectives import (
    all_gather_op,
    all_reduce_op,
    all_to_all_op,
    broadcast_op,
    check_axes,
    exchange_op,
    gather_together,
    join_flat,
    members_of,
    own_array,
    part_flat,
    reduce_flat,
    reduce_scatter_op,
    scatter_together,
)
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.lowering import Host

__all__ = ["COLLECTIVES", "NUMBERS", "agree_op", "begin_op", "end_op"]

Array = np.ndarray[Any, Any]
Numbers = tuple[int, ...]


# -- sizes that all ranks are given alike --------------------------------------------------------


def _agree_infer(
    facts: Facts, sizes: TensorType, *, mesh: Numbers, axes: Numbers, names: tuple[str, ...]
) -> TensorType:
    check_axes(mesh, axes)
    if sizes != TensorType(int64, (len(names),)):
        raise DTypeError(f"the sizes are {sizes}; they must be i64, one for each of {len(names)}")
    return TensorType(int64, ())


def _agree_reference(
    xp: Any, sizes: Any, *, mesh: Numbers, axes: Numbers, names: tuple[str, ...]
) -> Any:
    communicator, members = members_of(mesh, axes)
    own = sizes.get() if hasattr(sizes, "get") else np.asarray(sizes)
    given = communicator.exchange(f"agree on {len(names)} sizes", members, [own] * len(members))
    wanted = given[0].tolist()
    for rank, sizes_there in zip(members, given, strict=True):
        for name, size, first in zip(names, sizes_there.tolist(), wanted, strict=True):
            if size != first:
                raise RankError(
                    f"rank {rank} is given {size} as the {name}, and rank {members[0]} {first}; "
                    "all ranks must be given one size: the whole array, or with "
                    "compile(..., local=True) parts of one size"
                )
    return xp.asarray(0, np.int64)


agree_op = Op(
    name="agree",
    doc="0, where all ranks of the group have the same ``sizes``; else an error names, of their "
    "``names``, the one that differs, and where.",
    infer=_agree_infer,
    reference=strict(_agree_infer, _agree_reference),
    vjp=None,
    lowering=Host(),
)


# -- what is begun and ended ---------------------------------------------------------------------

Together = Callable[[Array, Sequence[tuple[int, ...]], Numbers, Numbers, Numbers], list[Array]]
"""What does a collective of arrays of some shapes, in one row, in one message, each along its
dim."""


def _sum_together(
    flat: Array, shapes: Sequence[tuple[int, ...]], mesh: Numbers, axes: Numbers, _: Numbers
) -> list[Array]:
    return part_flat(reduce_flat(flat, mesh, axes, "sum"), shapes)


_TOGETHER: Mapping[str, Together] = {
    "all_gather": gather_together,
    "all_reduce": _sum_together,
    "reduce_scatter": scatter_together,
}
_BY_DIM = {"all_gather": all_gather_op, "reduce_scatter": reduce_scatter_op}


def _begin_infer(
    facts: Facts,
    before: TensorType,
    *xs: TensorType,
    collective: str,
    mesh: Numbers,
    axes: Numbers,
    along: Numbers,
) -> TensorType:
    check_axes(mesh, axes)
    _check_tickets(before)
    if collective not in _TOGETHER or len(along) != len(xs):
        raise ShapeError(
            f"{len(xs)} tensors have {len(along)} dims in {collective}; there is one for each, in "
            f"{', '.join(_TOGETHER)}"
        )
    if not xs or any(x.dtype is not xs[0].dtype for x in xs):
        raise DTypeError(f"what is sent together is {list(map(str, xs))}; it has one dtype")
    if xs[0].dtype is bool_ and collective != "all_gather":
        raise DTypeError("bools are not added; take an integer dtype")
    return before


def _check_tickets(*tickets: TensorType) -> None:
    if any(t != TensorType(int64, ()) for t in tickets):
        raise DTypeError(f"the numbers are {list(map(str, tickets))}; they must be i64 of no dims")


def _begin_reference(
    xp: Any, before: Any, *xs: Any, collective: str, mesh: Numbers, axes: Numbers, along: Numbers
) -> Any:
    communicator, members = members_of(mesh, axes)
    if before == 0:
        communicator.forget()
    if len(members) == 1:
        return xp.asarray(before).copy()
    flat = join_flat([own_array(x) for x in xs])  # a copy: an error may end the program meanwhile

    def work() -> list[Array]:
        return _TOGETHER[collective](flat, [x.shape for x in xs], mesh, axes, along)

    begin = communicator.begin if isinstance(flat, np.ndarray) else communicator.begin_aside
    return xp.asarray(begin(work))


begin_op = Op(
    name="begin",
    doc="Begins a ``collective`` of ``xs`` over the ranks of a group, each ``along`` a dim of its "
    "own, all in one message. Gives the number that `end` takes. ``before`` is the number of "
    "what was begun before it, or 0.",
    infer=_begin_infer,
    reference=strict(_begin_infer, _begin_reference),
    vjp=None,
    lowering=Host(),
)


def _end_infer(
    facts: Facts,
    own: TensorType,
    last: TensorType,
    *xs: TensorType,
    collective: str,
    mesh: Numbers,
    axes: Numbers,
    along: Numbers,
) -> tuple[TensorType, ...]:
    attrs = {"mesh": mesh, "axes": axes}
    _begin_infer(facts, own, *xs, collective=collective, along=along, **attrs)
    _check_tickets(last)
    if collective == "all_reduce":
        return xs
    infer = _BY_DIM[collective].infer
    found = [types_of(infer(facts, x, dim=d, **attrs)) for x, d in zip(xs, along, strict=True)]
    return tuple([t for (t,) in found])


def _end_reference(
    xp: Any, own: Any, last: Any, *xs: Any, collective: str, mesh: Numbers, axes: Numbers,
    along: Numbers,
) -> tuple[Any, ...]:  # fmt: skip
    communicator, members = members_of(mesh, axes)
    if len(members) == 1:
        return tuple([xp.asarray(x).copy() for x in xs])
    return tuple(map(xp.asarray, communicator.end(int(own))))


end_op = Op(
    name="end",
    doc="What the ``collective`` of ``xs`` gives that `begin` has begun, and numbered ``own``. All "
    "that was begun up to the number ``last`` was begun before it waits.",
    infer=_end_infer,
    reference=strict(_end_infer, _end_reference),
    vjp=None,
    lowering=Host(),
)


COLLECTIVES = (
    agree_op, all_gather_op, all_reduce_op, all_to_all_op, begin_op, broadcast_op, end_op,
    exchange_op, reduce_scatter_op,
)  # fmt: skip
"""The ops that send messages."""

NUMBERS: Mapping[Op, int] = {begin_op: 1, end_op: 2}
"""How many of the first operands of an op are numbers of what was begun."""
