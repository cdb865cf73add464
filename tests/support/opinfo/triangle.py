"""Diagonals, triangles and windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import ALL, NUMBERS, Array, Failure, OpInfo, Sample, values, wrap
from staticflow.errors import ShapeError
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.ops import OPS

__all__ = ["ROWS"]

_X = np.zeros((3, 4), "f4")


# -- diagonals ------------------------------------------------------------------------------------


def _diagonal_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, given in (
        ((3, 3), {}), ((3, 4), {"offset": 1}), ((3, 4), {"offset": -2}), ((4, 3), {"offset": 5}),
        ((2, 3, 4), {"dim1": -1, "dim2": 0}), ((2, 3, 4), {"dim1": 1, "dim2": 2, "offset": -1}), ((0, 3), {}),
        ((1, 1), {}),
    ):  # fmt: skip
        yield Sample((values(shape, dtype),), given)
    yield Sample((values((3, 6), dtype)[:, ::2].T,), {"offset": 1})


def _diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    lines = np.moveaxis(x, (dim1, dim2), (-2, -1))
    rows, columns = lines.shape[-2:]
    places = [(i, i + offset) for i in range(rows) if 0 <= i + offset < columns]
    return np.stack([lines[..., i, j] for i, j in places], -1) if places else lines[..., :0, 0]


_DIAGONAL = OpInfo(
    OPS["diagonal"], sf.diagonal, _diagonal, _diagonal_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 4, 3), dtype),), {"offset": -1, "dim1": 0, "dim2": 2}),
    failures=(
        Failure(Sample((_X,), {"dim2": 0}), ShapeError, "twice"),
        Failure(Sample((_X[0],)), ShapeError, "out of range"),
    ),
)  # fmt: skip


def _embed_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, given in (
        ((3,), {}), ((3,), {"offset": 1}), ((2, 3), {"offset": -1}), ((2, 3), {"dim1": 0, "dim2": 2}),
        ((2, 3), {"dim1": -1, "dim2": 0}), ((0,), {"offset": 2}), ((2, 0), {}),
    ):  # fmt: skip
        yield Sample((values(shape, dtype),), given)


def _embedded(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    side = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], side, side), x.dtype)
    for i in range(x.shape[-1]):
        out[..., i + max(-offset, 0), i + max(offset, 0)] = x[..., i]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


_DIAG_EMBED = OpInfo(
    OPS["diag_embed"], sf.diag_embed, _embedded, _embed_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((2, n), dtype),), {"offset": 1}),
    failures=(
        Failure(Sample((np.zeros((), "f4"),)), ShapeError, "one dim"),
        Failure(Sample((_X,), {"dim1": 0, "dim2": -3}), ShapeError, "twice"),
    ),
)  # fmt: skip


# -- triangles ------------------------------------------------------------------------------------


def _triangle(name: str, inside: Callable[[int, int], bool]) -> OpInfo:
    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for shape, diagonal in (
            ((3, 3), 0), ((3, 4), 1), ((4, 3), -1), ((2, 3, 3), 0), ((0, 3), 0), ((3, 0), 0), ((2, 2), 9), ((1, 1), -1),
        ):  # fmt: skip
            yield Sample((values(shape, dtype), diagonal))
        if dtype.is_floating and not smooth:
            yield Sample((np.full((2, 2), np.nan, dtype.numpy),))

    def expect(x: Array, diagonal: int = 0) -> Array:
        out = np.zeros_like(x)
        for at in np.ndindex(x.shape):
            if inside(at[-1] - at[-2], diagonal):
                out[at] = x[at]
        return out

    return OpInfo(
        OPS[name], getattr(sf, name), expect, samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), -1)),
        failures=(Failure(Sample((_X[0],)), ShapeError, "2 dims"),),
    )  # fmt: skip


# -- windows --------------------------------------------------------------------------------------


def _unfold_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, dim, size, step in (
        ((5,), 0, 2, 1), ((5,), 0, 3, 2), ((5,), 0, 5, 1), ((2, 6), 1, 2, 3), ((6, 2), -2, 3, 1), ((3,), 0, 0, 1),
        ((2, 4, 3), 1, 2, 2), ((0, 3), 1, 2, 1),
    ):  # fmt: skip
        yield Sample((values(shape, dtype), dim, size, step))
    yield Sample((values((6, 2), dtype).T[:, ::2], 1, 2, 1))


def _windows(x: Array, dim: int, size: int, step: int) -> Array:
    count = (x.shape[dim] - size) // step + 1
    cut = [np.take(x, range(i * step, i * step + size), dim) for i in range(count)]
    dim %= x.ndim
    return np.stack([np.moveaxis(c, dim, -1) for c in cut], dim)


_UNFOLD = OpInfo(
    OPS["unfold"], lambda x, *a: x.unfold(*a), _windows, _unfold_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 6), dtype), 1, 3, 2)),
    failures=(
        Failure(Sample((_X, 0, 4, 1)), ShapeError, "cut into windows of 4"),
        Failure(Sample((_X, 0, 2, 0)), ShapeError, "step from 1"),
        Failure(Sample((np.zeros((), "f4"), 0, 2, 1)), ShapeError, "cut into windows of 2"),
    ),
)  # fmt: skip


def _fold(x: Any, **given: Any) -> Any:
    given = given or {"shape": (4, x.shape[1]), "dim": 0, "size": 3, "step": 1}
    return OPS["fold"](x, **given)


def _fold_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape, dim, size, step in (
        ((5,), 0, 2, 1), ((5,), 0, 3, 2), ((2, 6), 1, 2, 3), ((6, 2), 0, 3, 1), ((0, 3), 1, 2, 1),
    ):  # fmt: skip
        windows = _windows(np.zeros(shape), dim, size, step).shape
        yield Sample(
            (values(windows, dtype),), {"shape": shape, "dim": dim, "size": size, "step": step}
        )


def _folded(x: Array, **given: Any) -> Array:
    given = given or {"shape": (4, x.shape[1]), "dim": 0, "size": 3, "step": 1}
    dtype = next(d for d in DTYPES if d.numpy == x.dtype)
    shape, dim, step = given["shape"], given["dim"], given["step"]
    out = np.zeros(shape, x.dtype)
    for at in np.ndindex(x.shape):
        place = (*at[:dim], at[dim] * step + at[-1], *at[dim + 1 : -1])
        total = (
            out[place] + x[at] if dtype.is_floating else wrap(int(out[place]) + int(x[at]), dtype)
        )
        out[place] = total
    return out


_FOLD = OpInfo(
    OPS["fold"], _fold, _folded, _fold_samples, NUMBERS, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((2, n, 3), dtype),)),
    failures=(
        Failure(
            Sample((np.zeros((4, 2), "f4"),), {"shape": (6,), "dim": 0, "size": 2, "step": 1}), ShapeError, "5 differ"
        ),
    ),
)  # fmt: skip

ROWS = (
    _DIAGONAL, _DIAG_EMBED, _triangle("tril", lambda above, k: above <= k),
    _triangle("triu", lambda above, k: above >= k), _UNFOLD, _FOLD,
)  # fmt: skip
