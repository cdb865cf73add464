"""The first few elements of a row, as kernels find them: they are kept in order while it is read.

On a GPU many threads go through a long row, each through every so many-th element; of what they
keep some others keep the first, and one of those the first of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import int64
from staticflow.ops.along.selection import each_hit
from staticflow.ops.declaring.lowering import delinear, linear
from staticflow.ops.indexing.radix import StoredRow, row_in

__all__ = ["emit_few"]

_THREADS = 1 << 17
"""Threads that keep a large GPU busy."""

_LEAST_OF_THREAD, _MOST_THREADS = 128, 1 << 11
"""Elements of a row that are worth a thread, and threads of a row."""

_LISTS = 32
"""Lists of kept elements that a thread makes one of."""


@dataclass(frozen=True, slots=True)
class _Element:
    """A key, and its position in the row."""

    key: Any
    position: Any


def emit_few(nest: Any, before: Callable[[Any, Any], Any]) -> None:
    """The kernel of ``top_few``: ``before(a, b)`` says whether a key stands strictly before
    another."""
    few = _Few(nest, before)
    parts = few.parts
    if is_provably_ge(1, parts):
        with nest.rows(nest.in_shape(0), nest.attrs["dim"]) as at:
            few.keep_row(at)
        return
    is_cut: Size = 1 if is_provably_ge(parts, 2) else dim_min(parts - 1, 1)
    if is_cut != 1:
        for at in few.rows(1 - is_cut):
            few.keep_row(at)
    few.keep_parts(parts, is_cut)


class _Few:
    """Writes loops that keep the first ``count`` elements of rows."""

    def __init__(self, nest: Any, before: Callable[[Any, Any], Any]) -> None:
        self.nest, self.k, self.before = nest, nest.k, before
        self.dim, self.count = nest.attrs["dim"], nest.attrs["k"]
        self.shape, self.out = nest.in_shape(0), nest.out_type(0)
        self.n: Size = self.shape[self.dim]
        self.outer = (*self.shape[: self.dim], *self.shape[self.dim + 1 :])

    @property
    def parts(self) -> Size:
        """How many threads go through a row."""
        if not self.nest.has_teams or self.count < 1:
            return 1
        threads = dim_min(_THREADS // dim_max(prod(self.outer), 1), _MOST_THREADS)
        return dim_max(dim_min(self.n // _LEAST_OF_THREAD, threads), 1)

    def rows(self, times: Size) -> Any:
        """A launch, or with 0 ``times`` none, with a thread for each row."""
        with self.k.loop("row", prod(self.outer) * times, kind="grid") as row:
            yield self._index_of(row)

    def _index_of(self, row: Size) -> Callable[[Size], Any]:
        index = delinear(row, self.outer)
        return lambda j: (*index[: self.dim], j, *index[self.dim :])

    def _result(self, at: Callable[[Size], Any]) -> StoredRow:
        """A row of the results, ``at`` the index of an element of it."""
        names = self.nest.out_name(0), self.nest.out_name(1)
        return row_in(self.k, *names, lambda j: linear(at(j), self.out.shape))

    def keep_row(self, at: Callable[[Size], Any]) -> None:
        """Go through a row, and keep elements of it in the results: the first, and then those that
        stand before the last of those kept, which are soon few."""
        k = self.k
        insert, worst = self._inserter(self._result(at), by_position=False)

        def visit(j: Size) -> None:
            seen = k.index_value(j)
            insert(seen, _Element(self.nest.load(0, at(j)), seen))

        def comes_in(i: Size) -> Any:
            return self.before(self.nest.load(0, at(self.count + i)), worst.key)

        with k.loop("j", self.count) as j:
            visit(j)
        each_hit(self.nest, self.n - self.count, comes_in, lambda i: visit(self.count + i))

    def keep_parts(self, parts: Size, times: Size) -> None:
        """Go through rows by several threads each, in three launches, or in none of 0 ``times``."""
        k, rows = self.k, prod(self.outer)
        lists = ceil_div(parts, _LISTS)
        first, second = (self._lists(rows * number) for number in (parts, lists))
        with k.loop("part", rows * parts * times, kind="grid") as thread:
            row, part = thread // parts, thread % parts
            at = self._index_of(row)
            insert, _ = self._inserter(first(thread), by_position=False)
            with k.loop("i", ceil_div(self.n - part, parts)) as i:
                j = part + i * parts
                insert(k.index_value(i), _Element(self.nest.load(0, at(j)), k.index_value(j)))
        with k.loop("list", rows * lists * times, kind="grid") as thread:
            row, number = thread // lists, thread % lists
            begin = number * _LISTS
            some = dim_min(parts - begin, _LISTS)
            self._keep_of_lists(second(thread), first, row * parts + begin, some)
        with k.loop("row", rows * times, kind="grid") as row:
            result = self._result(self._index_of(row))
            self._keep_of_lists(result, second, row * lists, lists)

    def _lists(self, number: Size) -> Callable[[Size], StoredRow]:
        """Room for a ``number`` of lists, of which neighbours lie beside each other; gives one."""
        keys = self.nest.scratch(self.out.dtype, number * self.count)
        positions = self.nest.scratch(int64, number * self.count)

        def list_of(which: Size) -> StoredRow:
            return row_in(self.k, keys, positions, lambda i: i * number + which)

        return list_of

    def _keep_of_lists(
        self, kept: StoredRow, source: Callable[[Size], StoredRow], first: Size, number: Size
    ) -> None:
        """Keep the first elements of a ``number`` of lists from the ``first`` on."""
        k = self.k
        insert, _ = self._inserter(kept, by_position=True)
        with k.loop("list", number) as which, k.loop("i", self.count) as i:
            of = source(first + which)
            insert(k.index_value(which * self.count + i), _Element(of.key(i), of.position(i)))

    def _inserter(
        self, kept: StoredRow, *, by_position: bool
    ) -> tuple[Callable[[Any, _Element], None], _Element]:
        """What takes one element after the other, and how many came before it; and the last of
        those kept, as soon as there are enough. Each element that stands before that one goes in
        where it belongs, and those behind it move on. All of these are compared with it, so that no
        comparison waits for another. Equal ones come in the order of their positions: that in which
        they are given, unless ``by_position``."""
        k, count = self.k, self.count
        worst = _Element(
            k.var(k.const(0, self.out.dtype)), k.var(k.const(0, int64)) if by_position else None
        )

        def comes_before(a: _Element, b: _Element) -> Any:
            comes = self.before(a.key, b.key)
            if not by_position:
                return comes
            is_ahead = k.compare("lt", a.position, b.position)
            equal = k.apply("and", k.apply("not", self.before(b.key, a.key)), is_ahead)
            return k.apply("or", comes, equal)

        def insert(seen: Any, element: _Element) -> None:
            def compare_at(i: int) -> tuple[Any, Any, Any]:
                """The key and the position of the element in place ``i`` of those kept so far, and
                whether ``element`` comes before it, as it does where the place is free."""
                free = k.compare("le", seen, i)  # nothing is kept there yet
                here = _Element(kept.key(i), kept.position(i))
                return here.key, here.position, k.apply("or", free, comes_before(element, here))

            begins = k.compare("lt", seen, count)
            with k.when(k.apply("or", begins, comes_before(element, worst))):
                here = compare_at(count - 1)
                for i in reversed(range(count)):
                    own = (
                        k.select(here[2], element.key, here[0]),
                        k.select(here[2], element.position, here[1]),
                    )
                    if i:
                        here = compare_at(i - 1)
                        own = k.select(here[2], here[0], own[0]), k.select(here[2], here[1], own[1])
                    kept.store(i, *own)
                k.set(worst.key, kept.key(count - 1))
                if by_position:
                    k.set(worst.position, kept.position(count - 1))

        return insert, worst
