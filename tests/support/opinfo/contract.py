"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import staticflow as sf
from opinfo.core import NUMBERS, Array, Failure, OpInfo, Sample, Samples, values, wrap
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.ops import OPS

__all__ = ["ROWS"]

_SHAPES = (
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((1, 1), (1, 1)), ((0, 3), (3, 2)),
    ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((4, 2, 3), (3, 2)), ((2, 3), (4, 3, 2)), ((4, 2, 3), (4, 3, 1)),
    ((4, 1, 2, 3), (2, 3, 2)), ((1, 2, 3), (4, 3, 2)), ((0, 2, 3), (1, 3, 2)), ((4, 2, 3), (3,)),
)  # fmt: skip


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for a, b in _SHAPES:
        yield Sample((values(a, dtype, 0.5), values(b, dtype, 0.5, seed=1)))
    yield Sample((values((3, 2), dtype, 0.5).T, values((4, 3), dtype, 0.5).T))
    yield Sample((values((4, 6), dtype, 0.5)[::2, ::-2], values((3, 3), dtype, 0.5)[::-1]))
    if not smooth:
        yield Sample((values((17, 33), dtype, 0.5), values((33, 9), dtype, 0.5)))
        for shape in ((2, 3), (3, 3)):
            x = values(shape, dtype, 0.5)
            if dtype.is_floating:
                x[0, 0] = np.nan
                x[1, 1] = np.inf
            yield Sample((x, values((3, 2), dtype, 0.5)))


def _product(x: Array, y: Array) -> Array:
    """The defining sum, in float64 or in Python's integers."""
    dtype = next(d for d in DTYPES if d.numpy == x.dtype)
    a = x[None] if x.ndim == 1 else x
    b = y[:, None] if y.ndim == 1 else y
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    out = np.empty((*batch, a.shape[-2], b.shape[-1]), x.dtype)
    wide = float if dtype.is_floating else int
    for at in np.ndindex(out.shape):
        *lead, i, j = at
        row, column = a[(*lead, i)], b[(*lead, slice(None), j)]
        total = sum(wide(p) * wide(q) for p, q in zip(row, column, strict=True))
        out[at] = total if dtype.is_floating else wrap(int(total), dtype)
    gone = tuple(axis for axis, v in ((-2, x), (-1, y)) if v.ndim == 1)
    return out.reshape([n for k, n in enumerate(out.shape, -out.ndim) if k not in gone])


def _refused(a: tuple[int, ...], b: tuple[int, ...], says: str) -> Failure:
    return Failure(Sample((np.zeros(a, "f4"), np.zeros(b, "f4"))), ShapeError, says)


def _sum_samples(rank: int) -> Samples:
    """A product (3, 2) and what broadcasts to it; with ``rank`` 3 four of them."""
    batch = (4,) * (rank - 2)

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for c in ((*batch, 3, 2), (3, 2), (2,), (1, 1), (), (*batch, 3, 1)):
            for scale in ({}, {"beta": 2, "alpha": 3}, {"beta": 0}):
                yield Sample(
                    (
                        values(c, dtype, 0.5),
                        values((*batch, 3, 5), dtype, 0.5, seed=1),
                        values((*batch, 5, 2), dtype, 0.5, seed=2),
                    ),
                    scale,
                )
        yield Sample(
            (values((0,), dtype), values((*batch, 2, 3), dtype), values((*batch, 3, 0), dtype))
        )

    return samples


def _sum(c: Array, x: Array, y: Array, beta: int = 1, alpha: int = 1) -> Array:
    dtype = next(d for d in DTYPES if d.numpy == x.dtype)
    wide = np.float64 if dtype.is_floating else np.int64
    out = alpha * (x.astype(wide) @ y.astype(wide)) + beta * c.astype(wide)
    return out.astype(x.dtype)


def _sum_row(name: str, batch: tuple[int, ...]) -> OpInfo:
    def refused(c: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], says: str) -> Failure:
        arrays = (np.zeros(c, "f4"), np.zeros(x, "f4"), np.zeros(y, "f4"))
        return Failure(Sample(arrays), ShapeError, says)

    return OpInfo(
        OPS[name], getattr(sf, name), _sum, _sum_samples(len(batch) + 2), NUMBERS, grad=True,
        zeros=False, ulps=16,
        sized=lambda dtype, n: Sample(
            (values((n,), dtype), values((*batch, 3, n), dtype, 0.5), values((*batch, n, n), dtype, 0.5))
        ),
        failures=(
            refused((3,), (*batch, 2, 3), (*batch, 3, 2), "3 and 2 differ"),
            refused((3, 3), (*batch, 1, 3), (*batch, 3, 3), "does not stretch"),
            refused((), (*batch, 2, 3), (*batch, 2, 3), "3 and 2 differ"),
            refused((), (3,), (3,), "dims"),
        ),
    )  # fmt: skip


def _linear_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for rows in ((3,), (2, 3), (0, 3), (4, 2, 3), (2, 0)):
        weight = values((4, rows[-1]), dtype, 0.5, seed=1)
        yield Sample((values(rows, dtype, 0.5), weight, values((4,), dtype, seed=2)))
    yield Sample((values((3, 2), dtype, 0.5).T, values((3, 4), dtype, 0.5).T, values((4,), dtype)))


def _linear(x: Array, weight: Array, bias: Array) -> Array:
    dtype = next(d for d in DTYPES if d.numpy == x.dtype)
    wide = np.float64 if dtype.is_floating else np.int64
    return (x.astype(wide) @ weight.T.astype(wide) + bias.astype(wide)).astype(x.dtype)


ROWS = (
    OpInfo(
        OPS["linear"], sf.nn.functional.linear, _linear, _linear_samples, NUMBERS, grad=True,
        zeros=False, ulps=16,
        sized=lambda dtype, n: Sample(
            (values((n, 3), dtype, 0.5), values((n, 3), dtype, 0.5), values((n,), dtype))
        ),
        failures=(
            Failure(
                Sample((np.zeros((2, 3), "f4"), np.zeros((4, 2), "f4"), np.zeros(4, "f4"))),
                ShapeError, "3 and 2 differ",
            ),
            Failure(
                Sample((np.zeros((2, 3), "f4"), np.zeros(3, "f4"), np.zeros(4, "f4"))),
                ShapeError, "the weight is",
            ),
        ),
    ),
    _sum_row("addmm", ()),
    _sum_row("baddbmm", (4,)),
    OpInfo(
        OPS["matmul"], sf.matmul, _product, _samples, NUMBERS, grad=True, zeros=False,
        sized=lambda dtype, n: Sample((values((n, 3), dtype, 0.5), values((3, n), dtype, 0.5))),
        failures=(
            _refused((2, 3), (2, 3), "3 and 2 differ"),
            _refused((3,), (2,), "3 and 2 differ"),
            _refused((2, 2, 3), (3, 3, 2), "2 and 3 differ"),
            _refused((), (3,), "0-d"),
            Failure(Sample((np.ones((2, 2), "?"), np.ones((2, 2), "?"))), DTypeError, "bool"),
        ),
    ),
)  # fmt: skip
