"""Sorting of long rows digit by digit, as kernels do it: no element is compared with another.

An element becomes an integer that grows with it, of which the last 8 bits are looked at first. In
each round elements are counted by such a digit, which tells where each goes, and are moved there in
the order in which they lie: so equal ones keep theirs (Knuth, "The Art of Computer Programming",
5.2.5). Parts of a long row are counted and moved by themselves, which threads share; how it is cut
follows from its length alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, dim_max, dim_min
from staticflow.graph.dtypes import DType, int16, int32, int64

__all__ = [
    "Row", "Rows", "StoredRow", "counters", "integer_of", "rounds_of", "row_in", "sort_by_digits",
]  # fmt: skip

_BITS = 8
"""Bits of a digit: the nearest cache holds a line of each of the places where elements go next."""

_VALUES = 1 << _BITS

_PART = 1 << 16
"""Elements of a part at least: some 0.5 milliseconds of work a round."""

_MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class Row:
    """A row of elements and of their positions: what loads either."""

    key: Callable[[Size], Any]
    position: Callable[[Size], Any]


@dataclass(frozen=True, slots=True)
class StoredRow(Row):
    """A row in memory that is written: what stores an element and its position."""

    store: Callable[[Size, Any, Any], None]


def row_in(k: Any, keys: str, positions: str, index: Callable[[Size], Size]) -> StoredRow:
    """A row in a buffer of keys and one of positions."""

    def store(at: Size, key: Any, position: Any) -> None:
        k.store(keys, index(at), key)
        k.store(positions, index(at), position)

    return StoredRow(
        lambda at: k.load(keys, index(at)), lambda at: k.load(positions, index(at)), store
    )


Rows = tuple[Row, StoredRow, StoredRow]
"""The row that is sorted, a spare one, and that of the result."""


def counters(n: Size) -> Size:
    """Counters that `sort_by_digits` needs for a row of ``n`` elements."""
    return _parts(n) * _VALUES


def rounds_of(dtype: DType) -> int:
    """Digits of an element: an even number, so that the last round ends where it should."""
    return max(2, dtype.itemsize)


def _parts(n: Size) -> Size:
    """In how many parts a row is sorted."""
    return dim_max(dim_min(n // _PART, _MOST_PARTS), 1)


def sort_by_digits(
    nest: Any, n: Size, dtype: DType, rows: Rows, counts: tuple[str, Size], descending: bool
) -> None:
    """Sort a row of ``n`` elements of a ``dtype``. ``counts`` are a buffer and where in it there is
    room for `counters`."""
    k, (first, spare, result) = nest.k, rows
    parts = _parts(n)
    if not isinstance(parts, int):
        parts = k.bind(k.index_value(parts), "parts", _MOST_PARTS + 1)

    def two_rounds(number: int, source: Row) -> None:
        for at, come, go in ((number, source, spare), (number + 1, spare, result)):
            digit_of = functools.partial(
                _digit, k, number=at, is_last=at == rounds_of(dtype) - 1, descending=descending
            )
            _move(nest, n, parts, come, go, counts, digit_of)

    two_rounds(0, first)
    if rounds_of(dtype) > 2:
        differ = _bits_that_differ(k, n, result)
        for number in range(2, rounds_of(dtype), 2):
            own = k.apply("and", k.apply("shr", differ, _BITS * number), _VALUES * _VALUES - 1)
            with k.when(k.compare("ne", own, 0)):
                two_rounds(number, result)


def _bits_that_differ(k: Any, n: Size, row: Row) -> Any:
    """A number that has the bits in which any integer of a row differs from the first."""
    differ = k.var(k.const(0, int64))
    with k.loop("j", n) as j:
        other = k.apply("xor", integer_of(k, row.key(j)), integer_of(k, row.key(0)))
        k.accumulate(differ, "or", other)
    return k.freeze(differ)


def _move(
    nest: Any,
    n: Size,
    parts: Size,
    source: Row,
    into: StoredRow,
    counts: tuple[str, Size],
    digit_of: Callable[[Any], Any],
) -> None:
    """One round: bring the elements into the order of a digit."""
    k, (buffer, base) = nest.k, counts

    def place(part: Size, digit: Size) -> Size:
        return base + part * _VALUES + digit

    def place_of(part: Size, j: Size) -> Size:
        return place(part, k.bind(digit_of(source.key(j)), "digit", _VALUES))

    for part in nest.each("part", 0, parts, 1, "parallel"):
        with k.loop("d", _VALUES) as d:
            k.store(buffer, place(part, d), k.const(0, int64))
        with k.loop("j", (part + 1) * n // parts, lo=part * n // parts) as j:
            at = place_of(part, j)
            k.store(buffer, at, k.add(k.load(buffer, at), 1))
    total = k.var(k.const(0, int64))
    with k.loop("d", _VALUES) as d, k.loop("part", parts) as part:
        count = k.load(buffer, place(part, d))
        k.store(buffer, place(part, d), total)
        k.set(total, k.add(total, count))
    for part in nest.each("part", 0, parts, 1, "parallel"):
        with k.loop("j", (part + 1) * n // parts, lo=part * n // parts) as j:
            at = place_of(part, j)
            to = k.load(buffer, at)
            into.store(k.bind(to, "to", n), source.key(j), source.position(j))
            k.store(buffer, at, k.add(to, 1))


def _digit(k: Any, key: Any, *, number: int, is_last: bool, descending: bool) -> Any:
    """The digit of that number, from the last on, of the integer that stands for an element."""
    digit = k.apply("and", k.apply("shr", integer_of(k, key), _BITS * number), _VALUES - 1)
    turned = (_VALUES - 1 if descending else 0) ^ (
        _VALUES // 2 if is_last and key.dtype.kind in "if" else 0
    )
    return k.apply("xor", digit, turned) if turned else digit


def integer_of(k: Any, key: Any) -> Any:
    """A number of 64 bits that grows with an element, of which NaN is the largest; equal ones, as
    both zeros are, have one."""
    if not key.dtype.is_floating:
        return k.cast(key, int64)
    bits = key.dtype.bits
    same = {16: int16, 32: int32, 64: int64}[bits]
    largest = (1 << (bits - 1)) - 1
    number = k.cast(k.bitcast(key, same), int64)
    sign = k.apply("shr", number, 63)
    number = k.apply("xor", number, k.apply("and", sign, largest))  # else it falls below 0
    return k.select(k.isnan(key), largest, k.sub(number, sign))
