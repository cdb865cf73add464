"""How tensors lie on the ranks of a mesh: which dims are split over which axes, and in which parts.

A layout has an entry for each dim, None where each rank has it whole. A dim of ``n`` elements that
is split in parts of ``chunk`` has them on the ranks along the axis in order: the one in place ``r``
has those from ``min(r * chunk, n)`` on, as many as ``chunk`` if there are.

Where a split dim is joined with one before it, as time and batch are in ``(T * N, C)``, each rank
has its part of every one of the ``outer`` stretches that the dim then is made of.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_min, same
from staticflow.graph.types import Shape

__all__ = ["Layout", "Place", "Split", "same_layout", "whole"]


@dataclass(frozen=True, slots=True)
class Split:
    """A dim that is split over the mesh axis of this number, in parts of ``chunk`` elements of each
    of its ``outer`` stretches."""

    axis: int
    chunk: Size
    outer: Size = 1


Layout = tuple[Split | None, ...]


def whole(ndim: int) -> Layout:
    """The layout of a tensor that each rank has all of."""
    return (None,) * ndim


def same_layout(a: Layout, b: Layout) -> bool:
    """Whether two layouts of one shape split it alike."""
    return all(
        x is y
        or (x and y and x.axis == y.axis and same(x.chunk, y.chunk) and same(x.outer, y.outer))
        for x, y in zip(a, b, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank stands in a mesh of this ``shape``."""

    shape: tuple[int, ...]
    rank: int

    def split(self, size: Size, axis: int) -> Split:
        """A dim of this size split over an axis as evenly as may be."""
        return Split(axis, ceil_div(size, self.shape[axis]))

    def layout(self, shape: Sequence[Size], axes: Sequence[int | None]) -> Layout:
        """The layout in which each dim is split over its axis. A dim is whole where it has none,
        and where that has one rank, which has all and sends nothing."""
        return tuple([
            None if axis is None or self.shape[axis] == 1 else self.split(size, axis)
            for size, axis in zip(shape, axes, strict=True)
        ])  # fmt: skip

    def part(self, size: Size, split: Split) -> tuple[Size, Size]:
        """The first element of this rank's part of a stretch, and how many there are."""
        size = size // split.outer
        along = int(np.unravel_index(self.rank, self.shape)[split.axis])
        start = dim_min(along * split.chunk, size)
        return start, dim_min(split.chunk, size - start)

    def local(self, shape: Sequence[Size], layout: Layout) -> Shape:
        """The shape of this rank's part."""
        return tuple([
            size if split is None else split.outer * self.part(size, split)[1]
            for size, split in zip(shape, layout, strict=True)
        ])  # fmt: skip

    def has_empty(self, size: Size, split: Split) -> bool:
        """Whether a rank may have no element of a dim."""
        size = size // split.outer
        before = split.chunk * (self.shape[split.axis] - 1)
        return not (isinstance(size, int) and isinstance(before, int) and before < size)
