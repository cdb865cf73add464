"""Matrix products as Kernel IR: which way a product is computed, by its sizes and strides.

There are four ways: tiles that read both matrices where they are (`gemm_tile`), tiles that read a
copy of B (`gemm_pack`), dot products along the inner dimension (`gemm_dot`), and plain loops
(`gemm_plain`). A size may be unknown; where the choice then depends on it, the kernel holds both ways
and chooses as it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm_dot import emit_dots
from staticflow.codegen.gemm_pack import emit_packed, packed_scratch
from staticflow.codegen.gemm_plain import emit_plain
from staticflow.codegen.gemm_plan import main_rows, spare_rows
from staticflow.codegen.gemm_tile import Epilogue, Matrix, Product, emit_tiles
from staticflow.codegen.kernel import Operand
from staticflow.codegen.target import Target
from staticflow.graph.dims import Size, ceil_div, is_provably_ge
from staticflow.graph.dtypes import DType, float32, float64, int64

__all__ = ["Epilogue", "Gemm", "emit_gemm", "scratch_size"]

_TILED = (float32, float64)
_CACHE = 1 << 19  # bytes of B that tiles read without a copy: half a usual second-level cache
_MANY_ROWS = 32  # rows that make up for a copy of a large B
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


def scratch_size(gemm: Gemm, target: Target) -> Size:
    """Elements of workspace, of the product's dtype, that `emit_gemm` needs."""
    p, _ = _product(gemm, target, "a", "b", 0, 0)
    worth = _rows_worth_packing(p)
    if worth is None or _provably_below(p.m, worth):
        return 0
    return packed_scratch(p)


def emit_gemm(
    k: Builder,
    gemm: Gemm,
    target: Target,
    a: str,
    b: str,
    scratch: str | None,
    epilogue: Epilogue,
    a_base: Size = 0,
    b_base: Size = 0,
) -> None:
    """Emit the product of the matrices that start at ``a_base`` in buffer ``a`` and at ``b_base``
    in ``b``, handing the result to ``epilogue`` piece by piece, each element once.

    ``scratch`` is a buffer of `scratch_size` elements; None will do where that is 0.
    """
    p, swapped = _product(gemm, target, a, b, a_base, b_base)
    own = _swapped(epilogue) if swapped else epilogue
    worth = _rows_worth_packing(p)
    if p.dtype not in _TILED:
        emit_plain(k, p, own)
    elif worth is None or _provably_below(p.m, worth):
        _emit_in_place(k, p, own)
    else:
        assert scratch is not None, "this product needs a workspace of scratch_size elements"
        if is_provably_ge(p.m, worth):
            emit_packed(k, p, scratch, own)
        else:
            _emit_either(k, p, worth, scratch, own)


def _product(
    gemm: Gemm, target: Target, a: str, b: str, a_base: Size, b_base: Size
) -> tuple[Product, bool]:
    """The product to compute, and whether its rows are the columns of ``gemm``: a matrix by columns
    times a vector is computed as the row times the transposed matrix."""
    left = Matrix(a, a_base, gemm.a_row, gemm.a_col)
    right = Matrix(b, b_base, gemm.b_row, gemm.b_col)
    p = Product(left, right, gemm.m, gemm.n, gemm.k, gemm.dtype, target)
    if gemm.n == 1 and gemm.m != 1 and left.col != 1 and left.row == 1:
        return replace(p, a=right.transposed, b=left.transposed, m=gemm.n, n=gemm.m), True
    return p, False


def _swapped(epilogue: Epilogue) -> Epilogue:
    def swapped(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        epilogue(k, acc, col, row, lanes, bound)

    return swapped


def _is_dots(p: Product) -> bool:
    """Whether C is made of dot products if B is not copied: both matrices run along the inner
    dimension, and tiles could not read B or would use one lane of it."""
    return p.a.col == 1 and p.b.row == 1 and (p.b.col != 1 or p.n == 1)


def _rows_worth_packing(p: Product) -> Size | None:
    """The number of rows of A from which on a copy of B pays; None if it never does.

    Beside dot products, the copy saves the additions of lanes, about 5 multiplications of a vector
    for each element of C, and costs about 0.8 for each element of B.
    """
    if p.dtype not in _TILED or p.n == 1:
        return None
    if _is_dots(p):
        if isinstance(p.m, int) and p.m < main_rows(p.target):
            return None
        brief = isinstance(p.depth, int) and p.depth <= _BRIEF and not isinstance(p.m, int)
        return 0 if brief else ceil_div(p.depth, 6)
    if p.b.col != 1:
        return 0
    if isinstance(p.n, int) and isinstance(p.depth, int):
        size = p.n * p.depth * p.dtype.itemsize
        return _MANY_ROWS if size > _CACHE else None
    return None


def _provably_below(a: Size, b: Size) -> bool:
    return is_provably_ge(b, a + 1)


def _emit_in_place(k: Builder, p: Product, epilogue: Epilogue, first: Size = 0) -> None:
    """The rows from ``first`` on, nothing copied."""
    if _is_dots(p):
        emit_dots(k, p, epilogue, first)
    else:
        emit_tiles(k, p, epilogue, p.blocks if first == 0 else spare_rows(first, p.m))


def _emit_either(k: Builder, p: Product, worth: Size, scratch: str, epilogue: Epilogue) -> None:
    """Full tiles over a copy of B if there are ``worth`` rows; the others read B where it is."""
    full = p.m // main_rows(p.target) * main_rows(p.target)
    first = k.var(k.const(0, int64))
    with k.when(k.compare("ge", k.index_value(p.m), k.index_value(worth))):
        emit_packed(k, replace(p, m=full), scratch, epilogue)
        k.set(first, k.index_value(full))
    _emit_in_place(k, p, epilogue, k.bind(first, "first"))
