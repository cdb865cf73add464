"""What PyTorch's optimisers say of how a step is run, and the step that the tape records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.errors import ArgumentError, AutogradError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import recording

__all__ = ["HOW", "is_recorded", "take_recorded_step"]

HOW = ("foreach", "fused", "capturable", "differentiable")
"""Arguments that no rule reads. A rule is compiled to one pass over the memory of a parameter in
any case, and in a program it is part of the graph, so the first three change nothing."""

Rule = Callable[
    [Any, Any, Mapping[str, Any], Mapping[str, Any]],
    tuple[Any, dict[str, Any]],
]


def is_recorded(name: str, how: Mapping[str, Any]) -> bool:
    """Whether the optimiser called ``name`` is ``differentiable``, of the arguments in `HOW` that
    it has. Raises `DTypeError` for one that is no bool, and `ArgumentError` for two that do not go
    together."""
    given = {
        n: as_bool(f"{name}: {n!r}", value)
        for n, value in how.items()
        if value is not None or n not in ("foreach", "fused")
    }
    if given.get("foreach") and given.get("fused"):
        raise ArgumentError(
            f"{name}: foreach=True and fused=True ask for two ways to run a step; give one of "
            f"them or none, since every update is fused here, at {format_locs(here())}"
        )
    return given.get("differentiable", False)


def take_recorded_step(
    name: str,
    rule: Rule,
    hyper: Mapping[str, Any],
    params: Sequence[Any],
    states: Sequence[Mapping[str, Any]],
) -> None:
    """Update ``params`` and their ``states`` by the ``rule`` in place, on the tape: gradients go
    back to the gradients, the values before and the tensors in ``hyper``.

    What the tape has kept of the old elements, as the forward of a layer does of its weight, is
    copied before. Raises `AutogradError`, before anything is changed, where a parameter is a leaf
    that requires a gradient.
    """
    for param in params:
        if param.is_leaf and param.requires_grad:
            called = f" {param.name!r}" if param.name else ""
            raise AutogradError(
                f"{name}: with differentiable=True a step is recorded, and the parameter{called} "
                f"of shape {list(param.shape)} is a leaf that requires a gradient, which a change "
                "in place would be lost to; give the optimiser its clone(), and compute the loss "
                f"of that, at {format_locs(here())}"
            )
    with recording(True):
        changes = []
        for param, state in zip(params, states, strict=True):
            value, after = rule(param, param._grad, state, hyper)
            changes += [(param, value), *((state[n], new) for n, new in after.items())]
        eager.copy_saved(changes)
        for tensor, value in changes:
            tensor._assign(value, what="step")
