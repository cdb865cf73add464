"""Arrays in every layout, and the samples of the op table at the sizes at which kernels change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

import numpy as np
from guard_pages import guarded_bytes
from opinfo.core import Array, OpInfo, Sample
from opinfo.modes import arrays_of, graph_of, with_arrays

from staticflow import pytree
from staticflow.eager import choose, indexed, programs, rows
from staticflow.errors import StaticflowError
from staticflow.graph import rowmajor
from staticflow.graph.dtypes import DType
from staticflow.graph.types import types_of
from staticflow.ops import stable

__all__ = ["ALIASING", "LAYOUTS", "THRESHOLDS", "enlarged_samples", "in_layout"]

Shape = tuple[int, ...]
Steps = tuple[int, ...]
"""How many elements neighbours along each dim lie apart."""


# -- layouts ------------------------------------------------------------------------------------


def in_rows(shape: Shape) -> Steps:
    """Row-major order."""
    return tuple(accumulate((1, *shape[:0:-1]), mul))[::-1] if shape else ()


def in_order(shape: Shape, order: Sequence[int]) -> Steps:
    """The row-major order of the dims as ``order`` has them."""
    steps = dict(zip(order, in_rows(tuple(shape[d] for d in order)), strict=True))
    return tuple(steps[d] for d in range(len(shape)))


def within(shape: Shape, around: Sequence[int]) -> Steps:
    """As part of an array that is ``around`` many elements larger along each dim."""
    return in_rows(tuple(n + m for n, m in zip(shape, around, strict=True)))


def _windows(shape: Shape) -> Steps:
    return (*in_rows(shape[:-1]), 1) if len(shape) > 1 else in_rows(shape)


def _with(steps: Steps, dim: int, step: int) -> Steps:
    listed = list(steps)
    listed[dim] = step
    return tuple(listed)


LAYOUTS: dict[str, Callable[[Shape], Steps]] = {
    "row-major": in_rows,
    "transposed": lambda s: in_order(s, range(len(s))[::-1]),
    "last dim first": lambda s: in_order(s, [len(s) - 1, *range(len(s) - 1)]),
    "every other": lambda s: tuple(2 * step for step in in_rows(s)),
    "every third": lambda s: tuple(3 * step for step in in_rows(s)),
    "every ninth": lambda s: tuple(9 * step for step in in_rows(s)),
    "every other row": lambda s: _with(in_rows(s), 0, 2 * in_rows(s)[0]),
    "cropped columns": lambda s: within(s, (*([0] * (len(s) - 1)), 3)),
    "cropped": lambda s: within(s, [2] * len(s)),
    "cropped and transposed": lambda s: within(s[::-1], [2] * len(s))[::-1],
    "one row": lambda s: _with(in_rows(s), 0, 0),
    "one column": lambda s: _with(in_rows((*s[:-1], 1)), -1, 0),
    "one element": lambda s: (0,) * len(s),
    "windows": _windows,
    "backwards": lambda s: tuple(-step for step in in_rows(s)),
    "rows backwards": lambda s: _with(in_rows(s), 0, -in_rows(s)[0]),
    "offset": in_rows,
    "unaligned": in_rows,
    "read-only": in_rows,
}
"""The steps of an array of a shape, of one dim or more."""

ALIASING = ("one row", "one column", "one element", "windows")
"""Layouts in which elements lie in the same place, so that they are equal."""


def in_layout(values: Array, layout: str, at_end: bool = True) -> Array:
    """An array of ``values``, or of some of them again and again, in memory beside a page that may
    not be touched. What lies between its elements is NaN, or another odd number."""
    if not values.ndim or not values.size:
        return values.copy()
    steps, size = LAYOUTS[layout](values.shape), values.itemsize
    reach = [step * (n - 1) for n, step in zip(values.shape, steps, strict=True)]
    ahead, behind = -sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    lead = {"offset": size, "unaligned": 1}.get(layout, 0)
    memory, _ = guarded_bytes((ahead + behind + 1) * size + lead, at_end and not lead)
    if values.dtype == np.bool_:
        memory[:] = 1
    out = np.ndarray(
        values.shape, values.dtype, memory, lead + ahead * size, tuple(size * s for s in steps)
    )
    out[...] = values
    if layout == "read-only":
        out.flags.writeable = False
    return out


# -- sizes --------------------------------------------------------------------------------------

THRESHOLDS = {
    "SHORT": rows.SHORT,
    "few": choose._PAYS["few"],
    "strided": choose._PAYS["strided"],
    "MANY": indexed.MANY,
    "SMALL": choose.SMALL,
    "FEW": stable._FEW,
    "row-major": rowmajor._LARGE,
    "LARGE": programs.LARGE,
    "SPREAD": programs.SPREAD,
}
"""Elements from which on something else computes an operation."""

_KEY = 7
_WIDE = rows.SHORT + 3


def enlarged(sample: Sample, sizes: Mapping[int, int], like: Any = np.resize) -> Sample:
    """The sample with arrays, and numbers among the arguments, of other sizes."""

    def shape(a: Array) -> Shape:
        return tuple(sizes.get(n, n) for n in a.shape)

    def number(n: Any) -> Any:
        return sizes.get(n, n) if type(n) is int else n

    arrays = [like(a, shape(a)).astype(a.dtype, copy=False) for a in arrays_of(sample)]
    kwargs = {
        name: pytree.map_tree(number, value) if type(value) in (int, tuple, list) else value
        for name, value in sample.kwargs.items()
    }
    return Sample(pytree.map_tree(number, with_arrays(sample, arrays)), kwargs)


def _types(info: OpInfo, sample: Sample, sizes: Mapping[int, int]) -> list[Shape]:
    """The shapes of the arrays and results of the sample enlarged; none if the op refuses it."""
    other = enlarged(sample, sizes, lambda a, shape: np.broadcast_to(a.ravel()[0], shape))
    try:
        graph = graph_of(info, other)
    except (StaticflowError, IndexError, ValueError, TypeError, AttributeError):
        return []
    nodes = (t for n in graph.nodes for t in types_of(n.type))
    return [tuple(n if isinstance(n, int) else 1 for n in t.shape) for t in nodes]


def _wide(sample: Sample) -> Iterator[dict[int, int]]:
    """Ways to make rows long: sizes that are none of a window, the last dims, every size."""
    arrays = arrays_of(sample)
    sizes = {n for a in arrays for n in a.shape} - {0, 1, _KEY}
    yield {n: _WIDE + n for n in sizes if n > 3}
    yield {arrays[0].shape[-1]: _WIDE} if arrays[0].ndim else {}
    yield {n: _WIDE + n for n in sizes if n > 2}
    yield {n: _WIDE + n for n in sizes}


def enlarged_samples(info: OpInfo, dtype: DType, thresholds: Sequence[int]) -> Iterator[Sample]:
    """The sample of unknown sizes, with long rows where the op takes that, at sizes around each
    threshold of elements."""
    assert info.sized is not None
    base = info.sized(dtype, _KEY)
    if not arrays_of(base):
        return
    ways = [way for way in _wide(base) if way and _types(info, base, {**way, _KEY: _WIDE})]
    for way in ({}, *ways[:1]):
        for n in _around(info, base, way, thresholds):
            if _types(info, base, {**way, _KEY: n}):
                yield enlarged(base, {**way, _KEY: n})


def _around(
    info: OpInfo, base: Sample, way: Mapping[int, int], thresholds: Sequence[int]
) -> list[int]:
    """The sizes just below thresholds of the largest array's elements, and at them."""

    def elements(n: int) -> int:
        return max(map(prod, _types(info, base, {**way, _KEY: n})), default=threshold)

    found = {_WIDE}
    for threshold in thresholds:
        n = 8
        while elements(n) < threshold and n < threshold:
            n *= 2
        low = n // 2
        while low + 1 < n:
            middle = (low + n) // 2
            low, n = (middle, n) if elements(middle) < threshold else (low, middle)
        found |= {max(n - 1, _KEY), n}
    return sorted(found)
