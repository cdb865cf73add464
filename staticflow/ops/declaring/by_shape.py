"""Functions of tensors that look at their shapes and dtypes only.

Which ops such a function comes to, and with which attributes, follows from these, from the strides
and from its further arguments, so the eager mode may remember it (`staticflow.eager.fast.plans`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from staticflow.data_classes import dataclass
from staticflow.graph.out import into
from staticflow.ops.declaring.foreign import refuses_foreign

__all__ = ["BY_SHAPE", "Marked", "by_shape"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Marked:
    """A function as it was written, and the ``form`` in which it is called."""

    written: Callable[..., Any]
    form: Callable[..., Any]


BY_SHAPE: dict[Callable[..., Any], Marked] = {}
"""All of them, by what their names stand for."""


def by_shape(fn: F) -> F:
    """``fn``, which asks of tensors, and lists of them, among its arguments only shape, dtype and
    strides. Its further arguments are numbers, strings, dtypes, None and tuples of them."""
    marked = Marked(fn, refuses_foreign(fn))

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            return into(fn.__name__, fn, args, kwargs)
        return marked.form(*args, **kwargs)

    BY_SHAPE[call] = marked
    return cast("F", call)
