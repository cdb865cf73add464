"""Some elements of a row by their rank, without sorting it, as kernels find them.

An element becomes an integer that grows with it (`radix.integer_of`). The elements are counted by
their first 8 bits, which tells the bits of the one that is sought; those that share them are copied
in the order in which they lie, and counted by the next 8 bits, and so on (Knuth, "The Art of
Computer Programming", 5.3.3; by digits as in Alabi et al., "Fast k-selection algorithms for
graphics processing units", 2012). Each round has a fraction of the elements of the one before.
Rounds of digits that all elements share are left out.

On a GPU threads that share a row copy nothing: they find the bits of the element one by one, each
by how many elements have a 0 there and are as it is above.

The first few of a row are kept in order while it is read. On a GPU many threads go through a long
row, each through every so many-th element; of what they keep some others keep the first, and one of
those the first of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import bool_, int32, int64
from staticflow.ops.declaring.lowering import delinear, linear
from staticflow.ops.indexing.radix import StoredRow, integer_of, row_in

__all__ = ["Found", "each_row_with_rank", "emit_few", "integer_in", "searcher", "width_of"]

_BITS = 8
"""Bits of a digit: fewer counters are sooner looked through than elements of a row of 1,000."""

_VALUES = 1 << _BITS


@dataclass(frozen=True, slots=True)
class Found:
    """The element of a rank: its position in the row; how many elements before it in the row equal
    it; its integer, and what loads the integers of the row."""

    position: Any
    before: Any
    integer: Any
    integer_at: Callable[[Size], Any]


def each_row_with_rank(
    nest: Any, dim: int, rank: Size, descending: bool = False
) -> Iterator[tuple[Callable[[Size], Any], Found]]:
    """Loops over the rows of argument 0 along ``dim``, which have more than ``rank`` elements, that
    threads share; give the function from a position to the index, and what is found there."""
    if nest.has_teams:
        yield from _each_row_by_bits(nest, dim, rank, descending)
        return
    workers, tasks = nest.rows_in_groups(nest.in_shape(0), dim)
    search = searcher(nest, dim, workers, rank, descending)
    for at, worker in tasks:
        yield at, search(at, worker)


def searcher(
    nest: Any, dim: int, workers: Size, rank: Size, descending: bool = False
) -> Callable[[Callable[[Size], Any], Size], Found]:
    """What finds the element of a rank in the row of given indices, with the working memory of one
    of so many workers."""
    k, x = nest.k, nest.in_type(0)
    n: Size = x.shape[dim]
    width = width_of(x.dtype)
    integers = nest.scratch(width, workers * 2 * n)  # of the row, then of those that are left
    positions = nest.scratch(int64, workers * n)
    counts = nest.scratch(int64, workers * _VALUES)

    def search(at: Callable[[Size], Any], worker: Size) -> Found:
        row = _Search(
            nest, n, (integers, worker * 2 * n), (positions, worker * n), (counts, worker * _VALUES)
        )
        differ = row.fill(at, width, descending)
        return row.find(differ, k.index_value(rank))

    return search


def width_of(dtype: Any) -> Any:
    """The dtype of the integers of elements."""
    return int32 if dtype.itemsize <= 4 else int64


def integer_in(nest: Any, index: Any, descending: bool) -> Any:
    """The integer of an element, which grows with it, or, ``descending``, the other way."""
    k, x = nest.k, nest.load(0, index)
    number = k.cast(integer_of(k, x), width_of(x.dtype))
    return k.apply("xor", number, -1) if descending else number


# -- bit by bit ------------------------------------------------------------------------------------

_POSITION_BITS = 48
"""Bits of a position in a row of unknown length."""


def _each_row_by_bits(
    nest: Any, dim: int, rank: Size, descending: bool
) -> Iterator[tuple[Callable[[Size], Any], Found]]:
    """`each_row_with_rank` without memory to work in: of the element, and, if it has equals, of its
    position."""
    k, x = nest.k, nest.in_type(0)
    n: Size = x.shape[dim]
    with nest.rows(x.shape, dim) as at:

        def integer_at(j: Size) -> Any:
            return integer_in(nest, at(j), descending)

        def counting_at(j: Size) -> Any:
            return _from_zero(k, integer_at(j), x.dtype)

        def is_equal(j: Size) -> Any:
            return k.compare("eq", counting_at(j), number)

        left = k.var(k.index_value(rank))
        number = _find_bits(k, n, left, 8 * x.dtype.itemsize, width_of(x.dtype), counting_at)
        before = k.freeze(k.var(left))
        position, equals = k.var(k.const(-1, int64)), k.var(k.const(0, int64))
        with k.loop("j", n) as j:
            equal = is_equal(j)
            k.accumulate(equals, "add", k.cast(equal, int64))
            k.accumulate(position, "max", k.select(equal, k.index_value(j), -1))
        with k.when(k.compare("gt", k.freeze(equals), 1)):
            length = n.bit_length() if isinstance(n, int) else _POSITION_BITS
            k.set(position, _find_bits(k, n, left, length, int64, k.index_value, is_equal))
        at_last = k.freeze(position)
        integer = integer_at(k.bind(at_last, "position", n))
        yield at, Found(at_last, before, integer, integer_at)


def _from_zero(k: Any, integer: Any, dtype: Any) -> Any:
    """The integer of an element, in so many bits as that has, the least of which are all 0."""
    bits = 8 * dtype.itemsize
    if dtype.kind in "if":
        integer = k.apply("xor", integer, -(1 << (bits - 1)))
    return integer if bits == integer.dtype.bits else k.apply("and", integer, (1 << bits) - 1)


def _find_bits(
    k: Any,
    n: Size,
    left: Any,
    bits: int,
    dtype: Any,
    number_at: Callable[[Size], Any],
    takes_part: Callable[[Size], Any] = lambda j: None,
) -> Any:
    """The one of ``n`` numbers, of so many ``bits``, that as many others are smaller than or equal
    to as ``left`` says, a variable that in the end says how many equal ones are before it."""
    found = k.var(k.const(0, dtype))
    with k.loop("round", bits) as number:
        bit = k.cast(k.index_value(bits - 1 - number), found.dtype)
        zeros = k.var(k.const(0, int64))
        with k.loop("j", n) as j:
            differs = k.apply("shr", k.apply("xor", number_at(j), found), bit)
            is_zero, counts = k.compare("eq", differs, 0), takes_part(j)
            is_zero = is_zero if counts is None else k.apply("and", is_zero, counts)
            k.accumulate(zeros, "add", k.cast(is_zero, int64))
        count = k.freeze(zeros)
        is_one = k.compare("ge", left, count)
        one = k.apply("shl", k.const(1, found.dtype), bit)
        k.set(found, k.select(is_one, k.apply("or", found, one), found))
        k.set(left, k.select(is_one, k.sub(left, count), left))
    return k.freeze(found)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search in a row of ``n`` elements, with working memory: buffers and where in them."""

    nest: Any
    n: Size
    integers: tuple[str, Size]
    positions: tuple[str, Size]
    counts: tuple[str, Size]

    def fill(self, at: Callable[[Size], Any], width: Any, descending: bool) -> Any:
        """Store the integers of the elements ``at`` the positions of a row; gives a number that has
        the bits in which any of them differs from the first."""
        k, (buffer, base) = self.nest.k, self.integers

        def integer(j: Size) -> Any:
            return integer_in(self.nest, at(j), descending)

        first, differ = integer(0), k.var(k.const(0, width))
        with k.loop("j", self.n) as j, self.nest.lanes_along(j):
            number = integer(j)
            k.store(buffer, base + j, number)
            k.accumulate(differ, "or", k.apply("xor", number, first))
        return k.freeze(differ)

    def find(self, differ: Any, rank: Any) -> Found:
        """The element of that rank."""
        k, (buffer, base) = self.nest.k, self.integers
        positions, first_position = self.positions
        x = self.nest.in_type(0).dtype
        begin, count, left = k.var(k.index_value(base)), k.var(k.index_value(self.n)), k.var(rank)
        with k.loop("round", x.itemsize) as number:
            shift = k.cast(k.index_value((x.itemsize - 1 - number) * _BITS), differ.dtype)
            own = k.apply("and", k.apply("shr", differ, shift), _VALUES - 1)
            many = k.compare("gt", count, 1)
            with k.when(k.apply("and", k.compare("ne", own, 0), many)):
                self._narrow(begin, count, left, lambda v: self._digit(v, shift, x))
        is_all = k.compare("eq", begin, k.index_value(base))
        place = k.bind(left, "left", self.n)
        kept = k.load(positions, first_position + place)
        position = k.select(is_all, left, kept)
        integer = k.load(buffer, base + k.bind(position, "position", self.n))
        return Found(position, left, integer, lambda j: k.load(buffer, base + j))

    def _digit(self, integer: Any, shift: Any, dtype: Any) -> Any:
        """8 bits of an integer, of which those of a sign are turned, so that they grow with it."""
        k = self.nest.k
        if dtype.kind in "if":
            sign = 1 << (8 * dtype.itemsize - 1)
            wide = 8 * dtype.itemsize == integer.dtype.bits
            integer = k.apply("xor", integer, -sign if wide else sign)
        return k.apply("and", k.apply("shr", integer, shift), _VALUES - 1)

    def _narrow(self, begin: Any, count: Any, left: Any, digit: Callable[[Any], Any]) -> None:
        """One round: keep the elements whose digit is that of the one sought."""
        k, (buffer, base) = self.nest.k, self.integers
        (counts, first_count), (positions, first_position) = self.counts, self.positions
        start, many = k.bind(begin, "start"), k.bind(count, "many", self.n + 1)
        with k.loop("d", _VALUES) as d, self.nest.lanes_along(d):
            k.store(counts, first_count + d, k.const(0, int64))
        with k.loop("i", many) as i:
            at = first_count + k.bind(k.cast(digit(k.load(buffer, start + i)), int64), "d", _VALUES)
            k.store(counts, at, k.add(k.load(counts, at), 1))
        below, own = k.var(k.const(0, int64)), k.var(k.const(0, int64))
        going = k.var(k.const(True, bool_))
        with k.loop("d", _VALUES, going=going) as d:
            through = k.add(below, k.load(counts, first_count + d))
            here = k.compare("gt", through, left)
            k.set(own, k.index_value(d))
            k.set(below, k.select(here, below, through))
            k.set(going, k.apply("xor", here, True))
        wanted = k.cast(k.freeze(own), self.nest.k.buffers[buffer].dtype)
        is_all = k.compare("eq", begin, k.index_value(base))
        kept = k.var(k.const(0, int64))
        with k.loop("i", many) as i:
            integer = k.load(buffer, start + i)
            was = k.load(positions, first_position + i)
            to = k.bind(kept, "to", self.n)
            k.store(buffer, base + self.n + to, integer)
            k.store(positions, first_position + to, k.select(is_all, k.index_value(i), was))
            k.set(kept, k.add(kept, k.cast(k.compare("eq", digit(integer), wanted), int64)))
        k.set(left, k.sub(left, below))
        k.set(count, kept)
        k.set(begin, k.index_value(base + self.n))


