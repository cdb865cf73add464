"""How many elements have a value, or lie in a range."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import prod, same_shape
from staticflow.graph.dtypes import float32, float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.basics.arithmetic import cast, clamp, where
from staticflow.ops.basics.creation import full, new_full, ones_like, zeros_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.elementwise.maths import floor
from staticflow.ops.indexing.gather_ops import scatter_add_op

__all__ = ["bincount", "histc"]


def _sum_at(positions: Any, weights: Any, size: Any) -> Any:
    """The sums of ``weights`` (n,) at each of ``size`` ``positions`` (n,)."""
    value = 0.0 if weights.dtype.is_floating else 0
    zeros = full.beside(weights, shape=(size,), value=value, dtype=weights.dtype)
    return scatter_add_op(zeros, positions, weights, dim=0)


@fused("")
def _counts_at(zeros: Any, positions: Any) -> Any:
    """How often each position is in int64 ``positions`` (n,), added to ``zeros``."""
    return scatter_add_op(zeros, positions, ones_like(positions), dim=0)


def _size_for(numbers: Any, minlength: int) -> Any:
    """The size that the counts of int64 ``numbers`` (n,) have, -1 where one is below 0."""
    if same_shape(numbers.shape, (0,)):
        return minlength
    if isinstance(numbers.shape[0], int):
        return _size_between(numbers, numbers, minlength)
    # there may be none as the program runs
    with_zero, with_less = (cat([numbers, new_full(numbers, (1,), n)]) for n in (0, -1))
    return _size_between(with_zero, with_less, minlength)


@fused("")
def _size_between(numbers: Any, others: Any, minlength: int) -> Any:
    """One more than the largest of ``others``, or ``minlength``, -1 if one of ``numbers`` is below
    0."""
    return where(amin(numbers) < 0, -1, clamp(amax(others) + 1, minlength))


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer from 0 on is in ``input`` (n,), in int64; or the sums of the
    ``weights`` (n,) beside them, in float64 unless they are float32. The result has ``minlength``
    elements, or more if ``input`` has larger numbers.

    >>> import staticflow as sf
    >>> sf.bincount(sf.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if input.ndim != 1 or input.dtype.kind not in "iu":
        raise DTypeError(
            f"bincount: takes a vector of integers, not {input.dtype.name}{list(input.shape)}, "
            f"at {format_locs(here())}"
        )
    if isinstance(minlength, int) and minlength < 0:
        raise ArgumentError(
            f"bincount: minlength is {minlength}; it must be 0 or more, at {format_locs(here())}"
        )
    numbers = input if input.dtype is int64 else cast(input, dtype=int64)
    size = as_size(_size_for(numbers, minlength))
    if isinstance(size, int) and size < 0:
        raise ShapeError(f"bincount: a number below 0, at {format_locs(here())}")
    if weights is None:
        zeros = full.beside(numbers, shape=(size,), value=0, dtype=int64)
        return _counts_at(zeros, numbers)
    weights = require_shape(weights, input.shape, "bincount: the tensor of weights")
    if weights.dtype is not float32:
        weights = cast(weights, dtype=float64)
    return _sum_at(input, weights, size)


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements of a floating ``input`` lie in each of ``bins`` equal parts of [``min``,
    ``max``], in its dtype; of its own smallest and largest element if both are 0. What lies outside
    counts nowhere, ``max`` in the last part.

    >>> import staticflow as sf
    >>> sf.histc(sf.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if not input.dtype.is_floating or bins < 1 or max < min:
        raise ShapeError(
            f"histc: takes a floating tensor, at least one bin and min <= max, not "
            f"{input.dtype.name}, {bins}, {min} and {max}, at {format_locs(here())}"
        )
    flat = reshape(input.detach(), (prod(input.shape),))
    own = min == max == 0 and not same_shape(flat.shape, (0,))
    low, high = (amin(flat), amax(flat)) if own else (min, max)
    if min == max:  # of one value, a range around it
        same = cast(low == high, dtype=input.dtype) if own else 1
        low, high = low - same, high + same
    return _histogram(flat, low, high, bins)


@fused("")
def _histogram(x: Any, low: Any, high: Any, bins: int) -> Any:
    """How many elements of ``x`` (n,) lie in each of ``bins`` parts from ``low`` to ``high``."""
    position = clamp(floor((x - low) * bins / (high - low)), 0, bins - 1)
    inside = (x >= low) & (x <= high)
    counts = where(inside, ones_like(x), zeros_like(x))
    return _sum_at(cast(where(inside, position, 0.0), dtype=int64), counts, bins)
