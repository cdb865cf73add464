"""Images read between their elements: means and maxima over boxes, and convolutions whose windows
are bent by offsets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.dtypes import float32, float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.windows import dims_of_space, per_dim
from staticflow.onnx.reading.values import Known, as_tensor, one, read
from staticflow.ops.along.extremes import amax
from staticflow.ops.basics.arithmetic import clamp, ge, le, logical_and, lt, maximum, mul
from staticflow.ops.basics.axes import movedim, permute
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.reduce import any, sum
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.elementwise.maths import ceil, floor
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["SAMPLING"]


def _constant(numbers: Sequence[int], like: Any) -> Any:
    """Numbers as a vector of the dtype and the mode of ``like``."""
    array = np.asarray(numbers, like.dtype.numpy)
    return as_tensor(Known(array), isinstance(like, Symbol))


def _sample(
    x: Any, lead: tuple[Any, ...], places: Sequence[Any], combine: Callable[[Any, Any], Any] = add
) -> Any:
    """What ``combine`` makes of the elements around ``places``, each times its linear weight, and
    zero where it lies outside. ``x`` has the dims that ``lead`` indexes, those of space that
    ``places`` are in, and channels last."""
    sizes = x.shape[len(lead) : x.ndim - 1]
    lows = [floor(p) for p in places]
    found = None
    for sides in itertools.product((0, 1), repeat=len(places)):
        index, weight = [], None
        for place, low, side, size in zip(places, lows, sides, sizes, strict=True):
            at = add(cast(low, int64), side)
            far = sub(place, low)
            part = where(logical_and(ge(at, 0), lt(at, size)), far if side else sub(1, far), 0)
            index.append(clamp(at, 0, size - 1))
            weight = part if weight is None else mul(weight, part)
        term = mul(x[(*lead, *index)], unsqueeze(weight, -1))
        found = term if found is None else combine(found, term)
    return found


# -- boxes -----------------------------------------------------------------------------------------


def _samples(start: Any, bin: Any, count: int, ratio: int) -> tuple[Any, Any]:
    """Where the samples of ``count`` bins of each region lie along one dim, (regions, count,
    samples), and how many are meant, which differs by region where ``ratio`` is 0."""
    own = full(tuple(bin.shape), ratio, dtype=int64) if ratio else cast(ceil(bin), int64)
    most = ratio or one(read(amax(cat([own, full((1,), 1, dtype=int64)]), 0)))
    step = div(bin, cast(maximum(own, 1), bin.dtype))
    within = mul(unsqueeze(step, 1), add(arange(most, dtype=bin.dtype), 0.5))
    bins = add(unsqueeze(start, 1), mul(unsqueeze(bin, 1), arange(count, dtype=bin.dtype)))
    return add(unsqueeze(bins, 2), unsqueeze(within, 1)), own


def _roi_align(
    x: Any, rois: Any, batch: Any, *, coordinate_transformation_mode: str = "output_half_pixel",
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    if mode not in ("avg", "max"):
        raise ShapeError(f"the mode {mode!r} is neither avg nor max, at {format_locs(here())}")
    given = x.dtype
    wide = given if given is float64 else float32
    half = coordinate_transformation_mode == "half_pixel"
    corners = sub(mul(cast(rois, wide), spatial_scale), 0.5 if half else 0.0)
    places, inside, meant, number = [], [], [], full((), 1, dtype=int64)
    for d, count in enumerate((output_height, output_width)):
        start, end, size = corners[:, 1 - d], corners[:, 3 - d], x.shape[2 + d]
        extent = sub(end, start) if half else maximum(sub(end, start), 1.0)
        at, own = _samples(start, div(extent, count), count, sampling_ratio)
        few = at.shape[-1]
        is_meant = lt(arange(few), unsqueeze(own, 1))
        # beside the samples of the other dim: (regions, height, samples, width, samples)
        at = reshape(at, (-1, 1, 1, count, few) if d else (-1, count, few, 1, 1))
        meant.append(reshape(is_meant, (-1, 1, 1, 1, few) if d else (-1, 1, few, 1, 1)))
        inside.append(logical_and(ge(at, -1.0), le(at, size)))
        places.append(clamp(at, 0, size - 1))
        number = mul(number, own)
    lead = reshape(cast(batch, int64), (-1, 1, 1, 1, 1))
    channels_last = permute(cast(x, wide), (0, 2, 3, 1))
    values = _sample(channels_last, (lead,), places, add if mode == "avg" else maximum)
    values = where(unsqueeze(logical_and(*inside), -1), values, 0)
    meant_ = unsqueeze(logical_and(*meant), -1)
    if mode == "avg":
        total = sum(where(meant_, values, 0), (2, 4))
        found = div(total, cast(reshape(maximum(number, 1), (-1, 1, 1, 1)), wide))
    else:
        best = amax(where(meant_, values, -math.inf), (2, 4))
        found = where(any(meant_, (2, 4)), best, 0)
    return cast(permute(found, (0, 3, 1, 2)), given)


# -- bent windows ----------------------------------------------------------------------------------


def _deform_conv(
    x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None, *,
    kernel_shape: Sequence[int] | None = None, strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, group: int = 1,
    offset_group: int = 1,
) -> Any:  # fmt: skip
    rank = dims_of_space(x)
    stride = per_dim(strides, rank, 1, "the strides")
    dilation = per_dim(dilations, rank, 1, "the dilations")
    around = per_dim(pads, 2 * rank, 0, "the pads")
    kernel = tuple(w.shape[2:])
    (n, channels), out = x.shape[:2], tuple(offset.shape[2:])
    count = math.prod(kernel)
    for d, size in enumerate(out):
        reach = x.shape[2 + d] + around[d] + around[rank + d] - (kernel[d] - 1) * dilation[d] - 1
        offset = require_equal(
            offset, size, reach // stride[d] + 1, f"offsets are as many as windows along dim {d}"
        )
    bends = reshape(offset, (n, offset_group, count, rank, *out))
    places = []
    for d in range(rank):
        first = mul(arange(out[d], dtype=bends.dtype), stride[d])
        first = reshape(sub(first, around[d]), (-1,) + (1,) * (rank - 1 - d))
        own = [k[d] * dilation[d] for k in itertools.product(*map(range, kernel))]
        inner = reshape(_constant(own, bends), (-1,) + (1,) * rank)
        places.append(add(bends[:, :, :, d], add(first, inner)))
    each = channels // offset_group
    images = movedim(reshape(x, (n, offset_group, each, *x.shape[2:])), 2, -1)
    ones = (1,) * (rank + 1)
    lead = (reshape(arange(n), (-1, 1, *ones)), reshape(arange(offset_group), (-1, *ones)))
    values = _sample(images, lead, places)  # (n, offset_group, count, *out, channels of a group)
    if mask is not None:
        values = mul(values, unsqueeze(reshape(mask, (n, offset_group, count, *out)), -1))
    rows = reshape(movedim(values, -1, 2), (n, group, channels // group * count, -1))
    weights = reshape(w, (group, w.shape[0] // group, w.shape[1] * count))
    found = reshape(matmul(weights, rows), (n, w.shape[0], *out))
    return found if bias is None else add(found, reshape(bias, (-1,) + (1,) * rank))


SAMPLING: Mapping[str, Row] = {
    "DeformConv": row(_deform_conv),
    "RoiAlign": row(_roi_align),
}
"""Rows by operator."""
