"""Some elements of a row by their rank, without sorting it, as kernels find them.

An element becomes an integer that grows with it (`radix.integer_of`). In rows that the nearer
caches hold it is found by bounds (`bisection`). The elements of longer ones are counted by their
first 8 bits, which tells the bits of the one that is sought; those that share them are copied
in the order in which they lie, and counted by the next 8 bits, and so on (Knuth, "The Art of
Computer Programming", 5.3.3; by digits as in Alabi et al., "Fast k-selection algorithms for
graphics processing units", 2012). Each round has a fraction of the elements of the one before.
Rounds of digits that all elements share are left out, and whole numbers of 32 bits and more are
counted from the least of the row, so that those of a narrow range have few digits.

Of long rows, in which an element near either end is sought, a sample tells first which elements can
be before it (Floyd and Rivest, "Expected time bounds for selection", 1975): a pass in vectors
counts them, another copies them, and the digits are of these alone.

On a GPU threads that share a row copy nothing: they find the bits of the element one by one, each
by how many elements have a 0 there and are as it is above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, is_provably_ge
from staticflow.graph.dtypes import DType, bool_, int32, int64
from staticflow.ops.along.bisection import bits_of, find_bits, find_by_bounds
from staticflow.ops.declaring.lowering import Room
from staticflow.ops.indexing.radix import integer_of

__all__ = [
    "Found", "Search", "each_hit", "each_row_with_rank", "integer_in", "search_rooms", "searcher",
    "width_of",
]  # fmt: skip

_BITS = 8
"""Bits of a digit: fewer counters are sooner looked through than elements of a row of 1,000."""

_VALUES = 1 << _BITS

_LONG = 1 << 12
"""Elements of a row from which on a sample of it is looked at: of 4,096 float32 the hundredth is
found in 6 microseconds, and in 12 without; of 100,000 in 40, and in 300."""

_NEAR = 1 << 17
"""Elements of a row up to which the one sought is found by bounds: of 64,000 float32 the median in
54 microseconds, and in 187 by digits; of 1,000 in 0.8, and 3.1."""

_SAMPLE = 1 << 8
"""Elements of a sample."""

_SAMPLE_OF_ROW = 8
"""A sample tells little where more than one in so many elements may be before the one sought."""

_BLOCK = 1 << 4
"""Elements that are looked at together where few are taken."""


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
    rooms = {
        name: (nest.scratch(dtype, workers * size), size)
        for name, dtype, size in search_rooms(x.dtype, n)
        if name != "sample" or not is_provably_ge(_LONG - 1, n)
    }

    def search(at: Callable[[Size], Any], worker: Size) -> Found:
        parts = {name: (buffer, worker * size) for name, (buffer, size) in rooms.items()}
        row = Search(
            nest, n, x.dtype, parts["integers"], parts["positions"], parts["counts"],
            parts.get("sample"),
        )  # fmt: skip
        return row.find(lambda j: nest.load(0, at(j)), k.index_value(rank), descending)

    return search


def search_rooms(dtype: DType, n: Size) -> tuple[Room, ...]:
    """The memory that the search in a row of ``n`` elements of a dtype works in, as `Search` takes
    it."""
    width = width_of(dtype)
    return (
        ("integers", width, 2 * n),  # of the row, then of those that are left
        ("positions", int64, n),
        ("counts", int64, _VALUES),
        ("sample", width, _SAMPLE),
    )


def width_of(dtype: Any) -> Any:
    """The dtype of the integers of elements."""
    return int32 if dtype.itemsize <= 4 else int64


def integer_in(k: Any, key: Any, descending: bool) -> Any:
    """The integer of an element, which grows with it, or, ``descending``, the other way."""
    number = k.cast(integer_of(k, key), width_of(key.dtype))
    return k.apply("xor", number, -1) if descending else number


def each_hit(
    nest: Any, n: Size, is_hit: Callable[[Size], Any], visit: Callable[[Size], None]
) -> None:
    """Call ``visit(j)`` for each position of a row of ``n`` for which ``is_hit(j)``, in order;
    where these are few they are found in vectors."""
    k = nest.k

    def look_at(j: Size) -> None:
        with k.when(is_hit(j)):
            visit(j)

    if nest.has_teams:
        with k.loop("j", n) as j:
            look_at(j)
        return
    whole = n // _BLOCK * _BLOCK
    with k.loop("block", n // _BLOCK) as block:
        first = block * _BLOCK
        hit = k.var(k.const(False, bool_))
        with k.loop("i", _BLOCK) as i, nest.lanes_along(i):
            k.accumulate(hit, "or", is_hit(first + i))
        with k.when(k.freeze(hit)), k.loop("i", _BLOCK) as i:
            look_at(first + i)
    with k.loop("i", n - whole) as i:
        look_at(whole + i)


# -- bit by bit ------------------------------------------------------------------------------------


def _each_row_by_bits(
    nest: Any, dim: int, rank: Size, descending: bool
) -> Iterator[tuple[Callable[[Size], Any], Found]]:
    """`each_row_with_rank` without memory to work in: of the element, and, if it has equals, of its
    position."""
    k, x = nest.k, nest.in_type(0)
    n: Size = x.shape[dim]
    with nest.rows(x.shape, dim) as at:

        def integer_at(j: Size) -> Any:
            return integer_in(k, nest.load(0, at(j)), descending)

        def counting_at(j: Size) -> Any:
            return _from_zero(k, integer_at(j), x.dtype)

        def is_equal(j: Size) -> Any:
            return k.compare("eq", counting_at(j), number)

        left = k.var(k.index_value(rank))
        number = find_bits(nest, n, left, 8 * x.dtype.itemsize, width_of(x.dtype), counting_at)
        before = k.freeze(k.var(left))
        position, equals = k.var(k.const(-1, int64)), k.var(k.const(0, int64))
        with k.loop("j", n) as j:
            equal = is_equal(j)
            k.accumulate(equals, "add", k.cast(equal, int64))
            k.accumulate(position, "max", k.select(equal, k.index_value(j), -1))
        with k.when(k.compare("gt", k.freeze(equals), 1)):
            found = find_bits(nest, n, left, bits_of(n), int64, k.index_value, is_equal)
            k.set(position, found)
        at_last = k.freeze(position)
        integer = integer_at(k.bind(at_last, "position", n))
        yield at, Found(at_last, before, integer, integer_at)


def _from_zero(k: Any, integer: Any, dtype: Any) -> Any:
    """The integer of an element, in so many bits as that has, the least of which are all 0."""
    bits = 8 * dtype.itemsize
    if dtype.kind in "if":
        integer = k.apply("xor", integer, -(1 << (bits - 1)))
    return integer if bits == integer.dtype.bits else k.apply("and", integer, (1 << bits) - 1)


@dataclass(frozen=True, slots=True)
class Search:
    """The search in a row of ``n`` elements of a ``dtype``, with working memory: buffers and where
    in them."""

    nest: Any
    n: Size
    dtype: DType
    integers: tuple[str, Size]
    positions: tuple[str, Size]
    counts: tuple[str, Size]
    sample: tuple[str, Size] | None

    def _fill(self, key_at: Callable[[Size], Any], descending: bool) -> Any:
        """Store the integers of the elements that ``key_at`` loads; gives a number that has the
        bits in which any of them differs from the first."""
        k, (buffer, base) = self.nest.k, self.integers
        dtype, width = self.dtype, width_of(self.dtype)

        def integer(j: Size) -> Any:
            return integer_in(k, key_at(j), descending)

        first, differ = integer(0), k.var(k.const(0, width))
        least = k.var(first)
        is_counted = dtype.kind == "i" and dtype.bits == width.bits
        with k.loop("j", self.n) as j, self.nest.lanes_along(j):
            number = integer(j)
            k.store(buffer, base + j, number)
            if is_counted:
                k.accumulate(least, "min", number)
            else:
                k.accumulate(differ, "or", k.apply("xor", number, first))
        if is_counted:
            from_least, lowest = k.freeze(least), -(1 << (width.bits - 1))
            with k.loop("j", self.n) as j, self.nest.lanes_along(j):
                number = k.sub(k.load(buffer, base + j), from_least)
                k.store(buffer, base + j, k.apply("xor", number, lowest))
                k.accumulate(differ, "or", number)
        return k.freeze(differ)

    def find(self, key_at: Callable[[Size], Any], rank: Any, descending: bool = False) -> Found:
        """The element of that rank, of those that ``key_at`` loads."""
        k, n, (buffer, base) = self.nest.k, self.n, self.integers
        differ = self._fill(key_at, descending)

        def load(j: Size) -> Any:
            return k.load(buffer, base + j)

        if is_provably_ge(n, _NEAR + 1):
            return Found(*self._find_by_digits(differ, rank), load)
        if is_provably_ge(_NEAR, n):
            return Found(*find_by_bounds(self.nest, n, self.dtype, load, differ, rank), load)
        zeros = (k.const(0, dtype) for dtype in (int64, int64, differ.dtype))
        position, before, integer = map(k.var, zeros)

        def set_found(found: tuple[Any, Any, Any]) -> None:
            for variable, value in zip((position, before, integer), found, strict=True):
                k.set(variable, value)

        k.choose(
            k.compare("le", k.index_value(n), k.index_value(_NEAR)),
            lambda: set_found(find_by_bounds(self.nest, n, self.dtype, load, differ, rank)),
            lambda: set_found(self._find_by_digits(differ, rank)),
        )
        return Found(k.freeze(position), k.freeze(before), k.freeze(integer), load)

    def _find_by_digits(self, differ: Any, rank: Any) -> tuple[Any, Any, Any]:
        """The position of the element of that rank, how many equal ones are before it, and its
        integer; ``differ`` has the bits in which any is not as the first."""
        k, x, (buffer, base) = self.nest.k, self.dtype, self.integers
        positions, first_position = self.positions
        begin, count, left = k.var(k.index_value(base)), k.var(k.index_value(self.n)), k.var(rank)
        if self.sample is not None:
            is_long = k.compare("ge", k.index_value(self.n), k.index_value(_LONG))
            ahead = k.mul(k.add(rank, 1), _SAMPLE)
            is_near = k.compare(
                "le", k.mul(ahead, _SAMPLE_OF_ROW), k.index_value(self.n * (_SAMPLE // 2))
            )
            with k.when(k.apply("and", is_long, is_near)):
                self._leave_out(
                    begin, count, rank, k.apply("quotient", ahead, k.index_value(self.n))
                )
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
        return position, left, integer

    def _leave_out(self, begin: Any, count: Any, rank: Any, expected: Any) -> None:
        """Keep those elements that can be before the one sought, by a sample in which so many as
        ``expected`` are before it: half as many again and four are likely to be enough."""
        k, (buffer, base) = self.nest.k, self.integers
        positions, first_position = self.positions
        assert self.sample is not None
        sample, first_of_sample = self.sample
        wanted = k.add(k.add(expected, k.apply("quotient", expected, 2)), 4)
        with k.loop("s", _SAMPLE) as s:
            k.store(sample, first_of_sample + s, k.load(buffer, base + s * self.n // _SAMPLE))
        largest = (1 << (k.buffers[buffer].dtype.bits - 1)) - 1
        most = k.var(k.const(largest, k.buffers[buffer].dtype))
        with k.loop("s", _SAMPLE) as s:
            own = k.load(sample, first_of_sample + s)
            before = k.var(k.const(0, own.dtype))
            with k.loop("i", _SAMPLE) as i, self.nest.lanes_along(i):
                is_before = k.compare("le", k.load(sample, first_of_sample + i), own)
                k.accumulate(before, "add", k.cast(is_before, own.dtype))
            enough = k.compare("ge", k.freeze(before), k.cast(wanted, own.dtype))
            k.accumulate(most, "min", k.select(enough, own, largest))
        bound = k.freeze(most)
        within = k.var(k.const(0, int64))
        with k.loop("j", self.n) as j, self.nest.lanes_along(j):
            k.accumulate(
                within, "add", k.cast(k.compare("le", k.load(buffer, base + j), bound), int64)
            )
        found = k.freeze(within)
        is_less = k.compare("le", k.mul(found, _SAMPLE_OF_ROW // 2), k.index_value(self.n))
        with k.when(k.apply("and", k.compare("gt", found, rank), is_less)):
            kept = k.var(k.const(0, int64))

            def keep(j: Size) -> None:
                to = k.bind(kept, "to", self.n)
                k.store(buffer, base + self.n + to, k.load(buffer, base + j))
                k.store(positions, first_position + to, k.index_value(j))
                k.set(kept, k.add(kept, 1))

            each_hit(
                self.nest, self.n, lambda j: k.compare("le", k.load(buffer, base + j), bound), keep
            )
            k.set(count, found)
            k.set(begin, k.index_value(base + self.n))

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
