"""Matrix products as Kernel IR: a product in the way of its sizes (`ways`).

Where only the run can tell which way pays, the kernel holds several and chooses as it runs. What no
way is made for is computed by plain loops (`three_loops`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.block import emit_blocked
from staticflow.codegen.gemm.calls import (
    STRIDES,
    call_part,
    each_row,
    is_shared,
    strides_of,
)
from staticflow.codegen.gemm.three_loops import emit_plain
from staticflow.codegen.gemm.tile import Epilogue, Matrix, Product, Workspace
from staticflow.codegen.gemm.ways import (
    FEW_COLUMNS,
    Way,
    dots,
    may_be_few,
    swap_sides,
    tiles,
    transpose_of,
    ways_of,
)
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Dim, Size, Sym, dim_min, is_provably_ge
from staticflow.graph.dtypes import DType, float32, float64, int8, int16, int32, int64, uint8

__all__ = ["Epilogue", "Gemm", "Workspace", "emit_gemm", "may_leave_sums", "scratch_size"]

_TILED = (float32, float64, int64, int32, int16, int8, uint8)


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


def scratch_size(
    gemm: Gemm, target: Target, is_plain: bool = False, *, every: bool = False
) -> Size:
    """Elements of workspace, of the product's dtype, that `emit_gemm` needs; ``is_plain`` says that
    it is told where the product itself is stored."""
    if gemm.dtype not in _TILED:
        return 0
    p, _ = _product(gemm, target, "a", "b", 0, 0)
    ways = ways_of(p, every=every)
    if is_plain and _is_whole(p, ways):
        return _whole_scratch(p)
    size: Size = 0
    for way in ways:
        own = way.scratch
        for known, least in way.least:
            own = own * dim_min(known // least, 1) if isinstance(least, int) else own
        for known, most in way.most:
            own = own * (1 - dim_min(known // (most + 1), 1))
        size = size + own
    return size


def _is_whole(p: Product, ways: Sequence[Way]) -> bool:
    """Whether the product, where it is stored as it is, is one that programs share, with all ways
    in it."""
    return is_shared(p) and ways[0].emit is emit_blocked


def _whole_scratch(p: Product) -> Size:
    """Elements of workspace of that one."""
    m, n, depth, *strides = (Sym(s) for s in ("m", "n", "depth", *STRIDES))
    a_row, a_col, b_row, b_col = (
        1 if s == 1 else Dim.of(sym) for s, sym in zip(strides_of(p), strides, strict=True)
    )
    gemm = Gemm(Dim.of(m), Dim.of(n), Dim.of(depth), a_row, a_col, b_row, b_col, p.dtype)
    size = scratch_size(gemm, replace(p.target, shares=False), every=may_be_few(p))
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
    sums: Matrix | None = None,
    *,
    every: bool = False,
) -> None:
    """Emit the product of the matrices that start at ``a_base`` in buffer ``a`` and at ``b_base``
    in ``b``, handing the result to ``epilogue`` piece by piece, each element once.

    ``scratch`` has room for `scratch_size` elements; None will do where that is 0. An epilogue that
    does nothing but store the product says where ``to``; of a long one, sums wait in ``waits``, a
    matrix of the same sizes. Where `may_leave_sums`, a small product is left in the matrix
    ``sums`` before all of it is handed to the epilogue. With ``every`` there are ways for few
    unknown rows and columns, too.
    """
    p, swapped = _product(gemm, target, a, b, a_base, b_base)
    if waits is not None and not swapped:
        p = replace(p, waits=waits)
    own = swap_sides(epilogue) if swapped else epilogue
    if p.dtype not in _TILED:
        emit_plain(k, p, own)
        return
    ways = ways_of(p, every=every)
    shared = to if is_shared(p) and not swapped else None
    if shared is not None and scratch is not None and _is_whole(p, ways):
        kind = f"{'product' if may_be_few(p) else 'many'}{p.target.workers}"
        call_part(k, kind, p, shared, (), scratch.buffer, scratch.base)
    else:
        left = sums if is_shared(p) and not swapped else None
        _emit(k, p, ways, scratch or Workspace(p.a.buffer), own, shared, left)


def may_leave_sums(gemm: Gemm, target: Target) -> bool:
    """Whether a product has a way, for few rows or columns, that programs share, and of which the
    epilogue is apart."""
    if gemm.dtype not in _TILED:
        return False
    p, swapped = _product(gemm, target, "a", "b", 0, 0)
    return is_shared(p) and not swapped and any(way.emit is dots for way in ways_of(p))


def _product(
    gemm: Gemm, target: Target, a: str, b: str, a_base: Size, b_base: Size
) -> tuple[Product, bool]:
    """The product to compute, and whether its rows are the columns of ``gemm``: a matrix by columns
    times a few columns is computed as so many rows times the transposed matrix."""
    left = Matrix(a, a_base, gemm.a_row, gemm.a_col)
    right = Matrix(b, b_base, gemm.b_row, 1 if gemm.n == 1 else gemm.b_col)  # a column alone
    p = Product(left, right, gemm.m, gemm.n, gemm.k, gemm.dtype, target)
    if _has_few_columns(gemm) and left.col != 1 and left.row == 1:
        return transpose_of(p), True
    return p, False


def _has_few_columns(gemm: Gemm) -> bool:
    """Whether a product has fewer columns than a vector has lanes, and more rows."""
    few = isinstance(gemm.n, int) and gemm.n <= FEW_COLUMNS
    return few and not is_provably_ge(gemm.n, gemm.m)


def _emit(
    k: Builder,
    p: Product,
    ways: Sequence[Way],
    scratch: Workspace,
    epilogue: Epilogue,
    to: Matrix | None,
    sums: Matrix | None,
) -> None:
    """The first of the ways that pays, as the run tells; ``to`` is where a part that programs share
    leaves the product, and ``sums`` where one does before the epilogue."""
    way, *others = ways

    def emit() -> None:
        if to is not None and way.emit in (dots, tiles):
            call_part(k, "dots" if way.emit is dots else "tiles", p, to)
        elif sums is not None and way.emit is dots:
            call_part(k, "dots", p, sums)
            each_row(k, p, sums, epilogue)
        else:
            way.emit(k, p, scratch, epilogue)

    if not way.is_open:
        emit()
        return
    tests = [k.compare("ge", k.index_value(size), k.index_value(n)) for size, n in way.least]
    tests += [k.compare("le", k.index_value(size), n) for size, n in way.most]
    pays = functools.reduce(functools.partial(k.apply, "and"), tests)
    k.choose(pays, emit, lambda: _emit(k, p, others, scratch, epilogue, to, sums))
