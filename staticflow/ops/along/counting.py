"""Short rows are sorted by counting: an element goes behind as many as are smaller.

The comparisons of an element with all others fill vectors, so that rows of up to a hundred or so
are sooner counted than merged, though their number is the square of the length. Equal elements come
out in the order in which they lie, since those that were placed before are counted, too (Knuth,
"The Art of Computer Programming", 5.2, "comparison counting").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.ops.along.selection import integer_in, width_of

__all__ = ["Counting", "place_each"]

_Part = tuple[str, Size]
"""A buffer of working memory, and where in it a row has its part."""


@dataclass(frozen=True, slots=True)
class Counting:
    """Working memory for rows of ``n`` elements, for each of some workers: the integers of the
    elements, and how many equal ones are placed from each place on."""

    nest: Any
    n: Size
    integers: str
    placed: str

    @staticmethod
    def of(nest: Any, n: Size, workers: Size) -> Counting:
        """Working memory for so many workers."""
        dtype, room = nest.in_type(0).dtype, workers * n
        integers, placed = nest.scratch(width_of(dtype), room), nest.scratch(int64, room)
        return Counting(nest, n, integers, placed)

    def each_place(
        self, at: Callable[[Size], Any], worker: Size, descending: bool, put: Callable[..., None]
    ) -> None:
        """Call ``put(j, place)`` for each position of a row, whose elements have the indices
        ``at``, and the place of its element in the order."""
        nest, base = self.nest, worker * self.n
        integers, placed = (self.integers, base), (self.placed, base)
        place_each(nest, self.n, lambda j: nest.load(0, at(j)), integers, placed, descending, put)


def place_each(
    nest: Any,
    n: Size,
    key_at: Callable[[Size], Any],
    integers: _Part,
    placed: _Part,
    descending: bool,
    put: Callable[..., None],
) -> None:
    """Call ``put(j, place)`` for each position of a row of ``n`` elements, which are loaded by
    ``key_at``."""
    k, (of_row, first_of_row), (counts, first_count) = nest.k, integers, placed
    with k.loop("j", n) as j, nest.lanes_along(j):
        k.store(of_row, first_of_row + j, integer_in(k, key_at(j), descending))
    with k.loop("j", n) as j, nest.lanes_along(j):
        k.store(counts, first_count + j, k.const(0, int64))
    with k.loop("j", n) as j:
        own = k.load(of_row, first_of_row + j)
        smaller = k.var(k.const(0, own.dtype))
        with k.loop("i", n) as i, nest.lanes_along(i):
            less = k.compare("lt", k.load(of_row, first_of_row + i), own)
            k.accumulate(smaller, "add", k.cast(less, own.dtype))
        first = first_count + k.bind(k.cast(k.freeze(smaller), int64), "first", n)
        before = k.load(counts, first)
        k.store(counts, first, k.add(before, 1))
        put(j, k.bind(k.add(k.cast(k.freeze(smaller), int64), before), "place", n))
