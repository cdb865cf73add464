"""How many elements have a value, or lie in a range."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import prod, same_shape
from staticflow.graph.dtypes import float32, float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.along.sorted_search import searchsorted
from staticflow.ops.basics.arithmetic import cast, clamp, where
from staticflow.ops.basics.creation import full, iota, new_full, ones_like, zeros_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.declaring.thread import thread
from staticflow.ops.elementwise.maths import floor
from staticflow.ops.indexing.data_dependent import bincount_op, is_found_eagerly
from staticflow.ops.indexing.gather_ops import scatter_add_op

__all__ = ["Histogram", "bincount", "histc", "histogram"]


def _sum_at(positions: Any, weights: Any, size: Any) -> Any:
    """The sums of ``weights`` (n,) at each of ``size`` ``positions`` (n,); those of 16-bit floats
    are added up in float32, since one does not change 2048 of float16."""
    dtype = weights.dtype
    if dtype.is_floating and dtype.itemsize == 2:
        return cast(_sum_at(positions, cast(weights, dtype=float32), size), dtype=dtype)
    value = 0.0 if dtype.is_floating else 0
    zeros = full.beside(weights, shape=(size,), value=value, dtype=dtype)
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


_MANY = 1 << 16
"""Integers from which on kernels count them: 100,000 in 57 microseconds, behind 17 for the largest
and the smallest, and NumPy in 96. Of few the calls take longer than that saves."""


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
    is_few = isinstance(input.shape[0], int) and input.shape[0] < _MANY
    if weights is None and is_few and isinstance(minlength, int) and is_found_eagerly(input):
        thread.state.sizes += 1
        return numbers.__sf_mode__.apply(bincount_op, (numbers,), {"minlength": minlength})
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


class Histogram(NamedTuple):
    """The sums in each part, and the bounds of the parts."""

    hist: Any
    bin_edges: Any


def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Histogram:
    """How many elements of a floating ``input``, or what ``weight`` of them, lies in each part, and
    the bounds of the parts, in its dtype. ``bins`` is a number of equal parts of ``range``, by
    default from the smallest to the largest element, or a vector of bounds that ascend. A bound
    belongs to the part above it, the last to the last. With ``density`` the sums are divided by
    their total and the widths.

    >>> import staticflow as sf
    >>> sf.histogram(sf.tensor([1.0, 2.0, 1.0]), 3, range=(0.0, 3.0)).hist
    tensor([0., 2., 1.])
    """
    if not input.dtype.is_floating:
        raise DTypeError(
            f"histogram: the input is of {input.dtype.name}; it must be floating, as input.float() "
            f"is, at {format_locs(here())}"
        )
    flat = reshape(input, (prod(input.shape),)).detach()
    edges = bins if hasattr(bins, "__sf_mode__") else _equal_edges(flat, as_size(bins), range)
    if hasattr(bins, "__sf_mode__") and (bins.ndim != 1 or range is not None):
        raise ShapeError(
            f"histogram: bins of shape {list(bins.shape)} with range={range}; bounds are a vector, "
            f"and need no range, at {format_locs(here())}"
        )
    if isinstance(edges.shape[0], int) and edges.shape[0] < 2:
        raise ShapeError(
            f"histogram: bins of shape {list(edges.shape)}; there must be 2 bounds at least, "
            f"at {format_locs(here())}"
        )
    parts = edges.shape[0] - 1
    if weight is None:
        values = ones_like(flat)
    elif same_shape(weight.shape, input.shape):
        values = cast(reshape(weight, flat.shape), dtype=input.dtype)
    else:
        raise ShapeError(
            f"histogram: the weight has shape {list(weight.shape)}, and the input "
            f"{list(input.shape)}; they must be equal, at {format_locs(here())}"
        )
    place = searchsorted(edges, flat, right=True) - 1
    place = where(flat == edges[-1], parts - 1, place)
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    sums = _sum_at(where(inside, place, 0), where(inside, values, 0.0), parts)
    if density:
        sums = sums / (sums.sum() * (edges[1:] - edges[:-1]))
    return Histogram(sums, edges)


def _equal_edges(x: Any, parts: Any, bounds: Any) -> Any:
    """The bounds of ``parts`` equal parts: of ``bounds``, or of the elements of ``x``."""
    if parts < 1:
        raise ArgumentError(
            f"histogram: bins is {parts}; it must be 1 at least, at {format_locs(here())}"
        )
    if bounds is None and same_shape(x.shape, (0,)):
        bounds = (0.0, 1.0)
    low, high = (amin(x), amax(x)) if bounds is None else bounds
    if bounds is not None and not (low <= high and abs(low) + abs(high) < inf):
        raise ArgumentError(
            f"histogram: range is {bounds}; it must be two finite numbers that ascend, "
            f"at {format_locs(here())}"
        )
    if bounds is None:
        widen = cast(low == high, dtype=x.dtype) * 0.5
        low, high = low - widen, high + widen
    elif low == high:
        low, high = low - 0.5, high + 0.5
    steps = iota.beside(x, shape=(parts + 1,), dim=0, dtype=x.dtype)
    inner = steps * ((high - low) / parts) + low
    return where(steps == parts, high, inner)  # which rounding may miss
