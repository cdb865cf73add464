"""What distributions of a few values share."""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.ops.basics.arithmetic import cast, clamp
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import expand
from staticflow.ops.tensors.queries import finfo

__all__ = ["clamp_probs", "values_along_first"]


def clamp_probs(probs: Any) -> Any:
    """Probabilities so far from 0 and 1 that their logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return clamp(probs, eps, 1 - eps)


def values_along_first(
    beside: Any, count: Size, dtype: Any, batch: tuple[Size, ...], expanded: bool
) -> Any:
    """``0, 1, ..., count - 1`` along a first dim before those of the batch."""
    ones = (1,) * len(batch)
    values = iota.beside(beside, shape=(count, *ones), dim=0, dtype=int64)
    values = cast(values, dtype=dtype)
    return expand(values, (count, *batch)) if expanded else values
