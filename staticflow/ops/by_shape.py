"""Functions of tensors that look at their shapes and dtypes only.

Which ops such a function comes to, and with which attributes, follows from these and from its
further arguments, so the eager mode may remember it (`staticflow.eager.remembered`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["BY_SHAPE", "by_shape", "by_shapes", "give_forms"]

F = TypeVar("F", bound=Callable[..., Any])

BY_SHAPE: list[Any] = []
"""All of them. Each has its ``plain`` form, says whether it takes ``several`` tensors, and what
``form()`` it is called in; ``take(form)`` gives it another."""

_makers: list[Callable[[Any], Callable[..., Any]]] = []


def give_forms(make: Callable[[Any], Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Let each function of `BY_SHAPE`, also those to come, be what ``make`` gives of it; gives the
    forms of those that are there."""
    _makers.append(make)
    forms = {fn: make(fn) for fn in BY_SHAPE}
    for fn, form in forms.items():
        fn.take(form)
    return forms


def by_shape(fn: F) -> F:
    """``fn(x, *args, **kwargs)``, of which only shape and dtype of ``x`` are asked, and whose
    further arguments are ints, bools, dtypes, None and tuples of them."""
    return _marked(fn, several=False)


def by_shapes(fn: F) -> F:
    """``fn(*args, **kwargs)``, of whose arguments several are tensors, or lists of them; only their
    shapes and dtypes are asked, and the others are such as in `by_shape`."""
    return _marked(fn, several=True)


def _marked(fn: F, several: bool) -> F:
    form: Callable[..., Any] = fn

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        return form(*args, **kwargs)

    def take(other: Callable[..., Any]) -> None:
        nonlocal form
        form = other

    called.plain, called.several = fn, several  # type: ignore[attr-defined]
    called.take, called.form = take, lambda: form  # type: ignore[attr-defined]
    for make in _makers:
        take(make(called))
    BY_SHAPE.append(called)
    return called  # type: ignore[return-value]
