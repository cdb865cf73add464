"""Linear equations, determinants, the factors L and U, Cholesky's factor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, LinAlgError, ShapeError
from staticflow.graph.dims import same
from staticflow.graph.dtypes import DType, float32, float64, int32, int64
from staticflow.ops import OPS

__all__ = ["ROWS"]

_SHAPES = ((1, 1), (3, 3), (2, 3, 3), (0, 0), (2, 0, 0), (0, 2, 2))


def _regular(shape: tuple[int, ...], dtype: DType) -> Array:
    """Matrices far from singular; a row that is largest elsewhere wants pivots."""
    x = values(shape, dtype, -1, 1) + 3 * np.eye(shape[-1])
    return np.ascontiguousarray(x[..., ::-1, :]).astype(dtype.numpy)


def _definite(shape: tuple[int, ...], dtype: DType) -> Array:
    x = values(shape, dtype, -1, 1)
    return (x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1])).astype(dtype.numpy)


def _solve_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in _SHAPES:
        yield Sample((_regular(shape, dtype), values((*shape[:-1], 2), dtype)))
    yield Sample((_regular((3, 3), dtype).T, values((3,), dtype)))
    yield Sample((_regular((3, 3), dtype), values((2, 3, 1), dtype)))


def _solved(a: Array, b: Array) -> Array:
    columns = b[:, None] if b.ndim == 1 else b
    out = np.linalg.inv(a.astype(np.float64)) @ columns.astype(np.float64)
    return (out[:, 0] if b.ndim == 1 else out).astype(a.dtype)


def _factors(a: Array) -> tuple[Array, Array]:
    """L and U by rows, in float64, of the rows that are exchanged one by one."""
    x, least = a.astype(np.float64), min(a.shape[-2:])
    pivots = np.zeros((*a.shape[:-2], least), np.int32)
    for b in np.ndindex(*a.shape[:-2]):
        for k in range(least):
            at = k + int(np.abs(x[b][k:, k]).argmax())
            pivots[b][k] = at + 1
            x[b][[k, at]] = x[b][[at, k]]
            for row in x[b][k + 1 :]:
                row[k] /= x[b][k, k]
                row[k + 1 :] -= row[k] * x[b][k, k + 1 :]
    return x.astype(a.dtype), pivots


def _rows_after(partners: Array, *, size: int) -> Array:
    order = np.tile(np.arange(size), (*partners.shape[:-1], 1))
    for b in np.ndindex(*partners.shape[:-1]):
        for k, other in enumerate(partners[b]):
            order[b][[k, other]] = order[b][[other, k]]
    return order


_REFUSED = (
    Failure(Sample((np.zeros((2, 3), "f4"),)), ShapeError, "2 and 3 differ"),
    Failure(Sample((np.zeros(3, "f4"),)), ShapeError, "is no matrix"),
    Failure(Sample((np.eye(2, dtype="i8"),)), DTypeError, "float32 or float64"),
)

_SOLVE = OpInfo(
    OPS["solve"], sf.linalg.solve, _solved, _solve_samples, (float32, float64), grad=True,
    sized=lambda dtype, n: Sample((_regular((3, 3), dtype), values((3, n), dtype))),
    failures=(
        Failure(Sample((np.ones((2, 2), "f4"), np.ones((2, 1), "f4"))), LinAlgError, "Singular",
                eager=True),
        Failure(Sample((np.ones((2, 2), "f4"), np.ones((3, 1), "f4"))), ShapeError, "the rows of"),
    ),
    ulps=64, absolute=64, zeros=False,
)  # fmt: skip


def _triangular(upper: bool) -> OpInfo:
    """The row of systems whose upper or lower part is read."""
    part = np.triu if upper else np.tril

    def call(a: Any, b: Any) -> Any:
        columns = b if b.ndim > 1 else b.unsqueeze(-1)
        return sf.linalg.solve_triangular(a, columns, upper=upper)

    return OpInfo(
        OPS["solve_upper" if upper else "solve_lower"], call,
        lambda a, b: _solved(part(a), b if b.ndim > 1 else b[:, None]),
        lambda dtype, smooth: (
            Sample((_regular(shape, dtype)[..., ::-1, :], values((*shape[:-1], columns), dtype)))
            for shape in (*_SHAPES, *(() if smooth else ((2, 18, 18),)))
            for columns in (1, 2, 5)
        ),
        (float32, float64), grad=True,
        sized=lambda dtype, n: Sample((_regular((3, 3), dtype)[::-1], values((3, n), dtype))),
        failures=(
            Failure(Sample((np.ones((2, 2), "f4") - np.eye(2, dtype="f4"), np.ones((2, 1), "f4"))),
                    LinAlgError, "ingular", eager=True),
        ),
        ulps=64, absolute=64, zeros=False,
    )  # fmt: skip


_SLOGDET = OpInfo(
    OPS["slogdet"], lambda x: tuple(OPS["slogdet"](x)),
    lambda x: tuple(
        np.asarray(v, x.dtype)
        for v in (*np.linalg.slogdet(x.astype(np.float64)), np.linalg.det(x.astype(np.float64)))
    ),
    lambda dtype, smooth: (Sample((_regular(s, dtype),)) for s in _SHAPES),
    (float32, float64), grad=True, failures=_REFUSED,
    sized=lambda dtype, n: Sample((_regular((n, 3, 3), dtype),)),
    ulps=64, absolute=64, zeros=False,
)  # fmt: skip


_LU = OpInfo(
    OPS["lu"], lambda x: tuple(sf.linalg.lu_factor(x)), _factors,
    lambda dtype, smooth: (
        Sample((np.ascontiguousarray(_regular((*b, 4, 4), dtype)[..., :m, :n]),))
        for b in ((), (2,), (2, 0)) for m, n in ((1, 1), (3, 3), (3, 4), (4, 2), (0, 2))
    ),
    (float32, float64), grad=True,
    failures=(
        Failure(Sample((np.zeros(3, "f4"),)), ShapeError, "takes matrices"),
        Failure(Sample((np.eye(2, dtype="i8"),)), DTypeError, "takes matrices"),
    ),
    sized=lambda dtype, n: Sample((_regular((n, 3, 3), dtype),)),
    ulps=64, absolute=64, zeros=False,
)  # fmt: skip

_ROW_ORDER = OpInfo(
    OPS["row_order"], lambda partners, *, size: OPS["row_order"](partners, size=size), _rows_after,
    lambda dtype, smooth: (
        Sample((values(shape, dtype, 0, 3),), {"size": size})
        for shape, size in (((3,), 4), ((4,), 4), ((2, 3), 5), ((0,), 3), ((2, 0, 3), 4))
    ),
    (int32, int64), grad=False,
    failures=(
        Failure(Sample((np.array([0, 4], "i4"),), {"size": 3}), IndexError, "outside", eager=True),
        Failure(Sample((np.array([0, 1], "i4"),), {"size": 1}), ShapeError, "the partners"),
    ),
    sized=lambda dtype, n: Sample((values((n, 3), dtype, 0, 3),), {"size": 4}),
)  # fmt: skip


def _symmetric(x: Any) -> Any:
    """So that finite differences stay among symmetric matrices."""
    return sf.linalg.cholesky((x + x.mT) / 2) if x.dtype.is_floating and x.ndim > 1 and \
        same(*x.shape[-2:]) else sf.linalg.cholesky(x)  # fmt: skip


_CHOLESKY = OpInfo(
    OPS["cholesky"], _symmetric, lambda x: np.linalg.cholesky(x.astype(np.float64)).astype(x.dtype),
    lambda dtype, smooth: (Sample((_definite(s, dtype),)) for s in _SHAPES),
    (float32, float64), grad=True,
    sized=lambda dtype, n: Sample((_definite((n, 3, 3), dtype),)),
    failures=(
        *_REFUSED,
        Failure(Sample((-np.eye(2, dtype="f4"),)), LinAlgError, "positive definite", eager=True),
    ),
    ulps=64, absolute=64, zeros=False,
)  # fmt: skip

ROWS = (
    _SOLVE,
    _triangular(upper=True),
    _triangular(upper=False),
    _SLOGDET,
    _LU,
    _ROW_ORDER,
    _CHOLESKY,
)
