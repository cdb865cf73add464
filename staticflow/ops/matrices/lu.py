"""The factors L and U of matrices in the form of LAPACK, by elimination in blocks of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, dim_min, same
from staticflow.graph.dtypes import float32, float64, int32, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.order import argsort
from staticflow.ops.basics.axes import mT, transpose
from staticflow.ops.basics.creation import full, iota, zeros_like
from staticflow.ops.basics.expand import common_shape, expand
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.declare import same_size, strict
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.lowering import IndexCheck, LoopNest
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.indexing.gather_ops import check_dtype, check_range, gather, load_index
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.elimination import each_matrix, factor
from staticflow.ops.matrices.factors import matrix_sizes
from staticflow.ops.matrices.triangle import tril, triu
from staticflow.ops.matrices.triangular import solve_triangular

__all__ = [
    "FactorsLU", "PackedLU", "lower_factor", "lu", "lu_factor", "lu_op", "lu_solve", "lu_unpack",
    "permutation", "row_order_op", "upper_factor",
]  # fmt: skip


class PackedLU(NamedTuple):
    """L (below the diagonal, whose ones are not kept) and U in one matrix, and the pivots: row k
    was exchanged for the one whose number, from 1 on, stands at k."""

    LU: Any
    pivots: Any


class FactorsLU(NamedTuple):
    """A permutation, a lower triangular matrix with ones on its diagonal, an upper triangular one;
    their product is the matrix that was factored."""

    P: Any
    L: Any
    U: Any


def _check_matrices(what: str, A: Any) -> None:
    if A.dtype not in (float32, float64) or A.ndim < 2:
        raise (ShapeError if A.ndim < 2 else DTypeError)(
            f"{what}: takes matrices (..., m, n) of float32 or float64, not {A.dtype.name} "
            f"{list(A.shape)}, at {format_locs(here())}"
        )


def _check_pivots(what: str, pivots: Any, shape: Sequence[Size]) -> None:
    if pivots.dtype is not int32 or pivots.ndim != len(shape):
        raise ShapeError(
            f"{what}: takes the pivots that lu_factor gives, int32 {list(shape)}, not "
            f"{pivots.dtype.name} {list(pivots.shape)}, at {format_locs(here())}"
        )


def lu(A: Any, *, pivot: bool = True) -> FactorsLU:
    """The factors P, L and U of matrices ``A`` (..., m, n) in float32 or float64, with
    ``P @ L @ U`` equal to ``A``: with k the smaller of m and n, P is (..., m, m), L (..., m, k) and
    U (..., k, n). The pivot is the largest element left of its column.

    Without ``pivot`` rows stay where they are and P is an empty tensor, as in PyTorch: digits are
    lost where an element on the diagonal is small beside others, and one of 0 gives infinities.

    >>> import staticflow as sf
    >>> sf.linalg.lu(sf.tensor([[1.0, 2.0], [4.0, 8.0]])).L
    tensor([[1.0000, 0.0000],
            [0.2500, 1.0000]])
    """
    _check_matrices("lu", A)
    exchanges, lower, upper = _factors(A, bool(pivot))
    return FactorsLU(exchanges.detach(), lower, upper)  # which way rows go does not vary


@fused("LinalgLuBackward0")
def _factors(A: Any, exchanges: bool) -> tuple[Any, ...]:
    packed, pivots = lu_op(A, exchanges=exchanges)
    return tuple(lu_unpack(packed, pivots, unpack_pivots=exchanges))


def lu_factor(A: Any, *, pivot: bool = True) -> PackedLU:
    """The factors of `lu` as `lu_solve` takes them: both in one matrix of the shape of ``A``, and
    the pivots (int32). A singular matrix has a zero on the diagonal of U, and no gradient. Without
    ``pivot`` no rows are exchanged, as `lu` says.

    >>> import staticflow as sf
    >>> sf.linalg.lu_factor(sf.tensor([[1.0, 2.0], [4.0, 8.0]])).pivots
    tensor([2, 2], dtype=staticflow.int32)
    """
    _check_matrices("lu_factor", A)
    return PackedLU(*_packed_factors(A, bool(pivot)))


@fused("LinalgLuFactorExBackward0")
def _packed_factors(A: Any, exchanges: bool) -> tuple[Any, ...]:
    return tuple(lu_op(A, exchanges=exchanges))


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> FactorsLU:
    """The factors P, L and U, as `lu` gives them, of what `lu_factor` has taken apart. L and U are
    empty tensors unless ``unpack_data``, P is unless ``unpack_pivots``.

    >>> import staticflow as sf
    >>> LU, pivots = sf.linalg.lu_factor(sf.tensor([[1.0, 2.0], [4.0, 8.0]]))
    >>> sf.lu_unpack(LU, pivots).U
    tensor([[4., 8.],
            [0., 0.]])
    """
    _check_matrices("lu_unpack", LU_data)
    rows, columns = LU_data.shape[-2:]
    _check_pivots("lu_unpack", LU_pivots, (*LU_data.shape[:-2], dim_min(rows, columns)))
    data = as_bool("lu_unpack: 'unpack_data'", unpack_data)
    nothing = full.beside(LU_data, shape=(0,), value=0.0, dtype=LU_data.dtype)
    return FactorsLU(
        permutation(LU_data, LU_pivots)
        if as_bool("lu_unpack: 'unpack_pivots'", unpack_pivots)
        else nothing,
        lower_factor(LU_data) if data else nothing,
        upper_factor(LU_data) if data else nothing,
    )


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """The X with ``A @ X = B``, or ``X @ A = B`` unless ``left``, for the square matrices A that
    `lu_factor` has taken apart, or with ``adjoint`` for their transposes; batches are broadcast.

    Raises `LinAlgError` where a matrix is singular, also when a program runs.

    >>> import staticflow as sf
    >>> LU, pivots = sf.linalg.lu_factor(sf.tensor([[0.0, 2.0], [4.0, 0.0]]))
    >>> sf.linalg.lu_solve(LU, pivots, sf.tensor([[2.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    for matrices in (LU, B):
        _check_matrices("lu_solve", matrices)
    if not same_size(*LU.shape[-2:]):
        raise ShapeError(
            f"lu_solve: takes the factors of square matrices, not {list(LU.shape)}, at "
            f"{format_locs(here())}"
        )
    _check_pivots("lu_solve", pivots, LU.shape[:-1])
    if B.dtype is not LU.dtype:
        raise DTypeError(
            f"lu_solve: LU is of {LU.dtype.name} and B of {B.dtype.name}; cast one of them, at "
            f"{format_locs(here())}"
        )
    if not left:
        turned = lu_solve(LU, pivots, transpose(B, -2, -1), adjoint=not adjoint)
        return transpose(turned, -2, -1)
    n = LU.shape[-1]
    rows = f"lu_solve: the rows of B {list(B.shape)} and of LU {list(LU.shape)}"
    B = require_equal(B, B.shape[-2], n, rows)
    many = f"lu_solve: the pivots {list(pivots.shape)} and the rows of LU {list(LU.shape)}"
    pivots = require_equal(pivots, pivots.shape[-1], n, many)
    batch = common_shape([LU.shape[:-2], B.shape[:-2]], "lu_solve")
    LU, B = (expand(x, (*batch, *x.shape[-2:])) for x in (LU, B))
    order = unsqueeze(expand(_order_of(pivots, n), LU.shape[:-1]), -1)
    if adjoint:
        half = solve_triangular(transpose(LU, -2, -1), B, upper=False)
        x = solve_triangular(transpose(LU, -2, -1), half, upper=True, unitriangular=True)
        return gather(x, -2, expand(argsort(order, -2), x.shape))
    half = solve_triangular(
        LU, gather(B, -2, expand(order, B.shape)), upper=False, unitriangular=True
    )
    return solve_triangular(LU, half, upper=True)


# -- the ops ---------------------------------------------------------------------------------------


def _lu_infer(facts: Facts, a: TensorType, *, exchanges: bool) -> Any:
    batch, m, n = matrix_sizes(a)
    return a, TensorType(int32, (*batch, dim_min(m, n)))


def _lu_reference(xp: Any, a: Any, *, exchanges: bool) -> Any:
    """Column by column (Golub and Van Loan 2013, "Matrix Computations", algorithm 3.4.1)."""
    m, n = a.shape[-2:]
    least = min(m, n)
    x = a.reshape(math.prod(a.shape[:-2]), m, n).copy()
    pivots = xp.zeros((len(x), least), xp.int32)
    each = xp.arange(len(x))
    for k in range(least):
        at = xp.full(len(x), k)
        if exchanges:
            size = xp.abs(x[:, k:, k])
            at = k + xp.argmax(xp.where(xp.isnan(size), xp.inf, size), 1)
            x[each, at], x[:, k] = x[:, k].copy(), x[each, at]
        pivots[:, k] = at + 1
        pivot = x[:, k, k, None]
        part = x[:, k + 1 :, k] / pivot
        part = xp.where(pivot == 0, 0, part) if exchanges else part
        x[:, k + 1 :, k] = part
        x[:, k + 1 :, k + 1 :] -= part[:, :, None] * x[:, k, None, k + 1 :]
    return x.reshape(a.shape), pivots.reshape(*a.shape[:-2], least)


def _lu_emit(nest: Any) -> None:
    k, exchanges = nest.k, nest.attrs["exchanges"]
    with each_matrix(nest) as (b, work):

        def store_pivot(c: Size, row: Any) -> None:
            nest.store(1, (*b, c), k.add(row, 1))

        factor(work, store_pivot if exchanges else None)
        if not exchanges:
            for c in nest.each("c", 0, nest.out_shape(1)[-1]):
                store_pivot(c, k.index_value(c))
        for i, j, is_below in work.halves():
            nest.store(0, (*b, i, j), k.neg(work.at(i, j)) if is_below else work.at(i, j))


def _lu_vjp(needs: Any, cts: Any, out: Any, a: Any, *, exchanges: bool) -> list[Any]:
    """L1 and U1 are square. Below the one is L2, or right of the other U2: never both.

    With dots for differentials, ``L1^-1 dot(L1 @ U1) U1^-1 = L1^-1 dot(L1) + dot(U1) U1^-1``, of
    which the first is strictly lower and the second upper. U2 is ``L1^-1`` times the columns that
    it was, L2 the rows that it was times ``U1^-1``.
    """
    ct, (packed, pivots) = cts[0], out
    if ct is None or not needs[0]:
        return [None]
    m, n = packed.shape[-2:]
    k = dim_min(m, n)
    both = packed[..., :k, :k]
    of_both, of_right, of_below = ct[..., :k, :k], ct[..., :k, k:], ct[..., k:, :k]
    strict = tril(of_both, -1)
    of_lower = strict + matmul(mT(tril(both, -1)), strict)
    of_upper = matmul(triu(of_both), mT(triu(both)))
    if not same(n, k):
        of_lower = of_lower - matmul(of_right, mT(packed[..., :k, k:]))
    if not same(m, k):
        of_upper = of_upper - matmul(mT(packed[..., k:, :k]), of_below)
    inner = tril(of_lower, -1) + triu(of_upper)
    left = inner if same(m, k) else cat([inner, of_below], -2)
    left = solve_triangular(mT(both), left, upper=False, left=False)
    top = left[..., :k, :]
    top = top if same(n, k) else cat([top, of_right], -1)
    whole = solve_triangular(mT(both), top, upper=True, unitriangular=True)
    if not same(m, k):
        below = left[..., k:, :]
        if not same(n, k):  # where there are rows below, there are no columns right
            below = cat([below, zeros_like(ct[..., k:, k:])], -1)
        whole = cat([whole, below], -2)
    if exchanges:
        back = unsqueeze(argsort(_order_of(pivots, m), -1), -1)
        whole = gather(whole, -2, expand(back, whole.shape))
    return [whole]


lu_op = Op(
    name="lu",
    doc="L, below the diagonal, and U of matrices, and the pivots: each row was exchanged with the "
    "one whose number, from 1 on, stands in its place; with itself unless there are ``exchanges``.",
    infer=_lu_infer,
    reference=strict(_lu_infer, _lu_reference),
    vjp=_lu_vjp,
    lowering=LoopNest(_lu_emit),
    numpy="slower",
    grad_name="LinalgLuFactorExBackward0",
)


def _order_infer(facts: Facts, partners: TensorType, *, size: Size) -> TensorType:
    check_dtype(partners)
    if partners.ndim < 1:
        raise ShapeError(f"{partners} has no dim of partners")
    facts.at_least(size, partners.shape[-1], f"the rows, beside the partners {partners}")
    return TensorType(int64, (*partners.shape[:-1], size))


def _order_reference(xp: Any, partners: Any, *, size: int) -> Any:
    flat = partners.reshape(math.prod(partners.shape[:-1]), partners.shape[-1])
    check_range(xp, partners, size, "the exchanges of rows", 0)
    order = xp.tile(xp.arange(size), (len(flat), 1))
    each = xp.arange(len(flat))
    for k in range(flat.shape[1]):
        order[each, flat[:, k]], order[:, k] = order[:, k].copy(), order[each, flat[:, k]]
    return order.reshape(*partners.shape[:-1], size)


def _order_emit(nest: Any) -> None:
    *batch, count = nest.in_shape(0)
    size = nest.attrs["size"]
    with nest.loops(tuple(batch), "parallel" if nest.has_teams else "serial") as b:
        for i in nest.each("i", 0, size):
            nest.store(0, (*b, i), nest.k.index_value(i))
        for c in nest.each("c", 0, count):
            partner = load_index(nest, 0, (*b, c), size)
            first, second = nest.load_out(0, (*b, c)), nest.load_out(0, (*b, partner))
            nest.store(0, (*b, c), second)
            nest.store(0, (*b, partner), first)


row_order_op = Op(
    name="row_order",
    doc="Which of ``size`` rows stands where, once each of the first was exchanged in turn with "
    "the one that stands where ``partners`` says.",
    infer=_order_infer,
    reference=strict(_order_infer, _order_reference),
    vjp=None,
    lowering=LoopNest(_order_emit, checks=lambda partners, *, size: [IndexCheck(0, size)]),
    numpy="slower",
)


def _order_of(pivots: Any, rows: Size) -> Any:
    """For each of the ``rows`` of a factored matrix the row that it was, (..., rows)."""
    return row_order_op(pivots - 1, size=rows)


# -- its parts -------------------------------------------------------------------------------------


def _count(beside: Any, size: Size) -> Any:
    """0, 1, 2 and so on (int64)."""
    return iota.beside(beside, shape=(size,), dim=0, dtype=int64)


def lower_factor(LU: Any) -> Any:
    """The L of what `lu_factor` has taken apart."""
    m, n = LU.shape[-2:]
    least = dim_min(m, n)
    return tril(narrow(LU, -1, 0, least), -1) + _ones_on_diagonal(LU, m, least)


def upper_factor(LU: Any) -> Any:
    """The U of what `lu_factor` has taken apart."""
    return triu(narrow(LU, -2, 0, dim_min(*LU.shape[-2:])))


def _ones_on_diagonal(beside: Any, rows: Size, columns: Size) -> Any:
    return (unsqueeze(_count(beside, rows), -1) == _count(beside, columns)).to(beside.dtype)


def permutation(LU: Any, pivots: Any) -> Any:
    """The P of what `lu_factor` has taken apart: it puts rows back to where they were."""
    order = _order_of(pivots, LU.shape[-2])
    return (unsqueeze(_count(LU, LU.shape[-2]), -1) == unsqueeze(order, -2)).to(LU.dtype)
