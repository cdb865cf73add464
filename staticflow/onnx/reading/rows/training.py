"""Updates of tensors by their gradients, and two operators of classical learning on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.onnx.reading.rows.row import Row, row
from staticflow.ops.basics.arithmetic import gt
from staticflow.ops.basics.casting import cast
from staticflow.ops.elementwise.maths import sqrt
from staticflow.ops.indexing.data_dependent import where

__all__ = ["TRAINING"]


def _groups(xs: Sequence[Any], each: int) -> list[tuple[Any, ...]]:
    """Each tensor with its gradient and its states, of which all stand kind by kind in ``xs``."""
    count = len(xs) // each
    return list(zip(*(xs[i * count : (i + 1) * count] for i in range(each)), strict=True))


def _in_order(updated: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The new values kind by kind: all tensors first, then their states."""
    return tuple(value for column in zip(*updated, strict=True) for value in column)


def _adagrad(
    R: Any, T: Any, *xs: Any,
    decay_factor: float = 0.0, epsilon: float = 1e-6, norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    rate = R / (1 + cast(T, R.dtype) * decay_factor)
    found = []
    for x, g, h in _groups(xs, 3):
        g = norm_coefficient * x + g
        h = h + g * g
        found.append((x - rate * g / (sqrt(h) + epsilon), h))
    return _in_order(found)


def _adam(
    R: Any, T: Any, *xs: Any,
    alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    times = cast(T, R.dtype)
    corrected = R * sqrt(1 - beta**times) / (1 - alpha**times)
    rate = where(gt(T, 0), corrected, R)
    found = []
    for x, g, v, h in _groups(xs, 4):
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        x = x - rate * v / (sqrt(h) + epsilon)
        found.append(((1 - norm_coefficient_post) * x, v, h))
    return _in_order(found)


def _momentum(
    R: Any, T: Any, *xs: Any, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    found = []
    for x, g, v in _groups(xs, 3):
        g = norm_coefficient * x + g
        v = alpha * v + where(gt(T, 0), beta * g, g)
        step = g + alpha * v if mode == "nesterov" else v
        found.append((x - R * step, v))
    return _in_order(found)


def _binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return cast(gt(x, threshold), x.dtype)


def _array_feature_extractor(x: Any, y: Any) -> Any:
    found = x[..., y.reshape(-1)]
    return found.reshape(1, -1) if x.ndim == 1 else found


TRAINING: Mapping[str, Row] = {
    "ai.onnx.preview.training.Adagrad": row(_adagrad),
    "ai.onnx.preview.training.Adam": row(_adam),
    "ai.onnx.preview.training.Momentum": row(_momentum),
    "ai.onnx.ml.ArrayFeatureExtractor": row(_array_feature_extractor),
    "ai.onnx.ml.Binarizer": row(_binarizer),
}
"""The row of each of these, by its name."""
