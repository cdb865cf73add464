"""Selection by values that are known only when the program runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dims import (
    Size,
    dim_max,
    dim_min,
    is_provably_ge,
    prod,
    same,
    same_shape,
)
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.expand import common_shape, expand
from staticflow.ops.basics.reduce import add_wide
from staticflow.ops.basics.slicing import embed_op
from staticflow.ops.basics.view import atleast_1d, ravel, reshape
from staticflow.ops.declaring.array_modules import combine_at
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, per_arg, strict
from staticflow.ops.declaring.lowering import (
    Index,
    IndexCheck,
    LoopNest,
    Place,
    delinear,
    linear,
)
from staticflow.ops.indexing.radix import row_in
from staticflow.ops.indexing.rank_merge import sort_rows

__all__ = [
    "added_by",
    "as_vectors",
    "check_dtype",
    "check_range",
    "checks_of_dim",
    "gather",
    "gather_op",
    "load_index",
    "pad_cotangent",
    "position_at",
    "positions_of",
    "put_as_vectors",
    "read_part",
    "scatter_add",
    "scatter_add_op",
    "scatter_infer",
    "take_along",
    "take_along_dim",
]  # fmt: skip


def _fits(facts: Facts, x: TensorType, index: TensorType, dim: int) -> None:
    """An index tensor may be smaller than the tensor in every dim but ``dim``."""
    check_dtype(index)
    if index.ndim != x.ndim:
        raise ShapeError(f"the index {index} must have as many dims as {x}")
    for axis, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)):
        if axis != dim:
            facts.at_least(n, m, f"dim {axis} of {x}, beside the index {index}")


def _gather_infer(facts: Facts, x: TensorType, index: TensorType, *, dim: int) -> TensorType:
    _fits(facts, x, index, dim)
    return TensorType(x.dtype, index.shape)


def check_dtype(index: TensorType) -> None:
    """Refuse what is no index tensor."""
    if index.dtype.kind not in "iu":
        raise DTypeError(f"the index is {index.dtype}; it must be of an integer dtype")


def check_range(
    xp: Any, index: Any, size: int, what: str, dim: int | None = None, wrap: bool = False
) -> None:
    """Raises `IndexRangeError` naming the first index outside ``[0, size)``; with ``wrap`` outside
    ``[-size, size)``."""
    least = -size if wrap else 0
    bad = (index < least) | (index >= size)
    if bad.any():
        at = tuple(int(i) for i in xp.argwhere(bad)[0])
        value = int(index[at])
        raise IndexRangeError(
            f"{what}: the index {value}, at {list(at)}, is outside dim"
            f"{'' if dim is None else f' {dim}'} of size {size}; "
            f"it must be from {least} to {size - 1}"
        )


def load_index(nest: Any, which: int, at: Index, size: Size, wrap: bool = False) -> Size:
    """In a loop nest: the position in a dim of ``size`` that argument ``which``, broadcast, names
    at ``at``, checked."""
    k = nest.k
    shape = nest.in_shape(which)
    own = at[len(at) - len(shape) :]
    value = k.cast(
        nest.load(which, tuple(0 if d == 1 else i for i, d in zip(own, shape, strict=True))), int64
    )
    if wrap:
        value = k.select(k.compare("lt", value, 0), k.add(value, k.index_value(size)), value)
    nest.check_index(value, size)
    position: Size = k.bind(value, "at", size)
    return position


def _positions(
    xp: Any, shape: tuple[int, ...], dim: int
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What the index of each element of an array of ``shape`` is before and behind ``dim``."""
    positions = [
        xp.arange(n).reshape([n if axis == i else 1 for i in range(len(shape))])
        for axis, n in enumerate(shape)
    ]
    return tuple(positions[:dim]), tuple(positions[dim + 1 :])


_known_positions = lru_cache(256)(_positions)
_SMALL = 1 << 12


