"""Which of the inputs the model takes, and which its loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from staticflow.comparison.calls import NamedLoss
from staticflow.comparison.inputs import Input
from staticflow.errors import ArgumentError
from staticflow.nn.module import Module

__all__ = ["assign_inputs", "positional", "targets_of"]


def positional(function: Any) -> tuple[int, int, list[str]]:
    """How many arguments a function needs and how many it takes, and their names."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return 0, 10_000, []
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in plain)
    is_open = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return least, 10_000 if is_open else len(plain), [p.name for p in plain]


def targets_of(loss: Callable[..., Any] | None) -> list[str] | None:
    """The names of what a loss takes beside the output; None if it takes whatever is left."""
    if loss is None:
        return []
    if isinstance(loss, NamedLoss):
        return ["target"] * loss.targets
    function = loss.forward if isinstance(loss, Module) else loss
    least, most, names = positional(function)
    if most >= 10_000:
        return None
    return names[1 : max(least, 1)]


def assign_inputs(
    given: Sequence[Input],
    least: int,
    most: int,
    names: Sequence[str],
    wanted: list[str] | None,
    makes_target: bool = False,
) -> tuple[int, tuple[int, ...], list[Input]]:
    """How many inputs the model takes, which the loss takes, and the inputs, all with names.

    The model takes the first inputs: all but the last, as many as the loss asks for, if it can do
    without them, or else as many as it needs. The loss takes what it calls by the name of an input,
    or else the last, or nothing if all are the model's and its target is one that is made.
    """
    count = len(given)
    asked = 1 if wanted is None else len(wanted)
    takes = count - asked if count - asked >= least else min(count, max(least, 1))
    takes = min(takes, most)
    if count < least:
        raise ArgumentError(
            f"forward takes {', '.join(names[:least])}, but of inputs there are only {count}"
        )
    left = takes < count
    late = list(wanted or []) if left else []
    inputs = []
    used: set[str] = set()
    for i, each in enumerate(given):
        order = list(names[:takes]) if i < takes else late
        place = i if i < takes else i - (count - len(late))
        name = each.name or (order[place] if 0 <= place < len(order) else f"input{i}")
        while name in used:
            name += "_"
        used.add(name)
        inputs.append(replace(each, name=name))
    named = [x.name for x in inputs]
    if wanted and all(name in named for name in wanted):
        return takes, tuple(named.index(name) for name in wanted), inputs
    if wanted is None:
        return takes, tuple(range(takes, count)), inputs
    if makes_target and not left:
        return takes, (), inputs
    if len(wanted) > count:
        raise ArgumentError(
            f"the loss takes {', '.join(wanted)} beside the output, but of inputs there are only "
            f"{count} for all"
        )
    if wanted and not left:
        raise ArgumentError(
            f"the loss takes {', '.join(wanted)} beside the output, but the model takes all "
            f"inputs ({', '.join(named)}); give one input more, or name those alike"
        )
    if left and takes + len(wanted) < count:
        raise ArgumentError(
            f"there are {count} inputs: the model takes {takes} of them and the loss {len(wanted)}"
            ", so that some would not be used"
        )
    return takes, tuple(range(count - len(wanted), count)), inputs
