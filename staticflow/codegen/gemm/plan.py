"""How the result of a matrix product is cut into register tiles: pure functions over sizes.

A tile is some rows by a `Panel`, vectors side by side, and stays in registers while the whole
inner dimension passes. A known size is cut into pieces that are as equal as can be, an unknown one
into full pieces and a rest, by loops whose ends are computed as the program runs. Every different
tile is code of its own, so a cut of few different tiles is preferred to a slightly better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

from staticflow.codegen.kernel import LANE
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, dim_min

__all__ = [
    "Column",
    "Panel",
    "Span",
    "chunk_panels",
    "column_panels",
    "divisor",
    "dot_tile",
    "even_panel",
    "even_rows",
    "even_width",
    "main_rows",
    "main_width",
    "open_panels",
    "register_count",
    "row_blocks",
    "vector_by_vector",
]

Column: TypeAlias = tuple[Size, int, Size | None]
"""A vector of a row: the column of its lanes, their number, and the bound that turns lanes off."""

_UNKNOWN_WIDTH = 3  # vectors in a panel where the number of columns is unknown


@dataclass(frozen=True, slots=True)
class Panel:
    """Vectors side by side: the lanes of each, and whether the last goes past the last column."""

    lanes: tuple[int, ...]
    partial: bool = False

    @property
    def width(self) -> int:
        """Columns that the vectors span."""
        return sum(self.lanes)

    def columns(self, col: Size, n: Size) -> list[Column]:
        """The vectors of the panel that starts at column ``col`` of ``n``."""
        columns: list[Column] = []
        for v, lanes in enumerate(self.lanes):
            at = col + sum(self.lanes[:v])
            cut = self.partial and v == len(self.lanes) - 1
            columns.append((at + LANE if lanes > 1 else at, lanes, n - at if cut else None))
        return columns


@dataclass(frozen=True, slots=True)
class Span:
    """``lo, lo + step, ...`` below ``hi``."""

    lo: Size
    hi: Size
    step: int


# -- registers: all accumulators, a row of B and an element of A are held together ----------------


def register_count(target: Target) -> int:
    """Vector registers of x86-64 that tiles may use: all but one, which is left to the compiler."""
    return 31 if target.vector_bits >= 512 else 15


def main_rows(target: Target) -> int:
    """Rows of the tiles that do most of the work where the number of rows is unknown."""
    return 8 if target.vector_bits >= 512 else 6


def main_width(target: Target) -> int:
    """Vectors in the panels of those tiles."""
    return _most_vectors(target, main_rows(target))


def _most_rows(target: Target, vectors: int) -> int:
    """The most rows of a tile that is ``vectors`` wide: ``rows*nv + nv + 1 <= registers``."""
    return max(1, min(12, (register_count(target) - 1 - vectors) // vectors))


def _most_vectors(target: Target, rows: int) -> int:
    """The most vectors in a tile of ``rows`` rows, by the same rule."""
    return max(1, min(8, (register_count(target) - 1) // (rows + 1)))


def dot_tile(target: Target, m: Size, n: Size) -> tuple[int, int]:
    """Rows and columns of a tile whose vectors run along the inner dimension: ``rows*cols``
    accumulators, ``rows`` vectors of A and ``cols`` of B. ``cols`` divides ``n`` if it can. A row
    alone may take more than there are registers for: its vectors of B are used once, from memory.
    """
    registers = register_count(target)
    most = 8 if m == 1 else 5 if registers > 15 else 4
    cols = divisor(n, min(n, most), 3) if isinstance(n, int) else 4
    fit = max(1, min(8, (registers - cols) // (cols + 1)))
    rows = 1 << (fit.bit_length() - 1)
    return min(rows, m) if isinstance(m, int) else rows, cols


def divisor(n: int, most: int, least: int) -> int:
    """The largest number in ``least..most`` that divides ``n``, or ``most``."""
    return next((d for d in range(most, least - 1, -1) if n % d == 0), most)


def even_width(target: Target) -> int:
    """Vectors in the panels of products whose tiles are all of one form, where nothing else asks
    for fewer or more: those of tiles that are nearly square."""
    return _most_vectors(target, 6)


def even_panel(n: int, lanes: int, target: Target) -> Panel:
    """The panel of which as many as are needed have the fewest columns past the last of ``n``; of
    those the one nearest to `even_width`."""
    lanes = min(lanes, 1 << max(n - 1, 0).bit_length())
    vectors = max(1, -(-n // lanes))
    usual = even_width(target)
    width = min(range(1, usual + 2), key=lambda v: (-(-vectors // v) * v, abs(v - usual)))
    return Panel((lanes,) * width)


def even_rows(m: int, vectors: int, target: Target) -> int:
    """The rows of those tiles, which divide ``m`` if that costs little."""
    most = _most_rows(target, vectors)
    return min(m, divisor(m, most, most * 2 // 3))


# -- rows --------------------------------------------------------------------------------------


def row_blocks(
    m: Size, target: Target, vectors: int, *, near: bool = False
) -> list[tuple[Span, int]]:
    """Spans of ``m`` rows, each with the rows of its tiles, where panels are ``vectors`` wide at
    most. A known number gives one span or two, an unknown one four, or two where B is ``near``: in
    the first-level cache, from where each spare row may as well load it anew."""
    if not isinstance(m, int):
        rows = main_rows(target)
        full = m // rows * rows
        twos = full + (m - full) // 2 * 2
        spare = [(Span(full, twos, 2), 2), (Span(twos, m, 1), 1)] if near else _spare_rows(full, m)
        return [(Span(0, full, rows), rows), *spare]
    most = _most_rows(target, vectors)
    rows = divisor(m, most, most * 2 // 3)
    if m % rows == 0:
        return [(Span(0, m, rows), rows)]
    low, more = divmod(m, -(-m // most))
    cut = more * (low + 1)
    return [(Span(0, cut, low + 1), low + 1), (Span(cut, m, low), low)]


def _spare_rows(lo: Size, m: Size) -> list[tuple[Span, int]]:
    """The rows from ``lo`` on, three at a time, then the last two or the last one."""
    threes = lo + (m - lo) // 3 * 3
    twos = threes + (m - threes) // 2 * 2
    return [(Span(lo, threes, 3), 3), (Span(threes, twos, 2), 2), (Span(twos, m, 1), 1)]


# -- columns -----------------------------------------------------------------------------------


def column_panels(
    n: Size, lanes: int, target: Target, rows: int, *, pairs: bool = True
) -> list[tuple[Span, Panel]]:
    """Spans of ``n`` columns, each with the panel that tiles of ``rows`` rows take, in vectors of
    at most ``lanes`` lanes. Without masks no panel is partial. Tiles of `main_rows` take an unknown
    number in ``pairs`` of vectors, too."""
    most, masks = _most_vectors(target, rows), target.masks
    if isinstance(n, int):
        return _known_panels(n, lanes, most, masks)
    pairs = pairs and rows == main_rows(target)
    return open_panels(0, n, lanes, min(most, _UNKNOWN_WIDTH), masks, pairs)


def chunk_panels(
    n: Size, left: Size, width: Size, lanes: int, target: Target
) -> list[tuple[Span, Panel]]:
    """The panels of ``width`` columns from ``left`` on, for tiles of `main_rows`: all of ``n``, or
    a multiple of full panels, or what is left of ``n``."""
    if not isinstance(n, int):
        return open_panels(left, left + width, lanes, main_width(target), target.masks)
    if width == n:
        return column_panels(n, lanes, target, main_rows(target))
    full = main_width(target) * lanes
    cut = left + width // full * full
    rest = column_panels(n % full, lanes, target, main_rows(target))
    return [
        (Span(left, cut, full), Panel((lanes,) * main_width(target))),
        *((Span(cut + s.lo, dim_min(cut + s.hi, left + width), s.step), r) for s, r in rest),
    ]


def open_panels(
    lo: Size, hi: Size, lanes: int, width: int, masks: bool, pairs: bool = False
) -> list[tuple[Span, Panel]]:
    """Full panels of ``width`` vectors, then perhaps ``pairs``, then one vector at a time."""
    spans = []
    full = lo
    for count in (width, 2) if pairs and width > 2 else (width,):
        start, step = full, count * lanes
        full = start + (hi - start) // step * step
        spans.append((Span(start, full, step), Panel((lanes,) * count)))
    if masks:
        return [*spans, (Span(full, hi, lanes), Panel((lanes,), partial=True))]
    whole = lo + (hi - lo) // lanes * lanes
    single = (Span(full, whole, lanes), Panel((lanes,)))
    return [*spans, single, (Span(whole, hi, 1), Panel((1,)))]


def vector_by_vector(panels: Sequence[tuple[Span, Panel]]) -> list[tuple[Span, Panel]]:
    """The columns of ``panels``, which lie one behind the other, a vector at a time; as they are
    where vectors differ or go past the last column."""
    kinds = {lanes for _, panel in panels for lanes in panel.lanes}
    if len(kinds) != 1 or any(panel.partial for _, panel in panels):
        return [*panels]
    (lanes,) = kinds
    return [(Span(panels[0][0].lo, panels[-1][0].hi, lanes), Panel((lanes,)))]


def _known_panels(n: int, lanes: int, most: int, masks: bool) -> list[tuple[Span, Panel]]:
    vectors = _vectors(n, lanes, masks)
    cuts = [_cut(vectors, sizes) for sizes in _partitions(len(vectors), most)]
    spans: list[tuple[Span, Panel]] = []
    lo = 0
    best: list[tuple[int, ...]] = min(cuts, key=lambda cut: _price(cut, lanes))
    for own, equal in groupby(best):
        hi = lo + sum(sum(panel) for panel in equal)
        spans.append((Span(lo, min(hi, n), sum(own)), Panel(own, partial=hi > n)))
        lo = hi
    return spans


def _vectors(n: int, lanes: int, masks: bool) -> tuple[int, ...]:
    """Full vectors, then the rest: one masked vector no wider than needed, or powers of two."""
    whole, rest = divmod(n, lanes)
    tail = []
    while rest > 0:
        tail.append(1 << (rest - 1).bit_length() if masks else 1 << (rest.bit_length() - 1))
        rest -= tail[-1]
    return (lanes,) * whole + tuple(tail)


def _partitions(count: int, most: int) -> list[list[int]]:
    """``count`` vectors in as few panels as can be: as equal as can be, or full ones and a rest."""
    panels = -(-count // most)
    low, more = divmod(count, panels) if panels else (0, 0)
    full, rest = divmod(count, most)
    return [[low] * (panels - more) + [low + 1] * more, [most] * full + [rest] * bool(rest)]


def _cut(vectors: tuple[int, ...], sizes: list[int]) -> list[tuple[int, ...]]:
    cut, at = [], 0
    for size in sizes:
        cut.append(vectors[at : at + size])
        at += size
    return cut


def _price(cut: list[tuple[int, ...]], lanes: int) -> int:
    """Different panels, and one more for a narrow vector alone: too little work for its loads."""
    alone = sum(len(panel) == 1 and panel[0] < lanes for panel in cut)
    return len(set(cut)) + alone
