"""Matrix products as Kernel IR: which way a product is computed, by its sizes and strides.

The ways: tiles that read both matrices where they are (`tile`), tiles over a copy of B
(`pack`) or of blocks of it (`block`), dot products along the inner dimension
(`dot`), and plain loops (`plain`). Any size may be unknown; where the choice depends on
it, the kernel holds both ways and chooses as it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.block import blocked_scratch, emit_blocked
from staticflow.codegen.gemm.calls import (
    STRIDES,
    call_part,
    is_shared,
    strides_of,
)
from staticflow.codegen.gemm.dot import emit_dots
from staticflow.codegen.gemm.pack import (
    by_columns_scratch,
    by_rows_scratch,
    emit_by_columns,
    emit_by_rows,
)
from staticflow.codegen.gemm.plan import main_rows
from staticflow.codegen.gemm.three_loops import emit_plain
from staticflow.codegen.gemm.tile import Epilogue, Matrix, Product, Workspace, emit_tiles
from staticflow.codegen.kernel import Operand
from staticflow.codegen.target import Target
from staticflow.codegen.thresholds import LEAST_ROWS
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_max, dim_min, is_provably_ge
from staticflow.graph.dtypes import DType, float32, float64, int8, int16, int32, int64, uint8

__all__ = ["Epilogue", "Gemm", "Workspace", "emit_gemm", "scratch_size"]

_TILED = (float32, float64, int64, int32, int16, int8, uint8)
_CACHE = 1 << 19  # bytes of B that tiles read without a copy: half a usual second-level cache
_FEW_ROWS = 4  # rows that make up for a copy of a narrow B
_FEW_PAGES = 128  # columns of A that are as soon read where they are
_PAGES = 512  # columns of A in as many pages: more may not be at hand
_LITTLE = 1024  # elements of B up to which dot products are faster than a copy
_SMALL = 1 << 14  # elements of B up to which A is as soon read by columns where it is
_DEPTH_PER_ROW = 16  # elements of a column of B for each row of A, up to which a copy of B pays
_BRIEF = 64  # the inner dimension up to which a copy is always cheap enough


@dataclass(frozen=True, slots=True)
class Gemm:
    """``C[m, n] = sum_k A[m, k] * B[k, n]``: sizes, strides in elements, and the dtype of all.

    ``A[m, k]`` is ``a_row * m + a_col * k`` elements behind the first, ``B[k, n]`` is
    ``b_row * k + b_col * n`` behind.
    """

    m: Size
    n: Size
    k: Size
    a_row: Size
    a_col: Size
    b_row: Size
    b_col: Size
    dtype: DType


def scratch_size(gemm: Gemm, target: Target, is_plain: bool = False) -> Size:
    """Elements of workspace, of the product's dtype, that `emit_gemm` needs; ``is_plain`` says that
    it is told where the product itself is stored."""
    p, _ = _product(gemm, target, "a", "b", 0, 0)
    copy = _copying(p)
    if is_plain and _is_whole(p, copy):
        return _whole_scratch(p)
    if copy is None:
        return 0
    size = copy.scratch(p)
    if _in_place(p) is not None:  # else it is copied whatever its size
        for known, least in copy.bounds(p):
            size = size * dim_min(known // least, 1) if isinstance(least, int) else size
    return size


def _is_whole(p: Product, copy: _Copying | None) -> bool:
    """Whether the product, where it is stored as it is, is one that programs share, with both ways
    in it."""
    return is_shared(p) and copy is not None and copy.emit is emit_blocked


def _whole_scratch(p: Product) -> Size:
    """Elements of workspace of that one."""
    m, n, depth, *strides = (Sym(s) for s in ("m", "n", "depth", *STRIDES))
    a_row, a_col, b_row, b_col = (
        1 if s == 1 else Dim.of(sym) for s, sym in zip(strides_of(p), strides, strict=True)
    )
    gemm = Gemm(Dim.of(m), Dim.of(n), Dim.of(depth), a_row, a_col, b_row, b_col, p.dtype)
    size = scratch_size(gemm, replace(p.target, shares=False))
    values = dict(zip((m, n, depth, *strides), (p.m, p.n, p.depth, *strides_of(p)), strict=True))
    return substitute_dim(size, values)


def emit_gemm(
    k: Builder,
    gemm: Gemm,
    target: Target,
    a: str,
    b: str,
    scratch: Workspace | None,
    epilogue: Epilogue,
    a_base: Size = 0,
    b_base: Size = 0,
    to: Matrix | None = None,
    waits: Matrix | None = None,
) -> None:
    """Emit the product of the matrices that start at ``a_base`` in buffer ``a`` and at ``b_base``
    in ``b``, handing the result to ``epilogue`` piece by piece, each element once.

    ``scratch`` has room for `scratch_size` elements; None will do where that is 0. An epilogue that
    does nothing but store the product says where ``to``; of a long one, sums wait in ``waits``, a
    matrix of the same sizes.
    """
    p, swapped = _product(gemm, target, a, b, a_base, b_base)
    if waits is not None and not swapped:
        p = replace(p, waits=waits)
    own = _swap_sides(epilogue) if swapped else epilogue
    copy = _copying(p)
    if p.dtype not in _TILED:
        emit_plain(k, p, own)
    else:
        _emit(k, p, copy, scratch, own, None if swapped else to)


def _product(
    gemm: Gemm, target: Target, a: str, b: str, a_base: Size, b_base: Size
) -> tuple[Product, bool]:
    """The product to compute, and whether its rows are the columns of ``gemm``: a matrix by columns
    times a vector is computed as the row times the transposed matrix."""
    left = Matrix(a, a_base, gemm.a_row, gemm.a_col)
    right = Matrix(b, b_base, gemm.b_row, 1 if gemm.n == 1 else gemm.b_col)  # a column alone
    p = Product(left, right, gemm.m, gemm.n, gemm.k, gemm.dtype, target)
    if gemm.n == 1 and gemm.m != 1 and left.col != 1 and left.row == 1:
        return replace(p, a=right.transpose, b=left.transpose, m=gemm.n, n=gemm.m), True
    return p, False


def _swap_sides(epilogue: Epilogue) -> Epilogue:
    def emit(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        epilogue(k, acc, col, row, lanes, bound)

    return emit


@dataclass(frozen=True, slots=True)
class _Copying:
    """A way that copies B: how it is emitted, the workspace it needs, and when it pays: with at
    least so many rows of A, elements of B, and rows of B."""

    emit: Callable[[Builder, Product, Workspace, Epilogue], None]
    scratch: Callable[[Product], Size]
    rows: Size
    elements: int = 0
    depth: int = 0

    def bounds(self, p: Product) -> list[tuple[Size, Size]]:
        """What must be at least what, but for what is known to be."""
        pairs = ((p.m, self.rows), (p.n * p.depth, self.elements), (p.depth, self.depth))
        return [(size, least) for size, least in pairs if least and not is_provably_ge(size, least)]


def _copying(p: Product) -> _Copying | None:
    """How B is copied, if that can pay."""
    if p.dtype not in _TILED or p.n == 1 or 0 in (p.m, p.n, p.depth):
        return None
    copy = None
    if _is_narrow(p):
        if p.b.row != 1:
            copy = _Copying(emit_by_columns, by_columns_scratch, _FEW_ROWS)
    elif _in_place(p) is not None and (p.b.col == 1 or _is_open(p) or _is_large(p)):
        if _is_long(p):
            copy = _Copying(emit_blocked, blocked_scratch, LEAST_ROWS, depth=_FEW_PAGES)
        else:
            copy = _Copying(emit_blocked, blocked_scratch, LEAST_ROWS, _elements_worth_copying(p))
    elif is_provably_ge(p.m, LEAST_ROWS) and (_is_open(p) or _is_large(p)):
        copy = _Copying(emit_blocked, blocked_scratch, LEAST_ROWS)
    else:
        copy = _Copying(emit_by_rows, by_rows_scratch, _rows_worth_transposing(p))
    never = copy is not None and any(is_provably_ge(b - 1, a) for a, b in copy.bounds(p))
    return None if never else copy


def _in_place(p: Product) -> Callable[[Builder, Product, Epilogue], None] | None:
    """The way that copies nothing: dot products, if both matrices run along the inner dimension and
    tiles could not read B or would be too narrow; tiles, if they can read B or do not; or None."""
    if p.a.col == 1 and p.b.row == 1 and (p.b.col != 1 or p.n == 1):
        return emit_dots
    return emit_tiles if p.b.col == 1 or 0 in (p.m, p.n, p.depth) else None


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


def _elements_worth_copying(p: Product) -> int:
    """Elements of B from which on a copy pays beside the way that copies nothing."""
    if _in_place(p) is emit_dots:
        return _LITTLE
    return _SMALL if p.a.col != 1 and _is_open(p) else _CACHE // p.dtype.itemsize


def _rows_worth_transposing(p: Product) -> Size:
    """Beside dot products, a copy saves the additions of lanes, about 5 multiplications of a vector
    for each element of C, and costs about 0.3 for each element of B."""
    if _in_place(p) is None:
        return 0
    if isinstance(p.m, int):
        return dim_max(ceil_div(p.depth, _DEPTH_PER_ROW), main_rows(p.target))
    brief = isinstance(p.depth, int) and p.depth <= _BRIEF
    return 0 if brief else ceil_div(p.depth, _DEPTH_PER_ROW)


def _emit(
    k: Builder,
    p: Product,
    copy: _Copying | None,
    scratch: Workspace | None,
    epilogue: Epilogue,
    to: Matrix | None,
) -> None:
    """Over a copy of B, or in place; both, where only the run can tell whether the copy pays."""
    in_place = _in_place(p)

    def emit_uncopied() -> None:
        assert in_place is not None, "B lies by columns and is not copied"
        if is_shared(p) and to is not None:
            call_part(k, "dots" if in_place is emit_dots else "tiles", p, to)
        else:
            in_place(k, p, epilogue)

    if copy is None:
        emit_uncopied()
        return
    if to is not None and scratch is not None and _is_whole(p, copy):
        kind = f"product{p.target.workers}"
        call_part(k, kind, p, to, (), scratch.buffer, scratch.base)
        return
    assert scratch is not None, "this product needs a workspace of scratch_size elements"
    bounds = copy.bounds(p)
    if in_place is None or not bounds:
        copy.emit(k, p, scratch, epilogue)
        return
    pays = functools.reduce(
        functools.partial(k.apply, "and"),
        [k.compare("ge", k.index_value(size), k.index_value(least)) for size, least in bounds],
    )
    k.choose(pays, lambda: copy.emit(k, p, scratch, epilogue), emit_uncopied)
