"""Sorting as many threads do it: every element finds its place by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.graph.dims import Size, ceil_div, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import int64
from staticflow.ops.declaring.lowering import delinear
from staticflow.ops.indexing.radix import Row, Rows, StoredRow

__all__ = ["sort_by_ranks", "sort_rows"]

_ROUNDS = 32
"""Rounds of two merges each: enough for any size, and those that are not needed do nothing."""

_HALVINGS = 64
"""Steps of a binary search: enough for any size."""


_RUN = 1 << 11
"""Elements that a block of threads sorts."""

_WAYS = 4
"""Sorted runs that become one in a launch."""

_MOST = 1 << 40
"""Elements of a row of unknown length, at most: more than a GPU has memory for."""


def sort_by_ranks(nest: Any, dim: int, rows_at: Callable[[Any], Rows], comes_before: Any) -> None:
    """Sort the rows of the first argument along ``dim``, stably; ``rows_at(at)`` gives the rows
    whose elements have the indices ``at``. ``comes_before(a, b)`` says whether an element stands
    strictly before another.

    Blocks of threads sort runs of `_RUN` elements. Longer rows are then merged by launches with a
    thread for each element of all of them, two at a time, of which those that a row does not need
    have no iterations.
    """
    k, shape = nest.k, nest.in_shape(0)
    n: Size = shape[dim]
    if is_provably_ge(_RUN, n):
        with nest.rows(shape, dim) as at:
            _merge_by_ranks(k, n, rows_at(at), comes_before)
        return
    outer = (*shape[:dim], *shape[dim + 1 :])

    def row(number: Size) -> Rows:
        index = delinear(number, outer)
        return rows_at(lambda j: (*index[:dim], j, *index[dim:]))

    sort_rows(k, n, prod(outer), row, comes_before)


def sort_rows(
    k: Any,
    n: Size,
    count: Size,
    row: Callable[[Size], Rows],
    comes_before: Any,
    times: Size = 1,
) -> None:
    """Sort a ``count`` of rows of ``n`` elements, which ``row`` gives by their numbers, or, with 0
    ``times``, none. A row may be sorted where it lies, if the first is that of the result."""
    runs = ceil_div(n, _RUN)
    with k.loop("run", count * runs * times, kind="parallel") as run:
        number, begin = run // runs, run % runs * _RUN
        length = k.bind(k.index_value(dim_min(n - begin, _RUN)), "length", upper=_RUN + 1)
        first, other, result = row(number)
        parts = _part_of(first, begin), _part_of(other, begin), _part_of(result, begin)
        _merge_by_ranks(k, length, parts, comes_before)
    width = _RUN
    while width < (n if isinstance(n, int) else _MOST):
        is_longer: Size = 1 if is_provably_ge(n, width + 1) else dim_min(n // (width + 1), 1)
        for which in (0, 1):
            with k.loop("j", count * n * is_longer * times, kind="grid") as element:
                _, other, result = row(element // n)
                source, into = (result, other) if which == 0 else (other, result)
                _merge_some(k, n, element % n, source, into, width, comes_before)
            width *= _WAYS


def _part_of(row: Any, begin: Size) -> Any:
    """What of a row comes from an element on."""
    if isinstance(row, StoredRow):
        return StoredRow(
            lambda j: row.key(begin + j),
            lambda j: row.position(begin + j),
            lambda j, key, position: row.store(begin + j, key, position),
        )
    return Row(lambda j: row.key(begin + j), lambda j: row.position(begin + j))


def _merge_some(
    k: Any, n: Size, j: Size, source: Row, into: StoredRow, width: int, comes_before: Any
) -> None:
    """The element ``j`` to its place where `_WAYS` sorted runs of ``width`` elements are merged:
    those of its own run before it, and of the others those that stand before it."""
    whole = width * _WAYS
    j = k.bind(k.index_value(j), "j", n)
    first = j // whole * whole
    own = (j - first) // width
    key, position = source.key(j), source.position(j)
    here = k.index_value(own)
    ahead = k.var(k.index_value(j - own * width))
    with k.loop("run", _WAYS) as run:
        begin = k.index_value(dim_min(first + run * width, n))
        end = k.index_value(dim_min(first + run * width + width, n))
        other = k.index_value(run)
        is_behind = k.compare("gt", other, here)  # its equals come behind the element
        is_own = k.compare("eq", other, here)
        end = k.select(is_own, begin, end)
        before = _count_before(k, n, source, key, begin, end, is_behind, comes_before)
        k.set(ahead, k.add(ahead, before))
    into.store(k.bind(ahead, "place", n), key, position)


def _merge_by_ranks(k: Any, n: Size, rows: Rows, comes_before: Any) -> None:
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
    size = k.index_value(n)
    double = k.add(width, width)
    with k.loop("j", n, kind="parallel") as j:
        key, position, here = source.key(j), source.position(j), k.index_value(j)
        first = k.mul(k.apply("quotient", here, double), double)
        middle = k.minimum(k.add(first, width), size)
        last = k.minimum(k.add(first, double), size)
        is_left = k.compare("lt", here, middle)
        begin = k.select(is_left, middle, first)
        end = k.select(is_left, last, middle)
        before = _count_before(k, n, source, key, begin, end, is_left, comes_before)
        own = k.sub(here, k.select(is_left, first, middle))
        place = k.add(k.add(first, own), before)
        into.store(k.bind(place, "place", n), key, position)


def _count_before(
    k: Any, n: Size, source: Row, key: Any, begin: Any, end: Any, is_behind: Any, comes_before: Any
) -> Any:
    """How many elements of a sorted run, which lies from ``begin`` to before ``end`` in a row of
    ``n``, stand before an element with this ``key``, by a binary search. Its equals do, unless the
    run ``is_behind`` the element's own."""
    low, high = k.var(begin), k.var(end)
    going = k.var(k.compare("lt", low, high))
    with k.loop("step", _HALVINGS, going=going):
        half = k.apply("quotient", k.add(low, high), 2)
        found = source.key(k.bind(half, "half", n))
        comes = k.select(
            is_behind, comes_before(found, key), k.apply("not", comes_before(key, found))
        )
        k.set(low, k.select(comes, k.add(half, 1), low))
        k.set(high, k.select(comes, high, half))
        k.set(going, k.compare("lt", low, high))
    return k.sub(low, begin)
