"""Pooling over windows that lie at random, in a number that need not divide the size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dtypes import DType, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import max as max_of
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.required import require_at_least, require_shape
from staticflow.ops.elementwise.maths import trunc
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.random.sampling import rand
from staticflow.ops.windows.spatial import PerDim, add_batch, per_dim, remove_batch

__all__ = ["fractional_max_pool2d", "fractional_max_pool3d"]


@by_shape
def fractional_max_pool2d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The largest elements of windows of ``kernel_size``, which lie along each dim of ``input``
    (N, C, H, W) or (C, H, W) at distances drawn at random, for each channel of each image anew.

    There are ``output_size`` windows, or ``output_ratio`` of the size, a number between 0 and 1,
    rounded down. With ``return_indices`` also the place of each element, int64, as `max_pool2d`
    gives it. ``_random_samples`` (N, C, 2) are the draws, from 0 to 1, along W and H.

    Source: Graham, "Fractional Max-Pooling" (2014).

    >>> import staticflow as sf
    >>> fractional_max_pool2d(sf.randn(1, 3, 9, 9), 2, output_size=(5, 6)).shape
    (1, 3, 5, 6)
    """
    return _pool(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@by_shape
def fractional_max_pool3d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """`fractional_max_pool2d` of ``input`` (N, C, D, H, W) or (C, D, H, W), whose draws
    ``_random_samples`` (N, C, 3) are along D, H and W."""
    return _pool(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def _pool(
    rank: int, x: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Any,
) -> Any:  # fmt: skip
    name = f"fractional_max_pool{rank}d"
    x, alone = add_batch(x, rank, name)
    kernel = per_dim(kernel_size, rank, 1, f"{name}: kernel_size")
    counts = _counts(name, x, output_size, output_ratio, rank)
    batch = tuple(x.shape[:2])
    if samples is None:
        samples = rand(*batch, rank, dtype=x.dtype, device=x.device)
    else:
        samples = require_shape(samples, (*batch, rank), f"{name}: _random_samples")
    found, place = x, _numbers(x, 1)
    for dim, (size, count, width) in enumerate(zip(x.shape[2:], counts, kernel, strict=True)):
        found = require_at_least(
            found, size, count + width - 1,
            f"{name}: {count} windows of {width} elements need as many and {width - 1} more; dim "
            f"{dim + 2} of the input",
        )  # fmt: skip
        draw = samples[..., rank - 1 - dim if rank == 2 else dim]
        at = _begins(draw, size, count, width).unsqueeze(-1) + _numbers(x, width)
        at = reshape(at, (*batch, *(1,) * dim, count * width, *(1,) * (rank - 1 - dim)))
        index = at.expand(*batch, *found.shape[2 : 2 + dim], -1, *found.shape[3 + dim :])
        found = gather(found, 2 + dim, index)
        place = place * size + at
    windows = _in_windows(found, counts, kernel)
    largest, chosen = max_of(windows, -1)
    if not return_indices:
        return remove_batch(largest, alone)
    places = _in_windows(place.expand(*found.shape), counts, kernel)
    places = gather(places, -1, chosen.unsqueeze(-1)).squeeze(-1)
    return remove_batch(largest, alone), remove_batch(places, alone)


def _counts(name: str, x: Any, output_size: Any, output_ratio: Any, rank: int) -> PerDim:
    """How many windows there are along each dim."""
    at = f"at {format_locs(here())}"
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{name}: give either output_size or output_ratio, {at}")
    if output_ratio is None:
        return per_dim(output_size, rank, 1, f"{name}: output_size")
    ratios = output_ratio if isinstance(output_ratio, Sequence) else (output_ratio,) * rank
    if len(ratios) != rank or not all(0 < r < 1 for r in ratios):
        raise ArgumentError(
            f"{name}: output_ratio is {output_ratio}; it must be a number between 0 and 1, or "
            f"{rank} of them, {at}"
        )
    sizes = tuple(x.shape[2:])
    if not all(isinstance(n, int) for n in sizes):
        raise ShapeError(
            f"{name}: output_ratio is of sizes that are known, and the input is of {list(sizes)}; "
            f"give output_size, {at}"
        )
    counts = [math.floor(n * r) for n, r in zip(sizes, ratios, strict=True)]
    return per_dim(counts, rank, 1, f"{name}: output_ratio times the size")


def _begins(draw: Any, size: Any, count: int, width: int) -> Any:
    """Where windows begin, (N, C, count): at multiples of a distance that is no integer, from a
    fraction ``draw`` of it on, rounded down; the last one at the end."""
    last = size - width
    order = _numbers(draw, count, draw.dtype)
    if count == 1:
        return (order + last).to(int64).expand(*draw.shape, 1)
    apart = last / (count - 1)
    draw = draw.unsqueeze(-1)
    inner = trunc((order + draw) * apart) - trunc(draw * apart)
    return where(order == count - 1, last, inner).to(int64)


def _numbers(beside: Any, count: int, dtype: DType = int64) -> Any:
    """0, 1 and so on, (count,), where the tensor ``beside`` is."""
    return iota.beside(beside, shape=(count,), dim=0, dtype=dtype)


def _in_windows(x: Any, counts: PerDim, kernel: PerDim) -> Any:
    """``x`` (N, C, counts times kernel) with the elements of each window in the last dim."""
    rank, batch = len(counts), tuple(x.shape[:2])
    pairs = [n for pair in zip(counts, kernel, strict=True) for n in pair]
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    return reshape(
        reshape(x, (*batch, *pairs)).permute(*order), (*batch, *counts, math.prod(kernel))
    )
