"""Elements moved on along a dim, and each repeated as often as is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import IndexRangeError, ShapeError
from staticflow.graph.dims import Size, dim_max, floor_div, same, same_shape
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import remainder
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.joining import cat_op
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.basics.view import (
    ravel,
    reshape,
    reshape_copied,
    unsqueeze,
)
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, per_arg, strict
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.declaring.sizes import as_size, as_sizes, is_symbolic, several_of
from staticflow.ops.indexing.index_functions import index_select

__all__ = ["repeat_interleave", "repeated_index_op", "roll", "roll_op"]


# -- roll ---------------------------------------------------------------------------------------


def _decompose_roll(x: Any, *, shift: Size, dim: int) -> Any:
    size = x.shape[dim]
    some = dim_max(size, 1)
    by = shift - floor_div(shift, some) * some  # the remainder, and 0 of nothing
    return cat_op(part_of(x, dim, size - by, by), part_of(x, dim, 0, size - by), dim=dim)


def _roll_reference(xp: Any, x: Any, *, shift: int, dim: int) -> Any:
    size = x.shape[dim]
    if not size:
        return x.copy()
    before = (slice(None),) * dim
    first = size - shift % size
    return xp.concatenate((x[(*before, slice(first, None))], x[(*before, slice(first))]), dim)


roll_op: Op = Op(
    name="roll",
    doc="The elements moved on by ``shift`` positions along ``dim``; those that leave come in "
    "again.",
    infer=lambda facts, x, *, shift, dim: x,
    reference=_roll_reference,
    vjp=per_arg(lambda ct, out, x, *, shift, dim: roll_op(ct, shift=-shift, dim=dim)),
    decompose=_decompose_roll,
    numpy="alone",
    exact=True,
    grad_name="RollBackward0",
)


@by_shape
def roll(input: Any, shifts: Size | Sequence[Size], dims: int | Sequence[int] | None = None) -> Any:
    """The elements moved on by ``shifts`` along ``dims``, those that leave coming in at the other
    end; without ``dims`` along all elements in their order.

    >>> import staticflow as sf
    >>> sf.roll(sf.arange(4), 1)
    tensor([3, 0, 1, 2])
    """
    by = several_of((shifts,))
    if dims is None:
        if len(by) != 1:
            raise ShapeError(f"roll: {len(by)} shifts want their dims, at {format_locs(here())}")
        return reshape(_shift(ravel(input), by[0], 0), input.shape)
    along = as_sizes(dims)
    if len(along) != len(by):
        raise ShapeError(f"roll: {len(by)} shifts for {len(along)} dims, at {format_locs(here())}")
    for shift, dim in zip(by, along, strict=True):
        at = normalize_dim(dim, input.ndim, "roll")
        input = _shift(input, shift, at) if input.ndim else input
    return input


def _shift(x: Any, shift: Any, dim: int) -> Any:
    if not is_symbolic(shift):
        return roll_op(x, shift=as_size(shift), dim=dim)
    n = x.shape[dim]  # a shift that only the run can tell may be negative, which no size is
    positions = iota.beside(x, shape=(n,), dim=0, dtype=int64) - shift
    return index_select(x, dim, remainder(positions, n))


# -- repeat_interleave ----------------------------------------------------------------------------


def _counts_infer(facts: Facts, repeats: TensorType, *, size: Size) -> TensorType:
    if repeats.ndim != 1 or repeats.dtype.kind not in "iu":
        raise ShapeError(f"the repeats are {repeats}; they must be a vector of integers")
    return TensorType(int64, (size,))


def _counts_reference(xp: Any, repeats: Any, *, size: int) -> Any:
    if (repeats < 0).any():
        raise IndexRangeError("the repeats must not be negative")
    found = xp.repeat(xp.arange(len(repeats)), repeats)
    if len(found) != size:
        raise IndexRangeError(f"the repeats are {len(found)} in all, not {size}")
    return found


_HALVINGS = 64
"""Steps of a binary search: enough for any size."""


def _counts_by_teams(nest: Any) -> None:
    """A scan finds behind which position each index ends; then each position finds its index."""
    k = nest.k
    (n,), (size,) = nest.in_shape(0), nest.out_shape(0)
    ends, total = nest.scratch(int64, n), nest.scratch(int64, 1)
    with nest.loops((n,), "parallel") as (i,):
        nest.check_index(k.cast(nest.load(0, (i,)), int64), size + 1)
    with k.loop("one", 1, kind="blocks"):
        written = k.var(k.const(0, int64))
        with k.loop("i", n, kind="scan") as i:
            k.accumulate(written, "add", k.cast(nest.load(0, (i,)), int64))
            k.store(ends, i, written)
        k.store(total, 0, written)
    nest.check_index(k.sub(k.index_value(size), k.load(total, 0)), 1)
    with nest.loops((size,), "parallel") as (at,):
        low, high = k.var(k.const(0, int64)), k.var(k.index_value(n))
        going = k.var(k.compare("lt", low, high))
        with k.loop("step", _HALVINGS, going=going):
            half = k.apply("quotient", k.add(low, high), 2)
            is_over = k.compare("le", k.load(ends, k.bind(half, "half", n)), k.index_value(at))
            k.set(low, k.select(is_over, k.add(half, 1), low))
            k.set(high, k.select(is_over, high, half))
            k.set(going, k.compare("lt", low, high))
        nest.store(0, (at,), low)


def _counts_emit(nest: Any) -> None:
    if nest.has_teams:
        _counts_by_teams(nest)
        return
    k = nest.k
    (n,), (size,) = nest.in_shape(0), nest.out_shape(0)
    written = k.var(k.const(0, int64))
    with nest.loops((n,), "serial") as (i,):
        count = k.cast(nest.load(0, (i,)), int64)
        nest.check_index(count, size + 1)
        with k.loop("r", k.bind(count, "count"), kind="serial"):
            nest.check_index(written, size)
            nest.store(0, (k.bind(written, "at", size),), k.index_value(i))
            k.set(written, k.add(written, 1))
    nest.check_index(k.sub(k.index_value(size), written), 1)


repeated_index_op = Op(
    name="repeated_index",
    doc="Each index of ``repeats`` as often as that says; ``size`` of them in all.",
    infer=_counts_infer,
    reference=strict(_counts_infer, _counts_reference),
    vjp=None,
    lowering=LoopNest(_counts_emit),
)


@by_shape
def _repeat_each(input: Any, repeats: Size, dim: int) -> Any:
    """Each slice along ``dim`` as often as ``repeats`` says, one behind the other."""
    many = (*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :])
    shape = (*input.shape[:dim], input.shape[dim] * repeats, *input.shape[dim + 1 :])
    return reshape_copied(expand(unsqueeze(input, dim + 1), many), shape)


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: Size | None = None
) -> Any:
    """Each element (or with ``dim`` each slice) ``repeats`` times, one behind the other. That is a
    number, or a vector with one for each, whose sum need not be computed where ``output_size`` says
    it. With one argument that is the vector, and what is repeated are the numbers from 0 on.

    >>> import staticflow as sf
    >>> sf.repeat_interleave(sf.tensor([1, 2]), sf.tensor([3, 1]))
    tensor([1, 1, 1, 2])
    """
    if repeats is None:
        size = as_size(input.sum() if output_size is None else output_size)
        return repeated_index_op(input, size=size)
    if dim is None:
        input, dim = ravel(input), 0
    at = normalize_dim(dim, input.ndim, "repeat_interleave")
    if not hasattr(repeats, "__sf_mode__"):
        return _repeat_each(input, as_size(repeats), at)
    if repeats.ndim == 0 or same_shape(repeats.shape, (1,)):
        repeats = expand(repeats, (input.shape[at],))
    if not same(repeats.shape[0], input.shape[at]):
        what = f"repeat_interleave: the repeats and dim {at} of shape {list(input.shape)}"
        repeats = require_equal(repeats, repeats.shape[0], input.shape[at], what)
    size = as_size(repeats.sum() if output_size is None else output_size)
    return index_select(input, at, repeated_index_op(repeats, size=size))
