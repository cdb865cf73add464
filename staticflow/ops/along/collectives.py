"""What the ranks of a mesh do together: sums over ranks, tensors gathered, dealt out and exchanged.

A mesh has ``mesh`` ranks along each of its axes, rank 0 first, the last axis fastest. A collective
is over some ``axes``: the ranks that differ in nothing else are a *group*, and act together. No
attribute says which rank this one is, so that the graph is the same on all.

A gradient is that of the sum of what all ranks compute. So the gradient of a sum over ranks is the
sum of the ranks' cotangents, and gathering and scattered sums are each other's gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, RankError, ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import bool_, dtype_of
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.reduce import accumulator, narrow_as, widen
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.communicator import Communicator, current
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import Host, View

__all__ = [
    "AT_ONCE",
    "all_gather_op",
    "all_reduce_op",
    "all_to_all_op",
    "broadcast_op",
    "check_axes",
    "combine_parts",
    "exchange_op",
    "gather_together",
    "goes_at_once",
    "group_of",
    "join_flat",
    "members_of",
    "own_array",
    "part_flat",
    "reduce_flat",
    "reduce_scatter_op",
    "scatter_together",
    "shard_op",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Numbers = tuple[int, ...]

AT_ONCE = 8192
"""Bytes up to which each rank sends all it has to all others, and each adds up for itself: one
exchange, where more has two, of a part for each rank. The order of a sum is that of the ranks in
either way, so the bits are the same. Of two ranks each sends as many bytes in either way, so they
have one exchange of whatever length."""

_COMBINE: dict[str, Callable[..., Any]] = {"sum": np.add, "amax": np.maximum, "amin": np.minimum}


# -- groups --------------------------------------------------------------------------------------


def group_of(rank: int, mesh: Numbers, axes: Numbers) -> list[int]:
    """The ranks of the group that ``rank`` is in, in their order along ``axes``."""
    own = np.unravel_index(rank, mesh)
    ranks = np.arange(math.prod(mesh)).reshape(mesh)
    kept = ranks[tuple(slice(None) if i in axes else own[i] for i in range(len(mesh)))]
    return [int(r) for r in kept.ravel()]


def _count(mesh: Numbers, axes: Numbers) -> int:
    return math.prod(mesh[a] for a in axes)


def check_axes(mesh: Numbers, axes: Numbers) -> None:
    """Raise `ShapeError` for axes that a mesh does not have."""
    if not all(a < len(mesh) for a in axes) or list(axes) != sorted(set(axes)):
        raise ShapeError(f"the axes are {axes}; they must be of a mesh {mesh}, and ascend")


def members_of(mesh: Numbers, axes: Numbers) -> tuple[Communicator, list[int]]:
    """Who carries the messages of this rank, and its group. Raises `RankError` if there are not as
    many ranks as the mesh has."""
    communicator, wanted = current(), math.prod(mesh)
    if communicator.size != wanted:
        raise RankError(
            f"it is for a mesh {list(mesh)}, of {wanted} ranks, and there are "
            f"{communicator.size}; start as many, as with python -m staticflow launch -n {wanted}"
        )
    return communicator, group_of(communicator.rank, mesh, axes)


def _exchange(
    name: str, like: Array, mesh: Numbers, axes: Numbers, parts: Callable[[int, int], Sequence[Any]]
) -> list[Array]:
    """One part from each member of the group, where ``parts(place, count)`` are those that it gets
    of the member at this place."""
    communicator, members = members_of(mesh, axes)
    kind = TensorType(dtype_of(like.dtype), like.shape)
    what = f"{name} of {kind} over {list(axes)} of a mesh {list(mesh)}"
    flat = [p.ravel() for p in parts(members.index(communicator.rank), len(members))]
    return communicator.exchange(what, members, flat)


def own_array(x: Any) -> Array:
    """The elements where they are sent from: those of a GPU there, if something carries them, else
    in the memory of the host."""
    if not hasattr(x, "get"):
        return np.asarray(x)
    found: Array = x if current().carrier is not None else x.get()
    return found


def combine_parts(parts: Sequence[Array], reduce: str = "sum") -> Array:
    """Parts of one shape added up, or the largest or smallest of them, in their order."""
    dtype = parts[0].dtype
    wide = accumulator(dtype) if reduce == "sum" else dtype
    total = parts[0].astype(wide, copy=len(parts) == 1)
    for i, part in enumerate(parts[1:]):
        out = total if i else None  # the first sum has memory of its own
        total = _COMBINE[reduce](total, part.astype(wide, copy=False), out=out)
    return total.astype(dtype, copy=False)


def join_flat(xs: Sequence[Array]) -> Array:
    """A copy of the elements of some arrays of one dtype in one row."""
    return np.concatenate([x.reshape(-1) for x in xs])


def part_flat(flat: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Views of a row of elements as arrays of these shapes, one behind the other."""
    ends = list(accumulate(map(math.prod, shapes), initial=0))
    return [flat[a:b].reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False)]


