"""What distributions of a few values share."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.activations import sigmoid
from staticflow.ops.basics.arithmetic import cast, clamp
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import log, log1p
from staticflow.ops.tensors.queries import finfo

__all__ = ["check_total_count", "clamp_probs", "log_odds_of", "probs_of", "values_along_first"]


def check_total_count(what: str, count: Any) -> int:
    """The number of trials, if it is one. Raises `ArgumentError` for anything else, which names
    ``what``, the class."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ArgumentError(
            f"{what}: total_count is {count!r}; it must be an integer, 0 or more, "
            f"at {format_locs(here())}"
        )
    return count


def clamp_probs(probs: Any) -> Any:
    """Probabilities so far from 0 and 1 that their logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return clamp(probs, eps, 1 - eps)


def probs_of(probs: Any, logits: Any) -> Any:
    """The probabilities of two values, which are given or, if they are None, whose ``logits``."""
    return sigmoid(logits) if probs is None else probs


def log_odds_of(probs: Any, logits: Any) -> Any:
    """``log(probs / (1 - probs))``, finite also for 0 and 1, unless that is given as ``logits``."""
    if logits is not None:
        return logits
    p = clamp_probs(probs)
    return log(p) - log1p(-p)


def values_along_first(
    beside: Any, count: Size, dtype: Any, batch: tuple[Size, ...], expanded: bool
) -> Any:
    """``0, 1, ..., count - 1`` along a first dim before those of the batch."""
    ones = (1,) * len(batch)
    values = iota.beside(beside, shape=(count, *ones), dim=0, dtype=int64)
    values = cast(values, dtype=dtype)
    return expand(values, (count, *batch)) if expanded else values
