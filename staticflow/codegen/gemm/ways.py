"""Which way a matrix product is computed, by its sizes and strides.

The ways: tiles that read both matrices where they are (`tile`), tiles over a copy of B
(`pack`) or of blocks of it (`block`), dot products along the inner dimension
(`dot`), and rows of B added up (`few_rows`). Any size may be unknown; a way that depends on it says
what must be at least, or at most, what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.block import blocked_scratch, emit_blocked
from staticflow.codegen.gemm.dot import emit_dots
from staticflow.codegen.gemm.few_rows import LEAST_VECTORS, emit_few_rows, few_rows_scratch
from staticflow.codegen.gemm.pack import (
    a_by_rows_scratch,
    by_columns_scratch,
    by_rows_scratch,
    emit_by_columns,
    emit_by_rows,
    emit_dots_of_copy,
)
from staticflow.codegen.gemm.plan import main_rows
from staticflow.codegen.gemm.tile import Epilogue, Product, Workspace, emit_tiles
from staticflow.codegen.kernel import Operand
from staticflow.codegen.thresholds import LEAST_ROWS
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge

__all__ = [
    "FEW_COLUMNS",
    "Emit",
    "Way",
    "dots",
    "may_be_few",
    "swap_sides",
    "tiles",
    "transpose_of",
    "ways_of",
]

Emit: TypeAlias = Callable[[Builder, Product, Workspace, Epilogue], None]
"""Emits a whole product, in so much workspace as its way says."""

FEW_COLUMNS = 8
"""Columns up to which those of a matrix by columns are rows of the transposed product."""

_CACHE = 1 << 19  # bytes of B that tiles read without a copy: half a usual second-level cache
_FEW_ROWS = 4  # rows that make up for a copy of a narrow B
_FEW_PAGES = 128  # columns of A that are as soon read where they are
_PAGES = 512  # columns of A in as many pages: more may not be at hand
_LITTLE = 1024  # elements of C up to which dot products are faster than a copy
_SMALL = 1 << 14  # elements of B up to which A is as soon read by columns where it is
_DEPTH_PER_ROW = 16  # elements of a column of B for each row of A, up to which a copy of B pays
_BRIEF = (
    64  # the inner dimension up to which a copy of B is always cheap enough, and none of A pays
)


@dataclass(frozen=True, slots=True)
class Way:
    """How a product is emitted, the elements of workspace that this takes, and when it pays: where
    each size of ``least`` is at least the one beside it, and each of ``most`` at most."""

    emit: Emit
    scratch: Size = 0
    least: tuple[tuple[Size, Size], ...] = ()
    most: tuple[tuple[Size, int], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether only the run can tell whether it pays."""
        return bool(self.least or self.most)

    @property
    def is_refuted(self) -> bool:
        """Whether it never pays, whatever the sizes are."""
        too_few = any(is_provably_ge(bound - 1, size) for size, bound in self.least)
        return too_few or any(is_provably_ge(size, bound + 1) for size, bound in self.most)


def ways_of(p: Product, *, every: bool = False) -> list[Way]:
    """The ways of a product, the better one first; the last is always right. With ``every`` those
    that are for a few of unknown rows or columns, too."""
    found = []
    for way in _candidates(p, every):
        if way.is_refuted:
            continue
        found.append(_without_what_holds(way))
        if not found[-1].is_open:
            break
    return found


def may_be_few(p: Product) -> bool:
    """Whether the product may turn out to be for a way of few unknown rows or columns."""
    return not all(way.is_refuted for way in _of_few_unknown(p))


def _without_what_holds(way: Way) -> Way:
    """The way without the conditions that are known to hold."""
    least = tuple((s, b) for s, b in way.least if b != 0 and not is_provably_ge(s, b))
    most = tuple((s, b) for s, b in way.most if not is_provably_ge(b, s))
    return replace(way, least=least, most=most)


def _candidates(p: Product, every: bool) -> Iterator[Way]:
    """The ways that may pay, and the one that is always right."""
    if 0 in (p.m, p.n, p.depth):
        yield Way(tiles)
        return
    if every:
        yield from _of_few_unknown(p)
    better = None if p.n == 1 else _better(p)
    if better is not None:
        yield better
    if _is_for_dots(p):
        yield Way(dots)
    elif p.b.col == 1:
        yield Way(tiles)
    elif p.b.row == 1:  # only rows of A are copied that are too few for the better way
        few = [least for size, least in better.least if size == p.m] if better else []
        rows = dim_min(p.m, few[0]) if few else p.m
        yield Way(emit_dots_of_copy, a_by_rows_scratch(replace(p, m=rows)))
    else:
        yield Way(emit_by_rows, by_rows_scratch(p))


def dots(k: Builder, p: Product, _: Workspace, epilogue: Epilogue) -> None:
    """Dot products, without workspace."""
    emit_dots(k, p, epilogue)


def tiles(k: Builder, p: Product, _: Workspace, epilogue: Epilogue) -> None:
    """Tiles that read both matrices where they are, without workspace."""
    emit_tiles(k, p, epilogue)