def positions_around(
    xp: Any, shape: tuple[int, ...], dim: int
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What stands before and behind ``dim`` in the key that names each element of an array of
    ``shape``. Small ones are kept, but not on a GPU, of which there may be several."""
    kept = xp is np and math.prod(shape) < _SMALL
    return (_known_positions if kept else _positions)(xp, shape, dim)


def take_along(xp: Any, x: Any, index: Any, dim: int) -> Any:
    """The elements of the array ``x`` at ``index`` along ``dim``; the other sizes are those of
    ``index``."""
    before, behind = positions_around(xp, index.shape, dim)
    return x[(*before, index, *behind)]


def _gather_reference(xp: Any, x: Any, index: Any, *, dim: int) -> Any:
    check_range(xp, index, x.shape[dim], "gather", dim)
    return take_along(xp, x, index.astype(xp.int64, copy=False), dim)


def position_at(nest: Any, at: Index, size: Size) -> Index:
    """The position that the index at ``at`` selects, checked."""
    dim = nest.attrs["dim"]
    return (*at[:dim], load_index(nest, 1, at, size), *at[dim + 1 :])


def checks_of_dim(x: TensorType, index: TensorType, *_: TensorType, dim: int) -> list[IndexCheck]:
    """What is checked of an index along ``dim`` of ``x``."""
    return [IndexCheck(1, x.shape[dim])]


def _gather_emit(nest: Any) -> None:
    size = nest.in_shape(0)[nest.attrs["dim"]]
    with nest.loops(nest.in_shape(1), "parallel") as at:
        nest.store(0, at, nest.load(0, position_at(nest, at, size)))


def _gather_source(
    index: Index, x: Shape, index_shape: Shape, *, dim: int
) -> tuple[tuple[Index], Place] | None:
    """Where an element comes from that is alone along ``dim``, or of a vector."""
    if len(x) > 1 and index_shape[dim] != 1:
        return None
    return (index,), lambda at: (*index[:dim], *at, *index[dim + 1 :])


gather_op = Op(
    name="gather",
    doc="``out[i, j] = x[index[i, j], j]`` for dim 0, and so on.",
    infer=_gather_infer,
    reference=strict(_gather_infer, _gather_reference),
    vjp=per_arg(
        lambda ct, out, x, index, *, dim: add_wide(
            lambda zeros, ct: scatter_add_op(zeros, index, ct, dim=dim), zeros_like(x), ct
        ),
        None,
    ),
    lowering=LoopNest(_gather_emit, checks=checks_of_dim, source=_gather_source),
    numpy="slower",
    grad_name="GatherBackward0",
)


@by_shape
def gather(input: Any, dim: int, index: Any) -> Any:
    """The elements of ``input`` that ``index`` names along ``dim``: ``out[i, j] = input[i, index[i,
    j]]`` for ``dim=1``. ``index`` has the dims of ``input`` and an integer dtype.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.
    """
    at = normalize_dim(dim, input.ndim, "gather")
    if same(prod(index.shape), 0):  # of any shape, as in PyTorch
        flat = gather_op(ravel(input), cast(ravel(index), dtype=int64), dim=0)
        return reshape(flat, index.shape)
    return as_vectors(gather_op, input, index, like=index, dim=at)


@by_shape
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` with the other dims of ``input`` and ``indices`` broadcast; without ``dim`` from all
    of ``input`` in row-major order. What ``argsort(dim)`` gives is what it takes. Along a ``dim``
    negative indices count from the end.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.
    """
    if dim is None:
        return gather(ravel(input), 0, ravel(indices))
    at = normalize_dim(dim, input.ndim, "take_along_dim")
    if input.ndim != indices.ndim:
        raise ShapeError(
            f"take_along_dim: the indices have the shape {list(indices.shape)} and the tensor "
            f"{list(input.shape)}; they must have as many dims, at {format_locs(here())}"
        )
    apart = [tuple(1 if i == at else d for i, d in enumerate(t.shape)) for t in (input, indices)]
    rest = common_shape(apart, "take_along_dim")

    def stretch(t: Any) -> Any:
        return expand(t, tuple(t.shape[i] if i == at else d for i, d in enumerate(rest)))

    positions = stretch(indices)
    if positions.dtype.kind == "i":  # from the end
        positions = where(positions < 0, positions + input.shape[at], positions)
    return gather(stretch(input), at, positions)


def scatter_infer(
    facts: Facts, x: TensorType, index: TensorType, src: TensorType, *, dim: int
) -> TensorType:
    """The type rule of the ops that put or combine ``src`` in the places of ``index``."""
    _fits(facts, x, index, dim)
    if src.dtype is not x.dtype:
        raise DTypeError(f"the source is {src.dtype} and the target {x.dtype}")
    if src.ndim != index.ndim:
        raise ShapeError(f"the source {src} must have as many dims as the index {index}")
    for axis, (n, m) in enumerate(zip(src.shape, index.shape, strict=True)):
        facts.at_least(n, m, f"dim {axis} of the source {src}, beside the index {index}")
    return x


def positions_of(xp: Any, x: Any, index: Any, dim: int, op: str) -> tuple[Any, ...]:
    """The key under which NumPy finds the positions of a scatter; the index is checked."""
    check_range(xp, index, x.shape[dim], op, dim)
    before, behind = positions_around(xp, index.shape, dim)
    return (*before, index, *behind)


def read_part(src: Any, index: Any) -> Any:
    """What of a source an index reads, whose sizes may be smaller."""
    return src[tuple(slice(n) for n in index.shape)]


def _scatter_reference(xp: Any, x: Any, index: Any, src: Any, *, dim: int) -> Any:
    out = x.copy()
    key = positions_of(xp, x, index, dim, "scatter_add")
    combine_at(xp, "add", out, key, read_part(src, index))
    return out


def added_by(value: Any) -> str:
    """How elements are added: bools by or."""
    return "or" if value.dtype is bool_ else "add"


_MANY = 1 << 15
"""Elements up to which threads of a GPU that own positions look at all indices; more are sorted by
the position that they come to, and a thread for each position takes its own."""


def in_order(nest: Any, position_at: Callable[[Index], Index]) -> Iterator[Index]:
    """The indices of all elements of the second argument, an index tensor, in order along the dim
    in which positions may repeat. What is done to an element is written by the body of ``for at in
    in_order(...)``, once or twice; it touches nothing of the result but ``position_at(at)``."""
    shape, dim = nest.in_shape(1), nest.attrs["dim"]
    count = prod(shape)
    is_many: Size = 0
    if nest.has_teams and not nest.only_looks and shape:
        is_many = dim_min(count // (_MANY + 1), 1)
        if is_provably_ge(count, _MANY + 1):
            is_many = 1
    if is_many != 1:
        few = (shape[0] * (1 - is_many), *shape[1:]) if shape else shape
        with nest.loops(few[:dim], "parallel") as rows, nest.loops(few[dim:], "serial") as at:
            yield (*rows, *at)
    if is_many != 0:
        yield from _by_position(nest, position_at, count, is_many)


def _by_position(
    nest: Any, position_at: Callable[[Index], Index], count: Size, times: Size
) -> Iterator[Index]:
    """The indices of elements, in launches that a ``count`` that is small, with 0 ``times``, makes
    none of."""
    k, shape, out = nest.k, nest.in_shape(1), nest.out_type(0)
    rooms = [nest.scratch(int64, count * times) for _ in range(4)]
    spare = row_in(k, rooms[0], rooms[1], lambda j: j)
    ordered = row_in(k, rooms[2], rooms[3], lambda j: j)

    def index_of(number: Size) -> Index:
        pairs = zip(delinear(number, shape), shape, strict=True)
        return tuple(k.bind(k.index_value(i), "i", n) for i, n in pairs)

    with k.loop("element", count * times, kind="grid") as element:
        place = linear(position_at(index_of(element)), out.shape)
        ordered.store(element, k.index_value(place), k.index_value(element))
    sort_rows(
        k, count, 1, lambda _: (ordered, spare, ordered), lambda a, b: k.compare("lt", a, b), times
    )
    with k.loop("first", count * times, kind="grid") as first:
        place = ordered.key(first)
        before = ordered.key(dim_max(first - 1, 0))
        begins = k.compare("eq", k.index_value(first), 0)
        with k.when(k.apply("or", begins, k.compare("ne", place, before))):
            going = k.var(k.const(True, bool_))
            with k.loop("j", count, lo=first, going=going) as j:
                same = k.compare("eq", ordered.key(j), place)
                with k.when(same):
                    yield index_of(k.bind(ordered.position(j), "element", count))
                k.set(going, same)


def _scatter_emit(nest: Any) -> None:
    k = nest.k
    size = nest.in_shape(0)[nest.attrs["dim"]]
    nest.copy(0)
    for at in in_order(nest, lambda at: position_at(nest, at, size)):
        position = position_at(nest, at, size)
        value = nest.load(2, at)
        nest.store(0, position, k.apply(added_by(value), nest.load_out(0, position), value))


def pad_cotangent(used: Any, src: Any) -> Any:
    """The cotangent of a source from that of the part that was read, as large as the index."""
    if same_shape(used.shape, src.shape):
        return used
    rank = len(src.shape)
    return embed_op(used, shape=src.shape, start=(0,) * rank, step=(1,) * rank)


scatter_add_op: Op = Op(
    name="scatter_add",
    doc="``x`` with ``src`` added where ``index`` says, positions that repeat in order.",
    infer=scatter_infer,
    reference=strict(scatter_infer, _scatter_reference),
    vjp=per_arg(
        lambda ct, out, x, index, src, *, dim: ct,
        None,
        lambda ct, out, x, index, src, *, dim: pad_cotangent(gather_op(ct, index, dim=dim), src),
    ),
    lowering=LoopNest(_scatter_emit, updates=True, checks=checks_of_dim),
    numpy="slower",
    grad_name="ScatterAddBackward0",
)


@by_shape
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """``input`` with ``src[i, j]`` added at ``[i, index[i, j]]`` for ``dim=1``; ``input`` is not
    changed.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.
    """
    at = normalize_dim(dim, input.ndim, "scatter_add")
    return add_wide(
        lambda x, src: put_as_vectors(scatter_add_op, x, index, src, dim=at), input, src
    )


def as_vectors(op: Op, *args: Any, like: Any, **attrs: Any) -> Any:
    """``op``, which wants a dim, also on 0-d tensors, among vectors, too: as vectors of one. The
    result has the shape of ``like``."""
    ranks = [a.ndim for a in args]
    if 0 in ranks and max(ranks) <= 1:
        return reshape(op(*map(atleast_1d, args), **attrs), like.shape)
    return op(*args, **attrs)


def put_as_vectors(op: Op, x: Any, index: Any, src: Any, **attrs: Any) -> Any:
    """``op``, which puts ``src`` in ``x``, also on 0-d tensors; an empty index of any shape puts
    nothing."""
    if same(prod(index.shape), 0):
        return x.clone()
    return as_vectors(op, x, index, src, like=x, **attrs)
