"""Calls of the rows of `opinfo` on batches, and what a loop over the rows gives: the cases of
``test_vmap_ops.py``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from opinfo.core import Array, OpInfo, Sample
from opinfo.modes import arrays_of, call

import staticflow as sf
from staticflow.autograd.vmap import vmap
from staticflow.graph.dtypes import DType

__all__ = ["Batched", "batches_of", "loop_over_rows", "map_over_rows"]

LAYOUTS = ("rows", "columns", "stepped")


@dataclass(frozen=True, slots=True)
class Batched:
    """A sample of which some arrays have rows: those at ``chosen``, along a dim that ``layout``
    says, ``size`` of them."""

    info: OpInfo
    dtype: DType
    number: int
    smooth: bool
    chosen: tuple[int, ...]
    size: int
    layout: str

    def __str__(self) -> str:
        return (
            f"{self.info.op.name}-{self.dtype.name}-{self.number}-{self.smooth:d}-"
            f"{''.join(map(str, self.chosen))}-{self.size}-{self.layout}"
        )

    @property
    def sample(self) -> Sample:
        """The sample of one row."""
        return next(itertools.islice(self.info.samples(self.dtype, self.smooth), self.number, None))

    @property
    def in_dims(self) -> tuple[int | None, ...]:
        """Along which dim the rows of each array lie."""
        along = -1 if self.layout == "columns" else 0
        count = len(arrays_of(self.sample))
        return tuple(along if i in self.chosen else None for i in range(count))

    @property
    def rows(self) -> list[list[Array]]:
        """The arrays of each row."""
        arrays = arrays_of(self.sample)
        return [
            [_row(a, r) if i in self.chosen else a for i, a in enumerate(arrays)]
            for r in range(self.size)
        ]

    @property
    def arrays(self) -> list[Array]:
        """The arrays, with their rows where they have some."""
        found = arrays_of(self.sample)
        for i in self.chosen:
            rows = [row[i] for row in self.rows]
            many = np.stack(rows) if rows else np.zeros((0, *found[i].shape), found[i].dtype)
            if self.layout == "columns":
                many = np.ascontiguousarray(np.moveaxis(many, 0, -1))
            if self.layout == "stepped":
                many = np.repeat(many, 2, 0)[::2]
            found[i] = many
        return found


def _row(a: Array, number: int) -> Array:
    """The array of a row: other numbers, in whatever range and order the first has them."""
    if a.dtype.kind in "iub":
        return np.roll(a.reshape(-1), number).reshape(a.shape)
    with np.errstate(all="ignore"):
        return np.asarray(a * np.asarray(1 - number / 16, a.dtype), a.dtype)


def batches_of(
    info: OpInfo, dtype: DType, smooth: bool, sizes: Sequence[int] = (0, 1, 3)
) -> Iterator[Batched]:
    """Every case of a row of the table: each sample, with rows of each of its arrays or of some,
    as many as ``sizes`` say, in each layout."""
    for number, sample in enumerate(info.samples(dtype, smooth)):
        count = len(arrays_of(sample))
        for k in range(1, min(count, 3) + 1):
            for chosen in itertools.combinations(range(count), k):
                for size, layout in itertools.product(sizes, LAYOUTS):
                    yield Batched(info, dtype, number, smooth, chosen, size, layout)


def map_over_rows(case: Batched, tensors: Sequence[Any]) -> list[Any]:
    """What `vmap` gives of the call."""
    sample = case.sample
    return vmap(lambda *row: call(case.info, sample, row), case.in_dims)(*tensors)


def loop_over_rows(case: Batched, rows: Sequence[Sequence[Any]]) -> list[Any]:
    """What a loop over the rows gives, stacked."""
    found = [call(case.info, case.sample, row) for row in rows]
    return [sf.stack(outs) for outs in zip(*found, strict=True)]