# -- all_reduce ----------------------------------------------------------------------------------


def _reduce_infer(
    facts: Facts, x: TensorType, *, mesh: Numbers, axes: Numbers, reduce: str
) -> TensorType:
    check_axes(mesh, axes)
    if x.dtype is bool_ and reduce == "sum":
        raise DTypeError("bools are not added; take an integer dtype")
    return x


def goes_at_once(nbytes: int, ranks: int) -> bool:
    """Whether so many bytes are added up over so many ranks in one exchange."""
    return nbytes <= AT_ONCE or ranks <= 2


def reduce_flat(flat: Array, mesh: Numbers, axes: Numbers, reduce: str) -> Array:
    """The elements of all members of the group combined, one behind the other."""
    count = _count(mesh, axes)

    def exchange(parts: Callable[[int, int], Sequence[Any]]) -> list[Array]:
        return _exchange(f"all_reduce ({reduce})", flat, mesh, axes, parts)

    if goes_at_once(flat.nbytes, count):
        return combine_parts(exchange(lambda place, n: [flat] * n), reduce)
    ends = [flat.size * i // count for i in range(count + 1)]
    mine = exchange(lambda place, n: [flat[ends[i] : ends[i + 1]] for i in range(n)])
    share = combine_parts(mine, reduce)
    return np.concatenate(exchange(lambda place, n: [share] * n))


def _reduce_reference(xp: Any, x: Any, *, mesh: Numbers, axes: Numbers, reduce: str) -> Any:
    own = own_array(x)
    return xp.asarray(reduce_flat(own.reshape(-1), mesh, axes, reduce).reshape(own.shape))


def _reduce_vjp(ct: Any, out: Any, x: Any, *, mesh: Numbers, axes: Numbers, reduce: str) -> Any:
    def total(y: Any) -> Any:
        return all_reduce_op(y, mesh=mesh, axes=axes, reduce="sum")

    if reduce == "sum":
        return total(ct)
    chosen = x == out  # which share it evenly, as equal elements do in `amax`
    among = total(cast(chosen, dtype=widen(ct).dtype))
    return where(chosen, narrow_as(widen(total(ct)) / among, ct), 0)


all_reduce_op = Op(
    name="all_reduce",
    doc="On each rank the ``sum`` of what all ranks of its group have, in the order of the ranks, "
    "or the largest (``amax``) or smallest (``amin``).",
    infer=_reduce_infer,
    reference=strict(_reduce_infer, _reduce_reference),
    vjp=per_arg(_reduce_vjp),
    saves=(0, OUT),
    lowering=Host(),
    grad_name="AllReduceBackward",
)


# -- all_gather and reduce_scatter ---------------------------------------------------------------


def _check_dims(x: TensorType, *dims: int) -> None:
    if any(d >= x.ndim for d in dims):
        raise ShapeError(f"{x} has no dim {max(dims)}")


def _split(facts: Facts, x: TensorType, dim: int, count: int) -> Size:
    size = x.shape[dim]
    facts.equal(size, size // count * count, f"dim {dim}, and what {count} ranks get evenly")
    return size // count


def _gather_infer(
    facts: Facts, x: TensorType, *, mesh: Numbers, axes: Numbers, dim: int
) -> TensorType:
    check_axes(mesh, axes)
    _check_dims(x, dim)
    shape = list(x.shape)
    shape[dim] = shape[dim] * _count(mesh, axes)
    return TensorType(x.dtype, tuple(shape))


def _gather_reference(xp: Any, x: Any, *, mesh: Numbers, axes: Numbers, dim: int) -> Any:
    own = own_array(x)
    return xp.asarray(gather_together(own.reshape(-1), [own.shape], mesh, axes, (dim,))[0])


def gather_together(
    flat: Array, shapes: Sequence[tuple[int, ...]], mesh: Numbers, axes: Numbers, dims: Numbers
) -> list[Array]:
    """What all members of the group have as each of the arrays of these shapes in ``flat``, joined
    along its dim, at once."""
    parts = _exchange("all_gather", flat, mesh, axes, lambda place, n: [flat] * n)
    pieces = [part_flat(p, shapes) for p in parts]
    return [
        np.concatenate(of_x, d) for of_x, d in zip(zip(*pieces, strict=True), dims, strict=True)
    ]


all_gather_op = Op(
    name="all_gather",
    doc="On each rank what all ranks of its group have, joined along ``dim`` in their order.",
    infer=_gather_infer,
    reference=strict(_gather_infer, _gather_reference),
    vjp=per_arg(
        lambda ct, out, x, *, mesh, axes, dim: reduce_scatter_op(ct, mesh=mesh, axes=axes, dim=dim)
    ),
    lowering=Host(),
    grad_name="AllGatherBackward",
)


def _scatter_infer(
    facts: Facts, x: TensorType, *, mesh: Numbers, axes: Numbers, dim: int
) -> TensorType:
    check_axes(mesh, axes)
    _check_dims(x, dim)
    if x.dtype is bool_:
        raise DTypeError("bools are not added; take an integer dtype")
    shape = list(x.shape)
    shape[dim] = _split(facts, x, dim, _count(mesh, axes))
    return TensorType(x.dtype, tuple(shape))


def _scatter_reference(xp: Any, x: Any, *, mesh: Numbers, axes: Numbers, dim: int) -> Any:
    own = own_array(x)
    return xp.asarray(scatter_together(own.reshape(-1), [own.shape], mesh, axes, (dim,))[0])


def scatter_together(
    flat: Array, shapes: Sequence[tuple[int, ...]], mesh: Numbers, axes: Numbers, dims: Numbers
) -> list[Array]:
    """This rank's part, along its dim, of the sum of each of the arrays of these shapes in
    ``flat``, at once."""
    count = _count(mesh, axes)
    shares = [np.split(x, count, d) for x, d in zip(part_flat(flat, shapes), dims, strict=True)]
    to_each = [join_flat(of_rank) for of_rank in zip(*shares, strict=True)]
    parts = _exchange("reduce_scatter", to_each[0], mesh, axes, lambda place, n: to_each)
    return part_flat(combine_parts(parts, "sum"), [of_x[0].shape for of_x in shares])


reduce_scatter_op: Op = Op(
    name="reduce_scatter",
    doc="Of the sum of what all ranks of a group have, on each rank its part along ``dim``.",
    infer=_scatter_infer,
    reference=strict(_scatter_infer, _scatter_reference),
    vjp=per_arg(
        lambda ct, out, x, *, mesh, axes, dim: all_gather_op(ct, mesh=mesh, axes=axes, dim=dim)
    ),
    lowering=Host(),
    grad_name="ReduceScatterBackward",
)


# -- all_to_all ----------------------------------------------------------------------------------


def _to_all_infer(
    facts: Facts, x: TensorType, *, mesh: Numbers, axes: Numbers, dim0: int, dim1: int
) -> TensorType:
    check_axes(mesh, axes)
    _check_dims(x, dim0, dim1)
    count = _count(mesh, axes)
    shape = list(x.shape)
    shape[dim0] = _split(facts, x, dim0, count)
    shape[dim1] = shape[dim1] * count
    return TensorType(x.dtype, tuple(shape))


def _to_all_reference(
    xp: Any, x: Any, *, mesh: Numbers, axes: Numbers, dim0: int, dim1: int
) -> Any:
    own = own_array(x)
    shares = np.split(own, _count(mesh, axes), dim0)
    parts = _exchange("all_to_all", own, mesh, axes, lambda place, n: shares)
    return xp.asarray(np.concatenate([p.reshape(shares[0].shape) for p in parts], dim1))


all_to_all_op: Op = Op(
    name="all_to_all",
    doc="Each rank deals out ``dim0`` to the ranks of its group, and joins what it is dealt along "
    "``dim1``.",
    infer=_to_all_infer,
    reference=strict(_to_all_infer, _to_all_reference),
    vjp=per_arg(
        lambda ct, out, x, *, mesh, axes, dim0, dim1: all_to_all_op(
            ct, mesh=mesh, axes=axes, dim0=dim1, dim1=dim0
        )
    ),
    lowering=Host(),
    grad_name="AllToAllBackward",
)


# -- broadcast -----------------------------------------------------------------------------------


def _broadcast_infer(
    facts: Facts, x: TensorType, *, mesh: Numbers, axes: Numbers, root: int
) -> TensorType:
    check_axes(mesh, axes)
    if root >= _count(mesh, axes):
        raise ShapeError(f"the root is {root}; it must be below {_count(mesh, axes)}")
    return x


def _broadcast_reference(xp: Any, x: Any, *, mesh: Numbers, axes: Numbers, root: int) -> Any:
    own = own_array(x)
    nothing = own.reshape(-1)[:0]
    parts = _exchange(
        f"broadcast from {root}", own, mesh, axes,
        lambda place, n: [own if place == root else nothing] * n,
    )  # fmt: skip
    return xp.asarray(parts[root].reshape(own.shape).copy())


def _broadcast_vjp(ct: Any, out: Any, x: Any, *, mesh: Numbers, axes: Numbers, root: int) -> Any:
    """The sum of the cotangents on the root, and 0 elsewhere."""
    count = _count(mesh, axes)
    rows = stack([ct if i == root else zeros_like(ct) for i in range(count)])
    return reshape(reduce_scatter_op(rows, mesh=mesh, axes=axes, dim=0), ct.shape)


broadcast_op = Op(
    name="broadcast",
    doc="On each rank what the member ``root`` of its group has.",
    infer=_broadcast_infer,
    reference=strict(_broadcast_infer, _broadcast_reference),
    vjp=per_arg(_broadcast_vjp),
    lowering=Host(),
    grad_name="BroadcastBackward",
)


# -- exchange --------------------------------------------------------------------------------------


def _pairs_infer(
    facts: Facts, x: TensorType, *, mesh: Numbers, axes: Numbers, senders: Numbers,
    receivers: Numbers,
) -> TensorType:  # fmt: skip
    check_axes(mesh, axes)
    said = f"{list(senders)} send to {list(receivers)}"
    if len(senders) != len(receivers):
        raise ShapeError(f"{said}; there must be as many of either")
    if len(set(senders)) != len(senders) or len(set(receivers)) != len(receivers):
        raise ShapeError(f"{said}; each may send to one, and receive from one")
    if any(place >= _count(mesh, axes) for place in (*senders, *receivers)):
        raise ShapeError(f"{said}; all must be below {_count(mesh, axes)}")
    return x


def _pairs_reference(
    xp: Any, x: Any, *, mesh: Numbers, axes: Numbers, senders: Numbers, receivers: Numbers
) -> Any:
    own = own_array(x)
    target = dict(zip(senders, receivers, strict=True))
    source = dict(zip(receivers, senders, strict=True))
    nothing = own.reshape(-1)[:0]

    def parts(place: int, count: int) -> list[Array]:
        return [own if target.get(place) == i else nothing for i in range(count)]

    name = f"exchange from {list(senders)} to {list(receivers)}"
    found = _exchange(name, own, mesh, axes, parts)
    _, members = members_of(mesh, axes)
    at = source.get(members.index(current().rank))
    return (
        xp.zeros(own.shape, own.dtype)
        if at is None
        else xp.asarray(found[at].reshape(own.shape).copy())
    )


exchange_op: Op = Op(
    name="exchange",
    doc="On each rank what another of its group sends to it: ``senders[i]`` sends to "
    "``receivers[i]``. Zeros where none does.",
    infer=_pairs_infer,
    reference=strict(_pairs_infer, _pairs_reference),
    vjp=per_arg(
        lambda ct, out, x, *, mesh, axes, senders, receivers: exchange_op(
            ct, mesh=mesh, axes=axes, senders=receivers, receivers=senders
        )
    ),
    lowering=Host(),
    grad_name="ExchangeBackward",
)


# -- shard ---------------------------------------------------------------------------------------


def _shard_infer(facts: Facts, x: TensorType, *, spec: tuple[str, ...]) -> TensorType:
    named = [name for name in spec if name]
    if len(spec) != x.ndim:
        raise ShapeError(
            f"{x} has {x.ndim} dims, and {len(spec)} are said how to split; give a name or None "
            "for each"
        )
    if len(set(named)) != len(named):
        raise ShapeError(f"one axis splits two dims in {list(spec)}; each may split one")
    return x


shard_op: Op = Op(
    name="shard",
    doc="``x``, of which each dim that has a name in ``spec`` is to be split over the mesh axis of "
    "that name.",
    infer=_shard_infer,
    reference=strict(_shard_infer, lambda xp, x, *, spec: x[...]),
    vjp=per_arg(lambda ct, out, x, *, spec: shard_op(ct, spec=spec)),
    lowering=View(lambda i, src, dst, *, spec: i),
    grad_name="ShardBackward",
)
