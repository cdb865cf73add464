"""A matrix in the working memory of a kernel, and what elimination asks of it: as one thread does
that, with vectors along the rows, and as a block of GPU threads shares it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge
from staticflow.graph.dtypes import int64
from staticflow.ops.declaring.lowering import delinear

__all__ = ["BLOCK", "THREADS", "SmallWork", "TeamWork", "Work"]

BLOCK = 32
"""Columns of a block: 768 x 768 float32 take up to 1.16 times as long with 16 or 64."""

_STRIP = 4
"""Vectors of a row that are worked on side by side, so that none waits for its last sum."""

THREADS = 256
"""Threads of a block."""

_TILE = 4
"""Rows of a product that a thread works on side by side, for all of which it reads the elements of
the other matrix once. Not measured on a GPU."""


class Work:
    """A matrix of ``rows`` x ``columns``, in a buffer from ``base`` on. Its rows are full vectors
    and one more, lest they lie a power of two apart.

    Loops over columns of which each is by itself are of the ``kind``.
    """

    kind = "parallel"

    def __init__(
        self, nest: Any, rows: Size, columns: Size, count: Size = 1, number: Size = 0
    ) -> None:
        """The matrix ``number`` of ``count`` that have room in the buffer."""
        self.nest, self.k, self.rows, self.columns = nest, nest.k, rows, columns
        self.count, self.number = count, number
        self.dtype = nest.in_type(0).dtype
        self.lanes = nest.lanes(self.dtype, columns)
        self.length: Size = (ceil_div(columns, self.lanes) + 1) * self.lanes
        self.name = nest.scratch(self.dtype, count * rows * self.length)
        self.base: Size = number * (rows * self.length)
        self._turned: Work | None = None

    def beside(self, rows: Size, columns: Size) -> Work:
        """Working memory of another size, in which each of the matrices has a matrix of its own."""
        return type(self)(self.nest, rows, columns, self.count, self.number)

    def room(self, rows: Size, columns: Size) -> Any:
        """A further matrix of working memory, without gaps: what `Nest.matrix` gives."""
        name = self.nest.scratch(self.dtype, self.count * rows * columns)
        return self.nest.matrix(name, self.number * (rows * columns), columns, 1)

    def at(self, row: Size, column: Size, lanes: int = 1, bound: Size | None = None) -> Any:
        """An element, or several of a row."""
        return self.k.load(self.name, self._position(row, column), lanes, bound)

    def put(self, row: Size, column: Size, value: Any, bound: Size | None = None) -> None:
        """Store an element, or several of a row."""
        self.k.store(self.name, self._position(row, column), value, bound)

    def _position(self, row: Size, column: Size) -> Size:
        return self.base + row * self.length + column

    def part(self, row: Size, column: Size) -> Any:
        """What begins at an element, for products."""
        return self.nest.matrix(self.name, self._position(row, column), self.length, 1)

    def elements(self, rows: Size, columns: Size) -> Iterator[tuple[Size, Size]]:
        """The indices of a matrix, each of which may be seen to by itself."""
        for i in self.nest.each("i", 0, rows):
            for j in self.nest.each("j", 0, columns):
                yield i, j

    def elements_along(self, rows: Size, lo: Size, hi: Size) -> Iterator[tuple[Size, Size]]:
        """The indices of columns ``lo..hi``, each of which may be seen to by itself: lanes of
        vectors, where a schedule makes such."""
        for i in self.nest.each("i", 0, rows):
            for j in self.nest.along("j", lo, hi):
                yield i, j

    def set_identity(self) -> None:
        """Have ones on the diagonal, and zeros elsewhere."""
        k = self.k
        for i in self.nest.each("i", 0, self.rows):
            for strip in self.strips(0, self.columns):
                for j, lanes, bound in strip:
                    is_one = k.compare("eq", k.index_value(j, lanes), k.index_value(i))
                    one = k.const(1.0, self.dtype, lanes)
                    self.put(i, j, k.select(is_one, one, 0.0), bound)

    def elements_below(self, rows: Size) -> Iterator[tuple[Size, Size]]:
        """The indices of the lower part of a square matrix, each of which may be seen to by
        itself."""
        for i in self.nest.each("i", 0, rows):
            for j in self.nest.each("j", 0, i + 1):
                yield i, j

    def halves(self) -> Iterator[tuple[Size, Size, bool]]:
        """All indices, and whether each is below the diagonal."""
        for i in self.nest.each("i", 0, self.rows):
            end = self.nest.name_size(dim_min(i, self.columns))
            for j in self.nest.each("j", 0, end):
                yield i, j, True
            for j in self.nest.each("j", end, self.columns):
                yield i, j, False

    def strips(self, lo: Size, hi: Size, vectors: int = 1, kind: str = "serial") -> Iterator[Any]:
        """Columns ``lo..hi``, as many vectors at a time."""
        yield from self.nest.strips(lo, hi, self.lanes, vectors, kind)

    def add_product(
        self, to: Any, a: Any, b: Any, m: Size, n: Size, depth: Size, sign: int = 1
    ) -> None:
        """Add ``a @ b``, of ``m x depth`` and ``depth x n`` elements, to a part, or subtract it if
        the ``sign`` is -1."""
        self.nest.add_product(to, a, b, m, n, depth, sign=sign)

    # -- elimination -------------------------------------------------------------------------------

    def find_pivot(self, c: Size) -> Any:
        """The row from ``c`` on with the largest element in column ``c`` (int64), the first of
        several; the last of those that are NaN, lest they are lost."""
        k = self.k
        best, position = k.var(k.abs(self.at(c, c))), k.var(k.index_value(c))
        for r in self.nest.each("r", c + 1, self.rows):
            size = k.abs(self.at(r, c))
            unknown = k.compare("ne", size, size)
            larger = k.apply("or", k.compare("gt", size, best), unknown)
            k.set(position, k.select(larger, k.index_value(r), position))
            k.set(best, k.select(larger, size, best))
        return k.freeze(position)

    def swap(self, a: Size, b: Size, lo: Size) -> None:
        """Let two rows change places, from column ``lo`` on."""
        for strip in self.strips(lo, self.columns):
            for j, lanes, bound in strip:
                first, second = self.at(a, j, lanes, bound), self.at(b, j, lanes, bound)
                self.put(a, j, second, bound)
                self.put(b, j, first, bound)

    def take_column(self, c: Size, hi: Size, divide: Callable[[Any, Any], Any]) -> None:
        """Have all rows below ``c`` be less so much of that row, in columns up to ``hi``, that
        column ``c`` would be 0: the quotient that ``divide`` gives, which stays there, negated."""
        k, diagonal = self.k, self.at(c, c)
        for r in self.nest.each("r", c + 1, self.rows):
            factor = k.neg(divide(self.at(r, c), diagonal))
            self.put(r, c, factor)
            self._add_multiple(r, factor, c, c + 1, hi)

    def _add_multiple(self, to: Size, factor: Any, row: Size, lo: Size, hi: Size) -> None:
        """Add ``factor`` times a row to the row ``to``, in columns ``lo..hi``."""
        for strip in self.strips(lo, hi):
            for j, lanes, bound in strip:
                more = self.at(row, j, lanes, bound)
                self.put(to, j, self.k.fma(factor, more, self.at(to, j, lanes, bound)), bound)

    def take_rows(self, lo: Size, hi: Size) -> None:
        """Have the rows ``lo..hi``, in columns from ``hi`` on, be more by what the negated factors
        in columns ``lo..hi`` say, each by the rows before it."""
        for strip in self.strips(hi, self.columns, _STRIP, self.kind):
            for r in self.nest.each("r", lo + 1, hi):
                self._subtract_rows(strip, r, lo, r, negated=True)

    def solve_rows(self, lo: Size, hi: Size) -> None:
        """Solve for the rows ``lo..hi`` of the columns behind the matrix, the last one first."""
        for strip in self.strips(self.rows, self.columns, _STRIP, self.kind):
            for s in self.nest.each("s", 0, hi - lo):
                row = hi - 1 - s
                sums = self._subtract_rows(strip, row, row + 1, hi, negated=False)
                for total, (j, _, bound) in zip(sums, strip, strict=True):
                    self.put(row, j, self.k.div(total, self.at(row, row)), bound)

    def _subtract_rows(
        self, strip: Any, row: Size, lo: Size, hi: Size, *, negated: bool
    ) -> list[Any]:
        """A strip of a row less the rows ``lo..hi`` times the elements of ``row`` in these columns,
        or more, if these are ``negated``; it is stored, and given."""
        k = self.k
        sums = [k.var(self.at(row, j, lanes, bound)) for j, lanes, bound in strip]
        for q in self.nest.each("q", lo, hi):
            factor = self.at(row, q) if negated else k.neg(self.at(row, q))
            for total, (j, lanes, bound) in zip(sums, strip, strict=True):
                k.set(total, k.fma(factor, self.at(q, j, lanes, bound), total))
        for total, (j, _, bound) in zip(sums, strip, strict=True):
            self.put(row, j, total, bound)
        return sums

    # -- Cholesky's factor -------------------------------------------------------------------------

    def make_room(self) -> None:
        """Have memory for `subtract_before`."""
        self._turned = Work(self.nest, self.rows, BLOCK)

    def subtract_before(self, lo: Size, hi: Size) -> None:
        """Take from the columns ``lo..hi`` what the ones before make of them: of the rows from
        ``lo`` on the product with the transpose of ``lo..hi``."""
        assert self._turned is not None
        before = self.nest.matrix(self.name, self._position(lo, 0), 1, self.length)
        self.nest.turn(before, self._turned.part(0, 0), lo, hi - lo)
        to, a, b = self.part(lo, lo), self.part(lo, 0), self._turned.part(0, 0)
        self.add_product(to, a, b, self.rows - lo, hi - lo, lo, sign=-1)

    def take_definite_column(self, c: Size, hi: Size, diagonal: Any) -> None:
        """Put a ``diagonal`` element of the factor in its place, divide what is below by it, and
        take from the columns up to ``hi`` what that makes of them."""
        k, each = self.k, self.nest.each
        self.put(c, c, diagonal)
        for r in each("r", c + 1, hi):
            factor = k.div(self.at(r, c), diagonal)
            self.put(r, c, factor)
            self.put(c, r, factor)
        for r in each("r", c + 1, hi):
            self._add_multiple(r, k.neg(self.at(r, c)), c, c + 1, r + 1)
        for r in each("r", hi, self.rows):
            factor = k.div(self.at(r, c), diagonal)
            self.put(r, c, factor)
            self._add_multiple(r, k.neg(factor), c, c + 1, hi)


class SmallWork(Work):
    """A matrix of a thread that has others beside it."""

    kind = "serial"


class TeamWork(Work):
    """A matrix of a block of threads, which wait for each other behind each loop that they share.
    Each element is worked out by one of them, so that no bit depends on who is when at it."""

    def _threads(self, count: Size) -> Iterator[Size]:
        """A loop whose iterations the threads share."""
        with self.k.loop("t", count, kind="threads") as t:
            yield t

    def each_of(self, lo: Size, hi: Size) -> Iterator[Size]:
        """Columns or rows ``lo..hi``, each by itself."""
        with self.k.loop("j", hi, lo=lo, kind="threads") as j:
            yield j

    def elements(self, rows: Size, columns: Size) -> Iterator[tuple[Size, Size]]:
        """The indices of a matrix."""
        for t in self._threads(rows * columns):
            i, j = delinear(t, (rows, columns))
            yield i, j

    def elements_along(self, rows: Size, lo: Size, hi: Size) -> Iterator[tuple[Size, Size]]:
        """The indices of columns ``lo..hi``."""
        for i, j in self.elements(rows, hi - lo):
            yield i, j + lo

    def set_identity(self) -> None:
        """Have ones on the diagonal, and zeros elsewhere."""
        k = self.k
        for i, j in self.elements(self.rows, self.columns):
            is_one = k.compare("eq", k.index_value(j), k.index_value(i))
            self.put(i, j, k.select(is_one, k.const(1.0, self.dtype), 0.0))

    def elements_below(self, rows: Size) -> Iterator[tuple[Size, Size]]:
        """The indices of the lower part of a square matrix."""
        for i, j in self.elements(rows, rows):
            with self.when(j, "le", i):
                yield i, j

    def halves(self) -> Iterator[tuple[Size, Size, bool]]:
        """All indices, and whether each is below the diagonal."""
        for i, j in self.elements(self.rows, self.columns):
            for order in ("lt", "ge"):
                with self.when(j, order, i):
                    yield i, j, order == "lt"

    def when(self, a: Size, order: str, b: Size) -> Any:
        """A block that runs where two indices compare so."""
        k = self.k
        return k.when(k.compare(order, k.index_value(a), k.index_value(b)))

    def strips(self, lo: Size, hi: Size, vectors: int = 1, kind: str = "serial") -> Iterator[Any]:
        """Columns ``lo..hi``, each by itself."""
        for j in self.each_of(lo, hi):
            yield [(j, 1, None)]

    def panel(self, c: Size, hi: Size) -> Iterator[tuple[Size, Size]]:
        """The indices below and behind the element ``c`` of the diagonal, in columns up to ``hi``,
        which are fewer than `BLOCK`: neighbours have neighbouring columns."""
        for t in self._threads((self.rows - c - 1) * BLOCK):
            r, j = c + 1 + t // BLOCK, c + 1 + t % BLOCK
            with self.when(j, "lt", hi):
                yield r, j

    def add_product(
        self, to: Any, a: Any, b: Any, m: Size, n: Size, depth: Size, sign: int = 1
    ) -> None:
        """Add ``a @ b`` to a part, or subtract it: each thread a few elements of a column."""
        if any(is_provably_ge(0, size) for size in (m, n, depth)):
            return
        k = self.k
        m, n = self.nest.name_size(m), self.nest.name_size(n)
        for t in self._threads(ceil_div(m, _TILE) * n):
            first, j = t // n * _TILE, t % n
            rows = [dim_min(first + i, m - 1) for i in range(_TILE)]
            sums = [k.var(k.const(0.0, self.dtype)) for _ in rows]
            for q in self.nest.each("q", 0, depth):
                factor = k.load(b.buffer, b.at(q, j))
                for row, total in zip(rows, sums, strict=True):
                    k.set(total, k.fma(k.load(a.buffer, a.at(row, q)), factor, total))
            for i, total in enumerate(sums):
                with self.when(first + i, "lt", m):
                    place = to.at(first + i, j)
                    before = k.load(to.buffer, place)
                    k.store(to.buffer, place, (k.add if sign > 0 else k.sub)(before, total))

    def room_for_products(self, columns: Size) -> Any:
        """Working memory for `set_product` of so many columns at most."""
        return self.room(dim_max(ceil_div(BLOCK, _TILE) * columns, THREADS), _TILE)

    def set_product(
        self, to: Any, a: Any, b: Any, m: Size, n: Size, depth: Size, room: Any
    ) -> None:
        """Store ``a @ b``, of at most `BLOCK` rows. A thread adds up a few elements of a column,
        and of the inner dimension only a part where there are more threads than such elements; the
        parts are added up in order."""
        k, name = self.k, self.nest.name_size
        m, n, depth = name(m), name(n), name(depth)
        items = name(ceil_div(m, _TILE) * n)
        some = name(dim_max(items, 1))
        parts = name(dim_max(THREADS // some, 1))
        length = name(ceil_div(depth, parts))
        for t in self._threads(items * parts):
            part, item = t // some, t % some
            first, j = item // n * _TILE, item % n
            rows = [dim_min(first + i, m - 1) for i in range(_TILE)]
            totals = [k.var(k.const(0.0, self.dtype)) for _ in rows]
            for q in self.nest.each("q", part * length, dim_min((part + 1) * length, depth)):
                factor = k.load(b.buffer, b.at(q, j))
                for row, total in zip(rows, totals, strict=True):
                    k.set(total, k.fma(k.load(a.buffer, a.at(row, q)), factor, total))
            for i, total in enumerate(totals):
                k.store(room.buffer, room.at(t, i), total)
        for item in self._threads(items):
            for i in range(_TILE):
                row = item // n * _TILE + i
                with self.when(row, "lt", m):
                    whole = k.var(k.const(0.0, self.dtype))
                    for part in self.nest.each("part", 0, parts):
                        at = room.at(part * items + item, i)
                        k.set(whole, k.add(whole, k.load(room.buffer, at)))
                    k.store(to.buffer, to.at(row, item % n), whole)

    # -- elimination -------------------------------------------------------------------------------

    def find_pivot(self, c: Size) -> Any:
        """The row from ``c`` on with the largest element in column ``c`` (int64), the first of
        several; the last of those that are NaN."""
        k = self.k
        best = k.var(k.const(0.0, self.dtype))
        for r in self.each_of(c, self.rows):
            k.accumulate(best, "max", k.abs(self.at(r, c)))
        largest = k.freeze(best)
        end = k.index_value(self.rows)
        first, unknown = k.var(end), k.var(k.const(-1, int64))
        for r in self.each_of(c, self.rows):
            size, row = k.abs(self.at(r, c)), k.index_value(r)
            k.accumulate(first, "min", k.select(k.compare("eq", size, largest), row, end))
            k.accumulate(unknown, "max", k.select(k.compare("ne", size, size), row, -1))
        is_known = k.compare("lt", k.freeze(unknown), 0)
        return k.select(is_known, k.freeze(first), k.freeze(unknown))

    def take_column(self, c: Size, hi: Size, divide: Callable[[Any, Any], Any]) -> None:
        """Have column ``c`` be factors, and the rows below ``c`` less so much of that row."""
        k = self.k
        for r in self.each_of(c + 1, self.rows):
            self.put(r, c, k.neg(divide(self.at(r, c), self.at(c, c))))
        for r, j in self.panel(c, hi):
            self.put(r, j, k.fma(self.at(r, c), self.at(c, j), self.at(r, j)))

    # -- Cholesky's factor -------------------------------------------------------------------------

    def make_room(self) -> None:
        """Nothing: rows are read as they lie."""

    def subtract_before(self, lo: Size, hi: Size) -> None:
        """Take from the columns ``lo..hi`` what the ones before make of them."""
        turned = self.nest.matrix(self.name, self._position(lo, 0), 1, self.length)
        to, a = self.part(lo, lo), self.part(lo, 0)
        self.add_product(to, a, turned, self.rows - lo, hi - lo, lo, sign=-1)

    def take_definite_column(self, c: Size, hi: Size, diagonal: Any) -> None:
        """Put an element of the diagonal in its place, divide what is below by it, and take from
        the columns up to ``hi`` what that makes of them."""
        k = self.k
        self.put(c, c, diagonal)
        for r in self.each_of(c + 1, self.rows):
            factor = k.div(self.at(r, c), diagonal)
            self.put(r, c, factor)
            with self.when(r, "lt", hi):
                self.put(c, r, factor)
        for r, j in self.panel(c, hi):  # above the diagonal, too, where it does no harm
            self.put(r, j, k.fma(k.neg(self.at(r, c)), self.at(c, j), self.at(r, j)))
