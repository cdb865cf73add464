"""Normalisation, by its formula in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opinfo.core import FLOATS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.nn import functional as F
from staticflow.ops import OPS

__all__ = ["ROWS"]

Shape = tuple[int, ...]


def _standard(x: Array, axes: Shape, eps: float) -> Array:
    """Mean 0 and variance 1 over ``axes``."""
    wide = x.astype(np.float64)
    mean = np.add.reduce(wide, axes, keepdims=True) / np.prod([x.shape[a] for a in axes])
    with np.errstate(all="ignore"):
        var = np.mean((wide - mean) ** 2, axes, keepdims=True)
        return np.asarray((wide - mean) / np.sqrt(var + eps))


def _affine(z: Array, x: Array, layout: Shape, weight: Any, bias: Any) -> Array:
    if weight is not None:
        z = z * weight.astype(np.float64).reshape(layout)
    if bias is not None:
        z = z + bias.astype(np.float64).reshape(layout)
    return z.astype(x.dtype)


def _layer_norm(
    x: Array, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Array:
    own = (shape,) if isinstance(shape, int) else shape
    axes = tuple(range(x.ndim - len(own), x.ndim))
    return _affine(_standard(x, axes, eps), x, own, weight, bias)


def _channels(x: Array) -> Shape:
    return (x.shape[1], *(1,) * (x.ndim - 2))


def _batch_norm(x: Array, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
    axes = (0, *range(2, x.ndim))
    return _affine(_standard(x, axes, eps), x, _channels(x), weight, bias)


def _group_norm(
    x: Array, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Array:
    seen = x.reshape(x.shape[0], groups, int(np.prod(x.shape[1:])) // groups)
    return _affine(_standard(seen, (2,), eps).reshape(x.shape), x, _channels(x), weight, bias)


def _training(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return F.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


def _given(dtype: DType, shape: Shape, number: int) -> tuple[Any, ...]:
    """No weight, a weight, or both, in turn."""
    both = (values(shape, dtype, 0.5, seed=1), values(shape, dtype, 1, seed=2))
    return both[: number % 3]


def _spread_out(shape: Shape, dtype: DType) -> Array:
    """No two elements alike, so that no variance is near 0."""
    count = int(np.prod(shape))
    order = np.random.default_rng(count).permutation(count)
    return (order.reshape(shape) / max(count, 1) * 4 - 1.5).astype(dtype.numpy)


def _layer_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    cases: tuple[tuple[Shape, Any], ...] = (
        ((3, 4), 4), ((5,), 5), ((2, 3, 4), (3, 4)), ((0, 4), 4), ((2, 3, 5), 5), ((4, 1), 1),
    )  # fmt: skip
    for number, (shape, own) in enumerate(cases):
        weights = _given(dtype, (own,) if isinstance(own, int) else own, number)
        yield Sample((_spread_out(shape, dtype), own, *weights))
    yield Sample((_spread_out((4, 3), dtype).T, 4), {"eps": 0.5})
    if not smooth:
        x = values((4, 37), dtype)
        x[1] = 2.0
        x[2, 3], x[3, 5] = np.nan, np.inf
        yield Sample((x, 37, *_given(dtype, (37,), 2)))


_WITH_CHANNELS: tuple[Shape, ...] = ((3, 4), (2, 2, 5), (2, 4, 3, 2), (3, 2, 2, 2, 2), (4, 2, 1))


def _batch_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for number, shape in enumerate(_WITH_CHANNELS):
        weights = _given(dtype, shape[1:2], number)
        yield Sample((_spread_out(shape, dtype), *weights))
    yield Sample((_spread_out((4, 2, 6), dtype)[::2, :, ::-1],), {"eps": 0.5})
    if not smooth:
        x = values((3, 3, 5, 7), dtype)
        x[:, 0], x[1, 1, 2, 3] = 1.0, np.nan
        yield Sample((x, *_given(dtype, (3,), 2)))


def _group_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for number, shape in enumerate((*_WITH_CHANNELS, (0, 4, 2))):
        for groups in (1, 2):
            weights = _given(dtype, shape[1:2], number + groups)
            yield Sample((_spread_out(shape, dtype), groups, *weights))
    yield Sample((_spread_out((2, 4, 6), dtype)[:, :, ::-1], 4), {"eps": 0.5})


def _refused(error: type[Exception], says: str, *args: Any, **kwargs: Any) -> Failure:
    return Failure(Sample(args, kwargs), error, says)


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, "f4")


def _row(name: str, call: Any, expect: Callable[..., Array], samples: Any, **row: Any) -> OpInfo:
    return OpInfo(
        OPS[name],
        call,
        expect,
        samples,
        FLOATS,
        grad=True,
        ulps=64,
        absolute=64,
        zeros=False,
        **row,
    )


ROWS = (
    _row(
        "layer_norm", F.layer_norm, _layer_norm, _layer_samples,
        sized=lambda dtype, n: Sample((_spread_out((n, 4), dtype), 4, *_given(dtype, (4,), 2))),
        failures=(
            _refused(ShapeError, "does not end in [3]", _zeros(2, 4), 3),
            _refused(ShapeError, "does not end in [2, 4, 1]", _zeros(2, 4), (2, 4, 1)),
            _refused(ShapeError, "3 and 4 differ", _zeros(2, 4), 4, _zeros(3)),
            _refused(DTypeError, "the weight or bias f64", _zeros(2, 4), 4, np.zeros(4)),
            _refused(DTypeError, "int64", np.zeros((2, 4), int), 4),
        ),
    ),
    _row(
        "batch_norm", _training, _batch_norm, _batch_samples,
        sized=lambda dtype, n: Sample(
            (_spread_out((3, n, 4), dtype), values((n,), dtype), values((n,), dtype, seed=1))
        ),
        failures=(
            _refused(ShapeError, "one element in each channel", _zeros(1, 4)),
            _refused(ShapeError, "an input (N, C, ...)", _zeros(4)),
            _refused(ShapeError, "of shape [3], must be (C,)", _zeros(2, 4), _zeros(3)),
        ),
    ),
    _row(
        "group_norm", F.group_norm, _group_norm, _group_samples,
        sized=lambda dtype, n: Sample((_spread_out((n, 4, 3), dtype), 2, *_given(dtype, (4,), 2))),
        failures=(
            _refused(ShapeError, "into 3 equal groups", _zeros(2, 4), 3),
            _refused(ShapeError, "of shape [3], must be (C,)", _zeros(2, 4), 2, _zeros(3)),
        ),
    ),
)  # fmt: skip
