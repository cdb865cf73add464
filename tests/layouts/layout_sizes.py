"""The samples of the op table at sizes on both sides of those at which other code takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from opinfo.core import Array, OpInfo, Sample
from opinfo.modes import arrays_of, graph_of, with_arrays
from thresholds import MEASURES, SIZES, constants

from staticflow import pytree
from staticflow.eager.costs import BEYOND, LARGE, SHORT, SPREAD
from staticflow.errors import StaticflowError
from staticflow.graph.dtypes import DType
from staticflow.graph.types import types_of
from staticflow.ops.declaring.lowering import Region

__all__ = ["elements_of", "enlarged_samples"]

Shape = tuple[int, ...]
Sizes = Mapping[int, int]
"""By what each size of a sample is replaced."""

_KEY = 7
"""The size of the table's sample that stands for any."""

_WIDE = SHORT + 3
_MOST = 4 * BEYOND
"""Elements beyond which no sample is made: long rows of an op that multiplies them are many."""

_BOTH_WAYS = (LARGE, SPREAD)
"""Thresholds both of whose sides both ways to grow meet."""


def elements_of(sample: Sample) -> int:
    """The elements of the largest array of a sample."""
    return max((a.size for a in arrays_of(sample)), default=0)


def enlarged_samples(info: OpInfo, dtype: DType) -> Iterator[Sample]:
    """The sample of unknown sizes of an op, enlarged: below each threshold and at it, in as many rows
    as that takes, or in rows so long that they are taken where they lie, where the op has such.

    Ops that run other ops, as loops do, have no thresholds of their own.
    """
    assert info.sized is not None
    base = info.sized(dtype, _KEY)
    if not arrays_of(base):
        return
    wide = next((w for w in _wide(base) if w and _shapes(info, base, {**w, _KEY: _WIDE})), None)
    seen: set[str] = set()
    for number, way in enumerate([{}] if wide is None else [{}, wide]):
        sizes = {_WIDE}
        if not isinstance(info.op.lowering, Region):
            sizes |= set(_around(info, base, way, number, wide is not None))
        for n in sorted(sizes):
            shapes = _shapes(info, base, {**way, _KEY: n})
            if shapes and MEASURES["elements"](shapes) <= _MOST:
                sample = enlarged(base, {**way, _KEY: n})
                if str(sample) not in seen:
                    yield sample
                seen.add(str(sample))


def enlarged(sample: Sample, sizes: Sizes, like: Any = np.resize) -> Sample:
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


def _wide(sample: Sample) -> Iterator[dict[int, int]]:
    """Ways to make rows long: sizes that are none of a window, the last dims, every size."""
    arrays = arrays_of(sample)
    sizes = {n for a in arrays for n in a.shape} - {0, 1, _KEY}
    yield {n: _WIDE + n for n in sizes if n > 3}
    yield {arrays[0].shape[-1]: _WIDE} if arrays[0].ndim else {}
    yield {n: _WIDE + n for n in sizes if n > 2}
    yield {n: _WIDE + n for n in sizes}


def _shapes(info: OpInfo, sample: Sample, sizes: Sizes) -> list[Shape]:
    """The shapes of the arrays and results of the sample enlarged; none if the op refuses it."""
    try:
        other = enlarged(sample, sizes, lambda a, shape: np.broadcast_to(a.ravel()[0], shape))
        graph = graph_of(info, other)
    except (StaticflowError, IndexError, ValueError, TypeError, AttributeError):
        return []
    nodes = (t for n in graph.nodes for t in types_of(n.type))
    return [tuple(n if isinstance(n, int) else 1 for n in t.shape) for t in nodes]


def _around(info: OpInfo, base: Sample, way: Sizes, number: int, both: bool) -> Iterator[int]:
    """The sizes just below thresholds and at them. Of two ways to grow, each takes one side of the
    thresholds at which cases are either many or costly."""
    known = constants()
    by_size = sorted({(known[name], measure) for name, measure in SIZES.items()})
    shapes = lru_cache(None)(lambda n: _shapes(info, base, {**way, _KEY: n}))
    for turn, (least, measure) in enumerate(by_size):

        def counted(n: int, least: int = least, measure: str = measure) -> int:
            return MEASURES[measure](shapes(n)) if shapes(n) else least

        n = _first(counted, least)
        sides = (max(n - 1, _KEY), n)
        whole = least in _BOTH_WAYS or not both
        yield from sides if whole else sides[(turn + number) % 2 :][:1]


def _first(counted: Callable[[int], int], least: int) -> int:
    """The first number from which on a count, which grows with it, is ``least``; at most ``least``."""
    low, high = 1, least
    below, above = counted(low), counted(high)
    while low + 1 < high:
        share = (least - below) / max(above - below, 1)
        step = int((high - low) * share) if above < 4 * least else (high - low) // 16
        middle = min(max(low + step, low + 1), high - 1)
        count = counted(middle)
        low, below, high, above = (
            (middle, count, high, above) if count < least else (low, below, middle, count)
        )
    return high
