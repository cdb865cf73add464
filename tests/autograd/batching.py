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

__all__ = ["Batched", "batches_of", "loop_over_rows", "map_over_rows", "tensors_of"]

ALONG = {"rows": 0, "second": 1, "columns": -1, "stepped": 0, "expanded": 0}
"""The layouts: along which dim the rows lie; every second row of more of them; one row repeated."""

BATCHES = ((0, "rows"), (0, "columns"), (1, "rows"), (1, "second"), *((3, way) for way in ALONG))
"""The numbers of rows, and how they lie."""


@dataclass(frozen=True, slots=True)
class Batched:
    """A sample of which some arrays have rows: those at ``chosen``, along a dim that ``layout``
    says, ``size`` of them."""

    info: OpInfo
    dtype: DType
    number: int
    sample: Sample
    chosen: tuple[int, ...]
    size: int
    layout: str

    def __str__(self) -> str:
        return (
            f"{self.info.op.name}-{self.dtype.name}-{self.number}-"
            f"{''.join(map(str, self.chosen))}-{self.size}-{self.layout}: {self.sample}"
        )

    @property
    def in_dims(self) -> tuple[int | None, ...]:
        """Along which dim the rows of each array lie; the second there may be none of."""
        along = ALONG[self.layout]
        return tuple(
            min(along, a.ndim) if i in self.chosen else None
            for i, a in enumerate(arrays_of(self.sample))
        )

    @property
    def rows(self) -> list[list[Array]]:
        """The arrays of each row."""
        arrays = arrays_of(self.sample)
        numbers = [0] * self.size if self.layout == "expanded" else range(self.size)
        return [
            [_row(a, r) if i in self.chosen else a for i, a in enumerate(arrays)] for r in numbers
        ]

    @property
    def arrays(self) -> list[Array]:
        """The arrays, with their rows where they have some."""
        found, rows = arrays_of(self.sample), self.rows
        for i, dim in enumerate(self.in_dims):
            if dim is None:
                continue
            own = [row[i] for row in rows]
            many = np.stack(own) if own else np.zeros((0, *found[i].shape), found[i].dtype)
            if self.layout == "stepped":
                many = np.repeat(many, 2, 0)[::2]
            elif self.layout == "expanded":
                many = np.broadcast_to(own[0], many.shape)
            elif dim:
                many = np.ascontiguousarray(np.moveaxis(many, 0, dim))
            found[i] = many
        return found


def _row(a: Array, number: int) -> Array:
    """The array of a row: other numbers, in whatever range and order the first has them."""
    if a.dtype.kind in "iub":
        return np.roll(a.reshape(-1), number).reshape(a.shape)
    with np.errstate(all="ignore"):
        return np.asarray(a * np.asarray(1 - number / 16, a.dtype), a.dtype)


def tensors_of(arrays: Sequence[Array]) -> list[sf.Tensor]:
    """Tensors of arrays; what is repeated without being copied is expanded."""
    return [
        sf.from_numpy(np.array(a[0])).expand(*a.shape)
        if a.ndim and a.size and a.shape[0] > 1 and not a.strides[0]
        else sf.from_numpy(a)
        for a in arrays
    ]


def batches_of(info: OpInfo, dtype: DType, smooth: bool) -> Iterator[Batched]:
    """Every case of a row of the table: each sample, with rows of each of its arrays, of two and of
    three of them."""
    for number, sample in enumerate(info.samples(dtype, smooth)):
        count = len(arrays_of(sample))
        for k in range(1, min(count, 3) + 1):
            for chosen in itertools.combinations(range(count), k):
                for size, layout in BATCHES:
                    yield Batched(info, dtype, number, sample, chosen, size, layout)


def map_over_rows(case: Batched, tensors: Sequence[Any]) -> list[Any]:
    """What `vmap` gives of the call."""
    return vmap(lambda *row: call(case.info, case.sample, row), case.in_dims)(*tensors)


def loop_over_rows(case: Batched, rows: Sequence[Sequence[Any]]) -> list[Any]:
    """What a loop over the rows gives, stacked."""
    found = [call(case.info, case.sample, row) for row in rows]
    return [sf.stack(outs) for outs in zip(*found, strict=True)]
