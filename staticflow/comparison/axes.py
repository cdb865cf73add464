"""The axes of a sweep: sizes by name, each with its values."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.errors import ArgumentError

__all__ = ["Axes", "grid", "parse_axes", "split_axes"]

Axes = Mapping[str, Sequence[int]]

MOST_POINTS = 256
_AXIS = re.compile(r"([A-Za-z_]\w*)=(\d+(?:,\d+)*)")


def parse_axes(text: str) -> dict[str, tuple[int, ...]]:
    """The values of each size in words such as ``batch=1,8,64 width=16,256``, in ascending order.

    Raises `ArgumentError` for anything else, for a value below 1, and for more than 256 settings.

    >>> parse_axes("batch=1,64,8 width=16")
    {'batch': (1, 8, 64), 'width': (16,)}
    """
    axes: dict[str, tuple[int, ...]] = {}
    for word in text.split():
        match = _AXIS.fullmatch(word)
        if match is None:
            raise ArgumentError(
                f"the sweep has {word!r}; write a name and numbers, such as batch=1,8,64"
            )
        name, values = match[1], {int(value) for value in match[2].split(",")}
        if name in axes:
            raise ArgumentError(f"the sweep has {name} twice; write all its numbers in one place")
        if min(values) < 1:
            raise ArgumentError(f"the sweep has {name}=0; sizes are 1 or more")
        axes[name] = tuple(sorted(values))
    if not axes:
        raise ArgumentError("the sweep is empty; write a name and numbers, such as batch=1,8,64")
    if len(grid(axes)) > MOST_POINTS:
        raise ArgumentError(
            f"the sweep has {len(grid(axes))} settings; {MOST_POINTS} are the most that are timed"
        )
    return axes


def split_axes(
    axes: Axes, open_sizes: Mapping[str, int], make: Callable[..., Any]
) -> tuple[dict[str, Sequence[int]], dict[str, Sequence[int]]]:
    """The axes that are open sizes of the inputs, and those that are arguments of ``make``.

    Raises `ArgumentError`, which says what there is, for an axis that is neither.
    """
    named = _arguments_of(make)
    opened = {name: values for name, values in axes.items() if name in open_sizes}
    given = {name: values for name, values in axes.items() if name not in open_sizes}
    for name in given:
        if name not in named:
            raise ArgumentError(
                f"nothing is called {name}; the sweep takes open sizes of the inputs "
                f"({', '.join(open_sizes) or 'there are none'}) and arguments of the model "
                f"({', '.join(named) or 'it has none'})"
            )
    return opened, given


def _arguments_of(make: Callable[..., Any]) -> list[str]:
    """The arguments that a function or class takes by name."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # a built-in
        return []
    return [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]


def grid(axes: Axes) -> list[dict[str, int]]:
    """Every setting of the axes, the last one changing fastest.

    >>> grid({"batch": (1, 8), "width": (16, 32)})[:3]
    [{'batch': 1, 'width': 16}, {'batch': 1, 'width': 32}, {'batch': 8, 'width': 16}]
    """
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
