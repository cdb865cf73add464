"""Least squares: by reflections where the columns are independent, else by singular values."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.dims import closed_size, is_provably_ge, same
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.expand import common_shape
from staticflow.ops.declaring.required import require_true
from staticflow.ops.declaring.sizes import is_symbolic
from staticflow.ops.loops.cond import cond
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.factors import is_some, svd
from staticflow.ops.matrices.singular_values import above_tolerance, pseudoinverse
from staticflow.ops.matrices.solving import columns_of, in_batches, is_of_vectors
from staticflow.ops.matrices.tall_systems import least_squares_op

__all__ = ["LeastSquares", "lstsq"]

_Found = tuple[Any, Any, Any, Any]
"""Solutions, the sums of squares that are left, ranks, and whether all of these are full."""

_BY_VALUES = ("gelsd", "gelss")
_DRIVERS = (None, "gels", "gelsy", *_BY_VALUES)


class LeastSquares(NamedTuple):
    """What `lstsq` gives."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


@by_autocast
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """The X for which ``A @ X`` is nearest to ``B`` (..., m, k), the smallest one of several; with
    the sums of squares that are left, where ``A`` (..., m, n) has more rows than columns and full
    rank, with its rank, and with its singular values if the ``driver`` is "gelsd" or "gelss", else
    without any.

    Other drivers, "gelsy", "gels" and None, do the same: they take an orthogonal factor where it
    tells that the rank is full, and else singular values, as those two do at once.

    >>> import staticflow as sf
    >>> sf.linalg.lstsq(sf.tensor([[1.0], [1.0]]), sf.tensor([[1.0], [3.0]])).solution
    tensor([[2.0000]])
    """
    if driver not in _DRIVERS:
        raise ArgumentError(
            f'lstsq: driver is None, "gels", "gelsy", "gelsd" or "gelss", not {driver!r}, at '
            f"{format_locs(here())}"
        )
    if A.dtype is not B.dtype:
        raise DTypeError(
            f"lstsq: A is of {A.dtype.name} and B of {B.dtype.name}; both must be of one dtype: "
            f"convert one, as in B.to(A.dtype), at {format_locs(here())}"
        )
    vectors = is_of_vectors(A, B)
    right = columns_of(A, B, "lstsq") if vectors else B
    if driver in _BY_VALUES:
        (x, squares, rank, full), s = _by_singular_values(A, right, rcond)
    else:
        (x, squares, rank, full), s = _by_reflections(A, right, rcond), A.new_empty(0)
    residuals = _residuals(A, full, squares)
    return LeastSquares(x.squeeze(-1) if vectors else x, residuals, rank, s)


def _by_singular_values(A: Any, right: Any, rcond: Any) -> tuple[_Found, Any]:
    """The solution, the sums of its squared residuals for each right side, the ranks, and whether
    all are full, as the singular values of A (..., m, n) say; and these values."""
    factors = svd(A, False)
    kept = above_tolerance(factors.S, A, rcond, None)
    x = matmul(pseudoinverse(A, factors, kept), right)
    left = matmul(A, x) - right
    rank = kept.sum(-1)
    return (x, (left * left).sum(-2), rank, (rank == A.shape[-1]).all()), factors.S


def _by_reflections(A: Any, right: Any, rcond: Any) -> _Found:
    """The solution, the sums of its squared residuals for each right side, the ranks, and whether
    all are full: by Householder reflections of A where these tell for sure that the columns of all
    matrices are independent, else by singular values."""

    def by_values() -> _Found:
        return _by_singular_values(A, right, rcond)[0]

    if not (rcond is None or isinstance(rcond, int | float)) or not _may_be_full(A, right):
        return by_values()
    x, squares, _, each_full = least_squares_op(*in_batches(A, right), rcond=rcond)
    full = each_full.all()

    def by_reflections() -> _Found:
        return x, squares, new_full(A, A.shape[:-2], A.shape[-1], dtype=int64), full

    if is_symbolic(full):
        return cast("_Found", cond(full, by_reflections, by_values))
    return by_reflections() if full else by_values()


def _may_be_full(A: Any, right: Any) -> bool:
    """Whether there may be as many rows as columns, and right sides for each matrix."""
    if A.ndim < 2:
        return False  # which is refused
    rows, columns = map(closed_size, A.shape[-2:])
    batch = common_shape([A.shape[:-2], right.shape[:-2]], "lstsq")
    alike = len(batch) == A.ndim - 2 and all(map(same, batch, A.shape[:-2]))
    return alike and not is_provably_ge(columns, rows + 1)


def _residuals(A: Any, full: Any, squares: Any) -> Any:
    """The ``squares`` that are left, or nothing unless there are more rows than columns and all
    ranks are ``full``. In a graph, only whose run can tell, the run ends in an error instead."""
    rows, columns = map(closed_size, A.shape[-2:])
    if is_provably_ge(columns, rows):
        return squares.new_empty(0)
    if not is_symbolic(full):
        return squares if full else squares.new_empty(0)
    if not is_provably_ge(rows, columns + 1):
        full = full & is_some(rows - columns, squares)
    return require_true(squares, full, _DEFICIENT)


_DEFICIENT = (
    "lstsq: the residuals are used in a graph, where they are those of full rank, and a matrix has "
    "no full rank, or no more rows than columns; compute ((A @ X - B) ** 2).sum(-2), which holds "
    "for any"
)
