"""Sorting as many threads do it: every element finds its place by itself."""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.ops.along.radix import Row, Rows, StoredRow

__all__ = ["merge_by_ranks"]

_ROUNDS = 32
"""Rounds of two merges each: enough for any size, and those that are not needed do nothing."""

_HALVINGS = 64
"""Steps of a binary search: enough for any size."""


def merge_by_ranks(k: Any, n: Size, rows: Rows, comes_before: Any) -> None:
    """A merge sort of a row from the bottom up, whose loops over the row are parallel. It is
    stable. ``comes_before(a, b)`` says whether an element stands strictly before another.

    Where two sorted runs become one, an element goes as far behind their start as it is in its own
    run and as many elements of the other as stand before it, which a binary search counts.
    """
    first, other, result = rows
    with k.loop("j", n, kind="parallel") as j:
        result.store(j, first.key(j), first.position(j))
    width = k.var(k.const(1, int64))
    with k.loop("round", _ROUNDS), k.when(k.compare("lt", width, k.index_value(n))):
        for source, into in ((result, other), (other, result)):
            _merge(k, n, source, into, width, comes_before)
            k.set(width, k.add(width, width))


def _merge(k: Any, n: Size, source: Row, into: StoredRow, width: Any, comes_before: Any) -> None:
    """Pairs of neighbouring sorted runs of ``width`` elements, each merged into one."""
    end = k.index_value(n)
    double = k.add(width, width)
    with k.loop("j", n, kind="parallel") as j:
        key, position, here = source.key(j), source.position(j), k.index_value(j)
        first = k.mul(k.apply("quotient", here, double), double)
        middle = k.minimum(k.add(first, width), end)
        last = k.minimum(k.add(first, double), end)
        is_left = k.compare("lt", here, middle)
        begin = k.select(is_left, middle, first)
        low, high = k.var(begin), k.var(k.select(is_left, last, middle))
        going = k.var(k.compare("lt", low, high))
        with k.loop("step", _HALVINGS, going=going):
            half = k.apply("quotient", k.add(low, high), 2)
            found = source.key(k.bind(half, "half", n))
            ahead = k.select(
                is_left, comes_before(found, key), k.apply("not", comes_before(key, found))
            )
            k.set(low, k.select(ahead, k.add(half, 1), low))
            k.set(high, k.select(ahead, high, half))
            k.set(going, k.compare("lt", low, high))
        own = k.sub(here, k.select(is_left, first, middle))
        place = k.add(k.add(first, own), k.sub(low, begin))
        into.store(k.bind(place, "place", n), key, position)
