"""Factors of matrices. What is compared does not depend on the signs of vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import Array, Failure, OpInfo, Sample
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, float32, float64
from staticflow.ops import OPS

__all__ = ["ROWS"]


def _spread(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Matrices whose singular values lie apart."""
    rng = np.random.default_rng(seed + sum(shape))
    m, n = shape[-2:]
    x = rng.standard_normal(shape)
    for k in range(min(m, n)):
        x[..., k, k] += 3 * (k + 1)
    return x.astype(dtype.numpy)


def _of(*shapes: tuple[int, ...]) -> Callable[[DType, bool], Iterator[Sample]]:
    return lambda dtype, smooth: (Sample((_spread(s, dtype),)) for s in shapes)


_REFUSED = (
    Failure(Sample((np.zeros(3, "f4"),)), ShapeError, "is no matrix"),
    Failure(Sample((np.eye(2, dtype="i8"),)), DTypeError, "float32 or float64"),
)
_CLOSE: dict[str, Any] = {"ulps": 256, "absolute": 256, "zeros": False}


def _wide(of: Callable[[Array], tuple[Array, ...]]) -> Callable[[Array], tuple[Array, ...]]:
    return lambda x: tuple(v.astype(x.dtype) for v in of(x.astype(np.float64)))


def _sized(dtype: DType, n: int) -> Sample:
    return Sample((_spread((n, 3, 3), dtype),))


def _qr(x: Any) -> Any:
    q, r = OPS["qr"](x, complete=False)
    return q * q, r * r, q @ r


def _qr_expected(x: Array) -> tuple[Array, ...]:
    q, r = np.linalg.qr(x)
    return q * q, r * r, x


def _eigh(x: Any) -> Any:
    values, vectors = sf.linalg.eigh((x + x.mT) / 2 if x.ndim > 1 and x.dtype.is_floating else x)
    return values, vectors * vectors


def _eigh_expected(x: Array) -> tuple[Array, ...]:
    values, vectors = np.linalg.eigh((x + np.swapaxes(x, -1, -2)) / 2)
    return values, vectors * vectors


def _eigvalsh(x: Any) -> Any:
    return sf.linalg.eigvalsh((x + x.mT) / 2 if x.ndim > 1 and x.dtype.is_floating else x)


def _quarters(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 2, 2)):
        yield Sample((_spread(shape, dtype) / 4,))


def _exp_expected(x: Array) -> tuple[Array, ...]:
    """The series of the exponential of a 64th part, squared six times."""
    term = total = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for k in range(1, 30):
        term = term @ x / 64 / k
        total = total + term
    for _ in range(6):
        total = total @ total
    return (total,)


def _svd(x: Any) -> Any:
    u, s, vh = sf.linalg.svd(x, full_matrices=False)
    return u * u, s, vh * vh, (u * s.unsqueeze(-2)) @ vh


def _svd_expected(x: Array) -> tuple[Array, ...]:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return u * u, s, vh * vh, x


def _least_squares(a: Any, b: Any) -> Any:
    return OPS["least_squares"](a, b, rcond=None)


def _least_squares_expected(a: Array, b: Array) -> tuple[Array, ...]:
    q, r = np.linalg.qr(a.astype(np.float64))
    x = np.linalg.solve(r, np.swapaxes(q, -1, -2) @ b.astype(np.float64))
    left = ((b - a.astype(np.float64) @ x) ** 2).sum(-2)
    return *(v.astype(a.dtype) for v in (x, left, r)), np.ones(a.shape[:-2], bool)


ROWS = (
    OpInfo(
        OPS["least_squares"], _least_squares, _least_squares_expected,
        lambda dtype, smooth: (
            Sample((_spread(s, dtype), _spread((*s[:-1], 2), dtype, 1)))
            for s in ((3, 3), (4, 2), (2, 3, 2), (1, 1), (0, 2, 2))
        ),
        (float32, float64), grad=True,
        sized=lambda dtype, n: Sample((_spread((n, 3, 3), dtype), _spread((n, 3, 2), dtype, 1))),
        failures=(
            Failure(Sample((np.ones((3, 2), "f4"), np.ones((2, 1), "f4"))), ShapeError, "the rows"),
            Failure(Sample((np.ones((3, 2), "f4"), np.ones((3, 1)))), DTypeError, "different"),
        ),
        **_CLOSE,
    ),
    OpInfo(
        OPS["qr"], _qr, _wide(_qr_expected), _of((3, 3), (4, 2), (2, 3, 2), (1, 1), (0, 2, 2)),
        (float32, float64), grad=True, sized=_sized, failures=_REFUSED, **_CLOSE,
    ),
    OpInfo(
        OPS["eigh"], _eigh, _wide(_eigh_expected), _of((3, 3), (2, 2, 2), (1, 1), (0, 2, 2)),
        (float32, float64), grad=True, sized=_sized,
        failures=(
            Failure(Sample((np.zeros((2, 3), "f4"),)), ShapeError, "differ"), *_REFUSED,
        ),
        **_CLOSE,
    ),
    OpInfo(
        OPS["matrix_exp"], sf.matrix_exp, _wide(_exp_expected), _quarters, (float32, float64),
        grad=True, sized=lambda dtype, n: Sample((_spread((n, 3, 3), dtype) / 4,)),
        failures=(
            Failure(Sample((np.zeros((2, 3), "f4"),)), ShapeError, "differ"), *_REFUSED,
        ),
        **_CLOSE,
    ),
    OpInfo(
        OPS["eigvalsh"], _eigvalsh, _wide(lambda x: _eigh_expected(x)[:1]),
        _of((3, 3), (2, 2, 2), (1, 1), (0, 2, 2)), (float32, float64), grad=True, sized=_sized,
        failures=(
            Failure(Sample((np.zeros((2, 3), "f4"),)), ShapeError, "differ"), *_REFUSED,
        ),
        **_CLOSE,
    ),
    OpInfo(
        OPS["svdvals"], sf.linalg.svdvals, _wide(lambda x: _svd_expected(x)[1:2]),
        _of((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 2, 2)),
        (float32, float64), grad=True, sized=_sized, failures=_REFUSED, **_CLOSE,
    ),
    OpInfo(
        OPS["svd"], _svd, _wide(_svd_expected),
        _of((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 2, 2)),
        (float32, float64), grad=True, sized=_sized, failures=_REFUSED, **_CLOSE,
    ),
)  # fmt: skip
