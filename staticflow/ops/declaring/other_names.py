"""Arguments by the names that others have for them: NumPy's, and those that PyTorch has left."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from staticflow.graph.locs import format_locs, here, warn
from staticflow.ops.declaring.thread import thread

__all__ = ["NUMPY_NAMES", "refuse_twice", "with_own_names"]

NUMPY_NAMES: Mapping[str, str] = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction"}
"""PyTorch's names of arguments, which functions have, by NumPy's."""

_LEFT = ("size_average", "reduce")
"""What losses took before they took a ``reduction``."""


def with_own_names(fn: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call of ``fn`` by the names that it has. Those that PyTorch has left are
    taken with a warning, as there, and say nothing where they are None."""
    if given.keys().isdisjoint((*NUMPY_NAMES, *_LEFT)):
        return {**given}
    known = inspect.signature(fn).parameters
    own = {
        own if name not in known and (own := NUMPY_NAMES.get(name, name)) in known else name: value
        for name, value in given.items()
    }
    if len(own) < len(given):
        refuse_twice(fn, given)
    if "reduction" in known and not known.keys() & {*_LEFT} and own.keys() & {*_LEFT}:
        average, reduce = (own.pop(name, None) for name in _LEFT)
        if average is None and reduce is None:  # as code passes them on that names all arguments
            return own
        found = "none" if reduce in (False, 0) else "sum" if average in (False, 0) else "mean"
        thread.state.note_more()
        warn(f"size_average and reduce are no longer used; use reduction={found!r}")
        own["reduction"] = found
    return own


def refuse_twice(fn: Callable[..., Any], given: Mapping[str, Any]) -> NoReturn:
    """Say that an argument has two values, by two names, as Python says it of one name."""
    name = next(NUMPY_NAMES[n] for n in given if NUMPY_NAMES.get(n) in given)
    raise TypeError(
        f"{fn.__name__}() got multiple values for argument {name!r}, at {format_locs(here())}"
    )