def _is_for_dots(p: Product) -> bool:
    """Whether both matrices run along the inner dimension, and tiles could not read B or would be
    too narrow."""
    return p.a.col == 1 and p.b.row == 1 and (p.b.col != 1 or p.n == 1)


def _of_few_unknown(p: Product) -> Iterator[Way]:
    """Ways for few rows, for few columns and for a small B that lies by columns, if it turns out
    that there is no more."""
    few, many = ((p.n, FEW_COLUMNS),), LEAST_VECTORS * p.lanes
    if p.a.row == 1 != p.a.col:
        yield Way(_emit_turned, few_rows_scratch(transpose_of(p)), ((p.m, many),), few)
    elif p.a.col == 1 != p.b.row:
        yield Way(emit_by_columns, by_columns_scratch(p), ((p.depth, _BRIEF),), few)
    if p.b.col == 1:
        yield Way(emit_few_rows, few_rows_scratch(replace(p, m=1)), ((p.n, many),), ((p.m, 1),))
    elif p.b.row == 1:
        small = ((p.depth, _BRIEF), (p.n * p.depth, _CACHE // p.dtype.itemsize))
        yield Way(emit_by_rows, by_rows_scratch(p), ((p.m, _FEW_ROWS),), small)


def transpose_of(p: Product) -> Product:
    """The product of the transposed matrices, the transpose of this one."""
    return replace(p, a=p.b.transpose, b=p.a.transpose, m=p.n, n=p.m, waits=None)


def swap_sides(epilogue: Epilogue) -> Epilogue:
    """The epilogue of a product for pieces of its transpose."""

    def emit(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        epilogue(k, acc, col, row, lanes, bound)

    return emit


def _emit_turned(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """A few columns as rows of the transposed product."""
    emit_few_rows(k, transpose_of(p), scratch, swap_sides(epilogue))


def _better(p: Product) -> Way | None:
    """The way that may pay beside the one that is always right."""
    if p.m == 1 and p.b.col == 1:
        return Way(emit_few_rows, few_rows_scratch(p), ((p.n, LEAST_VECTORS * p.lanes),))
    if _is_narrow(p):
        few = ((p.m, _FEW_ROWS),)
        return Way(emit_by_columns, by_columns_scratch(p), few) if p.b.row != 1 else None
    blocked = Way(emit_blocked, blocked_scratch(p), ((p.m, LEAST_ROWS),))
    if p.b.col == 1:
        return replace(blocked, least=(*blocked.least, *_worth_blocks_beside_tiles(p)))
    if not (_is_open(p) or _is_large(p)):
        return Way(emit_by_rows, by_rows_scratch(p), ((p.m, _rows_worth_transposing(p)),))
    if _is_for_dots(p):
        enough = ((p.m * p.n, _LITTLE), (p.n, FEW_COLUMNS + 1))
        return replace(blocked, least=(*blocked.least, *enough))
    return blocked if p.b.row == 1 or is_provably_ge(p.m, LEAST_ROWS) else None


def _worth_blocks_beside_tiles(p: Product) -> tuple[tuple[Size, int], ...]:
    """What must be at least what, so that a copy of B in blocks pays beside tiles that read it.
    Blocks go down the columns of C, which takes 2.2 times as long as tiles where 2,048 x 2,048
    elements are sums of 8, and as long where they are sums of 50."""
    if _is_long(p):
        return ((p.depth, _FEW_PAGES),)
    if p.a.col != 1 and _is_open(p):
        return (p.depth, _BRIEF), (p.n * p.depth, _SMALL)
    return ((p.n * p.depth, _CACHE // p.dtype.itemsize),)


def _is_narrow(p: Product) -> bool:
    """Whether dot products beat a tile of ``n`` columns in half-rate vectors: in multiplications
    of a vector, ``depth / lanes + 5 < depth / 2n`` for each element of C."""
    if not (isinstance(p.n, int) and isinstance(p.depth, int)) or p.a.col != 1:
        return False
    return 10 * p.n * p.lanes < p.depth * (p.lanes - 2 * p.n)


def _is_large(p: Product) -> bool:
    """Whether B does not stay in the cache."""
    return not _is_open(p) and is_provably_ge(p.n * p.depth * p.dtype.itemsize, _CACHE)


def _is_open(p: Product) -> bool:
    """Whether nothing is known of the size of B."""
    return not (isinstance(p.n, int) and isinstance(p.depth, int))


def _is_long(p: Product) -> bool:
    """Whether the columns of A, one of which is read at each step, may be more than there are pages
    at hand: such products are gradients of weights."""
    long = not isinstance(p.depth, int) or p.depth > _PAGES
    return long and p.a.col != 1 and isinstance(p.n, int) and isinstance(p.m, int)


def _rows_worth_transposing(p: Product) -> Size:
    """Beside dot products, a copy saves the additions of lanes, about 5 multiplications of a vector
    for each element of C, and costs about 0.3 for each element of B."""
    if isinstance(p.m, int):
        return dim_max(ceil_div(p.depth, _DEPTH_PER_ROW), main_rows(p.target))
    brief = isinstance(p.depth, int) and p.depth <= _BRIEF
    return 0 if brief else ceil_div(p.depth, _DEPTH_PER_ROW)
