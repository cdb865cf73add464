"""Random numbers, which are those of the generator here, whatever seed a file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.eager.creation import full
from staticflow.graph.dtypes import bool_
from staticflow.onnx.reading.rows.elementwise import dtype_wanted
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.values import one
from staticflow.ops.along.softmax import softmax
from staticflow.ops.basics.arithmetic import lt, mul
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.creation import ones_like, zeros_like
from staticflow.ops.elementwise.variants import add
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.random.sampling import multinomial, rand_like, randn_like

__all__ = ["RANDOM"]


def _dropout(
    x: Any, *, ratio: Any = 0.5, training_mode: Any = 0, is_test: int = 1, outputs: int
) -> Any:
    rate = 0.5 if ratio is None else float(one(ratio))
    if not bool(one(training_mode or 0)) or rate == 0:
        kept = cast(ones_like(x), bool_)
        return (x, kept)[:outputs]
    if not 0 <= rate <= 1:
        raise ValueError(f"the ratio {rate} does not lie in [0, 1]")
    kept = lt(rand_like(x), 1 - rate)
    scaled = mul(x, 1 / (1 - rate)) if rate < 1 else x
    return (where(kept, scaled, zeros_like(x)), kept)[:outputs]


def _of(dtype: int | None, x: Any) -> Any:
    return x if dtype is None else cast(x, dtype_wanted(dtype))


def _uniform_like(x: Any, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0) -> Any:
    return add(mul(rand_like(_of(dtype, x)), high - low), low)


def _normal_like(x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0) -> Any:
    return add(mul(randn_like(_of(dtype, x)), scale), mean)


def _empty(shape: Sequence[int], dtype: int) -> Any:
    return full(tuple(shape), 0, dtype=dtype_wanted(dtype))


def _multinomial(x: Any, *, sample_size: int = 1, dtype: int = 6) -> Any:
    found = multinomial(softmax(x, 1), sample_size, True)
    return cast(found, dtype_wanted(dtype))


RANDOM: Mapping[str, Row] = {
    "Dropout": row(_dropout, static="ratio training_mode", ignored="seed"),
    "Multinomial": row(_multinomial, ignored="seed"),
    "RandomNormal": row(
        lambda *, shape, dtype=1, mean=0.0, scale=1.0: _normal_like(
            _empty(shape, dtype), mean=mean, scale=scale
        ),
        ignored="seed",
    ),
    "RandomNormalLike": row(_normal_like, ignored="seed"),
    "RandomUniform": row(
        lambda *, shape, dtype=1, high=1.0, low=0.0: _uniform_like(
            _empty(shape, dtype), high=high, low=low
        ),
        ignored="seed",
    ),
    "RandomUniformLike": row(_uniform_like, ignored="seed"),
}
"""Rows by operator."""