# -- the first few --------------------------------------------------------------------------------

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
        """Go through a row, and keep elements of it in the results."""
        insert = self._inserter(self._result(at), by_position=False)
        with self.k.loop("j", self.n) as j:
            seen = self.k.index_value(j)
            insert(seen, _Element(self.nest.load(0, at(j)), seen))

    def keep_parts(self, parts: Size, times: Size) -> None:
        """Go through rows by several threads each, in three launches, or in none of 0 ``times``."""
        k, rows = self.k, prod(self.outer)
        lists = ceil_div(parts, _LISTS)
        first, second = (self._lists(rows * number) for number in (parts, lists))
        with k.loop("part", rows * parts * times, kind="grid") as thread:
            row, part = thread // parts, thread % parts
            at = self._index_of(row)
            insert = self._inserter(first(thread), by_position=False)
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
        insert = self._inserter(kept, by_position=True)
        with k.loop("list", number) as which, k.loop("i", self.count) as i:
            of = source(first + which)
            insert(k.index_value(which * self.count + i), _Element(of.key(i), of.position(i)))

    def _inserter(self, kept: StoredRow, *, by_position: bool) -> Callable[[Any, _Element], None]:
        """What takes one element after the other, and how many came before it. Each that stands
        before the last of those kept goes in where it belongs, and those behind it move on. All of
        these are compared with it, so that no comparison waits for another. Equal ones come in the
        order of their positions: that in which they are given, unless ``by_position``."""
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

        return insert
