"""What update rules are made of. Numbers are floats in eager mode and 0-d symbols in graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.graph.dtypes import float32
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import full, zeros_like

__all__ = ["choose", "counter", "decay", "lerp", "zeros"]


def zeros(param: Any, *names: str) -> dict[str, Any]:
    """State by these names, zeros like ``param``."""
    return {name: zeros_like(param) for name in names}


def counter(param: Any, start: float = 0.0) -> Any:
    """A number of the state of ``param``, such as the count of its steps."""
    return full.beside(param, shape=(), value=start, dtype=float32)


def decay(param: Any, grad: Any, hyper: Mapping[str, Any]) -> Any:
    """The gradient of the loss with the penalty ``weight_decay / 2 * param ** 2``."""
    return grad + hyper["weight_decay"] * param if "weight_decay" in hyper else grad


def lerp(old: Any, new: Any, weight: Any) -> Any:
    """A running average: ``old``, moved by ``weight`` of the way to ``new``."""
    return old + weight * (new - old)


def choose(condition: Any, a: Any, b: Any) -> Any:
    """``a`` if the number ``condition`` is true, else ``b``."""
    if isinstance(condition, bool):
        return a if condition else b
    return where(condition, a, b)
