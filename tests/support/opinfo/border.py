"""Rows of what enlarges tensors by what they hold, and of its transpose."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from opinfo.core import ALL, NUMBERS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS

Counts = tuple[int, ...]

_CASES: tuple[tuple[str, Counts, Counts, Counts], ...] = (
    ("reflect", (5,), (2,), (4,)), ("reflect", (2, 3, 4), (2, 1), (0, 3)),
    ("replicate", (1, 2), (2, 0), (0, 3)), ("circular", (2, 2, 3), (2, 1), (0, 3)),
    ("circular", (0, 3), (1,), (1,)),
)  # fmt: skip


def _place(i: int, n: int, mode: str) -> int:
    if mode == "replicate":
        return min(max(i, 0), n - 1)
    if mode == "circular":
        return i % n
    return abs(i) if i < n else 2 * n - 2 - i


def _places(shape: Counts, before: Counts, after: Counts, mode: str) -> Iterator[Any]:
    """Each index of the larger tensor, and of where its element comes from."""
    none = (0,) * (len(shape) - len(before))
    pairs = zip(shape, (*none, *before), (*none, *after), strict=True)
    dims = [[(i + a, _place(i, n, mode)) for i in range(-a, n + b)] for n, a, b in pairs]
    for each in itertools.product(*dims):
        yield tuple(zip(*each, strict=True))


def _bordered(x: Array, before: Counts, after: Counts, mode: str) -> Array:
    out = np.empty(_larger(x.shape, before, after), x.dtype)
    for at, source in _places(x.shape, before, after, mode):
        out[at] = x[source]
    return out


def _larger(shape: Counts, before: Counts, after: Counts) -> Counts:
    lead = len(shape) - len(before)
    return (*shape[:lead], *np.add(np.add(shape[lead:], before), after).tolist())


def _added(y: Array, before: Counts, after: Counts, mode: str) -> Array:
    lead = y.ndim - len(before)
    shape = (*y.shape[:lead], *np.subtract(np.subtract(y.shape[lead:], before), after).tolist())
    out = np.zeros(shape, np.float64)
    for at, source in _places(shape, before, after, mode):
        out[source] += float(y[at])
    return out.astype(y.dtype)


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for mode, shape, before, after in _CASES:
        yield Sample((values(shape, dtype),), {"before": before, "after": after, "mode": mode})


def _larger_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for sample in _samples(dtype, smooth):
        shape = _larger(sample.args[0].shape, sample.kwargs["before"], sample.kwargs["after"])
        yield Sample((values(shape, dtype, 0.5),), sample.kwargs)


_ATTRS = {"before": (1, 2), "after": (2, 1), "mode": "reflect"}
_LONG = {"before": (3,), "after": (0,), "mode": "reflect"}

ROWS = (
    OpInfo(
        OPS["border"], lambda x, **k: OPS["border"](x, **k or _ATTRS),
        lambda x, **k: _bordered(x, **k or _ATTRS), _samples, ALL, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 4, 5), dtype),)),
        failures=(Failure(Sample((np.zeros((2, 3), "f4"),), _LONG), ShapeError, "for 3 elements beside it (reflect)"),),
    ),
    OpInfo(
        OPS["unborder"], lambda y, **k: OPS["unborder"](y, **k or _ATTRS),
        lambda y, **k: _added(y, **k or _ATTRS), _larger_samples, NUMBERS, grad=True,
        sized=lambda dtype, n: Sample((values((n, 9, 11), dtype, 0.5),)),
        failures=(
            Failure(Sample((np.zeros((9, 9), "f4"),), {**_LONG, "before": (5,)}), ShapeError, "5 elements"),
            Failure(Sample((np.zeros((9, 9), "?"),), _ATTRS), DTypeError, "bool"),
        ),
    ),
)  # fmt: skip
