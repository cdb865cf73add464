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

__all__ = ["Counting"]


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
        width = width_of(nest.in_type(0).dtype)
        return Counting(nest, n, nest.scratch(width, workers * n), nest.scratch(int64, workers * n))

    def each_place(
        self, at: Callable[[Size], Any], worker: Size, descending: bool, put: Callable[..., None]
    ) -> None:
        """Call ``put(j, place)`` for each position of a row, whose elements have the indices
        ``at``, and the place of its element in the order."""
        nest, k, n = self.nest, self.nest.k, self.n
        base = worker * n
        with k.loop("j", n) as j, nest.lanes_along(j):
            k.store(self.integers, base + j, integer_in(nest, at(j), descending))
        with k.loop("j", n) as j, nest.lanes_along(j):
            k.store(self.placed, base + j, k.const(0, int64))
        with k.loop("j", n) as j:
            own = k.load(self.integers, base + j)
            smaller = k.var(k.const(0, own.dtype))
            with k.loop("i", n) as i, nest.lanes_along(i):
                less = k.compare("lt", k.load(self.integers, base + i), own)
                k.accumulate(smaller, "add", k.cast(less, own.dtype))
            first = base + k.bind(k.cast(k.freeze(smaller), int64), "first", n)
            before = k.load(self.placed, first)
            k.store(self.placed, first, k.add(before, 1))
            put(j, k.bind(k.add(k.cast(k.freeze(smaller), int64), before), "place", n))
