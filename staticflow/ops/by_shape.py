"""Functions of one tensor that look at its shape and dtype only.

Which op such a function comes to, and with which attributes, follows from these and from its
further arguments, so the eager mode may remember it (`staticflow.eager.remembered`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from staticflow.ops.foreign import refuse_foreign

__all__ = ["BY_SHAPE", "by_shape"]

F = TypeVar("F", bound=Callable[..., Any])

BY_SHAPE: list[Any] = []
"""All of them. Each has its ``plain`` form, and ``take(form)`` gives it another."""


def by_shape(fn: F) -> F:
    """``fn(x, *args, **kwargs)``, of which only shape and dtype of ``x`` are asked, and whose
    further arguments are ints, bools, dtypes, None and tuples of them."""
    form: Callable[..., Any] = fn

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return form(*args, **kwargs)
        except (AttributeError, TypeError) as error:
            refuse_foreign(fn, fn.__name__, error, args, kwargs)
            raise

    def take(other: Callable[..., Any]) -> None:
        nonlocal form
        form = other

    called.plain, called.take = fn, take  # type: ignore[attr-defined]
    BY_SHAPE.append(called)
    return called  # type: ignore[return-value]
